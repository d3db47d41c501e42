"""Everything in a source against everything committed: what is late is found, and read exactly once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.changes import appended, moved
from support.errors import check_names, raises
from support.lake import FIELDS, Lake
from support.reconciling import compare, ingest, places_of
from tidegate import SourceComparison, list_letters, reconcile
from tidegate.core.files.plan import FileGroup
from tidegate.core.files.state import Active, drop_window, encode_paths
from tidegate.errors import ConfigError, RunStopped, TidegateError
from tidegate.observe.events import CommitContested, ComparisonProgressed, Event, Notice
from tidegate.parquet.parquet_file import uuid7
from tidegate.protocol.change import Change, Coverage, DataFile, NextState
from tidegate.protocol.ledger import Ledger
from tidegate.runs.file_source import watermarks_of
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.reconcile import ReconcileOptions, Reconciling
from tidegate.runs.replay_record import fence
from tidegate.tasks.read_task import GroupResult, Hear, ReadTask

HOUR = "date=2026-01-28/hour=12"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Ten files are in; the window remembers two of them, so that what comes below is late for good."""
    lake = Lake(tmp_path, source_settings={"late_window": 2})
    for number in range(10, 20):
        lake.arrive(f"{HOUR}/{number}.ndjson")
    assert lake.run().ok
    return lake


def found(lake: Lake) -> SourceComparison:
    (source,) = compare(lake.project).sources
    return source


def state(lake: Lake) -> dict[str, object]:
    (place,) = places_of(lake.project)
    return dict(place.positions.open(read_only=True).state or {})


def position(lake: Lake) -> int:
    (place,) = places_of(lake.project)
    return place.positions.open(read_only=True).version


def test_when_everything_is_in_all_is_well(lake: Lake) -> None:
    report = compare(lake.project)
    (source,) = report.sources
    assert report.ok
    assert (source.listed.count, source.ingested) == (10, 10)
    assert not source.late.count + source.changed.count + source.waiting.count + source.gone.count
    assert source.notes == ()


