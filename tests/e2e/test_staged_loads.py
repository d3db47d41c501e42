"""How often a committer loads the table, and what it sees of commits that others make in between."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from support.lake import Lake
from support.staging import commit, staged
from tidegate.failpoints import arm, arm_by
from tidegate.protocol.delta import DeltaLakeTable

HOUR = "date=2026-01-28/hour=12"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path, pipeline_settings={"delivery": "staged"})
    staged(lake, f"{HOUR}/0.ndjson")
    commit(lake)
    return lake


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    arm("")


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The table version of each snapshot that was loaded."""
    found: list[int] = []
    load = DeltaLakeTable.snapshot

    def counted(table: DeltaLakeTable) -> Any:
        snapshot = load(table)
        found.append(-1 if snapshot is None else snapshot.facts.version)
        return snapshot

    monkeypatch.setattr(DeltaLakeTable, "snapshot", counted)
    return found


def newest_document(lake: Lake, folder: str) -> dict[str, Any]:
    """The last state document of a position."""
    path = max((lake.root / "lake/events/_tidegate" / folder).glob("*.json"))
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_all_positions_are_opened_by_one_snapshot_and_the_commit_loads_its_own(lake: Lake, loads: list[int]) -> None:
    staged(lake, f"{HOUR}/1.ndjson")
    loads.clear()
    assert commit(lake).units == 1
    assert loads == [0, 0]
    lake.assert_exactly_once()


def test_a_commit_of_someone_else_between_two_positions_is_seen(lake: Lake, loads: list[int]) -> None:
    staged(lake, f"{HOUR}/1.ndjson")
    loads.clear()

    def interfere(place: str) -> None:
        if place == "staging.commit.listed" and loads == [0]:
            DeltaTable(str(lake.root / "lake/events")).alter.set_table_properties({"delta.checkpointInterval": "7"})

    arm_by(interfere)
    assert commit(lake).units == 1
    assert loads == [0, 1, 1]
    assert newest_document(lake, "_committer/staging")["delta_version"] == 0
    assert newest_document(lake, "events/default")["delta_version"] == 1
    lake.assert_exactly_once()
