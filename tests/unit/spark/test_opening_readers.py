"""What cannot be read says so before Spark is asked for rows."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

import pytest

from support.errors import raises
from tidegate.core.columns.predicates import RowFilter
from tidegate.errors import EnvironmentProblem, SourceError
from tidegate.spark.engine import open_reader
from tidegate.spark.readers.tables import NUMBER, spark_columns
from tidegate.specs.columns import ColumnSource, TableFormat, TableRead
from tidegate.specs.locations import Location
from tidegate.specs.table import SchemaSpec


class _Session:
    """As much of a session as a reader needs that has no table yet."""

    version = "4.2.0"

    def __init__(self) -> None:
        self.conf = self

    def set(self, key: str, value: str) -> None:
        """Takes every setting."""


def read_iceberg(uri: str) -> None:
    session: Any = _Session()
    source = ColumnSource("orders", TableRead(TableFormat.ICEBERG, Location(uri)), ("id",))
    open_reader(session, source, SchemaSpec(), datetime(2026, 6, 1, tzinfo=UTC)).read(RowFilter())


def test_the_library_for_iceberg_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for loaded in [name for name in sys.modules if name.startswith(("pyiceberg", "tidegate.sources.iceberg"))]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    with raises(EnvironmentProblem, "orders", "pyiceberg", "tidegate[iceberg]"):
        read_iceberg("file:///lake/orders")


def test_an_iceberg_table_that_spark_cannot_reach_is_refused() -> None:
    with raises(EnvironmentProblem, "orders", "Spark 4.2.0", "gs://lake/orders"):
        read_iceberg("gs://lake/orders")


def test_columns_of_iceberg_have_their_numbers() -> None:
    inner = {"type": "struct", "fields": [{"id": 3, "name": "d", "type": "decimal(9, 2)"}]}
    columns = spark_columns([{"id": 1, "name": "a", "type": {"type": "list", "element": inner}}], "orders")
    assert columns.simpleString() == "struct<a:array<struct<d:decimal(9,2)>>>"
    assert columns["a"].metadata == {NUMBER: 1}
    assert columns["a"].dataType.elementType["d"].metadata == {NUMBER: 3}


@pytest.mark.parametrize(
    ("column", "told"),
    [
        ({"type": "time"}, "column 'a' … type time … Spark"),
        ({"type": "timestamp_ns"}, "column 'a' … type timestamp_ns"),
        (
            {"type": {"type": "map", "key": "string", "value": "variant"}},
            "column 'a.value' … type variant",
        ),
        ({"type": "int", "initial-default": 5}, "column 'a' … default"),
    ],
)
def test_columns_of_iceberg_that_would_be_read_wrongly_are_refused(column: dict[str, Any], told: str) -> None:
    with raises(SourceError, "orders", told):
        spark_columns([{"id": 1, "name": "a", **column}], "orders")
