"""Killed anywhere while taking over or recovering a position, or started twice: the next try finishes it, rows once."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from support import scripts
from support.lake import Lake
from support.long_runs import chosen

PLACES = (
    "state.document.after",
    "state.commit.before",
    "state.commit.after",
    "state.won.before",
    "state.mirror.before",
)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path)
    lake.arrive("date=2026-01-28/a.ndjson")
    return lake


def start(lake: Lake, command: str, *more: str, failpoints: str = "") -> scripts.Process:
    return scripts.start("-m", "tidegate", command, lake.config, "-p", "events", *more, failpoints=failpoints)


def finish(process: scripts.Process) -> tuple[int, str]:
    return process.wait(), process.output


def left_by_blizzard(lake: Lake) -> None:
    """The rows of file ``a`` are in the table, and a checkpoint says so."""
    schema = pa.schema(
        [pa.field("id", pa.int64(), nullable=False), ("ts", pa.timestamp("us", tz="UTC")), ("event", pa.string())]
    )
    rows = pa.table({"id": list(range(10)), "ts": [None] * 10, "event": ["view"] * 10}, schema=schema)
    transaction = Transaction("penguin-events", 1, int(time.time() * 1000))
    target = lake.root / "lake/events"
    properties = CommitProperties(app_transactions=[transaction])
    write_deltalake(str(target), rows, commit_properties=properties)
    (target / "_blizzard").mkdir()
    checkpoint = {"watermark": "date=2026-01-28/a.ndjson"}
    (target / "_blizzard/events_default_checkpoint.json").write_text(json.dumps(checkpoint))


def lost(lake: Lake) -> None:
    """Two positions, of which the newer has lost its document and its log entry."""
    lake.run()
    lake.arrive("date=2026-01-28/b.ndjson")
    lake.run()
    target = lake.root / "lake/events"
    (document,) = (target / "_tidegate/events/default").glob(f"{2:020d}-*.json")
    document.unlink()
    table = DeltaTable(str(target))
    table.create_checkpoint()
    DeltaTable(str(target)).alter.set_table_description("a foreign commit")
    for version in range(table.version() + 1):
        (target / f"_delta_log/{version:020d}.json").unlink()


def position(lake: Lake) -> int:
    return int(DeltaTable(str(lake.root / "lake/events")).transaction_version("tidegate/events/default") or 0)


ADOPT = ("adopt", "--yes", "--quiet-for", "0")
RECOVER = ("recover", "--accept", "mirror")


@pytest.mark.parametrize("place", chosen(PLACES, "state.commit.before", "state.commit.after"))
def test_an_adoption_that_was_killed_is_finished_by_the_next(lake: Lake, place: str) -> None:
    left_by_blizzard(lake)
    assert finish(start(lake, *ADOPT, failpoints=f"{place}=kill"))[0] == -9
    code, output = finish(start(lake, *ADOPT))
    assert code == 0, output
    assert position(lake) == 1
    lake.arrive("date=2026-01-28/b.ndjson")
    assert lake.run().ok
    lake.assert_exactly_once()


@pytest.mark.parametrize("place", chosen(PLACES, "state.commit.before", "state.commit.after"))
def test_a_recovery_that_was_killed_is_finished_by_the_next(lake: Lake, place: str) -> None:
    lost(lake)
    assert finish(start(lake, *RECOVER, failpoints=f"{place}=kill"))[0] == -9
    code, output = finish(start(lake, *RECOVER))
    assert code == 0, output
    assert position(lake) == 3
    lake.arrive("date=2026-01-28/c.ndjson")
    assert lake.run().ok
    lake.assert_exactly_once()


def test_an_adoption_whose_response_was_lost_is_recognised(lake: Lake) -> None:
    left_by_blizzard(lake)
    code, output = finish(start(lake, *ADOPT, failpoints="state.commit.after=raise"))
    assert (code, position(lake)) == (0, 1), output


def test_of_two_adoptions_at_once_one_writes_the_position(lake: Lake) -> None:
    left_by_blizzard(lake)
    both = [start(lake, *ADOPT, failpoints="state.commit.before=sleep:1") for _ in range(2)]
    codes = sorted(finish(process)[0] for process in both)
    assert codes in ([0, 0], [0, 1])
    assert position(lake) == 1
    lake.arrive("date=2026-01-28/b.ndjson")
    assert lake.run().ok
    lake.assert_exactly_once()
