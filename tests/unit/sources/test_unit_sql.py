"""Variables of a query are values, never text: whatever they hold, and wherever they stand."""

from __future__ import annotations

import sqlite3
from datetime import UTC, date, datetime

import pytest

from tidegate.core.columns.predicates import SqlDialect
from tidegate.errors import SourceError
from tidegate.sources.units.work import UnitWork, bound, fill_query, values_of
from tidegate.specs.columns import JdbcRead, Value
from tidegate.specs.units import Bounding, RangeParam, UnitSource, UnitWatermark

HOSTILE = [
    "a' OR '1'='1",
    "x'; DROP TABLE t; --",
    "back\\",
    "\\' OR true --",
    '"',
    "*/ or /*",
    "{{other}}",
    "数\n💧",
    "",
]
MORNING = 1_771_662_600_123  # 2026-02-21 08:30:00.123 in UTC


@pytest.mark.parametrize("value", HOSTILE)
def test_a_value_reaches_the_database_as_it_is(value: str) -> None:
    query = fill_query("select {{ id }} as v, '{' as braces -- all of it", {"id": value}, SqlDialect.SQLITE)
    assert sqlite3.connect(":memory:").execute(query).fetchone() == (value, "{")


@pytest.mark.parametrize(
    ("query", "dialect"),
    [
        ("select * from t where u = '{{id}}'", SqlDialect.ANSI),
        ("select * from t where u like 'it''s %{{id}}%'", SqlDialect.POSTGRESQL),
        ("select * from t where u = E'it\\'s {{id}}'", SqlDialect.POSTGRESQL),
        ("select $$ {{id}} $$", SqlDialect.POSTGRESQL),
        ("select $a$ $$ {{id}} $a$", SqlDialect.POSTGRESQL),
        ("select 'it\\'s {{id}}'", SqlDialect.MYSQL),
        ("select 1 # {{id}}", SqlDialect.MYSQL),
        ("select `{{id}}`", SqlDialect.MYSQL),
        ("select [a]]{{id}}]", SqlDialect.SQLSERVER),
        ("select q'[it's {{id}}]' from dual", SqlDialect.ORACLE),
        ('select "{{id}}"', SqlDialect.ANSI),
        ("select 1 -- {{id}}\n", SqlDialect.ANSI),
        ("select 1 /* {{id}} */", SqlDialect.ANSI),
        ("select 1 /* a /* b */ {{id}} */", SqlDialect.POSTGRESQL),
        ("select 'not closed {{id}}", SqlDialect.ANSI),
    ],
)
def test_a_variable_that_would_be_no_value_is_refused(query: str, dialect: SqlDialect) -> None:
    with pytest.raises(SourceError, match=r"has \{\{id\}\} inside.*leave out the quotes"):
        fill_query(query, {"id": "harmless"}, dialect)


def test_what_stands_beside_quotes_and_comments_is_filled() -> None:
    query = "select '--' as a, 'it''s' /* x */ from t where u = {{id}} and n in ({{n}}, 'b') -- end"
    expected = "select '--' as a, 'it''s' /* x */ from t where u = 'o''b' and n in (7, 'b') -- end"
    assert fill_query(query, {"id": "o'b", "n": 7}, SqlDialect.POSTGRESQL) == expected


def test_a_variable_without_a_value_is_named() -> None:
    with pytest.raises(SourceError, match=r"uses \{\{idd\}\}, which has no value - its variables are: id"):
        fill_query("select {{idd}}", {"id": "a"}, SqlDialect.ANSI)


@pytest.mark.parametrize(
    ("format", "zone", "expected", "literal"),
    [
        ("iso", None, datetime(2026, 2, 21, 8, 30, 0, 123_000, UTC), "TIMESTAMP WITH TIME ZONE '2026-02-21 08:30"),
        ("date", None, date(2026, 2, 21), "DATE '2026-02-21'"),
        ("date", "Pacific/Honolulu", date(2026, 2, 20), "DATE '2026-02-20'"),
        ("datetime", None, datetime(2026, 2, 21, 9, 30, 0, 123_000), "TIMESTAMP '2026-02-21 09:30:00.123000'"),
        ("timestamp", None, MORNING // 1000, "1771662600"),
        ("timestamp_ms", None, MORNING, "1771662600123"),
        ("%Y%m%d", None, "20260221", "'20260221'"),
    ],
)
def test_a_bound_has_the_type_of_its_format(format: str, zone: str | None, expected: Value, literal: str) -> None:
    param = RangeParam("low", Bounding.LOW, format, zone)
    source = UnitSource(
        "db", JdbcRead("jdbc:postgresql:x"), unit=UnitWatermark("survey"), timezone="Europe/Berlin", params=(param,)
    )
    assert bound(source, param, (MORNING, MORNING + 1)) == expected
    values = values_of(source, UnitWork("a", 0, (), {"id": "b"}), (MORNING, MORNING + 1))
    assert values == {"survey": "a", "id": "b", "low": expected}
    assert fill_query("{{low}}", values, SqlDialect.POSTGRESQL).startswith(literal)
