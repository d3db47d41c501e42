"""Runs over work units from end to end: a real server, a real table, no Spark."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from support.errors import raises
from support.unit_lake import FIELDS, SurveyLake, day, survey_lake
from tidegate import ConfigError, plan, run, status, widen_table
from tidegate.commands.run import run_on
from tidegate.core.units.state import UnitState
from tidegate.observe import events
from tidegate.reports.render import to_lines
from tidegate.reports.report import View
from tidegate.runs.bind import bind
from tidegate.runs.loop import Loop
from tidegate.runs.presence import Note


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[SurveyLake]:
    with survey_lake(tmp_path, source_settings={"grace_period_days": 3}) as found:
        yield found


def state_of(lake: SurveyLake) -> UnitState:
    project = lake.project
    (pipeline,) = project.pipelines
    place = bind(project, pipeline, pipeline.sources[0])
    state = place.state_of(place.open(read_only=True))
    assert state is not None
    return state


def test_months_are_read_once_and_their_last_days_again(lake: SurveyLake) -> None:
    lake.arrive("a", "01-05", "02-18", "02-20")
    lake.arrive("b", "01-31")
    first = lake.ran("02-21")
    assert (first.rows, first.work_units, first.commits) == (4, 6, 1)
    lake.asked()
    lake.arrive("a", "02-19", "02-21")
    lake.arrive("c", "02-18")
    second = lake.ran("02-22")
    assert lake.asked() == [
        *(f"{unit} 2020-02-18 2020-02-19" for unit in "abc"),
        *(f"{unit} 2020-02-19 2020-02-22" for unit in "abc"),
    ]
    assert (second.rows, second.work_units) == (5, 3)
    lake.assert_exactly_once()
    assert dict(second.skipped) == {"done": 3}


def test_a_failed_unit_blocks_no_other_and_is_read_whole_next_time(lake: SurveyLake) -> None:
    lake.arrive("a", "01-05", "02-20")
    lake.arrive("b", "01-06", "02-20")
    lake.broken = {"b@2020-01-01"}
    report = lake.run("02-21").sources[0]
    assert (report.work_units, report.rows, report.error) == (5, 3, None)
    (failed,) = report.failed_units
    assert (failed.unit, failed.start, failed.failures) == ("b", "2020-01-01T00:00:00Z", 1)
    assert "400" in failed.reason
    assert list(state_of(lake).failures) == [("b", 1577836800000)]
    lake.broken = set()
    lake.asked()
    lake.ran("02-21")
    assert "b 2020-01-01 2020-01-29" in lake.asked()
    assert not state_of(lake).failures
    lake.assert_exactly_once()


def test_nothing_is_committed_where_nothing_is_new(lake: SurveyLake) -> None:
    lake.source_settings = {}
    lake.arrive("a", "01-05")
    assert lake.ran("02-21").commits == 1
    again = lake.ran("02-21")
    assert (again.commits, again.rows, again.state) == (0, 0, "Idle")
    assert dict(again.skipped) == {"done": 3, "up_to_date": 3}


def test_rows_deleted_at_the_source_within_the_grace_period_are_gone(lake: SurveyLake) -> None:
    lake.arrive("a", "02-10", "02-20")
    lake.ran("02-21")
    lake.records["a"].pop()
    lake.ran("02-22")
    lake.assert_exactly_once()
    assert len(lake.ids()) == 1


def test_a_server_that_fails_again_and_again_is_left_alone(lake: SurveyLake) -> None:
    lake.work_unit = {"breaker_failures": 2, "group_units": 1}
    lake.broken = {"a", "b", "c"}
    report = lake.run("02-21").sources[0]
    assert len(report.failed_units) == 2
    assert dict(report.skipped)["breaker"] == 4
    assert any("the next run gets the 4 left" in each.text for each in lake.seen if isinstance(each, events.Notice))
    lake.broken = set()
    assert lake.ran("02-21").work_units == 6


def test_too_few_records_are_a_failure_or_wait(lake: SurveyLake) -> None:
    lake.units = "a"
    lake.work_unit = {"min_records": 1, "partition": "daily"}
    lake.begin = "2020-01-01"
    lake.arrive("a", "01-01")
    report = lake.run("01-03").sources[0]
    assert [each.start[:10] for each in report.failed_units] == ["2020-01-02"]
    lake.work_unit = {"min_records": 1, "partition": "daily", "min_records_after": "P2D"}
    report = lake.run("01-04").sources[0]
    assert not report.failed_units
    assert dict(report.skipped)["thin"] == 2
    lake.arrive("a", "01-02", "01-03")
    assert lake.ran("01-04").work_units >= 2
    lake.assert_exactly_once()


def test_what_the_server_does_not_know_is_retired_when_asked_so(lake: SurveyLake) -> None:
    del lake.api.routes["/surveys/b/responses"]
    lake.arrive("a", "01-05")
    report = lake.run("02-21").sources[0]
    assert {each.unit for each in report.failed_units} == {"b"}
    lake.work_unit = {"not_found": "empty"}
    assert lake.ran("02-21").work_units == 2 + 2
    lake.work_unit = {"not_found": "retire"}
    lake.ran("02-22")
    assert set(state_of(lake).retired) == {"b"}
    lake.asked()
    lake.ran("02-23")
    assert not [each for each in lake.asked() if each.startswith("b")]


def test_other_partitions_stop_with_an_explanation_and_can_be_accepted(lake: SurveyLake) -> None:
    lake.arrive("a", "01-05", "02-20")
    lake.ran("02-21")
    lake.work_unit = {"partition": "weekly"}
    report = lake.run("02-22")
    assert "--accept-new-partitions" in (report.sources[0].error or "")
    lake.arrive("a", "02-22")
    assert lake.run("02-23", accept=True).ok
    lake.assert_exactly_once()
    assert lake.run("02-24").ok


def test_the_first_run_without_rows_saves_what_it_read(lake: SurveyLake) -> None:
    assert lake.ran("02-21").commits == 1
    lake.asked()
    lake.ran("02-21")
    assert all(each.split()[1] >= "2020-02-18" for each in lake.asked())


def test_work_units_without_rows_are_saved_before_any_column_is_known(lake: SurveyLake) -> None:
    """Otherwise a run with a limit would read the same empty months for ever."""
    lake.schema = {}
    lake.work_unit = {"parallelism_max": 3}
    lake.arrive("b", "02-05")
    assert [lake.ran("02-21").work_units for _ in range(2)] == [3, 3]
    lake.assert_exactly_once()


def test_fields_that_no_column_takes_are_told(lake: SurveyLake) -> None:
    lake.records["a"].append({"id": 1, "at": "2020-01-05T00:00:00Z", "mood": "good"})
    assert lake.ran("02-21").unknown_fields == {"mood": 1}
    assert any("mood (1)" in each.text for each in lake.seen if isinstance(each, events.Notice))


def test_a_run_that_is_told_to_stop_ends_after_the_group_under_way(lake: SurveyLake) -> None:
    lake.work_unit = {"group_units": 2}
    lake.arrive("a", "01-05", "02-20")
    lake.arrive("c", "01-06")
    stop = threading.Event()

    def stopping(event: events.Event) -> None:
        if isinstance(event, events.WorkUnitsFinished):
            stop.set()

    project = lake.project
    report = Loop(project, lake.lane(), 1, stopping, stop, clock=lambda: day("02-21")).once(project.pipelines)
    assert (report.ok, report.sources[0].work_units, report.sources[0].error) == (False, 2, None)
    assert lake.ran("02-21").work_units >= 4
    lake.assert_exactly_once()


def test_starts_are_apart_where_the_server_wants_that(lake: SurveyLake) -> None:
    lake.work_unit = {"pacing_seconds": 0.01}
    lake.arrive("b", "01-05")
    first = lake.ran("02-21")
    assert (first.work_units, first.commits, len(lake.api.asked)) == (6, 6, 12)
    lake.assert_exactly_once()


def test_status_shows_that_a_run_is_at_work_or_died(lake: SurveyLake) -> None:
    lake.arrive("a", "01-05")
    lake.ran("02-21")
    note = lake.root / "lake" / "responses" / "_tidegate" / "responses" / "default.at-work.json"
    assert not note.exists()
    note.write_bytes(Note("another", "2020-02-21T10:00:00Z", "another-machine 1 1").to_bytes())
    assert "a run has been at work since 2020-02-21T10:00:00Z" in status(lake.config)[0].notes
    os.utime(note, (0, 0))
    (told,) = [each for each in status(lake.config)[0].notes if "2020-02-21T10" in each]
    assert "gave no sign of life" in told
    assert lake.ran("02-22").state != "Skipped"
    assert not note.exists()


def test_a_field_that_became_wider_is_widened_in_the_table(lake: SurveyLake) -> None:
    lake.schema = {"fields": [{"name": "id", "type": "int32"}, FIELDS[1]]}
    lake.arrive("a", "01-05")
    lake.ran("02-21")
    lake.schema = {"fields": FIELDS}
    lake.arrive("b", "02-20")
    report = lake.run("03-21").sources[0]
    told = str(report.error) + str(report.failed_units)
    assert "`tidegate table widen` with --column id --type int64" in told
    assert widen_table(lake.config, "responses", column="id", to="int64").applied
    lake.ran("03-22")
    lake.assert_exactly_once()


def test_a_run_at_another_time_reads_what_was_due_then(lake: SurveyLake) -> None:
    lake.arrive("a", "01-05", "02-18")
    report = run_on(lake.project, None, "once", lake.seen.append, threading.Event(), lake.lane(), now=day("02-01"))
    assert report.ok
    assert {each.split()[2] for each in lake.asked()} == {"2020-01-29", "2020-02-01"}
    assert report.sources[0].rows == 1


@pytest.mark.parametrize(
    ("mode", "told"), [("once", "future … tidegate plan --at"), ("continuous", "continuous … clock")]
)
def test_a_run_is_not_at_a_moment_to_come_nor_forever_at_another(lake: SurveyLake, mode: Any, told: str) -> None:
    with raises(ConfigError, told):
        run(lake.config, mode=mode, now=datetime.now(UTC) + timedelta(days=1))
    assert lake.asked() == []


def test_a_moment_without_a_zone_is_refused(lake: SurveyLake) -> None:
    with raises(ConfigError, "2020-01-01T00:00:00"):
        run(lake.config, now=datetime(2020, 1, 1))
    assert lake.asked() == []


def test_a_plan_names_the_units_that_failed(lake: SurveyLake) -> None:
    lake.arrive("b", "01-06")
    lake.broken = {"b@2020-01-01"}
    lake.run("02-21")
    lines = list(to_lines(plan(lake.config, now=day("02-22"))[0].page(View(config="t.yml"))))
    assert "  failed before: b (tidegate units list t.yml -p responses --failed)" in lines
