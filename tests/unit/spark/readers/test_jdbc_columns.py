"""How columns are fetched from a database so that nothing is lost in Java, and what an error may tell."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql.types import (
    DataType,
    DecimalType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from support.errors import check_names, raises
from tidegate.core.dialects.registry import DIALECTS
from tidegate.errors import EnvironmentProblem, SourceError, TidegateError
from tidegate.sources.jdbc import FetchedColumn
from tidegate.spark.readers.jdbc import JdbcConnection
from tidegate.spark.readers.jdbc_columns import JdbcColumns
from tidegate.specs.columns import JdbcRead
from tidegate.specs.locations import Options, Secret


def field(name: str, kind: DataType, called: str, **more: Any) -> StructField:
    return StructField(name, kind, metadata={"jdbcClientType": called, **more})


SCHEMA = StructType(
    [
        field("id", LongType(), "int8"),
        field("at", TimestampType(), "timestamptz"),
        field("local", TimestampNTZType(), "timestamp"),
        field("clock", TimestampNTZType(), "time", logical_time_type=True),
        field("price", DecimalType(38, 18), "numeric", scale=0),
        field("name", StringType(), "text"),
    ]
)
COLUMNS = JdbcColumns(SCHEMA, DIALECTS["postgresql"])


def test_what_a_driver_would_bend_is_written_as_text_by_the_database() -> None:
    assert COLUMNS.select_columns() == (
        FetchedColumn("id"),
        FetchedColumn("at", "CAST({} AT TIME ZONE 'UTC' AS text)"),
        FetchedColumn("local", "CAST({} AS text)"),
        FetchedColumn("clock", "CAST({} AS text)", is_text=True),
        FetchedColumn("price", "CAST({} AS text)"),
        FetchedColumn("name", is_text=True),
    )
    assert COLUMNS.fetched_schema() == {}
    assert COLUMNS.schema["clock"].dataType == StringType()


def test_a_database_that_no_test_runs_is_asked_for_plain_columns() -> None:
    columns = JdbcColumns(SCHEMA, DIALECTS["oracle"])
    assert {each.template for each in columns.select_columns()} == {"{}"}
    assert columns.fetched_schema() == {"clock": "STRING"}


def test_the_greatest_value_is_exact() -> None:
    types = {name: COLUMNS.greatest_type(name) for name in SCHEMA.names}
    texts = dict.fromkeys(("at", "local", "clock", "price"), "STRING")
    assert types == {"id": "bigint", "name": "string", **texts}
    assert COLUMNS.greatest("price", "1.00000000000000000000000000001") == Decimal("1.00000000000000000000000000001")
    assert COLUMNS.greatest("at", "2026-03-08 02:30:00.5") == datetime(2026, 3, 8, 2, 30, 0, 500_000, tzinfo=UTC)
    assert COLUMNS.greatest("local", "2026-03-08 02:30:00.5") == datetime(2026, 3, 8, 2, 30, 0, 500_000)
    assert COLUMNS.greatest("clock", "10:20:30") == "10:20:30"
    assert COLUMNS.greatest("name", "1.5") == "1.5"
    assert COLUMNS.greatest("id", 5) == 5
    assert COLUMNS.greatest("local", None) is None


def test_a_decimal_is_followed_as_a_number_also_where_its_rows_are_text() -> None:
    wide = StructType([field("price", DecimalType(38, 8), "numeric", scale=20)])
    columns = JdbcColumns(wide, DIALECTS["postgresql"])
    assert columns.select_columns() == (FetchedColumn("price", "CAST({} AS text)"),)
    assert columns.greatest("price", "10.00000000000000000001") == Decimal("10.00000000000000000001")
    assert columns.schema["price"].dataType == DecimalType(38, 8)


def test_what_does_not_sort_as_its_text_is_not_followed() -> None:
    spans = StructType([field("span", StringType(), "interval"), field("at", StringType(), "time")])
    columns = JdbcColumns(spans, DIALECTS["postgresql"])
    columns.check_followed("at", "orders")
    with raises(SourceError, "orders", "'span'", "interval"):
        columns.check_followed("span", "orders")


@pytest.mark.parametrize(("column", "value"), [("local", "infinity"), ("local", "0044-03-15 00:00:00 BC")])
def test_a_value_that_python_does_not_have_is_named(column: str, value: str) -> None:
    with raises(SourceError, "'local'", f"'{value}'", "filter_expression"):
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
    check_names(error, "orders", "could not reach *** with ***, *** and ***")


def test_a_driver_that_is_missing_is_a_problem_of_this_machine() -> None:
    error = told("java.lang.ClassNotFoundException: org.postgresql.Driver")
    assert isinstance(error, EnvironmentProblem)
    check_names(error, "Spark", "JDBC driver")
