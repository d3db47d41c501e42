"""What the documents about watermarks promise, seen from outside: mirror, states, events, polls."""

from __future__ import annotations

import json
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import tidegate
from support.lake import FIELDS, Lake
from tidegate.cli.main import cli
from tidegate.observe import events
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop

DAY = "date=2026-01-28"
NEXT_DAY = "date=2026-01-29"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def mirror(lake: Lake, name: str = "events_default") -> dict[str, Any]:
    """The readable checkpoint of one source."""
    return json.loads((lake.root / f"lake/events/_tidegate/{name}_checkpoint.json").read_text())


def seen(lake: Lake, kind: type[events.Event]) -> list[Any]:
    return [event for event in lake.seen if isinstance(event, kind)]


def test_the_mirror_has_the_documented_names(lake: Lake) -> None:
    lake.arrive(f"{DAY}/1769600100-a.ndjson.gz")
    lake.arrive(f"{NEXT_DAY}/1769690000-b.ndjson.gz")
    before = int(time.time())
    assert lake.run().ok
    found = mirror(lake)
    assert found["schema_version"] == 1
    assert found["watermark"] == {"state": "Active", "value": f"{NEXT_DAY}/1769690000-b.ndjson.gz"}
    assert found["partition_watermarks"] == {DAY: "1769600100-a.ndjson.gz", NEXT_DAY: "1769690000-b.ndjson.gz"}
    assert before <= found["last_update_ts"] <= int(time.time())
    assert found["source_state"] == {"files": {}, "last_committed_file": f"{NEXT_DAY}/1769690000-b.ndjson.gz"}
    assert found["delta_version"] == -1
    lake.arrive(f"{NEXT_DAY}/1769690001-c.ndjson.gz")
    assert lake.run().ok
    assert (mirror(lake)["delta_version"], mirror(lake)["tidegate"]["table_version"]) == (0, 1)


def test_an_idle_poll_is_in_the_mirror_and_keeps_the_watermark(lake: Lake) -> None:
    lake.arrive(f"{DAY}/1.ndjson")
    lake.run()
    assert lake.run().sources[0].state == "Idle"
    assert mirror(lake)["watermark"] == {"state": "Idle", "value": f"{DAY}/1.ndjson"}
    lake.arrive(f"{DAY}/2.ndjson")
    assert lake.run().sources[0].state == "Active"


def test_an_empty_source_stays_initial_and_is_not_idle(lake: Lake) -> None:
    assert [lake.run().sources[0].state for _ in range(2)] == ["Initial", "Initial"]


@pytest.mark.parametrize(
    "tracked", [{}, {"late_files": "strict"}, {"use_watermark": False}], ids=["window", "strict", "set"]
)
def test_a_source_that_was_emptied_keeps_its_watermark_and_is_told_apart_from_an_idle_one(
    lake: Lake, tracked: dict[str, Any]
) -> None:
    lake.source_settings = tracked
    (before,) = tidegate.status(lake.config)
    assert (before.state, before.empty) == ("Initial", True)
    lake.write(f"{DAY}/notes.txt", "x")
    lake.arrive(f"{DAY}/1.ndjson")
    lake.arrive("2.ndjson")
    assert lake.run().sources[0].empty is False
    assert (lake.run().sources[0].state, tidegate.status(lake.config)[0].empty) == ("Idle", False)
    kept = mirror(lake)["watermark"]["value"]
    for path in (f"{DAY}/1.ndjson", "2.ndjson"):
        (lake.root / "data" / path).unlink()
    report = lake.run().sources[0]
    assert (report.state, report.empty, report.watermark) == ("Empty", True, kept)
    assert mirror(lake)["watermark"] == {"state": "Active", "value": kept}
    (status,) = tidegate.status(lake.config)
    assert (status.state, status.empty, status.watermark) == ("Empty", True, kept)
    shown = CliRunner().invoke(cli, ["status", str(lake.config)]).output
    assert "Empty" in shown
    assert "holds no file at all" in shown
    lake.arrive(f"{DAY}/3.ndjson")
    assert lake.run().sources[0].state == "Active"
    assert lake.run().sources[0].state == "Idle"
    lake.assert_exactly_once()


