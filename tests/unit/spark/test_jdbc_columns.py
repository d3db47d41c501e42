"""How columns are fetched from a database so that nothing is lost in Java, and what an error may tell."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql.types import (
    DecimalType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tidegate.column_specs import JdbcRead
from tidegate.errors import EnvironmentProblem, SourceError, TidegateError
from tidegate.locations import Options, Secret
from tidegate.spark.readers.jdbc_columns import JdbcColumns
from tidegate.spark.readers.jdbc_connection import JdbcConnection
from tidegate.watermarks.dialects import Dialect

SCHEMA = StructType(
    [
        StructField("id", LongType()),
        StructField("at", TimestampType()),
        StructField("local", TimestampNTZType()),
        StructField("clock", TimestampNTZType(), metadata={"logical_time_type": True}),
        StructField("price", DecimalType(38, 18)),
        StructField("name", StringType()),
    ]
)
COLUMNS = JdbcColumns(SCHEMA, Dialect.POSTGRESQL)


def test_times_without_a_zone_are_fetched_as_text() -> None:
    assert COLUMNS.fetched() == {"local": "STRING", "clock": "STRING"}
    assert JdbcColumns(SCHEMA, Dialect.ORACLE).fetched() == {"clock": "STRING"}
    assert COLUMNS.texts() == {"name"}


def test_the_greatest_value_is_exact() -> None:
    types = {name: COLUMNS.greatest_type(name) for name in SCHEMA.names}
    assert types == {
        "id": "bigint",
        "at": "timestamp",
        "local": "STRING",
        "clock": "STRING",
        "price": "STRING",
        "name": "string",
    }
    assert COLUMNS.greatest("price", "1.00000000000000000000000000001") == Decimal("1.00000000000000000000000000001")
    assert COLUMNS.greatest("local", "2026-03-08 02:30:00.5") == datetime(2026, 3, 8, 2, 30, 0, 500_000)
    assert COLUMNS.greatest("clock", "10:20:30") == "10:20:30"
    assert COLUMNS.greatest("name", "1.5") == "1.5"
    assert COLUMNS.greatest("id", 5) == 5
    assert COLUMNS.greatest("local", None) is None


@pytest.mark.parametrize(("column", "value"), [("local", "infinity"), ("local", "0044-03-15 00:00:00 BC")])
def test_a_value_that_python_does_not_have_is_named(column: str, value: str) -> None:
    with pytest.raises(SourceError, match=f"the greatest value of 'local' is '{value}'"):
        COLUMNS.greatest(column, value)


class Failing:
    """A session whose every read fails with what a driver might say."""

    def __init__(self, said: str) -> None:
        self._said = said

    @property
    def read(self) -> Any:
        raise RuntimeError(self._said)


def told(said: str) -> TidegateError:
    url = "jdbc:postgresql://host/shop?password=in-address&ssl=true"
    read = JdbcRead(url, table="t", password=Secret("of-its-own"), properties=Options({"key": "in-properties"}))
    session: Any = Failing(said.format(url=url))
    with pytest.raises(TidegateError) as raised:
        JdbcConnection(session, read, "orders").frame("SELECT 1")
    assert raised.value.__cause__ is None
    return raised.value


def test_an_error_tells_nothing_that_is_secret() -> None:
    error = told("could not reach {url} with of-its-own, in-address and in-properties")
    assert str(error).startswith("orders: the database refused: could not reach *** with ***, *** and ***")


def test_a_driver_that_is_missing_is_a_problem_of_this_machine() -> None:
    error = told("java.lang.ClassNotFoundException: org.postgresql.Driver")
    assert isinstance(error, EnvironmentProblem)
    assert "Spark has no JDBC driver" in str(error)
