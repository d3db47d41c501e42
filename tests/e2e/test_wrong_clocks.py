"""A clock that was ahead once: what it sealed is told until it is repaired, and that loses and doubles nothing."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from support.lake import Lake
from support.reconciling import compare, ingest, places_of
from support.staging import commit
from tidegate import RunReport, SourceStatus, plan, status
from tidegate.cli.main import cli
from tidegate.core.files.state import PathState
from tidegate.observe.events import FutureSealFound
from tidegate.observe.health_listener import HealthListener
from tidegate.observe.metrics import Metrics
from tidegate.observe.pages import RecordedPages
from tidegate.runs.file_source import watermarks_of
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop

NOW = datetime.now(UTC)
AHEAD = NOW + timedelta(days=120)
FILTER = {"partition_filter": {"prefix_template": "date=%Y-%m-%d", "lookback": 2}}


def day(moment: datetime) -> str:
    return f"date={moment:%Y-%m-%d}"


TODAY, LATER = day(NOW), day(AHEAD)


def run(lake: Lake, now: datetime = NOW) -> RunReport:
    """One pass with the clock at ``now``."""
    lake.seen.clear()
    report = Loop(lake.project, InProcessEngine(), 2, lake.seen.append, clock=lambda: now).once(lake.project.pipelines)
    assert report.ok
    return report


def arrive_ahead(lake: Lake, path: str, moment: datetime) -> None:
    """A file that a machine with the same wrong clock has written."""
    file = lake.arrive(path)
    os.utime(file, (moment.timestamp(), moment.timestamp()))


def state(lake: Lake) -> PathState:
    (place,) = places_of(lake.project)
    return watermarks_of(place.positions.open(read_only=True))


def told(lake: Lake) -> list[FutureSealFound]:
    return [event for event in lake.seen if isinstance(event, FutureSealFound)]


def shown(lake: Lake) -> SourceStatus:
    (only,) = status(lake.config)
    return only


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Today's folder is known; then one run with the clock ahead reads one file dated that far ahead."""
    lake = Lake(tmp_path)
    lake.arrive(f"{day(NOW - timedelta(days=60))}/f0.ndjson")
    lake.arrive(f"{TODAY}/f1.ndjson")
    run(lake)
    arrive_ahead(lake, f"{LATER}/f2.ndjson", AHEAD)
    run(lake, AHEAD)
    lake.arrive(f"{TODAY}/f3.ndjson")
    return lake


def test_what_a_clock_that_was_ahead_has_sealed_is_told_at_each_run(lake: Lake) -> None:
    for _ in range(2):
        assert run(lake).sources[0].files == 0
        (event,) = told(lake)
        assert (event.prefix, event.folder) == ("", LATER)
        assert event.below == f"{AHEAD - timedelta(days=48):%Y-%m-%d}T00:00:00Z"
        assert "tidegate reconcile --ingest" in event.text


def test_plan_tells_it_in_words_and_in_json(lake: Lake) -> None:
    (made,) = plan(lake.config)
    (seal,) = made.to_json()["plan"]["future_seals"]
    assert (seal["prefix"], seal["folder"]) == ("", LATER)
    shown = CliRunner().invoke(cli, ["plan", str(lake.config)]).output
    assert "the clock was ahead" in " ".join(shown.split())


