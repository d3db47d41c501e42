"""The row predicate: every row of its table, and what ties, caps, nulls and cursors make of it."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal

import pytest

from support.errors import raises
from tidegate.core.columns.predicates import (
    Bound,
    ColumnRange,
    RowFilter,
    SourceRuntime,
    SqlDialect,
    dialect_of,
    literal,
    matches,
    note_untested,
    null_predicate,
    predicate,
    quote,
    rename_columns,
    window_of,
)
from tidegate.errors import WatermarkError
from tidegate.specs.columns import NullWatermark, Value, WatermarkMode

A, B = ColumnRange("a", Bound(1)), ColumnRange("b", Bound(2))
CAPS = {"a": Bound(7, inclusive=True), "b": Bound(9, inclusive=True)}
INCLUDE = NullWatermark.INCLUDE
CURSOR = RowFilter((A, B), WatermarkMode.TUPLE)


def plain(rows: RowFilter) -> str | None:
    """The predicate without the quotes around names."""
    text = predicate(rows, SqlDialect.ANSI)
    return None if text is None else text.replace('"', "")


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (RowFilter((ColumnRange("u", Bound(5)),)), "u > 5"),
        (RowFilter((ColumnRange("u", Bound(5, inclusive=True), Bound(9)),)), "u >= 5 AND u < 9"),
        (RowFilter((A, B), extra="f"), "(a > 1 OR b > 2) AND (f)"),
        (
            RowFilter((A, B), extra="f").capped(CAPS),
            "(a > 1 OR b > 2) AND (a <= 7 OR a IS NULL) AND (b <= 9 OR b IS NULL) AND (f)",
        ),
        (RowFilter((A, ColumnRange("b", any_value=True))), "a > 1 OR b IS NOT NULL"),
        (RowFilter((ColumnRange("a"), ColumnRange("b"))), None),
        (RowFilter(), None),
    ],
)
def test_the_table_of_predicates(rows: RowFilter, text: str | None) -> None:
    assert plain(rows) == text


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (RowFilter(extra="f"), "(f)"),
        (RowFilter(extra="f -- why"), "(f -- why\n)"),
        (RowFilter((ColumnRange("u", Bound(5)),), extra="a = 1 OR b = 2"), "u > 5 AND (a = 1 OR b = 2)"),
        (RowFilter((ColumnRange("u", Bound(5), Bound(9, inclusive=True)),)), "u > 5 AND u <= 9"),
        (RowFilter((ColumnRange("u", None, Bound(9, inclusive=True)),)), "u <= 9"),
        (
            RowFilter((ColumnRange("a"), ColumnRange("b"))).capped(CAPS),
            "(a IS NOT NULL OR b IS NOT NULL) AND (a <= 7 OR a IS NULL) AND (b <= 9 OR b IS NULL)",
        ),
        (
            RowFilter((ColumnRange("a"), ColumnRange("b")), nulls=INCLUDE).capped(CAPS),
            "(a <= 7 OR a IS NULL) AND (b <= 9 OR b IS NULL)",
        ),
        (RowFilter((A, B), nulls=INCLUDE), "a > 1 OR b > 2 OR (a IS NULL AND b IS NULL)"),
        (RowFilter((A,), nulls=INCLUDE), "a > 1 OR a IS NULL"),
        (RowFilter((A,), nulls=INCLUDE).capped(CAPS), "(a > 1 OR a IS NULL) AND (a <= 7 OR a IS NULL)"),
        (
            RowFilter((A, ColumnRange("b", any_value=True, only_null=True))).capped({"a": CAPS["a"]}),
            "(a > 1 OR b IS NOT NULL) AND (a <= 7 OR a IS NULL) AND b IS NULL",
        ),
        (CURSOR, "(a >= 1 AND (a > 1 OR (a = 1 AND b > 2))) AND b IS NOT NULL"),
        (
            CURSOR.capped(CAPS),
            "(a >= 1 AND (a > 1 OR (a = 1 AND b > 2))) AND b IS NOT NULL"
            " AND (a <= 7 AND (a < 7 OR (a = 7 AND b <= 9)))",
        ),
        (
            RowFilter((ColumnRange("a", Bound(1, inclusive=True)), ColumnRange("b")), WatermarkMode.TUPLE),
            "a >= 1 AND b IS NOT NULL",
        ),
        (RowFilter((ColumnRange("a"), ColumnRange("b")), WatermarkMode.TUPLE), None),
        (
            RowFilter((A, B), WatermarkMode.TUPLE, INCLUDE),
            "(a >= 1 AND (a > 1 OR (a = 1 AND b > 2))) OR a IS NULL OR b IS NULL",
        ),
        (
            RowFilter((*CURSOR.ranges, ColumnRange("c", Bound(3))), WatermarkMode.TUPLE),
            "(a >= 1 AND (a > 1 OR (a = 1 AND (b > 2 OR (b = 2 AND c > 3))))) AND b IS NOT NULL AND c IS NOT NULL",
        ),
    ],
)
def test_other_predicates(rows: RowFilter, text: str | None) -> None:
    assert plain(rows) == text


def test_names_are_quoted_and_text_is_escaped_for_the_database() -> None:
    rows = RowFilter((ColumnRange('a" OR 1=1', Bound("x' OR '1'='1")),))
    assert predicate(rows, SqlDialect.ANSI) == "\"a\"\" OR 1=1\" > 'x'' OR ''1''=''1'"


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        (SqlDialect.POSTGRESQL, """CAST("u" AS TEXT) COLLATE "C" > 'a'"""),
        (SqlDialect.MYSQL, "CAST(CONVERT(`u` USING utf8mb4) AS BINARY) > 'a'"),
        (SqlDialect.SQLSERVER, "CAST([u] AS NVARCHAR(MAX)) COLLATE Latin1_General_100_BIN2 > N'a'"),
        (SqlDialect.SQLITE, """"u" COLLATE BINARY > 'a'"""),
        (SqlDialect.SPARK, "`u` > 'a'"),
    ],
)
def test_text_is_compared_by_its_characters_whatever_language_the_database_has(dialect: SqlDialect, text: str) -> None:
    assert predicate(RowFilter((ColumnRange("u", Bound("a")),)), dialect) == text


def test_a_uuid_is_compared_as_it_is() -> None:
    value = "01926abc-0000-7000-8000-000000000000"
    assert predicate(RowFilter((ColumnRange("u", Bound(value)),)), SqlDialect.POSTGRESQL) == f"\"u\" > '{value}'"


@pytest.mark.parametrize(
    ("rows", "row", "expected"),
    [
        (RowFilter((A,)), {"a": 1}, False),
        (RowFilter((A,)), {"a": 2}, True),
        (RowFilter((A,)), {"a": None}, False),
        (RowFilter((A,), nulls=INCLUDE), {"a": None}, True),
        (RowFilter((ColumnRange("a", Bound(1, inclusive=True), Bound(9)),)), {"a": 1}, True),
        (RowFilter((ColumnRange("a", Bound(1, inclusive=True), Bound(9)),)), {"a": 9}, False),
        (RowFilter((A, B)).capped(CAPS), {"a": 5, "b": 10}, False),
        (RowFilter((A, B)).capped(CAPS), {"a": 5, "b": None}, True),
        (RowFilter((A, B)).capped(CAPS), {"a": 0, "b": 9}, True),
        (RowFilter((A, B)).capped(CAPS), {"a": 1, "b": 2}, False),
        (RowFilter((A, ColumnRange("b", any_value=True))), {"a": 0, "b": 0}, True),
        (RowFilter((A, ColumnRange("b", any_value=True))), {"a": 0, "b": None}, False),
        (RowFilter((A, ColumnRange("b", any_value=True, only_null=True))), {"a": 5, "b": 1}, False),
        (RowFilter((ColumnRange("a"),)), {"a": None}, True),
        (RowFilter(), {"a": None}, True),
        (CURSOR, {"a": 1, "b": 2}, False),
        (CURSOR, {"a": 1, "b": 3}, True),
        (CURSOR, {"a": 2, "b": 0}, True),
        (CURSOR, {"a": 2, "b": None}, False),
        (CURSOR.capped(CAPS), {"a": 7, "b": 9}, True),
        (CURSOR.capped(CAPS), {"a": 7, "b": 10}, False),
        (CURSOR.capped(CAPS), {"a": 6, "b": 10}, True),
    ],
)
def test_the_same_by_hand(rows: RowFilter, row: dict[str, Value | None], expected: bool) -> None:
    assert matches(rows, row) is expected


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (RowFilter((A, B)), '"a" IS NULL AND "b" IS NULL'),
        (RowFilter((A, B), extra="f"), '("a" IS NULL AND "b" IS NULL) AND (f)'),
        (RowFilter((A,), extra="f"), '"a" IS NULL AND (f)'),
        (CURSOR, '"a" IS NULL OR "b" IS NULL'),
        (RowFilter(), None),
    ],
)
def test_rows_without_a_watermark_can_be_counted(rows: RowFilter, text: str | None) -> None:
    assert null_predicate(rows, SqlDialect.ANSI) == text


MOMENT = datetime(2026, 4, 3, 9, 15, tzinfo=timezone(timedelta(hours=7)))
NAIVE = datetime(2026, 4, 3, 9, 15, 0, 5)


@pytest.mark.parametrize(
    ("url", "dialect"),
    [
        ("jdbc:postgresql://127.0.0.1:5432/shop", SqlDialect.POSTGRESQL),
        ("jdbc:mysql://db/shop", SqlDialect.MYSQL),
        ("jdbc:mariadb://db/shop", SqlDialect.MYSQL),
        ("jdbc:sqlserver://db;databaseName=shop", SqlDialect.SQLSERVER),
        ("jdbc:oracle:thin:@db:1521/shop", SqlDialect.ORACLE),
        ("jdbc:sqlite:shop.db", SqlDialect.SQLITE),
        ("jdbc:db2://db/shop", SqlDialect.ANSI),
        ("postgresql://db/shop", SqlDialect.ANSI),
    ],
)
def test_the_address_tells_the_language(url: str, dialect: SqlDialect) -> None:
    assert dialect_of(url) is dialect


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        (SqlDialect.POSTGRESQL, '"say ""hi"" `]"'),
        (SqlDialect.SPARK, '`say "hi" ``]`'),
        (SqlDialect.MYSQL, '`say "hi" ``]`'),
        (SqlDialect.SQLSERVER, '[say "hi" `]]]'),
    ],
)
def test_a_name_stays_one_name(dialect: SqlDialect, text: str) -> None:
    assert quote('say "hi" `]', dialect) == text


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(WatermarkError):
        quote(name, SqlDialect.ANSI)


@pytest.mark.parametrize(
    ("value", "dialect", "text"),
    [
        (5, SqlDialect.ANSI, "5"),
        (-5, SqlDialect.SPARK, "-5"),
        (Decimal("1E+3"), SqlDialect.POSTGRESQL, "1000"),
        (Decimal("10.50"), SqlDialect.SPARK, "10.50"),
        (1.5, SqlDialect.SPARK, "1.5E0"),
        (1e300, SqlDialect.MYSQL, "1E+300"),
        (True, SqlDialect.POSTGRESQL, "TRUE"),
        (True, SqlDialect.SQLSERVER, "1"),
        ("it's", SqlDialect.POSTGRESQL, "'it''s'"),
        ("it's", SqlDialect.SPARK, r"'it\'s'"),
        ("it's", SqlDialect.SQLSERVER, "N'it''s'"),
        (r"a\'b", SqlDialect.POSTGRESQL, r"E'a\\''b'"),
        (r"a\b", SqlDialect.SPARK, r"'a\\b'"),
        (r"a\b", SqlDialect.MYSQL, "_utf8mb4 X'615C62'"),
        ("Zürich", SqlDialect.MYSQL, "_utf8mb4 X'5AC3BC72696368'"),
        (r"a\b", SqlDialect.SQLITE, r"'a\b'"),
        ("${x}", SqlDialect.SPARK, r"'\u0024{x}'"),
        (date(2026, 4, 3), SqlDialect.POSTGRESQL, "DATE '2026-04-03'"),
        (date(2026, 4, 3), SqlDialect.SQLSERVER, "CAST('2026-04-03' AS DATE)"),
        (date(2026, 4, 3), SqlDialect.SQLITE, "'2026-04-03'"),
        (MOMENT, SqlDialect.SPARK, "TIMESTAMP_LTZ '2026-04-03 02:15:00+00:00'"),
        (MOMENT, SqlDialect.POSTGRESQL, "TIMESTAMP WITH TIME ZONE '2026-04-03 02:15:00+00:00'"),
        (MOMENT, SqlDialect.SQLSERVER, "CAST('2026-04-03T02:15:00+00:00' AS DATETIMEOFFSET)"),
        (MOMENT, SqlDialect.ORACLE, "TIMESTAMP '2026-04-03 02:15:00 +00:00'"),
        (MOMENT, SqlDialect.MYSQL, "TIMESTAMP '2026-04-03 02:15:00'"),
        (NAIVE, SqlDialect.SPARK, "TIMESTAMP_NTZ '2026-04-03 09:15:00.000005'"),
        (NAIVE, SqlDialect.POSTGRESQL, "TIMESTAMP '2026-04-03 09:15:00.000005'"),
        (NAIVE, SqlDialect.SQLSERVER, "CAST('2026-04-03T09:15:00.000005' AS DATETIME2)"),
        (time(9, 15), SqlDialect.POSTGRESQL, "TIME '09:15:00'"),
        (time(9, 15, tzinfo=UTC), SqlDialect.POSTGRESQL, "TIME WITH TIME ZONE '09:15:00+00:00'"),
    ],
)
def test_a_value_is_typed_and_escaped(value: Value, dialect: SqlDialect, text: str) -> None:
    assert literal(value, dialect) == text


@pytest.mark.parametrize("dialect", SqlDialect)
def test_one_moment_has_one_text_whatever_its_zone(dialect: SqlDialect) -> None:
    assert literal(MOMENT, dialect) == literal(MOMENT.astimezone(UTC), dialect)


@pytest.mark.parametrize(
    ("value", "dialect"),
    [
        (float("nan"), SqlDialect.ANSI),
        (Decimal("Infinity"), SqlDialect.ANSI),
        ("a\0b", SqlDialect.POSTGRESQL),
        ("\ud800", SqlDialect.SPARK),
        (time(9), SqlDialect.ORACLE),
        (time(9, tzinfo=UTC), SqlDialect.SPARK),
    ],
)
def test_what_a_database_cannot_say_is_refused(value: Value, dialect: SqlDialect) -> None:
    with raises(WatermarkError, "written"):
        literal(value, dialect)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("jdbc:postgresql://db/shop", None),
        ("jdbc:mariadb://db/shop", None),
        ("jdbc:mysql://db/shop", "against MySQL; its driver and its statements are tested against MariaDB"),
        ("jdbc:oracle:thin:@db:1521/shop", "against Oracle; statements follow its documentation"),
        ("jdbc:db2://db/shop", "against a database of jdbc:db2; statements follow standard SQL"),
    ],
)
def test_a_database_that_no_test_runs_is_told_as_such(url: str, told: str | None) -> None:
    assert note_untested(url) == (None if told is None else f"no test of Tidegate runs {told}")


RUNTIME = SourceRuntime({"u": 10}, {"u": 3}, {"u": 12})


def test_the_window_goes_from_the_effective_watermark_to_the_new_one() -> None:
    assert window_of(RUNTIME, replace_by_watermark=True) == {"u": (3, 12)}


def test_without_replacement_there_is_no_window() -> None:
    assert window_of(RUNTIME, replace_by_watermark=False) is None


def test_with_a_bound_missing_there_is_no_window() -> None:
    for runtime in (
        SourceRuntime(),
        SourceRuntime(None, {"u": 3}, {"u": 12}),
        SourceRuntime({"u": 10}, None, {"u": 12}),
        SourceRuntime({"u": 10}, {"u": 3}, None),
        SourceRuntime({"u": 10}, {"u": None}, {"u": 12}),
        SourceRuntime({"u": 10}, {"u": 3}, {"u": None}),
    ):
        assert window_of(runtime, replace_by_watermark=True) is None


def test_only_columns_with_both_bounds_are_in_the_window() -> None:
    runtime = SourceRuntime({"a": 1, "b": None}, {"a": 1, "b": None}, {"a": 2, "b": 5})
    assert window_of(runtime, replace_by_watermark=True) == {"a": (1, 2)}


def test_a_column_may_have_another_name_in_the_table() -> None:
    rows = RowFilter((ColumnRange("a", Bound(1)), ColumnRange("b", Bound(2))))
    assert rename_columns(rows, {"a": "day"}).columns == ("day", "b")
