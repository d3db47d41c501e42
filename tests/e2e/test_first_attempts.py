"""A first run in which everything fails leaves a trace, is no position, and is forgotten once there is one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.column_lake import ColumnLake
from support.lake import Lake
from support.unit_lake import SurveyLake, survey_lake
from tidegate import plan, show_watermarks, status, unit, units
from tidegate.observe import events
from tidegate.observe.health_listener import HealthListener

DECLARED = {"fields": [{"name": "id", "type": "int64"}, {"name": "at", "type": "timestamp"}]}


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[SurveyLake]:
    with survey_lake(tmp_path, units="a,b") as found:
        found.arrive("a", "01-05")
        found.arrive("b", "01-06")
        found.broken = {"a", "b"}
        yield found


def noted(root: Path) -> dict[str, Any]:
    (path,) = root.rglob("*.attempts.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.parametrize("schema", [{}, DECLARED], ids=["inferred", "declared"])
def test_work_units_that_all_fail_are_shown_and_counted_before_there_is_a_table(
    lake: SurveyLake, schema: dict[str, Any]
) -> None:
    lake.schema = schema
    health = HealthListener({("responses", "default"): 60.0})
    for _ in range(2):
        report = lake.run("02-21").sources[0]
        assert (len(report.failed_units), report.state, report.commits) == (4, "Initial", 0)
    assert {each.failures for each in report.failed_units} == {2}
    assert not (lake.root / "lake" / "responses" / "_delta_log").exists()
    (state,), (view,) = status(lake.config), show_watermarks(lake.config, "responses")
    assert state.work_units is not None
    assert (state.state, state.version, state.work_units.failed) == ("Initial", 0, 4)
    assert any("2 runs in a row failed" in each and "400" in each for each in state.notes)
    assert {each.failures for each in view.failed_units} == {2}
    (planned,) = plan(lake.config)
    assert any("2 runs in a row failed" in each for each in planned.notes)
    (listed,) = units(lake.config, "responses", failed=True)
    assert {(each.unit, each.state) for each in listed.units} == {("a", "failed"), ("b", "failed")}
    shown = unit(lake.config, "responses", "a")
    assert {(each.failures, "400" in each.reason) for each in shown.work_units if each.failures} == {(2, True)}
    for event in lake.seen:
        health(event)
    assert "4 work units failed" in health.sources()[0].reason


def test_what_was_noted_is_forgotten_with_the_first_success(lake: SurveyLake) -> None:
    lake.run("02-21")
    lake.run("02-21")
    lake.broken = {"b"}
    report = lake.run("02-22").sources[0]
    assert (report.work_units, {each.failures for each in report.failed_units}) == (2, {3})
    assert not list(lake.root.rglob("*.attempts.json"))
    (state,) = status(lake.config)
    assert state.work_units is not None
    assert (state.version, state.work_units.failed) == (1, 2)
    assert not any("ever committed" in each for each in state.notes)
    lake.broken = set()
    assert lake.run("02-22").ok
    lake.assert_exactly_once()


def test_what_was_noted_is_no_position(lake: SurveyLake) -> None:
    """Other partitions need no leave, and nothing of it counts as read; left behind, it means nothing."""
    lake.run("02-21")
    (path,) = lake.root.rglob("*.attempts.json")
    content = path.read_bytes()
    lake.broken = set()
    lake.work_unit = {"partition": "weekly"}
    assert lake.run("02-21").ok
    lake.assert_exactly_once()
    path.write_bytes(content)
    (state,) = status(lake.config)
    assert state.work_units is not None
    assert (state.work_units.failed, [each for each in state.notes if "ever committed" in each]) == (0, [])
    assert lake.run("02-21").ok
    lake.assert_exactly_once()


@pytest.mark.parametrize("content", [b"", b"[]", b'{"runs": "x"}', b'{"schema_version": 99}'])
def test_a_damaged_note_is_no_obstacle(lake: SurveyLake, content: bytes) -> None:
    lake.run("02-21")
    (path,) = lake.root.rglob("*.attempts.json")
    path.write_bytes(content)
    assert status(lake.config)[0].error is None
    lake.broken = set()
    assert lake.run("02-21").ok
    lake.assert_exactly_once()


def test_a_run_that_is_stopped_notes_what_failed(lake: SurveyLake) -> None:
    lake.work_unit = {"group_units": 1, "breaker_failures": 1}
    lake.run("02-21")
    assert "1 work unit failed" in noted(lake.root)["problem"]


def test_a_column_source_that_never_succeeded_says_so(tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path)
    lake.source_settings = {"null_watermark": "error"}
    lake.arrive({"id": None})
    for _ in range(3):
        assert lake.run().sources[0].error
    assert noted(tmp_path)["runs"] == 3
    for told in (status(lake.config)[0], plan(lake.config)[0]):
        assert any("3 runs in a row failed" in each and "null in every" in each for each in told.notes)
    lake.source_settings = {}
    lake.arrive({"id": 1})
    assert lake.run().ok
    assert not list(tmp_path.rglob("*.attempts.json"))
    assert not any("in a row failed" in each for each in status(lake.config)[0].notes)


def test_files_of_which_no_columns_can_be_inferred_are_told_by_status_and_plan(tmp_path: Path) -> None:
    lake = Lake(tmp_path, schema={"infer": True})
    lake.write("date=2026-01-28/1.ndjson", "not json\n")
    for _ in range(2):
        assert lake.run().sources[0].error
    for told in (status(lake.config)[0], plan(lake.config)[0]):
        assert any("2 runs in a row failed" in each and "infer" in each for each in told.notes)
    lake.arrive("date=2026-01-28/2.ndjson.gz")
    lake.run()
    assert status(lake.config)[0].version > 0
    assert not list(tmp_path.rglob("*.attempts.json"))


def test_files_that_all_fail_are_counted_up_to_the_last_attempt(tmp_path: Path) -> None:
    """With known columns their failures are in the table, which is made for them."""
    lake = Lake(tmp_path, source_settings={"max_attempts": 3})
    lake.write("date=2026-01-28/1.ndjson.gz", "").write_bytes(b"not gzip")
    for attempt in (1, 2):
        (failed,) = lake.run().sources[0].failed
        assert failed.attempts == attempt
        assert status(lake.config)[0].failed == (failed,)
    lake.run()
    assert any(isinstance(each, events.DeadLetters) for each in lake.seen)
    assert not list(tmp_path.rglob("*.attempts.json"))
