"""Data files that no commit names: found, told apart, and removed behind a fence that no sleeper gets past."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support import scripts
from support.changes import appended, moved
from support.errors import check_names, raises
from support.lake import FIELDS, Lake
from support.reconciling import DAY, clean, compare, leave_behind, places_of
from tidegate import load, reconcile
from tidegate.core.files.state import drop_window
from tidegate.errors import CommitLost, ObjectMissing, TidegateError
from tidegate.observe.events import ComparisonProgressed, Event, ignore
from tidegate.parquet.parquet_file import uuid7
from tidegate.protocol.change import Change, DataFile, SourceKey
from tidegate.protocol.delta import DeltaLakeTable
from tidegate.protocol.ledger import Ledger
from tidegate.protocol.position import utc_now
from tidegate.protocol.store import PositionStore
from tidegate.runs.comparison import scratch
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
from tidegate.runs.orphans import TableScan
from tidegate.runs.reconcile import ReconcileOptions, Reconciling
from tidegate.runs.replay_record import fence
from tidegate.specs.locations import Location
from tidegate.storage.port import ObjectStore
from tidegate.storage.stores import open_store

HOUR = "date=2026-01-28/hour=12"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path)
    for number in range(3):
        lake.arrive(f"{HOUR}/{number}.ndjson")
        assert lake.run().ok
    return lake


def table(lake: Lake) -> Path:
    return lake.root / "lake" / "events"


def delta(lake: Lake) -> Any:
    from deltalake import DeltaTable

    return DeltaTable(str(table(lake)))


def age_everything(lake: Lake) -> None:
    """Let every data file be two days old: only being in the log protects it now."""
    for path in table(lake).rglob("*.parquet"):
        moment = path.stat().st_mtime - 2 * DAY.total_seconds()
        os.utime(path, (moment, moment))


def test_a_table_without_orphans_is_left_alone(lake: Lake) -> None:
    age_everything(lake)
    before = delta(lake).version()
    report = clean(lake.project)
    assert report.ok
    assert (report.tables[0].data_files, report.tables[0].orphans.count, report.tables[0].fenced) == (3, 0, ())
    assert delta(lake).version() == before


def test_an_orphan_is_found_with_its_age_and_only_removed_when_asked(lake: Lake) -> None:
    age_everything(lake)
    left = leave_behind(table(lake), f"date=2026-01-28/{uuid7()}.parquet")
    report = compare(lake.project)
    (found,) = report.tables
    assert not report.ok
    assert found.orphans.oldest is not None
    assert [(each.path, each.size) for each in found.orphans.files] == [(f"date=2026-01-28/{left.name}", 15)]
    assert left.exists()
    cleaned = clean(lake.project)
    assert cleaned.ok
    assert (cleaned.tables[0].removed.count, cleaned.tables[0].removed.bytes) == (1, 15)
    assert cleaned.tables[0].fenced == ("events/default",)
    assert not left.exists()
    assert compare(lake.project).ok
    lake.assert_exactly_once()
    lake.arrive(f"{HOUR}/9.ndjson")
    assert lake.run().ok
    lake.assert_exactly_once()


def test_young_foreign_hidden_and_inner_files_are_not_touched(lake: Lake) -> None:
    old = leave_behind(table(lake))
    inner = table(lake) / "inner" / "_delta_log"
    kept = [
        leave_behind(table(lake), age=timedelta(hours=23)),
        leave_behind(table(lake), "part-00000-c000.snappy.parquet"),
        leave_behind(table(lake), f"_tidegate/events/{uuid7()}.parquet"),
        leave_behind(table(lake), f"_staging/{uuid7()}.parquet"),
        leave_behind(table(lake), f".hidden/{uuid7()}.parquet"),
        leave_behind(table(lake), f"_delta_log/{uuid7()}.parquet"),
        leave_behind(table(lake), f"inner/{uuid7()}.parquet"),
        leave_behind(table(lake), f"inner/d=1/{uuid7()}.parquet"),
        leave_behind(table(lake), f"{uuid7()}.csv"),
    ]
    inner.mkdir(parents=True)
    (inner / f"{0:020d}.json").write_text("{}")
    report = clean(lake.project)
    (found,) = report.tables
    assert report.ok
    assert [each.path for each in found.removed.files] == [old.name]
    assert (found.young.count, found.foreign.count) == (1, 1)
    assert "VACUUM" in found.notes[0]
    assert [path for path in kept if not path.exists()] == []


def test_dead_letters_inside_the_table_are_not_its_orphans(lake: Lake) -> None:
    letters = leave_behind(table(lake), f"letters/{uuid7()}.parquet")
    lake.config.write_text(
        lake.config.read_text().replace('"sink":', '"error_handling": {"dlq_path": "lake/events/letters"}, "sink":')
    )
    report = clean(load(lake.root / "tidegate.yml"))
    assert report.tables[0].removed.count == 0
    assert letters.exists()


@pytest.mark.parametrize("country", ["a b", "50%", "ü", "a%20b", "x+y", "q?&#"])
def test_files_in_folders_with_odd_names_are_no_orphans(tmp_path: Path, country: str) -> None:
    lake = Lake(
        tmp_path,
        sink_settings={"partition_by": {"prefix_template": "event", "column": "event"}},
    )
    lake.arrive("d=1/1.ndjson", event=country)
    assert lake.run().ok
    age_everything(lake)
    (found,) = clean(lake.project).tables
    assert (found.data_files, found.orphans.count, found.removed.count, found.foreign.count) == (1, 0, 0, 0)


def test_an_orphan_beside_the_table_s_files_in_such_a_folder_is_found(tmp_path: Path) -> None:
    lake = Lake(tmp_path, sink_settings={"partition_by": {"prefix_template": "event", "column": "event"}})
    lake.arrive("d=1/1.ndjson", event="a b%")
    assert lake.run().ok
    (file,) = table(lake).rglob("*.parquet")
    left = leave_behind(file.parent)
    age_everything(lake)
    assert clean(lake.project).tables[0].removed.count == 1
    assert (file.exists(), left.exists()) == (True, False)
    lake.assert_exactly_once()


@pytest.mark.parametrize("tidied", ["", "checkpoint", "log cleaned up"])
def test_files_that_older_versions_of_the_table_need_are_no_orphans(lake: Lake, tidied: str) -> None:
    delta(lake).optimize.compact()
    if tidied:
        delta(lake).create_checkpoint()
    if tidied == "log cleaned up":
        for entry in sorted((table(lake) / "_delta_log").glob("*.json"))[:-1]:
            entry.unlink()
    age_everything(lake)
    (found,) = compare(lake.project).tables
    assert (found.data_files, found.orphans.count, found.foreign.count, found.error) == (4, 0, 0, None)


def test_a_log_with_a_hole_stops_the_comparison(lake: Lake) -> None:
    leave_behind(table(lake))
    (table(lake) / "_delta_log" / f"{0:020d}.json").unlink()
    report = clean(lake.project)
    assert report.tables[0].error
    assert report.tables[0].removed.count == 0


def test_a_stranger_in_the_table_is_named_and_nothing_is_removed(lake: Lake) -> None:
    left = leave_behind(table(lake))
    stranger = PositionStore(replace(_place(lake).positions.site, key=SourceKey("other", "asia")))
    stranger.commit(stranger.open(), moved({"schema_version": 1}))
    before = delta(lake).version()
    report = clean(lake.project)
    assert not report.ok
    check_names(report.tables[0].error, "other/asia")
    assert left.exists()
    assert delta(lake).version() == before


def test_every_source_of_the_table_is_fenced_whichever_was_asked_for(tmp_path: Path) -> None:
    sources = {}
    for name in ("asia", "europe", "new"):
        (tmp_path / name).mkdir()
        sources[name] = {"source_uri": f"{name}/", "use_watermark": True}
    (tmp_path / "asia" / "1.ndjson").write_text('{"id": 1}\n')
    pipeline = {"sources": sources, "schema": {"fields": FIELDS}, "sink": {"table_uri": "lake/events"}}
    config = tmp_path / "t.yml"
    config.write_text(json.dumps({"pipelines": {"events": pipeline}}))
    lake = Lake(tmp_path)
    project = load(config)
    assert Loop(project, InProcessEngine(), 2).once(project.pipelines).ok
    leave_behind(table(lake))
    report = reconcile(config, "events", "europe", clean=True)
    assert report.ok
    assert report.tables[0].fenced == ("events/asia", "events/europe", "events/new")
    assert [each.source for each in report.sources] == ["europe"]
    (tmp_path / "new" / "2.ndjson").write_text('{"id": 2}\n')
    assert Loop(project, InProcessEngine(), 2).once(project.pipelines).ok
    assert lake.ids() == [1, 2]


def test_less_than_a_day_needs_force(lake: Lake) -> None:
    left = leave_behind(table(lake), age=timedelta(hours=2))
    with raises(TidegateError, "24 hours", "1 h", "--older-than 24h", "--force") as caught:
        reconcile(lake.config, clean=True, older_than=timedelta(hours=1))
    assert "--force" in caught.value.remedy
    assert left.exists()
    assert reconcile(lake.config, clean=True, older_than=timedelta(hours=1), force=True).tables[0].removed.count == 1
    assert not left.exists()


def test_what_is_younger_than_the_fence_stays_whatever_the_limit(lake: Lake) -> None:
    left = leave_behind(table(lake))
    place = _place(lake)
    with scratch() as database:
        scan = TableScan([place], database, ignore)
        assert scan.look()
        (orphan,) = scan.list_unnamed()
        assert scan.remove(orphan.modified, utc_now(), timedelta(0)).count == 0
        assert left.exists()
        assert scan.remove(orphan.modified + timedelta(seconds=1), utc_now(), timedelta(0)).count == 1
    assert not left.exists()


def _place(lake: Lake) -> Any:
    (place,) = places_of(lake.project)
    return place


def _store(lake: Lake) -> ObjectStore:
    return open_store(lake.table)


def _written(lake: Lake, number: int) -> DataFile:
    """A finished data file in the table's directory, two days old, that nobody has committed."""
    path = table(lake) / f"{uuid7()}.parquet"
    schema = pa.schema([pa.field("id", pa.int64(), False)])
    pq.write_table(pa.table({"id": [number]}, schema=schema), path)
    moment = path.stat().st_mtime - 2 * DAY.total_seconds()
    os.utime(path, (moment, moment))
    return DataFile(path.name, path.stat().st_size, 1, {})


