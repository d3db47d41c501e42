"""A SIGKILL while late files are read, then again: each is in the table once."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from support import scripts
from support.lake import Lake
from support.long_runs import chosen
from support.reconciling import ingest

HOUR = "date=2026-01-28/hour=12"
WORKER = """
import sys
from support.reconciling import ingest
from tidegate import load
sys.exit(0 if ingest(load(sys.argv[1])).ok else 1)
"""


def work(lake: Lake, failpoints: str = "") -> int:
    return scripts.run("-c", WORKER, lake.config, failpoints=failpoints)


@pytest.mark.parametrize(
    "place",
    chosen(
        ["sink.upload.after", "runs.read", "state.document.after", "state.commit.after", "state.won.before"],
        "runs.read",
        "state.commit.after",
    ),
)
def test_a_kill_while_late_files_are_read_loses_and_doubles_nothing(tmp_path: Path, place: str) -> None:
    lake = Lake(tmp_path, source_settings={"late_window": 1})
    for number in range(10, 15):
        lake.arrive(f"{HOUR}/{number}.ndjson")
    lake.run()
    for number in range(10, 13):
        lake.arrive(f"{HOUR}/{number}-late.ndjson")
    assert work(lake, f"{place}=kill") == -signal.SIGKILL
    assert work(lake) == 0
    lake.assert_exactly_once()
    assert lake.run().sources[0].files == 0
    assert ingest(lake.project).sources[0].commits == 0
    lake.assert_exactly_once()
