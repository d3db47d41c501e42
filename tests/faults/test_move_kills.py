"""A watermark moved from the command line, killed or overtaken at the commit: it moved, or nothing happened."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from support import scripts
from support.lake import Lake, assert_same
from tidegate import show_watermarks

HOUR = "date=2026-01-28/hour=12"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path)
    for number in range(4):
        lake.arrive(f"{HOUR}/{number}.ndjson")
    assert lake.run().ok
    return lake


def moving(lake: Lake, to: str, failpoints: str = "") -> scripts.Process:
    command = ["-m", "tidegate", "watermark", "set", lake.config, "-p", "events", "--yes"]
    return scripts.start(*command, "--to", f"{HOUR}/{to}", failpoints=failpoints)


@pytest.mark.parametrize(("place", "doubled"), [("state.commit.before", []), ("state.commit.after", range(20, 40))])
def test_a_killed_move_happened_or_did_not(lake: Lake, place: str, doubled: range | list[int]) -> None:
    assert moving(lake, "1.ndjson", f"{place}=kill").wait() == -signal.SIGKILL
    for _ in range(2):
        assert lake.run().ok
        assert_same(lake.ids(), [*range(40), *doubled])


def test_a_move_that_slept_through_another_is_told_so_and_changes_nothing(lake: Lake) -> None:
    sleeper = moving(lake, "1.ndjson", "state.commit.before=stop")
    try:
        sleeper.wait_until_stopped()
        assert moving(lake, "2.ndjson").wait() == 0
        sleeper.send_signal(signal.SIGCONT)
        assert sleeper.wait() == 6
    finally:
        sleeper.kill()
    assert "position 2 was taken by attempt" in sleeper.output
    assert show_watermarks(lake.config, "events")[0].value == f"{HOUR}/2.ndjson"