def test_every_source_of_a_pipeline_has_its_own_mirror_and_state(lake: Lake) -> None:
    lake.settings = {
        "pipelines": {
            "events": {
                "sources": {
                    name: {"source_uri": f"data/{name}/", "use_watermark": True} for name in ("asia", "europe")
                },
                "schema": {"fields": FIELDS},
                "sink": {"table_uri": "lake/events"},
            }
        }
    }
    lake.arrive(f"asia/{DAY}/1.ndjson")
    lake.arrive(f"europe/{DAY}/1.ndjson")
    assert lake.run().ok
    lake.arrive(f"asia/{DAY}/2.ndjson")
    assert {each.source: each.state for each in lake.run().sources} == {"asia": "Active", "europe": "Idle"}
    assert mirror(lake, "events_asia")["partition_watermarks"] == {DAY: "2.ndjson"}
    assert mirror(lake, "events_europe")["partition_watermarks"] == {DAY: "1.ndjson"}
    lake.assert_exactly_once()


def test_the_old_place_of_the_mirror_is_written_on_request(lake: Lake) -> None:
    lake.source_settings = {"checkpoint": {"mirror_legacy": True}}
    lake.arrive(f"{DAY}/1.ndjson")
    assert lake.run().ok
    old = lake.root / "lake/events/_blizzard/events_default_checkpoint.json"
    assert json.loads(old.read_text())["watermark"]["value"] == f"{DAY}/1.ndjson"


def test_a_file_that_fails_holds_the_watermark_and_is_read_again(lake: Lake) -> None:
    lake.pipeline_settings = {"error_handling": {"on_bad_record": "fail_file"}}
    lake.arrive(f"{DAY}/1.ndjson")
    lake.write(f"{DAY}/2.ndjson", "not json\n")
    lake.arrive(f"{DAY}/3.ndjson")
    report = lake.run()
    assert not report.ok
    assert [failed.path for failed in report.sources[0].failed] == [f"{DAY}/2.ndjson"]
    assert mirror(lake)["partition_watermarks"] == {DAY: "1.ndjson"}
    lake.assert_exactly_once()
    lake.arrive(f"{DAY}/2.ndjson")
    assert lake.run().ok
    assert mirror(lake)["partition_watermarks"] == {DAY: "3.ndjson"}
    lake.assert_exactly_once()


@pytest.mark.parametrize("late_files", ["window", "strict"])
def test_an_older_partition_is_found_although_a_newer_one_is_further_along(lake: Lake, late_files: str) -> None:
    lake.source_settings = {"late_files": late_files}
    lake.arrive(f"{DAY}/hour=13/file950.ndjson")
    lake.arrive(f"{DAY}/hour=14/file999.ndjson")
    lake.run()
    for number in range(951, 1000):
        lake.arrive(f"{DAY}/hour=13/file{number}.ndjson", records=1)
    report = lake.run().sources[0]
    assert (report.files, report.watermark) == (49, f"{DAY}/hour=14/file999.ndjson")
    lake.assert_exactly_once()


def test_a_late_file_is_read_once_and_told(lake: Lake) -> None:
    lake.arrive(f"{DAY}/1.ndjson")
    lake.arrive(f"{DAY}/3.ndjson")
    lake.run()
    lake.arrive(f"{DAY}/2.ndjson")
    lake.run()
    assert [(each.count, each.example) for each in seen(lake, events.LateFilesFound)] == [(1, f"{DAY}/2.ndjson")]
    lake.run()
    lake.assert_exactly_once()


def test_events_tell_partition_updates_filtered_files_and_state_changes(lake: Lake) -> None:
    lake.arrive(f"{DAY}/1.ndjson")
    lake.write(f"{DAY}/notes.txt", "x")
    lake.run()
    lake.run()
    moved = [(each.partition, each.before, each.after) for each in seen(lake, events.PartitionAdvanced)]
    assert moved == [(DAY, None, "1.ndjson")]
    filtered = [(each.reason, each.count, each.example) for each in seen(lake, events.FileFiltered)]
    ending = ("not an ending of the source's format", 1, f"{DAY}/notes.txt")
    assert filtered == [ending, ending, ("already read", 1, f"{DAY}/1.ndjson")]
    changes = [(each.before, each.after) for each in seen(lake, events.WatermarkStateChanged)]
    assert changes == [("Initial", "Active"), ("Active", "Idle")]
    assert {each.level for each in lake.seen if isinstance(each, events.FileFiltered)} == {"debug"}


