"""The same run on other kinds of sessions: separate executors, Spark Connect. Each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.lake import Lake
from support.long_runs import chosen

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TWICE = """
import sys, tidegate
first = tidegate.run(sys.argv[1])
assert first.ok, first
assert sum(source.rows for source in first.sources) == 60, first
second = tidegate.run(sys.argv[1])
assert second.ok and second.sources[0].state == "Idle", second
"""


SESSIONS = {"local-cluster": {"master": "local-cluster[2,1,1024]"}, "connect": {"remote": "local"}}
"""A cluster is also what ``test_spark_faults`` runs on."""


@pytest.mark.parametrize("kind", chosen(list(SESSIONS), "connect"))
def test_a_run_gives_the_same_on_every_kind_of_session(tmp_path: Path, kind: str) -> None:
    lake = Lake(tmp_path, settings={"spark": SESSIONS[kind]})
    for number in range(6):
        lake.arrive(f"date=2026-01-28/hour=12/{number}.ndjson.gz")
    done = subprocess.run(
        [sys.executable, "-c", TWICE, str(lake.config)], capture_output=True, text=True, timeout=240, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lake.assert_exactly_once()
