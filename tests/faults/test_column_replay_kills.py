"""Replays under SIGKILL and races: what is finished stays finished, the rest follows, and no row is lost or doubled."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from support import scripts
from support.column_lake import ColumnLake
from support.long_runs import chosen
from tidegate import show_watermarks
from tidegate.reports.replay import ColumnReplayReport

WORKER = Path(__file__).with_name("column_replay_worker.py")
IDS = [*range(10), *range(20, 40)]
BEFORE = ("runs.read", "runs.commit.before", "state.document.before", "state.document.after", "state.commit.before")
AFTER = ("state.commit.after", "state.debt.before", "runs.commit.after")
ANYWHERE = ("state.done.before", "state.won.before", "state.won.after")
SAVING = ("state.commit.before", "state.commit.after", "state.done.before")


def lake_of(folder: Path) -> ColumnLake:
    """A source without a row from 10 to 19: that chunk is empty."""
    lake = ColumnLake(folder)
    lake.arrive(*({"id": number} for number in IDS))
    lake.config  # noqa: B018  # written for the processes
    return lake


def start(lake: ColumnLake, failpoints: str = "", *words: str) -> scripts.Process:
    return scripts.start(WORKER, lake.root, *words, failpoints=failpoints)


def kill(lake: ColumnLake, failpoints: str, *words: str) -> None:
    assert start(lake, failpoints, *words).wait(timeout=120) == -signal.SIGKILL, f"{failpoints} was not reached"


def skipped(report: ColumnReplayReport) -> int:
    return [each.fate for each in report.chunks].count("skipped")


@pytest.mark.parametrize(
    ("place", "done"),
    [
        *((place, {1}) for place in chosen(BEFORE, "runs.read", "state.commit.before")),
        *((place, {2}) for place in chosen(AFTER, "state.commit.after", "runs.commit.after")),
        *((place, {1, 2}) for place in chosen(ANYWHERE, "state.won.before")),
    ],
    ids=str,
)
def test_a_killed_replay_goes_on_with_the_rest(tmp_path: Path, place: str, done: set[int]) -> None:
    lake = lake_of(tmp_path)
    assert lake.run().ok
    lake.rows = lake.rows[1:]
    lake.save()
    kill(lake, f"{place}=kill@2")
    lake.arrive({"id": 70})
    assert lake.run().ok
    report = lake.replay(0, 40, 10)
    assert (report.ok, report.chunks[3].rows, skipped(report) in done) == (True, 10, True)
    lake.assert_exactly_once()
    assert show_watermarks(lake.config, "orders")[0].value == '{"id": 70}'


@pytest.mark.parametrize("place", chosen(SAVING, "state.commit.before", "state.commit.after"))
@pytest.mark.parametrize("time", [3, 4], ids=["with the watermark", "with the record"])
def test_a_run_after_a_killed_replay_that_saves_doubles_nothing(tmp_path: Path, place: str, time: int) -> None:
    lake = lake_of(tmp_path)
    kill(lake, f"{place}=kill@{time}", "save")
    assert lake.run().ok
    lake.assert_exactly_once()
    assert lake.replay(0, 40, 10, save=True).ok
    lake.arrive({"id": 40}, {"id": 41})
    assert lake.run().ok
    lake.assert_exactly_once()


@pytest.mark.parametrize("words", [(), ("save",)], ids=["without", "with the watermark"])
def test_replays_started_together_leave_every_row_once(tmp_path: Path, words: tuple[str, ...]) -> None:
    lake = lake_of(tmp_path)
    processes = [start(lake, "", "parallel", *words) for _ in range(2)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    lake.assert_exactly_once()
    assert lake.run().sources[0].rows == (0 if words else 30)