def test_a_bounded_first_run_reads_the_look_back_and_later_runs_all_that_is_new(lake: Lake) -> None:
    lake.source_settings = {"partition_filter": {"prefix_template": "date=%Y-%m-%d", "lookback": 2}}
    today = datetime.now(UTC).date()
    old, recent = (f"date={today - timedelta(days=days)}" for days in (5, 1))
    lake.write(f"{old}/1.ndjson", '{"id": -1}\n')
    lake.arrive(f"{recent}/1.ndjson")
    assert lake.run().sources[0].files == 1
    lake.arrive(f"{recent}/2.ndjson")
    report = lake.run().sources[0]
    assert (report.files, dict(report.skipped)["partition is sealed"]) == (1, 1)
    lake.assert_exactly_once()


def test_status_tells_state_watermark_and_backlog(lake: Lake) -> None:
    lake.arrive(f"{DAY}/1.ndjson")
    lake.run()
    lake.arrive(f"{DAY}/2.ndjson")
    (status,) = tidegate.status(lake.config)
    assert (status.state, status.watermark, status.backlog_files) == ("Active", f"{DAY}/1.ndjson", 1)
    assert (status.version, status.shown_from, status.error) == (1, "mirror", None)


def test_at_most_interval_files_are_read_by_one_unit(lake: Lake) -> None:
    lake.source_settings = {"checkpoint": {"interval_files": 2}}
    for number in range(5):
        lake.arrive(f"{DAY}/{number}.ndjson", records=1)
    (planned,) = tidegate.plan(lake.config)
    assert [group.files for group in planned.plan.groups] == [2, 2, 1]


def test_a_continuous_run_polls_at_its_interval_and_finds_what_arrived(lake: Lake) -> None:
    lake.source_settings = {"poll_interval_secs": 1}
    lake.settings = {"global": {"poll_jitter_secs": 0}}
    lake.arrive(f"{DAY}/1.ndjson")
    stop = threading.Event()
    polls: list[float] = []

    def listen(event: events.Event) -> None:
        if isinstance(event, events.PollStarted):
            polls.append(time.monotonic())
        if isinstance(event, events.SourceFinished):
            lake.arrive(f"{DAY}/{len(polls) + 1}.ndjson", records=1) if len(polls) < 3 else stop.set()

    project, began = lake.project, time.monotonic()
    report = Loop(project, InProcessEngine(), 2, listen, stop).continuously(project.pipelines)
    assert report.ok
    assert [number for number, poll in enumerate(polls) if poll - began < number] == []
    lake.assert_exactly_once()


def test_jitter_is_added_to_the_interval(lake: Lake) -> None:
    lake.source_settings = {"poll_interval_secs": 1}
    lake.settings = {"global": {"poll_jitter_secs": 2}}
    stop = threading.Event()
    started: list[float] = []

    def listen(event: events.Event) -> None:
        if isinstance(event, events.PollStarted):
            started.append(time.monotonic())
            if len(started) == 2:
                stop.set()

    project, began = lake.project, time.monotonic()
    Loop(project, InProcessEngine(), 2, listen, stop).continuously(project.pipelines, jitter=lambda: 0.5)
    assert started[1] - began >= 2


def test_jitter_that_is_not_set_is_a_tenth_of_the_interval_and_half_a_minute_at_most(lake: Lake) -> None:
    assert [lake.project.jitter_of(interval) for interval in (1, 60, 300, 3600)] == [0.1, 6, 30, 30]
    lake.settings = {"global": {"poll_jitter_secs": 5}}
    assert lake.project.jitter_of(1) == 5
    lake.settings = {"global": {"poll_jitter_secs": 0}}
    assert lake.project.jitter_of(3600) == 0


def test_a_pass_that_takes_its_time_does_not_put_the_next_one_off(lake: Lake) -> None:
    lake.source_settings = {"poll_interval_secs": 2}
    lake.settings = {"global": {"poll_jitter_secs": 0}}
    began: list[float] = []
    stop = threading.Event()

    def take_time(event: events.Event) -> None:
        if isinstance(event, events.PollStarted):
            began.append(time.monotonic())
            if len(began) == 2:
                stop.set()
            time.sleep(1.5)

    Loop(lake.project, InProcessEngine(), 2, take_time, stop).continuously(lake.project.pipelines)
    assert 1.5 < began[1] - began[0] < 3.5
