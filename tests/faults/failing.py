"""Runs that fail at one failpoint in one way, and what they leave."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from faults.worker import CRASHED, LOST, SURVIVED
from support.lake import Lake
from tidegate import list_letters, status
from tidegate.experiments.workers import Workers

KILLED = -signal.SIGKILL


ENDS = {"kill": {KILLED}, "raise": {CRASHED, SURVIVED}, "lose": {LOST, SURVIVED}}


def start(workers: Workers, lake: Lake, failpoints: str = "", **more: Any) -> int:
    return workers.start({"config": str(lake.config), "failpoints": failpoints, **more})


def work(workers: Workers, lake: Lake, failpoints: str = "", **more: Any) -> int:
    return workers.wait(start(workers, lake, failpoints, **more))


def stopped(workers: Workers, lake: Lake, failpoint: str) -> int:
    """A worker that stands still at ``failpoint``."""
    pid = start(workers, lake, f"{failpoint}=stop")
    deadline = time.monotonic() + 60
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < deadline, f"the failpoint {failpoint} was not reached"
        time.sleep(0.01)
    return pid


def go_on(workers: Workers, pid: int) -> int:
    os.kill(pid, signal.SIGCONT)
    return workers.wait(pid)


def arrive_with_a_bad_line(lake: Lake) -> None:
    number = lake.next_id
    lake.next_id += 1
    lake.expected.append(number)
    lake.write("date=2026-01-28/hour=13/0b.ndjson", f'{{"id": {number}}}\n{{"id": "bad"}}\n')


def assert_one_letter(lake: Lake) -> None:
    (letter,) = list_letters(lake.config, "events")
    assert (letter.line, letter.text) == (2, '{"id": "bad"}')
    (now,) = status(lake.config)
    assert now.open_letters == 1
