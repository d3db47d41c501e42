"""The facts of each database: names, literals, notes, drivers."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal

import pytest

from support.errors import raises
from tidegate.core.dialects.dialect import SPARK, Dialect
from tidegate.core.dialects.registry import DIALECTS, dialect_of
from tidegate.errors import WatermarkError
from tidegate.sources.databases import DRIVERS
from tidegate.specs.columns import Value

MOMENT = datetime(2026, 4, 3, 9, 15, tzinfo=timezone(timedelta(hours=7)))
NAIVE = datetime(2026, 4, 3, 9, 15, 0, 5)


@pytest.mark.parametrize(
    ("url", "dialect"),
    [
        ("jdbc:postgresql://127.0.0.1:5432/shop", DIALECTS["postgresql"]),
        ("jdbc:mysql://db/shop", DIALECTS["mysql"]),
        ("jdbc:mariadb://db/shop", DIALECTS["mariadb"]),
        ("jdbc:sqlserver://db;databaseName=shop", DIALECTS["sqlserver"]),
        ("jdbc:oracle:thin:@db:1521/shop", DIALECTS["oracle"]),
        ("jdbc:sqlite:shop.db", DIALECTS["sqlite"]),
    ],
)
def test_the_address_tells_the_language(url: str, dialect: Dialect) -> None:
    assert dialect_of(url) is dialect


@pytest.mark.parametrize("url", ["jdbc:db2://db/shop", "postgresql://db/shop"])
def test_an_unknown_database_has_standard_sql(url: str) -> None:
    assert type(dialect_of(url)) is Dialect


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        (DIALECTS["postgresql"], '"say ""hi"" `]"'),
        (SPARK, '`say "hi" ``]`'),
        (DIALECTS["mysql"], '`say "hi" ``]`'),
        (DIALECTS["sqlserver"], '[say "hi" `]]]'),
    ],
)
def test_a_name_stays_one_name(dialect: Dialect, text: str) -> None:
    assert dialect.quote('say "hi" `]') == text


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(WatermarkError):
        Dialect().quote(name)


@pytest.mark.parametrize(
    ("value", "dialect", "text"),
    [
        (5, Dialect(), "5"),
        (-5, SPARK, "-5"),
        (Decimal("1E+3"), DIALECTS["postgresql"], "1000"),
        (Decimal("10.50"), SPARK, "10.50"),
        (1.5, SPARK, "1.5E0"),
        (1e300, DIALECTS["mysql"], "1E+300"),
        (True, DIALECTS["postgresql"], "TRUE"),
        (True, DIALECTS["sqlserver"], "1"),
        ("it's", DIALECTS["postgresql"], "'it''s'"),
        ("it's", SPARK, r"'it\'s'"),
        ("it's", DIALECTS["sqlserver"], "N'it''s'"),
        (r"a\'b", DIALECTS["postgresql"], r"E'a\\''b'"),
        (r"a\b", SPARK, r"'a\\b'"),
        (r"a\b", DIALECTS["mysql"], "_utf8mb4 X'615C62'"),
        ("Zürich", DIALECTS["mysql"], "_utf8mb4 X'5AC3BC72696368'"),
        (r"a\b", DIALECTS["sqlite"], r"'a\b'"),
        ("${x}", SPARK, r"'\u0024{x}'"),
        (date(2026, 4, 3), DIALECTS["postgresql"], "DATE '2026-04-03'"),
        (date(2026, 4, 3), DIALECTS["sqlserver"], "CAST('2026-04-03' AS DATE)"),
        (date(2026, 4, 3), DIALECTS["sqlite"], "'2026-04-03'"),
        (MOMENT, SPARK, "TIMESTAMP_LTZ '2026-04-03 02:15:00+00:00'"),
        (MOMENT, DIALECTS["postgresql"], "TIMESTAMP WITH TIME ZONE '2026-04-03 02:15:00+00:00'"),
        (MOMENT, DIALECTS["sqlserver"], "CAST('2026-04-03T02:15:00+00:00' AS DATETIMEOFFSET)"),
        (MOMENT, DIALECTS["oracle"], "TIMESTAMP '2026-04-03 02:15:00 +00:00'"),
        (MOMENT, DIALECTS["mysql"], "TIMESTAMP '2026-04-03 02:15:00'"),
        (NAIVE, SPARK, "TIMESTAMP_NTZ '2026-04-03 09:15:00.000005'"),
        (NAIVE, DIALECTS["postgresql"], "TIMESTAMP '2026-04-03 09:15:00.000005'"),
        (NAIVE, DIALECTS["sqlserver"], "CAST('2026-04-03T09:15:00.000005' AS DATETIME2)"),
        (time(9, 15), DIALECTS["postgresql"], "TIME '09:15:00'"),
        (time(9, 15, tzinfo=UTC), DIALECTS["postgresql"], "TIME WITH TIME ZONE '09:15:00+00:00'"),
    ],
)
def test_a_value_is_typed_and_escaped(value: Value, dialect: Dialect, text: str) -> None:
    assert dialect.literal(value) == text


@pytest.mark.parametrize("dialect", [SPARK, *DIALECTS.values()], ids=str)
def test_one_moment_has_one_text_whatever_its_zone(dialect: Dialect) -> None:
    assert dialect.literal(MOMENT) == dialect.literal(MOMENT.astimezone(UTC))


@pytest.mark.parametrize(
    ("value", "dialect"),
    [
        (float("nan"), Dialect()),
        (Decimal("Infinity"), Dialect()),
        ("a\0b", DIALECTS["postgresql"]),
        ("\ud800", SPARK),
        (time(9), DIALECTS["oracle"]),
        (time(9, tzinfo=UTC), SPARK),
    ],
)
def test_what_a_database_cannot_say_is_refused(value: Value, dialect: Dialect) -> None:
    with raises(WatermarkError, "written"):
        dialect.literal(value)


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
    assert dialect_of(url).untested == (None if told is None else f"no test of Tidegate runs {told}")


def test_each_driver_of_python_that_a_dialect_names_is_there() -> None:
    assert {each.python.name for each in DIALECTS.values() if each.python is not None} == set(DRIVERS)
