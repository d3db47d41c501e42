"""Whole process trees with Spark in them, killed or told to stop; through the command line, as users run it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.lake import Lake

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TIDEGATE = [sys.executable, "-m", "tidegate"]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path, source_settings={"poll_interval_secs": 1}, settings={"spark": {"master": "local[2]"}})
    for number in range(6):
        lake.arrive(f"date=2026-01-28/hour=12/{number}.ndjson.gz")
    return lake


def test_a_kill_between_write_and_commit_neither_loses_nor_doubles(lake: Lake) -> None:
    env = {**os.environ, "TIDEGATE_FAILPOINTS": "runs.commit.before=kill"}
    run = [*TIDEGATE, "run", str(lake.config)]
    killed = subprocess.run(run, env=env, capture_output=True, timeout=120)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert list((lake.root / "lake/events").glob("*.parquet")), "rows were to be written before the kill"
    assert lake.ids() == []
    again = subprocess.run(run, capture_output=True, timeout=120)
    assert again.returncode == 0, again.stderr
    lake.assert_exactly_once()


def test_sigterm_ends_a_continuous_run_cleanly(lake: Lake) -> None:
    run = subprocess.Popen([*TIDEGATE, "run", str(lake.config), "--continuous"], stderr=subprocess.PIPE)
    try:
        wait_until(lambda: len(lake.ids()) == 60)
        lake.arrive("date=2026-01-28/hour=12/7.ndjson.gz")
        run.send_signal(signal.SIGTERM)
        _, told = run.communicate(timeout=30)
    finally:
        run.kill()
    assert run.returncode == 0, told
    assert b"Traceback" not in told
    assert subprocess.run([*TIDEGATE, "run", str(lake.config)], capture_output=True, timeout=120).returncode == 0
    lake.assert_exactly_once()


def wait_until(holds: object, seconds: float = 90) -> None:
    assert callable(holds)
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.5)