def test_a_source_that_never_ran_waits(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.arrive(f"{HOUR}/1.ndjson")
    report = compare(lake.project)
    assert report.ok
    assert (report.sources[0].waiting.count, report.sources[0].version) == (1, 0)
    assert report.tables[0].notes == ("there is no table yet, so no files below it were checked",)


def test_a_missing_source_is_an_error_and_nothing_is_gone(lake: Lake) -> None:
    (lake.root / "data").rename(lake.root / "elsewhere")
    project = replace(lake.project)
    (lake.root / "data").rmdir()
    report = compare(project)
    assert not report.ok
    check_names(report.sources[0].error, "source_uri")
    assert report.sources[0].exit_code == 4


def test_a_file_below_the_window_is_late_until_it_is_ingested_and_then_never_again(lake: Lake) -> None:
    lake.arrive(f"{HOUR}/11-late.ndjson")
    lake.run()
    assert found(lake).late.names == (f"{HOUR}/11-late.ndjson",)
    assert not compare(lake.project).ok
    before = state(lake)
    report = ingest(lake.project)
    (source,) = report.sources
    assert report.ok
    assert (source.ingested_files, source.ingested_rows, source.commits, source.late.count) == (1, 10, 1, 0)
    assert (source.ingested, source.listed.count) == (11, 11)
    lake.assert_exactly_once()
    assert state(lake) == before
    version = position(lake)
    again = ingest(lake.project)
    assert again.ok
    assert (again.sources[0].commits, position(lake)) == (0, version)
    assert lake.run().sources[0].files == 0
    lake.assert_exactly_once()


def test_the_ledger_says_that_reconcile_read_it(lake: Lake) -> None:
    lake.arrive(f"{HOUR}/11-late.ndjson")
    ingest(lake.project)
    (place,) = places_of(lake.project)
    *_, last = Ledger(place.table_store, place.key).entries()
    assert last.action == "reconcile"
    assert [(each.file, each.end, each.eof) for each in last.coverage] == [(f"{HOUR}/11-late.ndjson", 10, True)]


def test_a_late_file_inside_the_window_is_left_to_the_next_run(lake: Lake) -> None:
    lake.arrive(f"{HOUR}/18-late.ndjson")
    report = ingest(lake.project)
    assert report.ok
    assert (report.sources[0].waiting.names, report.sources[0].commits) == ((f"{HOUR}/18-late.ndjson",), 0)
    assert lake.run().sources[0].files == 1
    lake.assert_exactly_once()
    assert found(lake).waiting.count == 0


def test_files_in_folders_that_polls_do_not_see_are_told(tmp_path: Path) -> None:
    lake = Lake(tmp_path, source_settings={"late_files": "strict"})
    lake.arrive("d=1/m.ndjson")
    lake.run()
    lake.arrive("d=1/a/1.ndjson")
    assert lake.run().sources[0].files == 0
    source = found(lake)
    assert (source.waiting.count, source.late.count) == (1, 0)
    (note,) = source.notes
    assert "1 waiting file lies in folders inside a partition" in note
    assert "every 100th poll" in note
    lake.source_settings = {"late_files": "strict", "deep_listing_every": 1}
    assert lake.run().sources[0].files == 1
    lake.source_settings = {"late_files": "strict"}
    lake.arrive("d=1/z/1.ndjson")
    lake.arrive("d=1/0/1.ndjson")
    assert found(lake).notes == ()
    assert lake.run().sources[0].files == 2
    lake.assert_exactly_once()


def test_new_files_wait_and_are_not_read_by_reconcile(lake: Lake) -> None:
    lake.arrive(f"{HOUR}/99.ndjson")
    lake.arrive(f"{HOUR}/11-late.ndjson")
    report = ingest(lake.project)
    assert report.ok
    assert (report.sources[0].ingested_files, report.sources[0].waiting.count) == (1, 1)
    assert lake.run().sources[0].files == 1
    lake.assert_exactly_once()


def test_with_strict_late_files_whatever_came_below_the_watermark_is_late(tmp_path: Path) -> None:
    lake = Lake(tmp_path, source_settings={"late_files": "strict"})
    lake.arrive(f"{HOUR}/5.ndjson")
    lake.run()
    lake.arrive(f"{HOUR}/4.ndjson")
    lake.run()
    assert ingest(lake.project).sources[0].ingested_files == 1
    lake.run()
    lake.assert_exactly_once()


def test_a_late_folder_is_read_and_no_longer_told_about(tmp_path: Path) -> None:
    lake = Lake(tmp_path, source_settings={"lateness": "2 periods"})
    for day in range(10, 20):
        lake.arrive(f"date=2026-01-{day}/1.ndjson")
    lake.run()
    lake.arrive("date=2026-01-03/1.ndjson")
    lake.arrive("date=2026-01-11/0.ndjson")

    def told() -> list[str]:
        lake.seen.clear()
        lake.run()
        return [event.text for event in lake.seen if isinstance(event, Notice) and "came late" in event.text]

    assert len(told()) == 1
    report = ingest(lake.project)
    assert report.ok
    assert report.sources[0].ingested_files == 2
    lake.assert_exactly_once()
    assert told() == []
    lake.arrive("date=2026-01-04/1.ndjson")
    assert len(told()) == 1
    assert ingest(lake.project).ok
    lake.assert_exactly_once()
    assert told() == []


def test_what_the_filter_left_out_is_excluded_until_the_filter_goes(tmp_path: Path) -> None:
    lake = Lake(tmp_path, source_settings={"partition_filter": {"prefix_template": "date=%Y-%m-%d", "lookback": 1}})
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    lake.arrive("date=2020-01-01/1.ndjson")
    lake.arrive(f"date={today}/1.ndjson")
    lake.run()
    assert ingest(lake.project).ok
    assert found(lake).excluded.names == ("date=2020-01-01/1.ndjson",)
    lake.source_settings = {}
    assert found(lake).late.count == 1
    assert ingest(lake.project).ok
    lake.assert_exactly_once()


def test_a_fence_before_the_first_run_does_not_move_where_the_filter_began(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.arrive("date=2026-01-28/1.ndjson")
    lake.run()
    lake.settings = {
        "pipelines": {
            "other": {
                "source": {
                    "source_uri": "data/",
                    "use_watermark": True,
                    "partition_filter": {"prefix_template": "date=%Y-%m-%d", "lookback": 1},
                },
                "schema": {"fields": FIELDS},
                "sink": {"table_uri": "lake/events"},
            }
        }
    }
    fence(places_of(lake.project))
    lake.arrive(f"date={datetime.now(UTC):%Y-%m-%d}/1.ndjson")
    lake.run()
    source = found(lake)
    assert (source.version, source.excluded.count, source.late.count, source.ingested) == (2, 1, 0, 1)


def test_records_that_come_from_dead_letters_do_not_make_a_finished_file_unfinished(lake: Lake) -> None:
    (place,) = places_of(lake.project)
    opened = place.positions.open()
    info = place.tracker.store.head(f"{HOUR}/12.ndjson")
    again = Coverage(f"{HOUR}/12.ndjson", info.size, info.etag, 0, 1, False, 1)
    state = dict(opened.state or {})
    place.positions.commit(opened, moved(state, embedded=drop_window(state), coverage=(again,), action="dlq retry"))
    assert ingest(lake.project).sources[0].commits == 0
    assert found(lake).ingested == 10


def test_changed_gone_and_unfinished_files_are_told_apart(lake: Lake) -> None:
    lake.write(f"{HOUR}/12.ndjson", '{"id": 1000000}\n')
    (lake.root / "data" / HOUR / "13.ndjson").unlink()
    (lake.root / "data" / HOUR / "98.ndjson.gz").write_bytes(b"no gzip")
    lake.run()
    source = found(lake)
    assert source.changed.names == (f"{HOUR}/12.ndjson",)
    assert source.gone.names == (f"{HOUR}/13.ndjson",)
    assert source.unfinished.names == (f"{HOUR}/98.ndjson.gz",)
    assert source.ingested == 8
    assert not compare(lake.project).ok
    (lake.root / "data" / HOUR / "12.ndjson").unlink()
    assert compare(lake.project).ok


def test_a_late_file_that_cannot_be_read_stays_late_and_is_named(lake: Lake) -> None:
    (lake.root / "data" / HOUR / "11-bad.ndjson.gz").write_bytes(b"no gzip")
    lake.arrive(f"{HOUR}/11-good.ndjson")
    report = ingest(lake.project)
    (source,) = report.sources
    assert not report.ok
    assert (source.ingested_files, source.late.names) == (1, (f"{HOUR}/11-bad.ndjson.gz",))
    assert [each.path for each in source.failed] == [f"{HOUR}/11-bad.ndjson.gz"]
    lake.assert_exactly_once()


def test_bad_lines_of_a_late_file_become_letters(lake: Lake) -> None:
    lake.write(f"{HOUR}/11-mixed.ndjson", '{"id": 500}\nnot json\n')
    lake.expected.append(500)
    assert ingest(lake.project).ok
    lake.assert_exactly_once()
    (letter,) = list_letters(lake.config, "events")
    assert (letter.file, letter.line) == (f"{HOUR}/11-mixed.ndjson", 2)


def test_nothing_is_late_where_every_path_is_remembered(tmp_path: Path) -> None:
    lake = Lake(tmp_path, source_settings={"use_watermark": False})
    for number in range(3):
        lake.arrive(f"{number}.ndjson")
    assert lake.run().ok
    lake.arrive("0-before.ndjson")
    lake.write("1.ndjson", '{"id": 77}\n')
    source = found(lake)
    assert (source.ingested, source.late.count, source.waiting.count) == (2, 0, 1)
    assert source.changed.names == ("1.ndjson",)


def test_an_empty_late_file_is_in_the_ledger_afterwards(lake: Lake) -> None:
    lake.write(f"{HOUR}/11-empty.ndjson", "")
    assert ingest(lake.project).sources[0].ingested_files == 1
    assert found(lake).late.count == 0


def test_the_rest_of_a_late_file_is_read_where_its_committed_part_ends(lake: Lake) -> None:
    path = lake.arrive(f"{HOUR}/11-part.ndjson")
    (place,) = places_of(lake.project)
    opened = place.positions.open()
    info = place.tracker.store.head(f"{HOUR}/11-part.ndjson")
    rows = pa.table({"id": pa.array(lake.expected[-10:-7])}, schema=pa.schema([pa.field("id", pa.int64(), False)]))
    name = f"{uuid7()}.parquet"
    file = lake.root / "lake" / "events" / name
    pq.write_table(rows, file)
    covered = Coverage(f"{HOUR}/11-part.ndjson", info.size, info.etag, 0, 3, False, 3)
    place.positions.commit(
        opened,
        appended(
            dict(opened.state or {}),
            [DataFile(name, file.stat().st_size, 3, {})],
            rows.schema,
            embedded=drop_window(dict(opened.state or {})),
            coverage=(covered,),
            action="reconcile",
        ),
    )
    assert found(lake).late.names == (f"{HOUR}/11-part.ndjson",)
    assert ingest(lake.project).sources[0].ingested_rows == 7
    lake.assert_exactly_once()
    assert path.exists()
    assert found(lake).late.count == 0


def test_a_gap_in_the_ledger_makes_files_unexplained_and_nothing_is_read_twice(lake: Lake) -> None:
    lake.arrive(f"{HOUR}/20.ndjson")
    lake.run()
    folder = lake.root / "lake" / "events" / "_tidegate" / "events" / "default"
    next(folder.glob("00000000000000000001-*.json")).unlink()
    report = ingest(lake.project)
    (source,) = report.sources
    assert source.unexplained.count == 10
    assert (source.late.count, source.commits) == (0, 0)
    assert any("the ledger has gaps: position 1" in note for note in source.notes)
    lake.assert_exactly_once()


def test_what_a_person_moved_the_watermark_over_is_unexplained_not_late(lake: Lake) -> None:
    lake.write(f"{HOUR}/25.ndjson", '{"id": 1000000}\n')
    lake.arrive(f"{HOUR}/11-late.ndjson")
    (place,) = places_of(lake.project)
    opened = place.positions.open()
    before = watermarks_of(opened)
    moved = encode_paths(
        replace(before, watermark=Active(f"{HOUR}/30.ndjson"), partition_watermarks={HOUR: "30.ndjson"}, late_window={})
    )
    place.positions.commit(opened, Change(NextState(moved, drop_window(moved)), action="watermark set"))
    report = ingest(lake.project)
    (source,) = report.sources
    assert source.unexplained.names == (f"{HOUR}/25.ndjson",)
    assert source.ingested_files == 1
    assert any("moved by hand (watermark set at position 2)" in note for note in source.notes)
    lake.assert_exactly_once()


class Overtaken(InProcessEngine):
    """Reads as ever, but before results are handed over something else happens, so many ``times``."""

    def __init__(self, meanwhile: Callable[[], object], times: int = 1) -> None:
        self.meanwhile, self.left = meanwhile, times

    def read(self, task: ReadTask, group: FileGroup, hear: Hear) -> tuple[GroupResult, ...]:
        results = super().read(task, group, hear)
        if self.left:
            self.left -= 1
            self.meanwhile()
        return results


def test_of_two_that_ingest_at_once_one_reads_each_file(lake: Lake) -> None:
    for number in range(3):
        lake.arrive(f"{HOUR}/11-late-{number}.ndjson")
    seen: list[Event] = []
    report = ingest(lake.project, Overtaken(lambda: ingest(lake.project)), seen.append)
    assert report.ok
    assert (report.sources[0].ingested_files, report.sources[0].ingested) == (0, 13)
    assert sum(isinstance(event, CommitContested) for event in seen) == 1
    lake.assert_exactly_once()


def test_a_busy_source_is_listed_once_however_often_a_run_is_first(lake: Lake) -> None:
    lake.arrive(f"{HOUR}/11-late.ndjson")

    def run_again() -> None:
        lake.arrive(f"{HOUR}/9{lake.next_id:06d}.ndjson")
        assert lake.run().sources[0].commits == 1

    seen: list[Event] = []
    report = ingest(lake.project, Overtaken(run_again, times=5), seen.append)
    assert report.ok
    assert (report.sources[0].ingested_files, report.sources[0].commits) == (1, 1)
    assert sum(isinstance(event, CommitContested) for event in seen) == 5
    assert sum(isinstance(event, ComparisonProgressed) and event.stage == "listing" for event in seen) == 1
    lake.assert_exactly_once()


def test_beside_a_run_both_read_what_is_theirs(lake: Lake) -> None:
    lake.arrive(f"{HOUR}/11-late.ndjson")
    lake.arrive(f"{HOUR}/99.ndjson")
    report = ingest(lake.project, Overtaken(lake.run))
    assert report.ok
    assert report.sources[0].ingested_files == 1
    lake.assert_exactly_once()
    assert found(lake).ingested == 12


def test_a_lane_that_is_told_to_stop_leaves_the_files_late(lake: Lake) -> None:
    lake.arrive(f"{HOUR}/11-late.ndjson")

    def stopped() -> None:
        raise RunStopped("told to stop")

    report = ingest(lake.project, Overtaken(stopped))
    assert report.sources[0].error is None
    assert report.sources[0].late.count == 1
    assert ingest(lake.project).ok
    lake.assert_exactly_once()


@pytest.mark.parametrize("ingesting", [False, True])
def test_a_long_listing_can_be_stopped(lake: Lake, ingesting: bool) -> None:
    lake.arrive(f"{HOUR}/11-late.ndjson")
    stop = threading.Event()

    def emit(event: Event) -> None:
        if isinstance(event, ComparisonProgressed):
            stop.set()

    places = places_of(lake.project)
    report = Reconciling(places, places, ReconcileOptions(InProcessEngine() if ingesting else None), emit, stop).all()
    assert not report.ok
    assert [(each.error, each.listed.count, each.commits) for each in report.sources] == [(None, 0, 0)]
    assert report.tables == ()


def test_a_pipeline_or_source_that_is_not_there_is_told(lake: Lake) -> None:
    with raises(ConfigError, "pipeline 'other'", "events"):
        reconcile(lake.config, "other")
    with raises(TidegateError, "source 'other'", "'events'"):
        reconcile(lake.config, "events", "other")


def test_a_long_listing_shows_life(lake: Lake) -> None:
    seen: list[Event] = []
    compare(lake.project, seen.append)
    told = [(event.stage, event.count) for event in seen if isinstance(event, ComparisonProgressed)]
    assert ("listing", 10) in told
    assert ("ledger", 10) in told