def test_copies_that_keep_old_times_leave_folders_open_and_plan_says_why(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for back in range(3):
        arrive_ahead(lake, f"{day(NOW - timedelta(days=back))}/f.ndjson", NOW - timedelta(days=400))
    (made,) = plan(lake.config)
    (remark,) = [each for each in made.to_json()["plan"]["remarks"] if "are not sealed" in each]
    assert "copies kept the times of their originals" in remark
    lake.arrive(f"{TODAY}/g.ndjson")
    (made,) = plan(lake.config)
    assert not [each for each in made.to_json()["plan"]["remarks"] if "are not sealed" in each]


def test_status_and_health_do_not_look_well(lake: Lake) -> None:
    found = shown(lake)
    assert (found.lag_seconds, found.backlog_complete, len(found.future_seals)) == (None, False, 1)
    row = next(
        line for line in CliRunner().invoke(cli, ["status", str(lake.config)]).output.splitlines() if "?" in line
    )
    assert row.split().count("?") == 2
    data = json.loads(CliRunner().invoke(cli, ["status", str(lake.config), "--json"]).output)
    assert data["sources"][0]["future_seals"]
    pages = RecordedPages(lambda: status(lake.config), 60.0)
    assert [each.healthy for each in pages.sources()] == [False]
    assert not [each for each in pages.families() if each.metric.name == "watermark_lag_seconds" and each.values]


def test_a_running_process_is_unhealthy_and_its_lag_grows(lake: Lake) -> None:
    time = [1000.0]
    health, metrics = HealthListener({("events", "default"): 60.0}, lambda: time[0]), Metrics(clock=lambda: time[0])
    run(lake)
    for event in lake.seen:
        health(event)
        metrics(event)
    time[0] += 30
    assert [each.healthy for each in health.sources()] == [False]
    assert lag(metrics) == 30
    ingest(lake.project)
    run(lake)
    for event in lake.seen:
        health(event)
        metrics(event)
    assert [each.healthy for each in health.sources()] == [True]
    assert lag(metrics) == 0


def lag(metrics: Metrics) -> float:
    (family,) = [each for each in metrics.families() if each.metric.name == "watermark_lag_seconds"]
    (value,) = family.values.values()
    return float(value)


def test_reconcile_reads_what_was_skipped_and_opens_the_folders_again(lake: Lake) -> None:
    found = compare(lake.project)
    assert (found.ok, found.sources[0].late.count, len(found.sources[0].future_seals)) == (False, 1, 1)
    repaired = ingest(lake.project)
    assert repaired.ok
    assert (repaired.sources[0].ingested_files, repaired.sources[0].future_seals) == (1, ())
    assert any("open again" in note for note in repaired.sources[0].notes)
    lake.assert_exactly_once()

    assert run(lake).sources[0].files == 0
    assert told(lake) == []
    assert (shown(lake).future_seals, shown(lake).lag_seconds) == ((), 0.0)
    lake.arrive(f"{TODAY}/f4.ndjson")
    lake.arrive(f"{TODAY}/f0-late.ndjson")
    lake.arrive(f"{day(NOW - timedelta(days=3))}/f5.ndjson")
    assert run(lake).sources[0].files == 3
    lake.assert_exactly_once()
    assert compare(lake.project).ok


def test_after_the_repair_only_what_is_old_is_sealed(lake: Lake) -> None:
    ingest(lake.project)
    after = state(lake)
    assert after.sealed[""].below == _midnight(NOW - timedelta(days=48))
    assert set(after.partition_watermarks) == {TODAY, LATER}


def test_a_second_repair_changes_nothing(lake: Lake) -> None:
    ingest(lake.project)
    before = state(lake)
    assert ingest(lake.project).sources[0].commits == 0
    assert state(lake) == before


def test_a_file_that_cannot_be_read_is_left_to_the_next_run(lake: Lake) -> None:
    lake.write(f"{TODAY}/f4.ndjson.gz", "x").write_bytes(b"not gzip")
    repaired = ingest(lake.project)
    assert [each.path for each in repaired.sources[0].failed] == [f"{TODAY}/f4.ndjson.gz"]
    assert f"{TODAY}/f4.ndjson.gz" in state(lake).files
    lake.arrive(f"{TODAY}/f4.ndjson.gz")
    assert run(lake).sources[0].files == 1
    lake.assert_exactly_once()


def test_with_strict_late_files_the_repair_doubles_nothing(tmp_path: Path) -> None:
    lake = Lake(tmp_path, source_settings={"late_files": "strict"})
    lake.arrive(f"{TODAY}/f1.ndjson")
    run(lake)
    arrive_ahead(lake, f"{LATER}/f2.ndjson", AHEAD)
    run(lake, AHEAD)
    lake.arrive(f"{TODAY}/f3.ndjson")
    assert ingest(lake.project).sources[0].ingested_files == 1
    lake.arrive(f"{TODAY}/f4.ndjson")
    run(lake)
    lake.assert_exactly_once()


@pytest.mark.parametrize(
    ("folder", "ahead"),
    [
        ("date=%Y-%m-%d/hour=%H", timedelta(days=10)),
        ("month=%Y-%m", timedelta(days=366 * 5)),
        ("year=%Y/month=%m/day=%d", timedelta(days=120)),
        ("region=eu/date=%Y-%m-%d", timedelta(days=120)),
    ],
)
def test_every_layout_is_told_and_repaired(tmp_path: Path, folder: str, ahead: timedelta) -> None:
    lake = Lake(tmp_path)
    lake.arrive(f"{NOW:{folder}}/f1.ndjson")
    run(lake)
    arrive_ahead(lake, f"{NOW + ahead:{folder}}/f2.ndjson", NOW + ahead)
    run(lake, NOW + ahead)
    lake.arrive(f"{NOW:{folder}}/f3.ndjson")
    run(lake)
    assert len(told(lake)) == 1
    ingest(lake.project)
    lake.arrive(f"{NOW:{folder}}/f4.ndjson")
    run(lake)
    assert told(lake) == []
    lake.assert_exactly_once()


def test_a_clock_that_was_ahead_by_less_than_the_lateness_is_told_too(tmp_path: Path) -> None:
    """What it sealed lies in the past, but is not as old as ``lateness`` promises."""
    lake = Lake(tmp_path)
    lake.arrive(f"{TODAY}/f1.ndjson")
    lake.arrive(f"{day(NOW - timedelta(days=20))}/f1.ndjson")
    run(lake)
    arrive_ahead(lake, f"{day(NOW + timedelta(days=40))}/f2.ndjson", NOW + timedelta(days=40))
    run(lake, NOW + timedelta(days=40))
    lake.arrive(f"{day(NOW - timedelta(days=20))}/f3.ndjson")
    assert run(lake).sources[0].files == 0
    assert [event.folder for event in told(lake)] == [day(NOW + timedelta(days=40))]
    ingest(lake.project)
    run(lake)
    assert told(lake) == []
    lake.assert_exactly_once()


def test_a_folder_dated_ahead_alone_seals_nothing_and_is_read(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.arrive(f"{TODAY}/f1.ndjson")
    lake.arrive(f"{LATER}/f2.ndjson")
    assert run(lake).sources[0].files == 2
    lake.arrive(f"{TODAY}/f3.ndjson")
    assert run(lake).sources[0].files == 1
    assert told(lake) == []
    lake.assert_exactly_once()


def test_a_clock_that_is_ahead_of_the_files_seals_nothing(tmp_path: Path) -> None:
    """The store knows when the file was written: its folder is dated ahead, whatever this machine's clock says."""
    lake = Lake(tmp_path)
    lake.arrive(f"{TODAY}/f1.ndjson")
    run(lake)
    lake.arrive(f"{LATER}/f2.ndjson")
    assert run(lake, AHEAD).sources[0].files == 1
    lake.arrive(f"{TODAY}/f3.ndjson")
    assert run(lake, AHEAD).sources[0].files == 1
    lake.arrive(f"{TODAY}/f4.ndjson")
    assert run(lake).sources[0].files == 1
    assert told(lake) == []
    assert state(lake).sealed[""].below < NOW
    lake.assert_exactly_once()


@pytest.mark.parametrize("are_files_ahead", [False, True])
def test_staged_delivery_seals_and_tells_in_the_same_way(tmp_path: Path, are_files_ahead: bool) -> None:
    lake = Lake(tmp_path, pipeline_settings={"delivery": "staged"})
    lake.arrive(f"{TODAY}/f1.ndjson")
    run(lake)
    commit(lake)
    arrive_ahead(lake, f"{LATER}/f2.ndjson", AHEAD if are_files_ahead else NOW)
    assert run(lake, AHEAD).sources[0].staged == 1
    commit(lake)
    lake.arrive(f"{TODAY}/f3.ndjson")
    assert run(lake).sources[0].files == (not are_files_ahead)
    assert len(told(lake)) == are_files_ahead
    commit(lake)
    ingest(lake.project)
    lake.arrive(f"{TODAY}/f4.ndjson")
    assert run(lake).sources[0].files == 1
    assert told(lake) == []
    commit(lake)
    lake.assert_exactly_once()


def test_old_files_in_old_folders_seal_as_ever(tmp_path: Path) -> None:
    lake = Lake(tmp_path, source_settings={"lateness": "P2D"})
    for number in range(1, 6):
        written = datetime(2024, 5, number, 12, tzinfo=UTC)
        arrive_ahead(lake, f"{day(written)}/f.ndjson", written)
    run(lake)
    assert state(lake).sealed[""].below == datetime(2024, 5, 3, tzinfo=UTC)


def test_files_without_a_time_do_not_keep_folders_open(tmp_path: Path) -> None:
    lake = Lake(tmp_path, source_settings={"lateness": "P2D"})
    for number in range(1, 6):
        arrive_ahead(lake, f"date=2024-05-{number:02d}/f.ndjson", datetime(1970, 1, 1, tzinfo=UTC))
    run(lake)
    assert state(lake).sealed[""].below == datetime(2024, 5, 3, tzinfo=UTC)


def test_a_plan_for_a_time_in_the_past_is_no_wrong_clock(tmp_path: Path) -> None:
    lake = Lake(tmp_path, source_settings={"lateness": "P1D"})
    lake.arrive(f"{TODAY}/f1.ndjson")
    run(lake)
    (made,) = plan(lake.config, now=NOW - timedelta(days=30))
    assert "future_seals" not in made.to_json()["plan"]


def test_a_first_run_with_the_clock_ahead_is_begun_again_if_it_read_nothing(tmp_path: Path) -> None:
    lake = Lake(tmp_path, source_settings=FILTER)
    lake.arrive(f"{TODAY}/f1.ndjson")
    assert run(lake, AHEAD).sources[0].files == 0
    assert shown(lake).backlog_files == 1
    assert compare(lake.project).sources[0].waiting.count == 1
    assert run(lake).sources[0].files == 1
    assert told(lake) == []
    lake.assert_exactly_once()


def test_a_first_run_with_the_clock_ahead_that_read_something_is_told_and_repaired(tmp_path: Path) -> None:
    lake = Lake(tmp_path, source_settings=FILTER)
    old = lake.arrive(f"{day(NOW - timedelta(days=30))}/f0.ndjson")
    del lake.expected[:]
    lake.arrive(f"{TODAY}/f1.ndjson")
    lake.arrive(f"{LATER}/f2.ndjson")
    assert run(lake, AHEAD).sources[0].files == 1
    assert run(lake).sources[0].files == 0
    assert len(told(lake)) == 1
    repaired = ingest(lake.project)
    assert (repaired.sources[0].ingested_files, repaired.sources[0].excluded.count) == (1, 1)
    lake.arrive(f"{TODAY}/f3.ndjson")
    run(lake)
    assert told(lake) == []
    assert old.exists()
    lake.assert_exactly_once()


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)