def _change(opened: Any, file: DataFile) -> Change:
    schema = pa.schema([pa.field("id", pa.int64(), False)])
    state = dict(opened.state)
    return appended(state, [file], schema, embedded=drop_window(state))


def test_a_process_that_slept_cannot_commit_files_that_were_cleaned(lake: Lake) -> None:
    sleeper = _place(lake).positions
    opened = sleeper.open()
    file = _written(lake, 1_000_000)
    assert clean(lake.project).tables[0].removed.count == 1
    with pytest.raises((ObjectMissing, CommitLost)):
        sleeper.commit(opened, _change(opened, file))
    lake.assert_exactly_once()


class Sleepy(DeltaLakeTable):
    """The real table; whoever uses it falls asleep once at ``place``, after it has seen that its files are there."""

    def __init__(self, location: Location, store: ObjectStore, place: str, meanwhile: Callable[[], object]) -> None:
        super().__init__(location, store)
        self.place, self.meanwhile = place, meanwhile

    def _sleep(self, place: str) -> None:
        if place == self.place:
            self.place = ""
            self.meanwhile()

    def snapshot(self) -> Any:
        self._sleep("before the snapshot")
        return super().snapshot()

    def append(self, base: Any, adds: Sequence[Any], note: Any) -> None:
        self._sleep("before the commit")
        super().append(base, adds, note)


