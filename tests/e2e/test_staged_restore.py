"""A RESTORE of a staged table: each source stops until somebody accepts it, and then the committer goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from support.lake import Lake
from support.staging import commit, staged, units
from tidegate import recover
from tidegate.observe import events

HOUR = "date=2026-01-28/hour=12"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Three commits of ten rows, the last of which was taken back."""
    lake = Lake(tmp_path, pipeline_settings={"delivery": "staged"})
    for number in range(3):
        staged(lake, f"{HOUR}/{number}.ndjson")
        assert commit(lake).units == 1
    return lake


def restored(lake: Lake) -> None:
    DeltaTable(lake.table.uri).restore(1)
    lake.expected = lake.expected[:20] + lake.expected[30:]


def test_an_accepted_restore_lets_staged_units_be_committed_again(lake: Lake) -> None:
    restored(lake)
    (check,) = recover(lake.config, "events", accept=["restore"])
    assert check.verdict == "ok"
    staged(lake, f"{HOUR}/3.ndjson")
    table = commit(lake)
    assert (table.error, table.units, table.rows) == (None, 1, 10)
    assert any("was restored" in each.text for each in lake.seen if isinstance(each, events.Notice))
    lake.assert_exactly_once()
    staged(lake, f"{HOUR}/4.ndjson")
    assert commit(lake).units == 1
    lake.assert_exactly_once()


def test_until_then_a_unit_of_the_source_waits_and_says_why(lake: Lake) -> None:
    staged(lake, f"{HOUR}/3.ndjson")
    restored(lake)
    table = commit(lake)
    assert (table.units, table.rows) == (0, 0)
    assert "recover --accept restore" in (table.sources[0].error or "")
    assert len(units(lake)) == 1
    recover(lake.config, "events", accept=["restore"])
    assert commit(lake).dropped == 1
    assert lake.run().ok
    assert commit(lake).units == 1
    lake.assert_exactly_once()
