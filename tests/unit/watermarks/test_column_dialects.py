"""Names and values in the languages of databases."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal

import pytest

from tidegate.column_specs import Value
from tidegate.errors import WatermarkError
from tidegate.watermarks.dialects import Dialect, dialect_of, literal, quoted, untested

MOMENT = datetime(2026, 4, 3, 9, 15, tzinfo=timezone(timedelta(hours=7)))
NAIVE = datetime(2026, 4, 3, 9, 15, 0, 5)


@pytest.mark.parametrize(
    ("url", "dialect"),
    [
        ("jdbc:postgresql://127.0.0.1:5432/shop", Dialect.POSTGRESQL),
        ("jdbc:mysql://db/shop", Dialect.MYSQL),
        ("jdbc:mariadb://db/shop", Dialect.MYSQL),
        ("jdbc:sqlserver://db;databaseName=shop", Dialect.SQLSERVER),
        ("jdbc:oracle:thin:@db:1521/shop", Dialect.ORACLE),
        ("jdbc:sqlite:shop.db", Dialect.SQLITE),
        ("jdbc:db2://db/shop", Dialect.ANSI),
        ("postgresql://db/shop", Dialect.ANSI),
    ],
)
def test_the_address_tells_the_language(url: str, dialect: Dialect) -> None:
    assert dialect_of(url) is dialect


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        (Dialect.POSTGRESQL, '"say ""hi"" `]"'),
        (Dialect.SPARK, '`say "hi" ``]`'),
        (Dialect.MYSQL, '`say "hi" ``]`'),
        (Dialect.SQLSERVER, '[say "hi" `]]]'),
    ],
)
def test_a_name_stays_one_name(dialect: Dialect, text: str) -> None:
    assert quoted('say "hi" `]', dialect) == text


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(WatermarkError):
        quoted(name, Dialect.ANSI)


@pytest.mark.parametrize(
    ("value", "dialect", "text"),
    [
        (5, Dialect.ANSI, "5"),
        (-5, Dialect.SPARK, "-5"),
        (Decimal("1E+3"), Dialect.POSTGRESQL, "1000"),
        (Decimal("10.50"), Dialect.SPARK, "10.50"),
        (1.5, Dialect.SPARK, "1.5E0"),
        (1e300, Dialect.MYSQL, "1E+300"),
        (True, Dialect.POSTGRESQL, "TRUE"),
        (True, Dialect.SQLSERVER, "1"),
        ("it's", Dialect.POSTGRESQL, "'it''s'"),
        ("it's", Dialect.SPARK, r"'it\'s'"),
        ("it's", Dialect.SQLSERVER, "N'it''s'"),
        (r"a\'b", Dialect.POSTGRESQL, r"E'a\\''b'"),
        (r"a\b", Dialect.SPARK, r"'a\\b'"),
        (r"a\b", Dialect.MYSQL, "_utf8mb4 X'615C62'"),
        ("Zürich", Dialect.MYSQL, "_utf8mb4 X'5AC3BC72696368'"),
        (r"a\b", Dialect.SQLITE, r"'a\b'"),
        ("${x}", Dialect.SPARK, r"'\u0024{x}'"),
        (date(2026, 4, 3), Dialect.POSTGRESQL, "DATE '2026-04-03'"),
        (date(2026, 4, 3), Dialect.SQLSERVER, "CAST('2026-04-03' AS DATE)"),
        (date(2026, 4, 3), Dialect.SQLITE, "'2026-04-03'"),
        (MOMENT, Dialect.SPARK, "TIMESTAMP_LTZ '2026-04-03 02:15:00+00:00'"),
        (MOMENT, Dialect.POSTGRESQL, "TIMESTAMP WITH TIME ZONE '2026-04-03 02:15:00+00:00'"),
        (MOMENT, Dialect.SQLSERVER, "CAST('2026-04-03T02:15:00+00:00' AS DATETIMEOFFSET)"),
        (MOMENT, Dialect.ORACLE, "TIMESTAMP '2026-04-03 02:15:00 +00:00'"),
        (MOMENT, Dialect.MYSQL, "TIMESTAMP '2026-04-03 02:15:00'"),
        (NAIVE, Dialect.SPARK, "TIMESTAMP_NTZ '2026-04-03 09:15:00.000005'"),
        (NAIVE, Dialect.POSTGRESQL, "TIMESTAMP '2026-04-03 09:15:00.000005'"),
        (NAIVE, Dialect.SQLSERVER, "CAST('2026-04-03T09:15:00.000005' AS DATETIME2)"),
        (time(9, 15), Dialect.POSTGRESQL, "TIME '09:15:00'"),
        (time(9, 15, tzinfo=UTC), Dialect.POSTGRESQL, "TIME WITH TIME ZONE '09:15:00+00:00'"),
    ],
)
def test_a_value_is_typed_and_escaped(value: Value, dialect: Dialect, text: str) -> None:
    assert literal(value, dialect) == text


@pytest.mark.parametrize("dialect", Dialect)
def test_one_moment_has_one_text_whatever_its_zone(dialect: Dialect) -> None:
    assert literal(MOMENT, dialect) == literal(MOMENT.astimezone(UTC), dialect)


@pytest.mark.parametrize(
    ("value", "dialect"),
    [
        (float("nan"), Dialect.ANSI),
        (Decimal("Infinity"), Dialect.ANSI),
        ("a\0b", Dialect.POSTGRESQL),
        ("\ud800", Dialect.SPARK),
        (time(9), Dialect.ORACLE),
        (time(9, tzinfo=UTC), Dialect.SPARK),
    ],
)
def test_what_a_database_cannot_say_is_refused(value: Value, dialect: Dialect) -> None:
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
    assert untested(url) == (None if told is None else f"no test of Tidegate runs {told}")
