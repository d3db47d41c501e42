"""Variables: what they stand for, where they are found, and that none is left open or shown."""

from __future__ import annotations

import sqlite3
from datetime import UTC, date, datetime

import pytest

from support.errors import raises
from tidegate.core.dialects.dialect import Dialect
from tidegate.core.dialects.registry import DIALECTS
from tidegate.errors import SourceError
from tidegate.sources.units.work import (
    UnitWork,
    Variables,
    bound_value,
    fill_query,
    names_in,
    range_text,
    sent_params,
    values_of,
    variables_of,
)
from tidegate.specs.columns import HttpRead, JdbcRead, Value
from tidegate.specs.locations import Secret
from tidegate.specs.units import Bounding, RangeParam, UnitSource, UnitWatermark

READ = HttpRead("https://a.example")
LOW = int(datetime(2026, 2, 21, 10, 37, 42, 123000, tzinfo=UTC).timestamp() * 1000)
HIGH = int(datetime(2026, 3, 1, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("format", "zone", "text"),
    [
        ("iso", None, "2026-02-21T10:37:42.123000+00:00"),
        ("iso", "Asia/Tokyo", "2026-02-21T19:37:42.123000+09:00"),
        ("date", None, "2026-02-21"),
        ("date", "Pacific/Auckland", "2026-02-21"),
        ("datetime", "Asia/Tokyo", "2026-02-21 19:37:42"),
        ("datetime_ms", None, "2026-02-21 10:37:42.123"),
        ("timestamp", "Asia/Tokyo", LOW // 1000),
        ("timestamp_ms", None, LOW),
        ("%Y/%m/%d/%H", "Asia/Tokyo", "2026/02/21/19"),
    ],
)
def test_bounds_are_written_in_every_format(format: str, zone: str | None, text: str | int) -> None:
    param = RangeParam("p", Bounding.LOW, format, zone)
    assert range_text(UnitSource("s", READ), param, (LOW, HIGH)) == text
    if zone is not None:
        same = UnitSource("s", READ, timezone=zone)
        assert range_text(same, RangeParam("p", Bounding.LOW, format), (LOW, HIGH)) == text


def test_the_upper_bound_is_rounded_up_only_where_a_column_leaves_out_the_rest() -> None:
    upper = RangeParam("until", Bounding.HIGH, "date")
    plain, timed = UnitSource("s", READ), UnitSource("s", READ, time_column="at")
    assert [range_text(each, upper, (0, LOW)) for each in (plain, timed)] == ["2026-02-21", "2026-02-22"]
    assert [range_text(each, upper, (0, HIGH)) for each in (plain, timed)] == ["2026-03-01", "2026-03-01"]


def test_ranges_that_follow_each_other_do_so_in_any_format() -> None:
    source = UnitSource("s", READ)
    params = [RangeParam("p", bound, "date") for bound in (Bounding.LOW, Bounding.HIGH)]
    first, second = (0, LOW), (LOW, HIGH)
    assert range_text(source, params[1], first) == range_text(source, params[0], second)


def test_the_variables_of_a_unit() -> None:
    source = UnitSource(
        "s",
        READ,
        unit=UnitWatermark("id"),
        params=(RangeParam("day", Bounding.LOW, "date"), RangeParam("to", Bounding.HIGH)),
    )
    work = UnitWork("u1", 0, ((LOW, HIGH),), {"region": "eu"}, {"key": Secret("canary")})
    found = variables_of(source, work, (LOW, HIGH))
    assert found.fill("{{id}}/{{ region }}/{{day}}/{{key}}{}{x}") == "u1/eu/2026-02-21/canary{}{x}"
    assert "canary" not in repr(found)
    assert sent_params(source, found, ["day"]) == (("to", "2026-03-01T00:00:00+00:00"),)


def test_a_variable_without_a_value_is_named_with_those_that_have_one() -> None:
    known = Variables({"b": 1}, {"a": Secret("canary")})
    with raises(SourceError, "{{c}}", "a, b", "params") as caught:
        known.fill("x{{ c }}")
    assert "canary" not in str(caught.value)
    with raises(SourceError, "{{}}", "none", "params"):
        Variables().fill_deep({"a": [{"b": "{{}}"}]})


def test_values_are_not_looked_at_again() -> None:
    assert Variables({"a": "{{b}}", "b": "x"}).fill("{{a}}") == "{{b}}"


def test_numbers_stay_numbers_where_they_stand_alone() -> None:
    filled = Variables({"n": 5, "t": "x"}).fill_deep({"a": ["{{n}}", "{{n}}!", "{{t}}", 1, None, True]})
    assert filled == {"a": [5, "5!", "x", 1, None, True]}


def test_every_use_is_found() -> None:
    assert list(names_in({"a": ["x{{b}}{{ c }}"], "d": {"e": "{{f}}"}, "g": 1})) == ["b", "c", "f"]


def test_secrets_are_hidden_in_every_form_the_longest_first() -> None:
    known = Variables(secrets={"a": Secret("pass"), "b": Secret("pass word/1"), "c": Secret("")})
    assert known.mask("pass word/1, pass%20word%2F1, pass%20word/1, pass") == "***, ***, ***, ***"


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
    query = fill_query("select {{ id }} as v, '{' as braces -- all of it", {"id": value}, DIALECTS["sqlite"])
    assert sqlite3.connect(":memory:").execute(query).fetchone() == (value, "{")


@pytest.mark.parametrize(
    ("query", "dialect"),
    [
        ("select * from t where u = '{{id}}'", Dialect()),
        ("select * from t where u like 'it''s %{{id}}%'", DIALECTS["postgresql"]),
        ("select * from t where u = E'it\\'s {{id}}'", DIALECTS["postgresql"]),
        ("select $$ {{id}} $$", DIALECTS["postgresql"]),
        ("select $a$ $$ {{id}} $a$", DIALECTS["postgresql"]),
        ("select 'it\\'s {{id}}'", DIALECTS["mysql"]),
        ("select 1 # {{id}}", DIALECTS["mysql"]),
        ("select `{{id}}`", DIALECTS["mysql"]),
        ("select [a]]{{id}}]", DIALECTS["sqlserver"]),
        ("select q'[it's {{id}}]' from dual", DIALECTS["oracle"]),
        ('select "{{id}}"', Dialect()),
        ("select 1 -- {{id}}\n", Dialect()),
        ("select 1 /* {{id}} */", Dialect()),
        ("select 1 /* a /* b */ {{id}} */", DIALECTS["postgresql"]),
        ("select 'not closed {{id}}", Dialect()),
    ],
)
def test_a_variable_that_would_be_no_value_is_refused(query: str, dialect: Dialect) -> None:
    with raises(SourceError, "{{id}}", "quotes"):
        fill_query(query, {"id": "harmless"}, dialect)


def test_what_stands_beside_quotes_and_comments_is_filled() -> None:
    query = "select '--' as a, 'it''s' /* x */ from t where u = {{id}} and n in ({{n}}, 'b') -- end"
    expected = "select '--' as a, 'it''s' /* x */ from t where u = 'o''b' and n in (7, 'b') -- end"
    assert fill_query(query, {"id": "o'b", "n": 7}, DIALECTS["postgresql"]) == expected


def test_a_variable_without_a_value_is_named() -> None:
    with raises(SourceError, "{{idd}}", "id"):
        fill_query("select {{idd}}", {"id": "a"}, Dialect())


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
    assert bound_value(source, param, (MORNING, MORNING + 1)) == expected
    values = values_of(source, UnitWork("a", 0, (), {"id": "b"}), (MORNING, MORNING + 1))
    assert values == {"survey": "a", "id": "b", "low": expected}
    assert fill_query("{{low}}", values, DIALECTS["postgresql"]).startswith(literal)