@pytest.mark.parametrize("place", ["before the snapshot", "before the commit"])
def test_a_process_that_sleeps_in_the_middle_of_a_commit_loses_it(lake: Lake, place: str) -> None:
    real = _place(lake)
    opened = real.positions.open()
    file = _written(lake, 1_000_000)
    removed: list[int] = []
    sleepy = Sleepy(
        lake.table, _store(lake), place, lambda: removed.append(clean(lake.project).tables[0].removed.count)
    )
    sleeper = PositionStore(replace(real.positions.site, delta=sleepy))
    with pytest.raises(CommitLost):
        sleeper.commit(opened, _change(opened, file))
    assert removed == [1]
    lake.assert_exactly_once()
    lake.arrive(f"{HOUR}/9.ndjson")
    assert lake.run().ok
    lake.assert_exactly_once()


def test_without_the_fence_the_sleeper_would_commit_files_that_are_gone(lake: Lake) -> None:
    """Why cleaning fences: the same sleeper, and a file that is taken away without one."""
    real = _place(lake)
    opened = real.positions.open()
    file = _written(lake, 1_000_000)
    sleepy = Sleepy(lake.table, _store(lake), "before the commit", (table(lake) / file.path).unlink)
    sleeper = PositionStore(replace(real.positions.site, delta=sleepy))
    sleeper.commit(opened, _change(opened, file))
    with pytest.raises(Exception, match=r"(?i)not found|no such file"):
        lake.ids()


