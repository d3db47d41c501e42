"""``reconcile`` and the other commands where sources are followed by columns: tables are compared, rows are not."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import tidegate
from support.changes import moved
from support.column_lake import ColumnLake, InProcessColumnEngine
from support.errors import raises
from tidegate import show_watermarks
from tidegate.core.columns.replay import ReplayState, decode, encode
from tidegate.errors import CommitLost, TidegateError
from tidegate.observe.events import Event, Notice
from tidegate.runs.bind import bind
from tidegate.runs.loop import Loop
from tidegate.runs.pass_ import Pass
from tidegate.runs.replay_record import fence, replay_source
from tidegate.runs.tracker import ColumnBound
from tidegate.specs.project import ReconcileSpec

ORPHAN = "019bfa00-0000-7000-8000-000000000000.parquet"


@pytest.fixture
def lake(tmp_path: Path) -> ColumnLake:
    lake = ColumnLake(tmp_path)
    lake.arrive({"id": 1}, {"id": 2})
    assert lake.run().ok
    return lake


def orphan(lake: ColumnLake) -> Path:
    """A file of ours that nobody committed, two days old."""
    path = lake.root / "lake" / "orders" / ORPHAN
    path.write_bytes(b"rows")
    os.utime(path, (path.stat().st_mtime - 2 * 86_400,) * 2)
    return path


def place_of(lake: ColumnLake) -> ColumnBound:
    (pipeline,) = lake.project.pipelines
    return bind(lake.project, pipeline, pipeline.sources[0])


def test_the_table_is_compared_and_the_rows_are_said_not_to_be(lake: ColumnLake) -> None:
    report = tidegate.reconcile(lake.config)
    (source,), (table,) = report.sources, report.tables
    assert (report.ok, source.compared, source.version, source.listed.count) == (True, False, 1, 0)
    assert "does not compare its rows" in source.notes[0]
    assert (table.data_files, table.orphans.count) == (1, 0)
    orphan(lake)
    found = tidegate.reconcile(lake.config)
    assert (found.ok, found.tables[0].orphans.count) == (False, 1)


def test_orphans_go_behind_a_fence_and_the_watermark_stays(lake: ColumnLake) -> None:
    left = orphan(lake)
    (table,) = tidegate.reconcile(lake.config, clean=True).tables
    assert (table.error, table.removed.count, table.fenced, left.exists()) == (None, 1, ("orders/default",), False)
    assert show_watermarks(lake.config, "orders")[0].value == '{"id": 2}'
    lake.arrive({"id": 3})
    assert lake.run().ok
    lake.assert_exactly_once()


class Sleeper(InProcessColumnEngine):
    """Writes its rows, then sleeps while somebody else does something."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self.meanwhile: Callable[[], object] | None = meanwhile

    def write_rows(self, frame: Any, task: Any) -> Any:
        written = super().write_rows(frame, task)
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        return written


def test_who_slept_with_rows_reads_them_again_behind_the_fence(lake: ColumnLake) -> None:
    lake.arrive({"id": 3})
    place = place_of(lake)
    carried = Pass(place, Sleeper(lambda: fence([place])))
    carried.run()
    assert (carried.totals.rows, carried.position and carried.position.version) == (1, 3)
    lake.assert_exactly_once()
    assert tidegate.reconcile(lake.config).tables[0].young.count == 1


def test_files_of_a_sleeper_that_were_removed_are_never_committed(lake: ColumnLake) -> None:
    lake.arrive({"id": 3})
    removed = []

    def clean() -> None:
        (table,) = tidegate.reconcile(lake.config, clean=True, older_than=timedelta(0), force=True).tables
        removed.append(table.removed.count)

    with pytest.raises(TidegateError):
        Pass(place_of(lake), Sleeper(clean)).run()
    assert removed == [1]
    lake.assert_exactly_once([1, 2])
    assert lake.run().ok
    lake.assert_exactly_once()


