"""Appends of a column source under SIGKILL and races: nothing is lost, nothing is doubled, whatever the provider."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from support import scripts
from support.column_lake import ColumnLake
from support.long_runs import chosen
from tidegate import show_watermarks

WORKER = Path(__file__).with_name("column_worker.py")
PLACES = (
    "runs.planned",
    "runs.read",
    "runs.commit.before",
    "state.document.before",
    "state.document.after",
    "state.commit.before",
    "state.commit.after",
    "state.done.before",
    "state.won.before",
    "state.won.after",
    "runs.commit.after",
)
COPIED = ("state.commit.after", "state.debt.before", "state.provider.before", "state.provider.after")
STATE: dict[str, dict[str, Any]] = {
    "delta": {},
    "file": {"state": {"provider": "file", "url": "state"}},
    "sql": {"state": {"provider": "sql", "url": "sqlite:///state.db"}},
}


def work(lake: ColumnLake, failpoints: str = "") -> int:
    """One run in a process of its own; its exit code, negative for the signal that ended it."""
    return scripts.run(WORKER, lake.config, failpoints=failpoints)


@pytest.mark.parametrize(
    "place", chosen(PLACES, "runs.read", "state.commit.before", "state.commit.after", "runs.commit.after")
)
def test_a_kill_loses_and_doubles_nothing(tmp_path: Path, place: str) -> None:
    lake = ColumnLake(tmp_path)
    lake.arrive({"id": 1}, {"id": 2})
    assert work(lake, f"{place}=kill") == -signal.SIGKILL, f"the failpoint {place} was not reached"
    lake.arrive({"id": 3})
    assert lake.run().ok
    lake.arrive({"id": 4})
    assert work(lake, f"{place}=kill") == -signal.SIGKILL
    assert lake.run().ok
    lake.assert_exactly_once()


@pytest.mark.parametrize("kind", ["file", "sql"])
@pytest.mark.parametrize("place", COPIED)
def test_a_run_that_wrote_and_could_not_save_completes_the_save_and_writes_no_row_again(
    tmp_path: Path, place: str, kind: str
) -> None:
    lake = ColumnLake(tmp_path, settings=STATE[kind])
    lake.arrive({"id": 1})
    assert lake.run().ok
    lake.arrive({"id": 2})
    assert work(lake, f"{place}=kill") == -signal.SIGKILL, f"the failpoint {place} was not reached"
    report = lake.run()
    assert (report.ok, report.sources[0].rows) == (True, 0)
    lake.assert_exactly_once([1, 2])
    assert show_watermarks(lake.config, "orders")[0].value == '{"id": 2}'


@pytest.mark.parametrize("kind", STATE)
def test_runs_started_together_write_every_row_once(tmp_path: Path, kind: str) -> None:
    lake = ColumnLake(tmp_path, settings=STATE[kind])
    lake.arrive(*({"id": number} for number in range(50)))
    processes = [scripts.start(WORKER, lake.config) for _ in range(3)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0, 0]
    lake.assert_exactly_once()
