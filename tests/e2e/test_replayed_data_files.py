"""The ledger knows the Parquet files of a replay although the Delta library chose their names."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

import tidegate
from support.lake import Lake
from support.replaying import replay
from tidegate.commands.project import sources_of
from tidegate.failpoints import arm
from tidegate.protocol.follow_ups import write_won
from tidegate.protocol.ledger import Ledger

DAY = "date=2026-01-28"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(
        tmp_path,
        sink_settings={
            "metadata_columns": ["_source_file"],
            "partition_by": {"prefix_template": "date=%Y-%m-%d", "column": "ts"},
        },
    )
    for number in range(3):
        lake.arrive(f"{DAY}/{number}.ndjson")
    assert lake.run().ok
    return lake


def data_files(lake: Lake) -> tuple[str, ...]:
    (place,) = sources_of(lake.project, "events")
    newest = place.positions.open(read_only=True).parent
    *_, last = Ledger(place.table_store, place.key).entries(newest=newest)
    assert last.action == "replay"
    return last.data_files


def test_the_files_of_a_replay_are_in_the_ledger_under_their_own_names(lake: Lake) -> None:
    replay(lake, f"{DAY}/1.ndjson")
    found = data_files(lake)
    assert len(found) == 1
    assert all((lake.root / "lake/events" / name).is_file() for name in found)
    history = tidegate.watermark_history(lake.config, "events")[0].positions[0]
    assert (history.action, history.data_files) == ("replay", 1)


def test_a_replay_that_died_before_its_note_is_noted_by_the_next_look(lake: Lake) -> None:
    arm("state.won.before=raise")
    try:
        replay(lake, f"{DAY}/1.ndjson")
    finally:
        arm("")
    assert lake.run().ok
    assert len(data_files(lake)) == 1


def test_they_stay_known_when_the_note_is_renewed_after_the_log_was_cleaned_up(lake: Lake) -> None:
    replay(lake, f"{DAY}/1.ndjson")
    before = data_files(lake)
    (place,) = sources_of(lake.project, "events")
    opened = place.positions.open()
    DeltaTable(str(lake.root / "lake/events")).create_checkpoint()
    (lake.root / f"lake/events/_delta_log/{opened.committed_at:020d}.json").unlink()
    write_won(place.positions.site, opened)
    assert data_files(lake) == before != ()


def test_a_commit_without_rows_has_none(lake: Lake) -> None:
    tidegate.set_watermark(lake.config, "events", to=f"{DAY}/1.ndjson", confirm=lambda move: True)
    (place,) = sources_of(lake.project, "events")
    *_, last = Ledger(place.table_store, place.key).entries(newest=place.positions.open(read_only=True).parent)
    assert (last.action, last.data_files) == ("watermark set", ())
