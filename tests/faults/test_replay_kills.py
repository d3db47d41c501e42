"""A replay that is killed, stopped or told lies at any named place: all old rows or all new ones, never a mixture."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from faults.replay_worker import replay
from support import scripts
from support.lake import Lake, assert_same
from support.long_runs import chosen

WORKER = Path(__file__).with_name("replay_worker.py")
PATTERN = "date=2026-01-28/hour=11/[12].ndjson.gz"
KILLED = -signal.SIGKILL
OLD = list(range(60))
NEW = [*range(10), *range(30, 60), *range(1000, 1015)]
PLACES = (
    "sink.upload.after",
    "runs.read",
    "state.document.after",
    "state.commit.before",
    "state.commit.after",
    "state.done.before",
    "state.won.before",
    "state.mirror.before",
    "state.checkpoint.before",
    "runs.commit.after",
)
DURABLE_FROM = PLACES.index("state.commit.after")


def work(lake: Lake, failpoints: str = "") -> int:
    return scripts.run(WORKER, lake.config, PATTERN, failpoints=failpoints)


@pytest.fixture(params=["by name", "by the ledger"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """Two hours of three files, ingested; two of the files, which were a commit, were corrected since."""
    names = {"metadata_columns": ["_source_file"]} if request.param == "by name" else {}
    lake = Lake(tmp_path, sink_settings={"delta_checkpoint_interval": 1, **names})
    for hour, numbers in ((11, (0,)), (11, (1, 2)), (12, (0, 1, 2))):
        for number in numbers:
            lake.arrive(f"date=2026-01-28/hour={hour}/{number}.ndjson.gz")
        assert lake.run().ok
    for number, ids in ((1, range(1000, 1005)), (2, range(1005, 1015))):
        text = "".join(json.dumps({"id": each}) + "\n" for each in ids)
        lake.write(f"date=2026-01-28/hour=11/{number}.ndjson.gz", text)
    return lake


@pytest.mark.parametrize(
    "place", chosen(PLACES, "runs.read", "state.commit.before", "state.commit.after", "state.won.before")
)
def test_a_killed_replay_leaves_all_old_rows_or_all_new_ones_and_can_be_repeated(lake: Lake, place: str) -> None:
    assert work(lake, f"{place}=kill") == KILLED, f"the failpoint {place} was not reached"
    assert_same(lake.ids(), NEW if PLACES.index(place) >= DURABLE_FROM else OLD)
    lake.arrive("date=2026-01-28/hour=12/3.ndjson.gz")
    assert lake.run().ok
    assert replay(lake.config, PATTERN)
    assert_same(lake.ids(), [*NEW, *range(60, 70)])


@pytest.mark.parametrize("place", ["state.commit.before", "state.commit.after"])
def test_an_error_at_the_commit_of_a_replay_decides_nothing(lake: Lake, place: str) -> None:
    assert work(lake, f"{place}=raise") == 0
    assert_same(lake.ids(), NEW)
    entries = list((lake.root / "lake/events/_delta_log").glob("*.json"))
    assert len(entries) == 4


def test_a_replay_that_slept_through_another_one_replaces_the_same_rows_once(lake: Lake) -> None:
    sleeper = scripts.start(WORKER, lake.config, PATTERN, failpoints="state.commit.before=stop")
    try:
        sleeper.wait_until_stopped()
        assert replay(lake.config, PATTERN)
        sleeper.send_signal(signal.SIGCONT)
        assert sleeper.wait(timeout=60) == 0
    finally:
        sleeper.kill()
    assert_same(lake.ids(), NEW)


def test_replays_and_runs_at_once_end_with_every_row_once(lake: Lake) -> None:
    for number in range(3, 6):
        lake.arrive(f"date=2026-01-28/hour=12/{number}.ndjson.gz")
    config, run = str(lake.config), str(WORKER.with_name("worker.py"))
    arguments = ([str(WORKER), config, PATTERN], [run, config], [str(WORKER), config, PATTERN])
    processes = [scripts.start(*each) for each in arguments]
    assert [process.wait(timeout=120) for process in processes] == [0, 0, 0]
    assert_same(lake.ids(), [*NEW, *range(60, 90)])