def test_the_fence_of_a_source_without_a_position_lets_it_begin_at_the_beginning(tmp_path: Path) -> None:
    state = {"state": {"provider": "file", "url": str(tmp_path / "state")}}
    lake = ColumnLake(tmp_path, settings=state)
    lake.arrive({"id": 1}, {"id": 2})
    lake.run()
    project = lake.project
    (pipeline,) = project.pipelines
    new = bind(project, pipeline, replace(pipeline.sources[0], name="new"))
    fence([new])
    carried = Pass(new, InProcessColumnEngine())
    carried.run()
    assert carried.totals.rows == 2
    lake.assert_exactly_once([1, 1, 2, 2])


def test_replays_have_a_fence_of_their_own(lake: ColumnLake) -> None:
    place = place_of(lake)
    positions = replay_source(place, place.pipeline).positions
    record = encode(ReplayState("id", 1, 9))
    sleeping = positions.open()
    positions.commit(sleeping, moved(record, action="replay"))
    orphan(lake)
    (table,) = tidegate.reconcile(lake.config, clean=True).tables
    assert (table.error, table.fenced) == (None, ("orders/default", "orders/default~replay"))
    with pytest.raises(CommitLost):
        positions.commit(sleeping, moved(record, action="replay"))
    kept = positions.open().state
    assert kept is not None
    assert not decode(kept).is_finished


def test_the_fence_of_a_replay_that_committed_nothing_leaves_a_finished_record(lake: ColumnLake) -> None:
    place = place_of(lake)
    replays = replay_source(place, place.pipeline)
    fence([replays])
    state = replays.open().state
    assert state is not None
    assert decode(state).is_finished


def test_a_source_that_the_configuration_does_not_have_stops_the_cleaning(lake: ColumnLake) -> None:
    orphan(lake)
    (lake.root / "lake" / "orders" / "_tidegate" / "orders" / "gone").mkdir()
    (table,) = tidegate.reconcile(lake.config, clean=True).tables
    assert "is also written by orders/gone" in (table.error or "")


def test_a_continuous_run_looks_for_orphans_too(lake: ColumnLake) -> None:
    orphan(lake)
    project = replace(lake.project, reconcile=ReconcileSpec(every=timedelta(0)))

    def stop_when_told(event: Event) -> None:
        lake.seen.append(event)
        if isinstance(event, Notice) and "that no commit names" in event.text:
            running.stop.set()

    running = Loop(project, InProcessColumnEngine(), 1, stop_when_told)
    running.continuously(project.pipelines)
    assert running.stop.is_set()
    assert not any(each.name == "source_reconciled" for each in lake.seen)


REFUSED: dict[str, Callable[[Path], object]] = {
    "pipeline 'orders' … files": lambda config: tidegate.files(config, "orders"),
    "orders … staged": tidegate.commit,
    "'orders' … partition": lambda config: tidegate.reset_watermark(config, "orders", partition="a"),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_about_files_says_so(lake: ColumnLake, words: str) -> None:
    with raises(TidegateError, words):
        REFUSED[words](lake.config)


@pytest.mark.parametrize(
    "act",
    [
        lambda config: tidegate.replay(config, "orders", files="*"),
        lambda config: tidegate.list_letters(config, "orders"),
        lambda config: tidegate.infer_schema(config, "orders"),
        lambda config: tidegate.show_schema(config, "orders"),
        lambda config: tidegate.diff_schema(config, "orders"),
        lambda config: tidegate.adopt(config, "orders"),
    ],
)
def test_commands_about_files_stop_with_one_sentence(lake: ColumnLake, act: Callable[[Path], object]) -> None:
    with raises(TidegateError, "pipeline 'orders'", "files"):
        act(lake.config)


def test_tables_are_cared_for_and_folders_are_not(lake: ColumnLake, tmp_path: Path) -> None:
    lake.arrive({"id": 3})
    lake.run()
    assert tidegate.optimize_table(lake.config, "orders").files_before == 2
    lake.assert_exactly_once()
    with raises(TidegateError, "'id'", "int64", "string"):
        tidegate.widen_table(lake.config, "orders", column="id", to="string")
