"""What Spark's long messages say, in one line; and whether another try is worth it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from support.errors import raises
from tidegate.errors import EnvironmentProblem
from tidegate.spark.frames import check_session, is_contested
from tidegate.spark.tasks import telling_line

CHECK = """An error occurred while calling o381.save.
: org.apache.spark.sql.delta.schema.DeltaInvariantViolationException: [DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK \
constraint small (id < 1000) violated by row with values:
 - id : 5000
\tat org.apache.spark.sql.delta.schema.DeltaInvariantViolationException$.apply(InvariantViolationException.scala:106)
\tat org.apache.spark.sql.delta.schema.DeltaInvariantViolationException.apply(InvariantViolationException.scala)
"""
CAUSED = """An error occurred while calling o77.save.
: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows to file:/t.
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.taskFailedWhileWritingRowsError(QueryExecutionErrors.scala:789)
Caused by: org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] not today SQLSTATE: P0001
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.raiseError(QueryExecutionErrors.scala:2781)
\t... 17 more
"""


@pytest.mark.parametrize(
    ("message", "begins"),
    [
        (CHECK, "org.apache.spark.sql.delta.schema.DeltaInvariantViolationException: [DELTA_VIOLATE_CONSTRAINT"),
        (CAUSED, "Caused by: org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] not today"),
        ("[UNRESOLVED_COLUMN] no such column;\n'Project [x]\n+- Relation", "[UNRESOLVED_COLUMN] no such column;"),
        ("Job aborted\nTraceback (most recent call last):\n  File \"x.py\"\nKeyError: 'price'\n", "KeyError: 'price'"),
        ("", "ValueError"),
    ],
)
def test_the_telling_line_is_shown(message: str, begins: str) -> None:
    assert telling_line(ValueError(message)).startswith(begins)


def test_the_row_that_breaks_a_constraint_is_shown() -> None:
    assert telling_line(ValueError(CHECK)).endswith("(id < 1000) violated by row with values: id = 5000")


@pytest.mark.parametrize(
    ("message", "again"),
    [
        (CHECK, False),
        ("io.delta.exceptions.ConcurrentAppendException: [DELTA_CONCURRENT_APPEND] files were added", True),
        ("[DELTA_METADATA_CHANGED] MetadataChangedException: the metadata has been changed", True),
        ("io.delta.exceptions.ConcurrentTransactionException: this error occurs when", True),
    ],
)
def test_another_writer_is_worth_another_try(message: str, again: bool) -> None:
    assert is_contested(ValueError(message)) is again


def test_a_session_needs_delta_unless_its_platform_has_it_built_in(monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = SimpleNamespace(conf={"spark.sql.extensions": "com.example.Lineage"}, newSession=None)
    with raises(EnvironmentProblem, "without Delta", "spark.sql.extensions"):
        check_session(session)
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
    check_session(session)