def test_what_is_committed_while_orphans_are_looked_for_is_not_removed(lake: Lake) -> None:
    """A file that is uncommitted when it is listed and committed before the fence belongs to the table."""
    place = _place(lake)
    opened = place.positions.open()
    file = _written(lake, 1_000_000)
    with scratch() as database:
        scan = TableScan([place], database, ignore)
        assert scan.look()
        assert [each.path for each in scan.list_unnamed()] == [file.path]
        place.positions.commit(opened, _change(opened, file))
        fenced = fence([place])
        scan.look_again()
        assert scan.remove(fenced, utc_now(), DAY).count == 0
    lake.expected.append(1_000_000)
    lake.assert_exactly_once()


def test_a_run_that_commits_just_before_the_fence_keeps_its_files(lake: Lake) -> None:
    place = _place(lake)
    opened = place.positions.open()
    file = _written(lake, 1_000_000)
    lake.expected.append(1_000_000)
    committed: list[int] = []

    def commit_once(event: Event) -> None:
        if isinstance(event, ComparisonProgressed) and event.stage == "log" and not committed:
            committed.append(place.positions.commit(opened, _change(opened, file)).version)

    places = places_of(lake.project)
    report = Reconciling(places, places, ReconcileOptions(clean=True), commit_once).all()
    assert (report.tables[0].removed.count, committed) == (0, [4])
    assert report.tables[0].fenced == ("events/default",)
    lake.assert_exactly_once()


CLEANER = """
import sys
from tidegate import reconcile
sys.exit(0 if reconcile(sys.argv[1], clean=True).ok else 1)
"""


@pytest.mark.parametrize(
    "place", ["runs.fence.after", "runs.orphan.before@2", "state.commit.after", "state.won.before"]
)
def test_a_kill_while_cleaning_leaves_a_whole_table_and_the_next_one_finishes(lake: Lake, place: str) -> None:
    left = [leave_behind(table(lake)) for _ in range(3)]
    name, _, nth = place.partition("@")
    failpoints = f"{name}=kill" + (f"@{nth}" if nth else "")
    assert scripts.run("-c", CLEANER, lake.config, failpoints=failpoints) == -signal.SIGKILL
    lake.assert_exactly_once()
    assert scripts.run("-c", CLEANER, lake.config) == 0
    assert [path for path in left if path.exists()] == []
    lake.assert_exactly_once()


def test_fences_are_in_the_ledger_as_what_they_are(lake: Lake) -> None:
    leave_behind(table(lake))
    clean(lake.project)
    place = _place(lake)
    *_, last = Ledger(place.table_store, place.key).entries()
    assert (last.action, last.coverage, last.rows) == ("reconcile", (), 0)
