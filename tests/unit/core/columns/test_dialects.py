"""Names and values in the languages of databases."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal

import pytest

from tidegate.core.columns.predicates import SqlDialect, dialect_of, literal, quote, untested_note
from tidegate.errors import WatermarkError
from tidegate.specs.columns import Value

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
    with pytest.raises(WatermarkError, match="cannot be written"):
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
    assert untested_note(url) == (None if told is None else f"no test of Tidegate runs {told}")
