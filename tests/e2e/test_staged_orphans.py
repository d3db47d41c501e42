"""What waits for a commit is no orphan; what no commit will ever name is."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from support.lake import Lake
from support.reconciling import DAY, clean, compare, leave_behind
from support.staging import commit, pending, staged, units
from tidegate.parquet.parquet_file import uuid7

HOUR = "date=2026-01-28/hour=12"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path, pipeline_settings={"delivery": "staged"})
    staged(lake, f"{HOUR}/0.ndjson")
    commit(lake)
    return lake


def aged(lake: Lake) -> Lake:
    """Every Parquet file two days ago."""
    moment = time.time() - 2 * DAY.total_seconds()
    for path in (lake.root / "lake/events").rglob("*.parquet"):
        os.utime(path, (moment, moment))
    return lake


def foreign(lake: Lake) -> None:
    """A file of a foreign writer whose name could be ours."""
    name = f"{uuid7()}.parquet"
    (lake.root / "lake/events" / name).write_bytes(b"PAR1")
    told = {"filename": name, "size": 4, "record_count": 0, "partition_values": {}, "source_file": None}
    (pending(lake) / "foreign.meta.json").write_text(json.dumps(told))


def test_files_of_pending_units_and_foreign_metas_are_no_orphans(lake: Lake) -> None:
    staged(lake, f"{HOUR}/1.ndjson")
    foreign(lake)
    (table,) = compare(aged(lake).project).tables
    assert (table.data_files, table.orphans.count, table.young.count, table.error) == (3, 0, 0, None)


def test_files_of_a_unit_that_never_came_are_orphans(lake: Lake) -> None:
    staged(lake, f"{HOUR}/1.ndjson")
    (unit,) = units(lake)
    for signal in pending(lake).rglob("*.unit.json"):
        signal.unlink()
    (table,) = compare(aged(lake).project).tables
    assert [file.path for file in table.orphans.files] == [unit.data_files[0].path]
    clean(lake.project)
    assert not list(pending(lake).glob("*.meta.json"))


def test_nothing_is_cleaned_while_units_wait_and_then_the_fence_keeps_sleepers_off(lake: Lake) -> None:
    staged(lake, f"{HOUR}/1.ndjson", f"{HOUR}/2.ndjson")
    _, third = sorted(pending(lake).rglob("*.unit.json"))
    aside = lake.root / "aside"
    third.rename(aside)
    left = leave_behind(lake.root / "lake/events")
    (table,) = clean(aged(lake).project).tables
    assert "units wait" in str(table.error)
    assert left.exists()
    commit(lake)
    (table,) = clean(aged(lake).project).tables
    assert (table.error, table.removed.count) == (None, 2)
    aside.rename(third)
    assert commit(lake).dropped == 1
    assert lake.run().ok
    commit(lake)
    lake.assert_exactly_once()
