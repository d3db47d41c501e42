"""Staged delivery under failure: whatever becomes of a writer, its units and the commits of them hold every row once.

The writer's part of the kill matrix: K1 and K2 as for any run, and K3, where the signal of a unit is written and not
committed. Each case makes one real process fail at one failpoint in one way; a restart brings the rest, and a
streaming reader follows the table from before its creation.
"""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest

from faults.failing import ENDS, arrive_with_a_bad_line, assert_one_letter, go_on, stopped, work
from faults.worker import CRASHED, FINE, SURVIVED
from support.lake import Lake, assert_same
from support.staging import commit, metas, staged_ids, units
from support.streaming import streaming
from tidegate import status
from tidegate.commands.commit import Committing
from tidegate.experiments.workers import Workers
from tidegate.failpoints import WAYS

BEFORE_THE_SIGNAL = (
    "runs.planned",
    "sink.rows.before",
    "sink.upload.before",
    "sink.upload.after",
    "sink.unit.after",
    "runs.read",
    "runs.commit.before",
    "staging.meta.before",
    "staging.meta.after",
    "staging.unit.before",
)
K3 = ("staging.unit.after", "runs.commit.after")
CASES = [
    pytest.param(place, way, id=f"{'K3' if place in K3 else 'K1-K2'}-{place}-{way}")
    for place in (*BEFORE_THE_SIGNAL, *K3)
    for way in WAYS
]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Six files in two folders, none of them ingested."""
    lake = Lake(tmp_path, pipeline_settings={"delivery": "staged"})
    for hour in (11, 12):
        for number in range(3):
            lake.arrive(f"date=2026-01-28/hour={hour}/{number}.ndjson.gz")
    return lake


@pytest.mark.parametrize(("place", "way"), CASES)
def test_nothing_is_lost_or_doubled(workers: Workers, lake: Lake, place: str, way: str) -> None:
    with streaming(lake) as stream:
        assert lake.run().ok
        commit(lake)
        before = lake.ids()
        lake.arrive("date=2026-01-28/hour=11/1a.ndjson")
        assert lake.run().ok
        pending = staged_ids(lake)
        lake.arrive("date=2026-01-28/hour=13/0.ndjson.gz")
        arrive_with_a_bad_line(lake)
        ended = work(workers, lake, f"{place}={way}")
        assert ended in ENDS[way], f"{place} was not reached, or ended the run otherwise: {workers.last_lines()}"
        assert lake.ids() == before
        done = place in K3 or ended == SURVIVED
        assert_same(staged_ids(lake), [*range(60, 81)] if done else pending)
        lake.arrive("date=2026-01-28/hour=13/1.ndjson.gz")
        assert lake.run().ok
        assert_same([*before, *staged_ids(lake)], lake.expected)
        assert commit(lake).error is None
        stream.assert_exactly_once()
    assert (units(lake), status(lake.config)[0].backlog_files) == ([], 0)
    assert_one_letter(lake)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("place", ["staging.meta.after", "staging.unit.before", "staging.unit.after"])
def test_nothing_is_lost_or_doubled_before_there_is_a_table(workers: Workers, lake: Lake, place: str, way: str) -> None:
    lake.source_settings = {"use_watermark": False, "checkpoint": {"interval_files": 1}, "max_islands": 2}
    assert work(workers, lake, f"{place}={way}@2") in ENDS[way]
    lake.arrive("date=2026-01-28/hour=11/1a.ndjson")
    assert lake.run().ok
    assert_same(staged_ids(lake), lake.expected)
    assert commit(lake).error is None
    lake.assert_exactly_once()


def test_k3_a_unit_whose_writer_died_is_committed_as_it_is(workers: Workers, lake: Lake) -> None:
    assert work(workers, lake, "staging.unit.after=kill") == -signal.SIGKILL
    (unit,) = units(lake)
    assert len(metas(lake)) == len(unit.data_files)
    assert commit(lake).units == 1
    lake.assert_exactly_once()
    assert lake.run().sources[0].files == 0


@pytest.mark.parametrize("tracked", [True, False], ids=["watermark", "set"])
def test_writers_started_together_win_one_number_each_and_write_every_row_once(
    workers: Workers, lake: Lake, tracked: bool
) -> None:
    lake.source_settings = {"use_watermark": tracked, "checkpoint": {"interval_files": 1}, "max_islands": 1}
    config = str(lake.config)
    started = [workers.start({"config": config}) for _ in range(3)]
    assert [workers.wait(pid) for pid in started] == [FINE] * 3, workers.last_lines()
    assert [unit.seq for unit in units(lake)] == list(range(1, len(units(lake)) + 1))
    assert_same(staged_ids(lake), lake.expected)
    assert commit(lake).error is None
    lake.assert_exactly_once()


def test_writers_and_a_committer_that_takes_their_units_away_meanwhile_agree(workers: Workers, lake: Lake) -> None:
    lake.source_settings = {"checkpoint": {"interval_files": 1}, "max_islands": 1}
    for number in range(12):
        lake.arrive(f"date=2026-01-28/hour=13/{number:02}.ndjson", 2)
    config, project = str(lake.config), lake.project
    with streaming(lake) as stream:
        ended, errors = threading.Event(), set()

        def keep_committing() -> None:
            while not ended.is_set():
                report = Committing(project).once(project.pipelines)
                errors.update(table.error for table in report.tables)

        committer = threading.Thread(target=keep_committing)
        committer.start()
        try:
            started = [workers.start({"config": config}) for _ in range(3)]
            assert [workers.wait(pid) for pid in started] == [FINE] * 3, workers.last_lines()
        finally:
            ended.set()
            committer.join()
        assert errors == {None}
        assert commit(lake).error is None
        stream.assert_exactly_once()


@pytest.mark.parametrize("place", ["runs.planned", "runs.commit.before", "staging.meta.after", "staging.unit.before"])
@pytest.mark.parametrize("committed", [True, False], ids=["committed", "pending"])
def test_a_process_that_slept_through_another_run_leaves_nothing_of_its_own(
    workers: Workers, lake: Lake, place: str, committed: bool
) -> None:
    with streaming(lake) as stream:
        sleeper = stopped(workers, lake, place)
        lake.arrive("date=2026-01-28/hour=13/1.ndjson")
        assert lake.run().ok
        if committed:
            assert commit(lake).units == 1
        assert go_on(workers, sleeper) == SURVIVED
        assert_same([*lake.ids(), *staged_ids(lake)] if not committed else lake.ids(), lake.expected)
        assert commit(lake).error is None
        stream.assert_exactly_once()


def test_a_direct_run_on_its_way_and_a_staged_one_double_nothing(workers: Workers, lake: Lake) -> None:
    """Delivery is switched while the old run still works: its commit takes the number of the staged unit."""
    lake.pipeline_settings = {}
    sleeper = stopped(workers, lake, "state.commit.before")
    lake.pipeline_settings = {"delivery": "staged"}
    lake.arrive("date=2026-01-28/hour=13/1.ndjson")
    assert lake.run().ok
    assert go_on(workers, sleeper) in (SURVIVED, CRASHED)
    with streaming(lake) as stream:
        commit(lake)
        assert lake.run().ok
        assert commit(lake).error is None
        stream.assert_exactly_once()
