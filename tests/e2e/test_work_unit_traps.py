"""What could lose, double or misplace rows of work units, tried on a real server and a real table."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, unquote

import pytest

from servers.api import Answer, Asked
from support.errors import raises
from support.unit_lake import SurveyLake, survey_lake
from tidegate import ConfigError, load
from tidegate.observe import events
from tidegate.protocol.delta import DeltaLakeTable
from tidegate.protocol.table import arrow_schema
from tidegate.runs.loop import Loop
from tidegate.specs.locations import Location
from tidegate.storage.options import absolute_uri
from tidegate.storage.stores import open_store


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[SurveyLake]:
    with survey_lake(tmp_path, source_settings={"grace_period_days": 3}) as found:
        yield found


class TwoSources(SurveyLake):
    """A second source of the same pipeline, whose units have the same names; ``second`` are keys of it."""

    second: Mapping[str, Any] = MappingProxyType({})

    @property
    def config(self) -> Path:
        path = super().config
        body = json.loads(path.read_text())
        pipeline = body["pipelines"]["responses"]
        source = pipeline.pop("source")
        other = source | {"path": "/others/{{surveyId}}/responses"} | dict(self.second)
        pipeline["sources"] = {"one": source, "two": other}
        path.write_text(json.dumps(body))
        return path


def test_sources_of_one_table_never_replace_rows_of_each_other(lake: SurveyLake) -> None:
    both = TwoSources(lake.root, lake.api, lake.source_settings, units="a")
    at = "2020-02-20T00:00:00Z"
    lake.api.routes["/others/a/responses"] = lambda asked: Answer(
        {"data": [{"id": 1000, "at": at}] if asked.params["since"] <= at < asked.params["until"] else []}
    )
    both.arrive("a", "02-10", "02-20")
    with raises(ConfigError, "pipelines.responses.sources.two.unit_column", "'_tidegate_unit'", "responses/one"):
        load(both.config)
    both.second = {"unit_column": "other_unit"}
    for now in ("02-21", "02-22", "02-23"):
        assert both.run(now).ok
        assert both.ids() == [0, 1, 1000]


STRANGE = ["o'b", "a/b", "%41", "ü\u0301x", 'q"r', "{{x}}", "a b,c", "line\nbreak", "A", "a\\'b", "$x", "a?b#c", "-- ;"]


def test_units_with_any_letters_are_read_and_replaced_by_themselves(lake: SurveyLake) -> None:
    def answer(asked: Asked) -> Answer:
        rows = lake.records[unquote(asked.path.split("/")[2])]
        return Answer({"data": [row for row in rows if asked.params["since"] <= row["at"] < asked.params["until"]]})

    for unit in STRANGE:
        lake.records[unit] = []
        lake.arrive(unit, "01-11", "02-19")
        lake.api.routes[f"/surveys/{quote(unit, safe='')}/responses"] = answer
    lake.units = ["a", *STRANGE]  # type: ignore[assignment]  # a list of units, as a file may have it
    lake.arrive("a", "01-11", "02-19")
    lake.ran("02-21")
    for unit in STRANGE[::2]:
        lake.arrive(unit, "02-20")
    lake.ran("02-22")
    lake.assert_exactly_once()


def test_grace_periods_that_change_from_run_to_run_lose_and_double_nothing(lake: SurveyLake) -> None:
    days = [f"0{month}-{day:02}" for month in (1, 2) for day in range(1, 29, 2)]
    lake.arrive("a", *days)
    lake.arrive("b", *days)
    for day, grace in enumerate((0, 20, 1, 7, 0, 3, 1, 20, 3), 10):
        lake.source_settings = {"grace_period_days": grace}
        lake.broken = {"b"} if day % 3 == 0 else set()
        lake.run(f"02-{day}")
    lake.broken = set()
    lake.ran("02-20")
    lake.assert_exactly_once("02-20")


def test_fields_that_no_column_takes_are_told(lake: SurveyLake) -> None:
    lake.arrive("a", "02-10", "02-11")
    for row in lake.records["a"]:
        row["extra"] = {"deep": 5}
    assert dict(lake.ran("02-21").unknown_fields) == {"extra": 2}
    assert any("extra (2)" in each.text for each in lake.seen if isinstance(each, events.Notice))


def test_partitions_that_were_accepted_stay_so_where_nothing_was_to_be_read(lake: SurveyLake) -> None:
    lake.source_settings = {}
    lake.arrive("a", "01-05")
    lake.ran("02-01")
    lake.work_unit = {"partition": "daily"}
    assert lake.ran("02-01", accept=True).work_units == 0
    lake.arrive("a", "02-01")
    lake.ran("02-02")
    lake.assert_exactly_once()


def test_rows_that_vanish_are_taken_away_where_columns_are_inferred(lake: SurveyLake) -> None:
    lake.schema = {}
    lake.arrive("a", "02-10", "02-20")
    lake.ran("02-21")
    lake.records["a"].pop()
    lake.ran("02-22")
    lake.assert_exactly_once()


def test_a_value_of_another_type_fails_its_unit_alone(lake: SurveyLake) -> None:
    lake.schema = {}
    for unit in "ab":
        lake.arrive(unit, "02-10", "02-20")
    lake.ran("02-21")
    lake.records["a"].append({"id": "text", "at": "2020-02-20T01:00:00Z"})
    lake.arrive("b", "02-21")
    assert [each.unit for each in lake.run("02-22").sources[0].failed_units] == ["a"]
    lake.records["a"].pop()
    lake.ran("02-22")
    lake.assert_exactly_once()


def test_a_unit_that_fails_for_every_day_holds_up_no_other(lake: SurveyLake) -> None:
    """Its days are the oldest that were never read: the breaker would open before anybody else had a turn."""
    lake.source_settings = {}
    lake.work_unit, lake.begin = {"partition": "daily", "breaker_failures": 9}, "2020-01-20"
    lake.broken = {"a"}
    for newest, now in pairwise(("01-31", "02-01", "02-02", "02-03")):
        lake.arrive("b", newest)
        report = lake.run(now).sources[0]
        lake.assert_exactly_once()
        assert {each.unit for each in report.failed_units} == {"a"}


def test_a_unit_that_is_new_and_fails_holds_up_no_other(lake: SurveyLake) -> None:
    lake.source_settings = {}
    lake.work_unit, lake.begin = {"partition": "daily", "breaker_failures": 9}, "2020-01-20"
    lake.units = "b,c"
    lake.ran("02-01")
    lake.units, lake.broken = "a,b,c", {"a"}
    lake.arrive("b", "02-01")
    assert lake.run("02-02").sources[0].work_units == 2
    lake.assert_exactly_once()


def test_a_source_that_fails_leaves_one_try_to_others_of_its_server(lake: SurveyLake) -> None:
    both = TwoSources(lake.root, lake.api, {}, {"breaker_failures": 2}, units="a")
    both.second = {"unit_column": "other_unit"}
    both.broken = {"a"}
    lake.api.routes["/others/a/responses"] = lambda asked: Answer({"data": []})
    one, two = both.run("02-21").sources
    assert (len(one.failed_units), two.work_units) == (2, 2)


def columns_of(lake: SurveyLake) -> set[str]:
    table = Location(absolute_uri("lake/responses", lake.root))
    delta = DeltaLakeTable(table, open_store(table)).snapshot()
    assert delta is not None
    return set(arrow_schema(delta.facts.schema_json).names)


@pytest.mark.parametrize(
    ("settings", "bad"),
    [
        pytest.param({}, {"id": "x", "mood": "good"}, id="a value that contradicts the others"),
        pytest.param({"min_records": 2}, {"id": 9, "mood": "good"}, id="too few records"),
    ],
)
@pytest.mark.parametrize("known", [False, True], ids=["no table yet", "a table"])
def test_columns_come_from_work_units_that_are_kept(
    tmp_path: Path, settings: dict[str, Any], bad: dict[str, Any], known: bool
) -> None:
    with survey_lake(tmp_path, schema={}, work_unit={"partition": "monthly"}, units="a,b,c") as lake:
        for unit in "abc":
            lake.arrive(unit, "01-05", "01-06")
        if known:
            lake.ran("02-01")
        lake.work_unit = {"partition": "monthly", **settings}
        for unit in "ac":
            lake.arrive(unit, "02-05", "02-06")
        lake.records["b"].append({**bad, "at": "2020-02-07T00:00:00Z"})
        report = lake.run("03-01").sources[0]
        assert [each.unit for each in report.failed_units] == ["b"]
        assert columns_of(lake) == {"_tidegate_unit", "_tidegate_segment", "id", "at"}
        lake.records["b"].pop()
        lake.arrive("b", "02-07", "02-08")
        assert lake.run("03-01").ok
        lake.assert_exactly_once()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("é".encode("latin-1"), "not UTF-8 at byte 47, send or write it as UTF-8"),
        (b'", "n": NaN, "m": "', "NaN is not JSON, write null for a missing number"),
    ],
    ids=["latin-1", "NaN"],
)
def test_records_in_another_encoding_or_with_nan_are_named_as_such(tmp_path: Path, name: bytes, why: str) -> None:
    with survey_lake(tmp_path, schema={}, work_unit={"partition": "monthly"}, units="a,b") as lake:
        lake.arrive("a", "01-05")
        lake.arrive("b", "01-05")
        body = b'{"data": [{"id": 9, "at": "2020-01-07T00:00:00Z", "x": "%s"}]}' % name
        lake.api.routes["/surveys/b/responses"] = lambda asked: Answer(body)
        (failed,) = lake.run("02-01").sources[0].failed_units
        assert failed.unit == "b"
        assert failed.reason.endswith(f"there is no JSON object among the records; the first: {why}")


def test_a_run_that_loses_a_race_repeats_nothing_of_what_the_other_read(lake: SurveyLake) -> None:
    """The grace period would have everything read again that the other run has just read."""
    lake.pipeline, lake.work_unit = {"on_conflict": "race"}, {"partition": "monthly", "group_units": 1}
    for unit in "abc":
        lake.arrive(unit, "01-05", "02-20")
    seen: list[events.Event] = []

    def beside(event: events.Event) -> None:
        seen.append(event)
        if len(seen) == 1:
            lake.ran("02-21")

    project = lake.project
    now = datetime(2020, 2, 21, tzinfo=UTC)
    report = Loop(project, lake.lane(), 1, beside, clock=lambda: now).once(project.pipelines)
    assert report.ok
    asked = Counter(lake.asked())
    assert sum(asked.values()) == 12 + 2, "six work units of two segments, and the one that was read in vain"
    assert dict(report.sources[0].skipped)["another_run"] == 3
    lake.assert_exactly_once()
