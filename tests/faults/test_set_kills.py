"""Tracking by a set under SIGKILL and races: nothing is lost, nothing is doubled, no state misses a segment."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from faults.failing import KILLED, work
from support import scripts
from support.lake import Lake
from tidegate import recover
from tidegate.experiments.workers import Workers

PLACES = ("state.set.before", "state.set.after", "state.document.after", "state.commit.after")
RANDOM = random.Random(11)
WORKER = Path(__file__).with_name("worker.py")


def arrive(lake: Lake, files: int) -> None:
    for _ in range(files):
        lake.arrive(f"{RANDOM.choice(('', 'a/', 'b/'))}{RANDOM.getrandbits(64):016x}.ndjson", 3)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path, source_settings={"use_watermark": False})
    arrive(lake, 5)
    return lake


@pytest.mark.parametrize("place", PLACES)
def test_a_kill_around_the_first_and_a_later_segment_loses_and_doubles_nothing(
    workers: Workers, lake: Lake, place: str
) -> None:
    assert work(workers, lake, f"{place}=kill") == KILLED, f"the failpoint {place} was not reached"
    arrive(lake, 2)
    assert lake.run().ok
    lake.assert_exactly_once()
    arrive(lake, 2)
    assert work(workers, lake, f"{place}=kill") == KILLED
    assert lake.run().ok
    lake.assert_exactly_once()


@pytest.mark.parametrize("place", ["state.set.after", "state.commit.after"])
def test_a_kill_while_segments_are_merged_loses_and_doubles_nothing(workers: Workers, lake: Lake, place: str) -> None:
    for _ in range(6):
        arrive(lake, 5)
        assert lake.run().ok
    arrive(lake, 5)
    folder = lake.root / "lake/events/_tidegate/events_default_set"
    before = len(list(folder.iterdir()))
    assert work(workers, lake, f"{place}=kill") == KILLED
    arrive(lake, 5)
    assert lake.run().ok
    assert len(list(folder.iterdir())) > before
    lake.assert_exactly_once()
    assert recover(lake.config, "events")[0].verdict == "ok"


def test_a_failed_upload_of_a_segment_commits_nothing(workers: Workers, lake: Lake) -> None:
    assert work(workers, lake, "state.set.before=raise") != 0
    assert lake.ids() == []
    assert lake.run().ok
    lake.assert_exactly_once()


def test_runs_started_together_write_every_row_once(lake: Lake) -> None:
    processes = [scripts.start(WORKER, lake.config) for _ in range(3)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0, 0]
    lake.assert_exactly_once()


def test_a_process_that_slept_through_merges_of_others_commits_nothing_of_its_own(lake: Lake) -> None:
    sleeper = scripts.start(WORKER, lake.config, failpoints="state.set.before=stop")
    try:
        sleeper.wait_until_stopped()
        for _ in range(9):
            assert lake.run().ok
            arrive(lake, 5)
        sleeper.send_signal(signal.SIGCONT)
        assert sleeper.wait(timeout=60) == 0
    finally:
        sleeper.kill()
    lake.assert_exactly_once()
