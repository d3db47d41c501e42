"""Statements are judged by a real database: SQLite runs what it is sent."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

import pytest

from support.errors import check_names
from tidegate.core.columns.predicates import Bound, ColumnRange, RowFilter
from tidegate.core.dialects.remedies import OTHER, VALUE
from tidegate.sources.jdbc import (
    CAUSES,
    FetchedColumn,
    JdbcStatements,
    innermost_cause,
    is_of_database,
    refusal,
)
from tidegate.specs.columns import JdbcRead, NullWatermark, WatermarkMode

TABLE = JdbcStatements(JdbcRead("jdbc:sqlite:shop.db", table="orders"))
QUERY = JdbcStatements(JdbcRead("jdbc:sqlite:shop.db", query="select * from orders where shop = 'x' -- only x\n;"))
ROWS = [(1, 10, None, "x"), (2, 20, 5, "x"), (3, None, None, "x"), (4, None, 7, "y"), (5, 20, 6, "x")]


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.execute("create table orders (id integer, a integer, b integer, shop text)")
    connection.executemany("insert into orders values (?, ?, ?, ?)", ROWS)
    yield connection
    connection.close()


def from_(**lowers: int) -> RowFilter:
    return RowFilter(tuple(ColumnRange(column, Bound(value)) for column, value in lowers.items()))


def test_the_rows_of_a_table_and_of_a_query_are_those_that_match(database: sqlite3.Connection) -> None:
    assert TABLE.rows(RowFilter()) == "SELECT * FROM orders"
    assert [row[0] for row in database.execute(TABLE.rows(from_(a=10, b=6)))] == [2, 4, 5]
    assert [row[0] for row in database.execute(QUERY.rows(from_(a=10, b=6)))] == [2, 5]


def test_the_greatest_values_come_with_counts_of_all_rows_and_of_those_without(database: sqlite3.Connection) -> None:
    unbounded = RowFilter((ColumnRange("a"), ColumnRange("b")))
    assert database.execute(TABLE.greatest(unbounded)).fetchall() == [(20, 7, 1, 5)]
    assert database.execute(TABLE.greatest(from_(a=10, b=6))).fetchall() == [(20, 7, 1, 4)]
    assert database.execute(TABLE.greatest(from_(a=99, b=99))).fetchall() == [(None, None, 1, 1)]
    assert database.execute(QUERY.greatest(from_(b=5))).fetchall() == [(6, 2, 3)]


def test_nulls_are_counted_whatever_becomes_of_them(database: sqlite3.Connection) -> None:
    statements = {TABLE.greatest(RowFilter((ColumnRange("a", Bound(10)),), nulls=nulls)) for nulls in NullWatermark}
    assert len(statements) == 1
    assert database.execute(statements.pop()).fetchall() == [(20, 2, 4)]


def test_of_a_cursor_the_greatest_tuple_is_asked_for(database: sqlite3.Connection) -> None:
    cursor = RowFilter((ColumnRange("a", Bound(10)), ColumnRange("b", Bound(0))), mode=WatermarkMode.TUPLE)
    assert database.execute(TABLE.greatest_tuple(cursor)).fetchall() == [(20, 6)]
    assert database.execute(TABLE.nulls(cursor)).fetchall() == [(3,)]
    beyond = RowFilter((ColumnRange("a", Bound(20)), ColumnRange("b", Bound(6))), mode=WatermarkMode.TUPLE)
    assert database.execute(TABLE.greatest_tuple(beyond)).fetchall() == []


@pytest.mark.parametrize(
    ("url", "beginning", "end"),
    [
        ("jdbc:postgresql://h/d", "SELECT ", " LIMIT 1"),
        ("jdbc:sqlserver://h", "SELECT TOP 1 ", " DESC"),
        ("jdbc:oracle:thin:@h", "SELECT ", " FETCH FIRST 1 ROWS ONLY"),
    ],
)
def test_the_first_row_is_asked_for_in_the_language_of_the_database(url: str, beginning: str, end: str) -> None:
    cursor = RowFilter((ColumnRange("a"), ColumnRange("b")), mode=WatermarkMode.TUPLE)
    statement = JdbcStatements(JdbcRead(url, table="t")).greatest_tuple(cursor)
    assert statement.startswith(beginning)
    assert statement.endswith(end)


@pytest.mark.parametrize("values", [[], [1], [1, 1, 1, 1, 9], [None, 3, 3, 3, 5, None], [*range(20)]])
@pytest.mark.parametrize("parts", [2, 3, 7])
def test_every_row_is_in_exactly_one_part(database: sqlite3.Connection, values: list[int | None], parts: int) -> None:
    database.execute("delete from orders")
    database.executemany("insert into orders (id, a) values (?, ?)", enumerate(values))
    found = {row[0] for row in database.execute(TABLE.parts(RowFilter(), "a", parts))} - {None}
    conditions = TABLE.part_conditions(sorted(found)[1:])
    rows = TABLE.rows(RowFilter(), divided_by="a")
    read = [row[0] for each in conditions for row in database.execute(f"SELECT * FROM ({rows}) WHERE {each}")]
    assert sorted(read) == list(range(len(values)))


def test_parts_are_equal_shares_of_the_rows_and_not_of_the_range(database: sqlite3.Connection) -> None:
    database.execute("delete from orders")
    skewed = [*range(96), 10_000, 20_000, 1_000_000, 2_000_000]
    database.executemany("insert into orders (id, a) values (?, ?)", enumerate(skewed))
    bounds = sorted(row[0] for row in database.execute(TABLE.parts(RowFilter(), "a", 4)))
    conditions = TABLE.part_conditions(bounds[1:])
    rows = TABLE.rows(RowFilter(), divided_by="a")
    counts = [database.execute(f"select count(*) from ({rows}) where {each}").fetchone()[0] for each in conditions]
    assert counts == [25, 25, 25, 25]


def test_only_rows_that_match_say_where_parts_begin(database: sqlite3.Connection) -> None:
    bounds = {row[0] for row in database.execute(TABLE.parts(from_(a=10), "id", 2))}
    assert bounds == {2, 5}


def test_a_sample_is_taken_inside_the_table() -> None:
    statements = JdbcStatements(JdbcRead("jdbc:postgresql://h/d", table="public.orders"))
    sampled = statements.parts(from_(a=10), "a", 4, percent=1.25)
    assert 'FROM public.orders TABLESAMPLE SYSTEM (1.2500) REPEATABLE (1) WHERE "a" > 10' in sampled


@pytest.mark.parametrize(
    ("url", "key", "name"),
    [
        ("jdbc:postgresql://h/d", 'CAST("name" AS TEXT) COLLATE "C"', '"name"'),
        ("jdbc:mysql://h/d", "CAST(CONVERT(`name` USING utf8mb4) AS BINARY)", "`name`"),
        ("jdbc:mariadb://h/d", "CAST(CONVERT(`name` USING utf8mb4) AS BINARY)", "`name`"),
        ("jdbc:sqlserver://h", "CAST([name] AS NVARCHAR(MAX)) COLLATE Latin1_General_100_BIN2", "[name]"),
    ],
)
def test_text_is_compared_by_code_points_and_read_as_it_is(url: str, key: str, name: str) -> None:
    rows = RowFilter((ColumnRange("name", Bound("a")),))
    statements = JdbcStatements(JdbcRead(url, table="t"), (FetchedColumn("name", is_text=True),))
    prefix = "N" if "sqlserver" in url else ""
    assert statements.rows(rows) == f"SELECT {name} FROM t WHERE {key} > {prefix}'a'"
    assert f"MAX({key})" in statements.greatest(rows)
    assert f"ORDER BY {key} DESC" in statements.greatest_tuple(replace(rows, mode=WatermarkMode.TUPLE))
    assert f"NTILE(2) OVER (ORDER BY {key})" in statements.parts(rows, "name", 2)
    divided = statements.rows(rows, divided_by="name")
    assert divided.startswith(f"SELECT {name}, {key} AS ")


def test_values_are_brought_over_as_their_column_is() -> None:
    text = FetchedColumn("at", "CAST({} AS CHAR)")
    statements = JdbcStatements(JdbcRead("jdbc:mysql://h/d", table="t"), (FetchedColumn("id"), text))
    rows = RowFilter((ColumnRange("at", Bound(5)),))
    assert statements.rows(rows) == "SELECT `id`, CAST(`at` AS CHAR) AS `at` FROM t WHERE `at` > 5"
    assert "CAST(MAX(`at`) AS CHAR) AS greatest_0" in statements.greatest(rows)
    assert "CAST(MIN(bound) AS CHAR) AS bound" in statements.parts(rows, "at", 2)


def test_the_same_read_makes_the_same_text() -> None:
    rows = RowFilter((ColumnRange("a", Bound(Decimal("1.50"))), ColumnRange("b", any_value=True)), extra="x = 1 or y")
    assert (
        TABLE.rows(rows)
        == TABLE.rows(rows)
        == 'SELECT * FROM orders WHERE ("a" > 1.50 OR "b" IS NOT NULL) AND (x = 1 or y)'
    )


@pytest.mark.parametrize(
    ("url", "column", "expected"),
    [
        ("jdbc:postgresql://db/x", "name", True),
        ("jdbc:sqlite:x.db", "name", True),
        ("jdbc:oracle:thin:@db:1521:x", "name", False),
        ("jdbc:db2://db/x", "name", False),
        ("jdbc:db2://db/x", "id", True),
    ],
)
def test_text_is_divided_only_where_its_order_is_known(url: str, column: str, expected: bool) -> None:
    statements = JdbcStatements(JdbcRead(url, table="t"), (FetchedColumn("id"), FetchedColumn("name", is_text=True)))
    assert statements.sorts_as_we_do(column) is expected


SAID = [
    ('org.postgresql.util.PSQLException: FATAL: password authentication failed for user "x"', "user and password"),
    ("java.sql.SQLException: Access denied for user 'x'@'localhost' (using password: YES)", "user and password"),
    ('org.postgresql.util.PSQLException: FATAL: database "shop" does not exist', "name of the database"),
    ("java.sql.SQLSyntaxErrorException: (conn=7) Unknown database 'shop'", "name of the database"),
    ("org.postgresql.util.PSQLException: Connection to 127.0.0.1:1 refused. Check that the hostname", "host and port"),
    ("com.mysql.cj.jdbc.exceptions.CommunicationsException: Communications link failure", "host and port"),
    ("org.postgresql.util.PSQLException: ERROR: permission denied for table orders", "grant SELECT"),
    ("java.sql.SQLSyntaxErrorException: SELECT command denied to user 'x'@'h' for table `d`.`t`", "grant SELECT"),
    ('org.postgresql.util.PSQLException: ERROR: relation "orderz" does not exist', "table"),
    ("java.sql.SQLSyntaxErrorException: (conn=5) Table 'shop.orderz' doesn't exist", "table"),
    ('org.postgresql.util.PSQLException: ERROR: column "amout" does not exist', "filter_expression"),
    ("java.sql.SQLSyntaxErrorException: Unknown column 'amout' in 'WHERE'", "filter_expression"),
    ("org.postgresql.util.PSQLException: ERROR: division by zero", "nullif"),
    ("[UNRECOGNIZED_SQL_TYPE] Unrecognized SQL type - name: uuid, id: OTHER.", "casts it"),
    ("org.postgresql.util.PSQLException: ERROR: canceling statement due to statement timeout", "run again"),
    ('org.postgresql.util.PSQLException: ERROR: syntax error at or near "wher"', "filter_expression"),
    ("java.sql.SQLSyntaxErrorException: You have an error in your SQL syntax; check the manual", "filter_expression"),
    ("java.sql.SQLDataException: Zero date value prohibited", "cast the column"),
]


@pytest.mark.parametrize(("said", "remedy"), SAID)
def test_each_cause_has_a_remedy_of_its_own(said: str, remedy: str) -> None:
    found = refusal(said, said)
    check_names(found.remedy, remedy)
    assert "Exception" not in found.problem
    assert "(conn=" not in found.problem


def test_no_two_causes_are_told_alike() -> None:
    assert len({each.remedy for each in CAUSES}) == len(CAUSES)


def test_what_nobody_knows_is_told_as_it_is() -> None:
    found = refusal("", "com.example.OddException: the moon is full")
    check_names(found.problem, "the moon is full")
    assert found.remedy == OTHER


def test_a_value_that_fits_no_type_is_told_with_its_column() -> None:
    text = (
        "Job aborted: [USER_RAISED_EXCEPTION] tidegate refused: column 'price' holds NaN, which is no decimal(12,2) "
        "SQLSTATE: P0001\n\tat org.apache…\n\t... 47 more"
    )
    assert is_of_database(text)
    found = refusal(text, "... 47 more")
    assert (found.problem, found.remedy) == ("column 'price' holds NaN, which is no decimal(12,2)", VALUE)


def test_the_innermost_words_of_a_driver_are_those_that_tell() -> None:
    trace = """org.apache.spark.SparkException: Job aborted due to stage failure
\tat org.apache.spark.scheduler.DAGScheduler
Caused by: java.sql.SQLException: HOUR_OF_DAY: 2 -> 3
\tat com.mysql.cj.jdbc.exceptions.SQLError.createSQLException(SQLError.java:130)
Caused by: com.mysql.cj.exceptions.DataReadException: Zero date value prohibited
\t... 47 more"""
    assert innermost_cause(trace) == "com.mysql.cj.exceptions.DataReadException: Zero date value prohibited"
    assert innermost_cause("org.apache.spark.SparkException: no database here") is None
    assert not is_of_database("org.apache.spark.SparkException: no database here")
