"""A pass over a source, again and again, without Spark: what is read, what is recorded, what is told."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.lake import Lake
from tidegate import plan, show_watermarks, status
from tidegate.core.files.plan import FileGroup
from tidegate.observe.events import (
    FileChanged,
    FileFiltered,
    Notice,
    PartitionAdvanced,
    TasksReading,
    WatermarkStateChanged,
    WaveProgressed,
)
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import NO_NATIVE, WITHOUT_NATIVE, Loop
from tidegate.schema.literals import SWITCH
from tidegate.tasks.read_task import GroupResult, Hear, ReadTask


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path)
    for name in ("hour=11/1.ndjson", "hour=11/2.ndjson.gz", "hour=12/1.ndjson"):
        lake.arrive(f"date=2026-01-28/{name}")
    return lake


def test_a_second_pass_reads_only_what_is_new(lake: Lake) -> None:
    assert lake.run().sources[0].files == 3
    lake.arrive("date=2026-01-28/hour=12/2.ndjson")
    report = lake.run().sources[0]
    assert (report.files, report.rows, report.state) == (1, 10, "Active")
    assert lake.run().sources[0].state == "Idle"
    lake.assert_exactly_once()


def test_a_late_file_inside_the_window_is_read_once(lake: Lake) -> None:
    lake.run()
    lake.arrive("date=2026-01-28/hour=11/0.ndjson")
    (planned,) = plan(lake.config)
    assert planned.plan.late == ("date=2026-01-28/hour=11/0.ndjson",)
    lake.run()
    lake.run()
    lake.assert_exactly_once()


@pytest.mark.parametrize("name", ["1.ndjson", "1.ndjson.gz"])
def test_what_is_read_of_a_large_file_is_told_before_it_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("tidegate.tasks.task.TELL_SECONDS", 0.0)
    lake = Lake(tmp_path)
    size = lake.arrive(f"date=2026-01-28/{name}", 200_000).stat().st_size
    lake.run()
    told = [event for event in lake.seen if isinstance(event, TasksReading)]
    assert (told[-1].bytes, told[-1].rows) == (0, 0)
    assert len(told) >= 3
    assert [each.bytes for each in told[:-1]] == sorted(each.bytes for each in told[:-1])
    assert 0 < told[0].bytes < told[-2].bytes == size
    assert 0 < told[0].rows < told[-2].rows == 200_000
    (progressed,) = [event for event in lake.seen if isinstance(event, WaveProgressed)]
    assert (progressed.bytes, progressed.rows) == (size, 200_000)


def test_strict_does_not_look_for_late_files_and_says_so(lake: Lake) -> None:
    lake.source_settings = {"late_files": "strict"}
    lake.run()
    before = list(lake.expected)
    lake.arrive("date=2026-01-28/hour=11/0.ndjson")
    (planned,) = plan(lake.config)
    assert planned.plan.groups == ()
    assert any("strict" in remark for remark in planned.plan.remarks)
    lake.run()
    assert lake.ids() == before


def test_planning_touches_nothing(lake: Lake) -> None:
    config = lake.config
    before = sorted(lake.root.rglob("*"))
    plan(config)
    assert sorted(lake.root.rglob("*")) == before


def test_a_file_rewritten_between_listing_and_reading_is_read_as_it_is_now(lake: Lake) -> None:
    class Rewriting(InProcessEngine):
        done = False

        def read(self, task: ReadTask, group: FileGroup, hear: Hear) -> tuple[GroupResult, ...]:
            if not self.done:
                self.done = True
                lake.write("date=2026-01-28/hour=12/1.ndjson", '{"id": 77, "event": "rewritten"}\n')
            return super().read(task, group, hear)

    report = Loop(lake.project, Rewriting(), 2, lake.seen.append).once(lake.project.pipelines)
    assert report.ok
    assert [event.path for event in lake.seen if isinstance(event, FileChanged)] == ["date=2026-01-28/hour=12/1.ndjson"]
    assert lake.ids() == sorted([*range(20), 77])


def test_a_file_removed_between_listing_and_reading_does_not_stop_the_others(lake: Lake) -> None:
    class Removing(InProcessEngine):
        def read(self, task: ReadTask, group: FileGroup, hear: Hear) -> tuple[GroupResult, ...]:
            (lake.root / "data/date=2026-01-28/hour=11/1.ndjson").unlink(missing_ok=True)
            return super().read(task, group, hear)

    assert Loop(lake.project, Removing(), 2).once(lake.project.pipelines).ok
    assert lake.ids() == list(range(10, 30))


def test_events_tell_how_partitions_advance_and_when_the_source_goes_idle(lake: Lake) -> None:
    lake.run()
    advanced = {event.partition: event.after for event in lake.seen if isinstance(event, PartitionAdvanced)}
    assert advanced == {"date=2026-01-28/hour=11": "2.ndjson.gz", "date=2026-01-28/hour=12": "1.ndjson"}
    lake.seen.clear()
    lake.run()
    states = [(event.before, event.after) for event in lake.seen if isinstance(event, WatermarkStateChanged)]
    assert states == [("Active", "Idle")]
    assert [event.count for event in lake.seen if isinstance(event, FileFiltered)]


def test_the_mirror_shows_the_state_with_the_names_people_know(lake: Lake) -> None:
    lake.run()
    mirror = json.loads((lake.root / "lake/events/_tidegate/events_default_checkpoint.json").read_text())
    assert mirror["schema_version"] == 1
    assert mirror["watermark"] == {"state": "Active", "value": "date=2026-01-28/hour=12/1.ndjson"}
    assert mirror["partition_watermarks"] == {
        "date=2026-01-28/hour=11": "2.ndjson.gz",
        "date=2026-01-28/hour=12": "1.ndjson",
    }
    assert mirror["source_state"] == {"files": {}, "last_committed_file": "date=2026-01-28/hour=12/1.ndjson"}
    assert mirror["last_update_ts"] > 1_600_000_000


def test_polls_are_counted_over_processes(lake: Lake) -> None:
    for _ in range(4):
        lake.run()
    mirror = json.loads((lake.root / "lake/events/_tidegate/events_default_checkpoint.json").read_text())
    assert mirror["tidegate"]["polls"] == 4


def test_status_and_watermarks_show_position_and_backlog(lake: Lake) -> None:
    (fresh,) = status(lake.config)
    assert (fresh.state, fresh.version, fresh.backlog_files) == ("Initial", 0, 3)
    lake.run()
    lake.arrive("date=2026-01-28/hour=13/1.ndjson")
    (now,) = status(lake.config)
    assert (now.state, now.version, now.table_version, now.backlog_files) == ("Active", 1, 0, 1)
    (view,) = show_watermarks(lake.config, "events")
    assert view.partitions["date=2026-01-28/hour=11"] == "2.ndjson.gz"


def test_a_cold_start_with_a_filter_seals_what_is_older(tmp_path: Path) -> None:
    lake = Lake(tmp_path, {"partition_filter": {"prefix_template": "date=%Y-%m-%d", "lookback": 1}})
    lake.arrive("date=2020-01-01/1.ndjson")
    assert lake.run().sources[0].files == 0
    lake.source_settings = {}
    report = lake.run()
    assert (report.ok, report.sources[0].files) == (True, 0)


def test_what_a_task_did_not_reach_is_read_by_the_next_one(lake: Lake) -> None:
    class Slow(InProcessEngine):
        tasks_begun = 0

        def read(self, task: ReadTask, group: FileGroup, hear: Hear) -> tuple[GroupResult, ...]:
            self.tasks_begun += 1
            return super().read(replace(task, seconds=0.0), group, hear)

    engine = Slow()
    report = Loop(lake.project, engine, 1).once(lake.project.pipelines).sources[0]
    assert (engine.tasks_begun, report.commits, report.rows) == (3, 1, 30)
    lake.assert_exactly_once()


def test_a_stopped_run_keeps_what_it_committed_and_is_not_ok(lake: Lake) -> None:
    stop = threading.Event()
    stop.set()
    report = Loop(lake.project, InProcessEngine(), 2, stop=stop).once(lake.project.pipelines)
    assert (report.ok, report.sources) == (False, ())


def test_environment_variables_reach_the_configuration(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANDING", str(lake.root / "data"))
    lake.source_settings = {"source_uri": "${LANDING}"}
    assert lake.run().sources[0].files == 3
    assert "LANDING" in os.environ


def test_a_restored_table_stops_runs_until_it_is_accepted(lake: Lake) -> None:
    from deltalake import DeltaTable

    from tidegate import recover

    lake.run()
    lake.arrive("date=2026-01-28/hour=12/2.ndjson")
    lake.run()
    DeltaTable(str(lake.root / "lake/events")).restore(0)
    assert "restored" in (lake.run().sources[0].error or "")
    (found,) = recover(lake.config, "events")
    assert found.verdict == "fail"
    (accepted,) = recover(lake.config, "events", accept=["restore"])
    assert accepted.verdict == "ok", accepted
    assert lake.run().ok
    assert lake.ids() == list(range(30))


def test_a_source_that_moved_stops_runs_until_it_is_accepted(lake: Lake) -> None:
    from tidegate import recover

    lake.run()
    (lake.root / "data").rename(lake.root / "moved")
    lake.source_settings = {"source_uri": "moved/"}
    report = lake.run().sources[0]
    assert "source_uri was" in (report.error or "")
    assert report.exit_code == 5
    (accepted,) = recover(lake.config, "events", accept=["identity"])
    assert accepted.verdict == "ok", accepted
    assert lake.run().sources[0].state == "Idle"
    lake.assert_exactly_once()


def test_a_plan_says_that_a_run_would_stop(lake: Lake) -> None:
    lake.run()
    written = list((lake.root / "lake/events").rglob("*.parquet"))
    lake.arrive("date=2026-01-28/hour=12/2.ndjson")
    lake.sink_settings = {"partition_by": {"prefix_template": "date=%Y-%m-%d"}}
    (planned,) = plan(lake.config)
    assert any("a run would stop" in note and "partitioned" in note for note in planned.notes)
    assert "partitioned" in (lake.run().sources[0].error or "")
    assert list((lake.root / "lake/events").rglob("*.parquet")) == written


def test_when_every_file_is_bad_the_state_stays_bounded_and_the_run_says_so(tmp_path: Path) -> None:
    lake = Lake(tmp_path, {"max_islands": 10, "checkpoint": {"interval_files": 5}})
    lake.pipeline_settings = {"error_handling": {"on_bad_record": "fail_file"}}
    for day in range(1, 10):
        for number in range(5):
            lake.write(f"date=2026-01-{day:02d}/{number}.ndjson", "no json\n")
    report = lake.run().sources[0]
    assert 10 <= len(report.failed) <= 20
    (planned,) = plan(lake.config)
    assert any("max_islands" in note for note in planned.plan.notes)
    assert lake.run().sources[0].rows == 0
    assert len(lake.run().sources[0].failed) <= 20


@pytest.mark.parametrize(("driver", "text"), [(threading, WITHOUT_NATIVE), (None, NO_NATIVE)])
def test_tasks_without_the_native_reader_are_told_once(
    driver: Any, text: str, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, "0")  # on purpose: nothing to tell
    lake.run()
    assert not any(isinstance(each, Notice) for each in lake.seen)
    monkeypatch.setenv(SWITCH, "1")
    monkeypatch.setattr("tidegate.tasks.task.find_native", lambda: None)
    monkeypatch.setattr("tidegate.runs.loop.find_native", lambda: driver)
    running = Loop(lake.project, InProcessEngine(), 2, lake.seen.append)
    for number in range(3):
        lake.arrive(f"date=2026-01-28/hour=13/{number}.ndjson")
        running.once(lake.project.pipelines)
    assert [each for each in lake.seen if isinstance(each, Notice)] == [Notice("events", "default", text)]
    lake.assert_exactly_once()
