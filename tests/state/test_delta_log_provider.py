"""The Delta log as a provider: a save is a commit that holds the position alone, by the same protocol as any other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from state.lake import Lake
from support.errors import raises
from support.providers import text
from tidegate.core.columns.state import ColumnState, encode_columns
from tidegate.errors import StateError, WatermarkError
from tidegate.protocol.change import NextState
from tidegate.protocol.providers import DeltaLogMetadataProvider

IDS = {"job_id": None, "dataflow_run_id": None}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.local(tmp_path / "table")


@pytest.fixture
def provider(lake: Lake) -> DeltaLogMetadataProvider:
    return DeltaLogMetadataProvider(lambda dataflow_id: lake.positions(dataflow_id.rpartition("/")[2]))


def commit_rows(lake: Lake, start: int, end: int) -> None:
    """Rows, and the watermark that covers them, in one commit."""
    state = encode_columns(ColumnState({"id": end}))
    positions, rows = lake.positions(), lake.change(start, end)
    positions.commit(positions.open(), replace(rows, next=NextState.whole(state)))


def test_the_watermark_is_that_of_the_newest_commit(lake: Lake, provider: DeltaLogMetadataProvider) -> None:
    commit_rows(lake, 0, 2)
    commit_rows(lake, 2, 5)
    assert provider.get_watermark("p/s") == '{"id": 5}'


def test_a_save_is_a_commit_with_the_position_alone(lake: Lake, provider: DeltaLogMetadataProvider) -> None:
    commit_rows(lake, 0, 2)
    provider.update_watermark("p/s", text(7), **IDS)
    actions = lake.log(1)
    assert sorted(name for action in actions for name in action) == ["commitInfo", "txn"]
    assert lake.positions().position() == 2
    assert lake.ids() == [0, 1]
    newest = sorted(lake.path.glob(f"_tidegate/p/s/{2:020d}-*.json"))
    assert ['"action":"watermark set"' in document.read_text() for document in newest] == [True]


def test_looking_writes_nothing(lake: Lake, provider: DeltaLogMetadataProvider) -> None:
    commit_rows(lake, 0, 2)
    before = sorted(path for path in lake.path.rglob("*"))
    provider.get_watermark("p/s")
    assert sorted(path for path in lake.path.rglob("*")) == before


def test_without_a_table_there_is_no_log_to_save_in(lake: Lake, provider: DeltaLogMetadataProvider) -> None:
    assert provider.get_watermark("p/s") is None
    with raises(StateError, "p/s", "no table"):
        provider.update_watermark("p/s", text(1), **IDS)
    assert not lake.path.exists()


def test_text_that_is_no_watermark_is_not_committed(lake: Lake, provider: DeltaLogMetadataProvider) -> None:
    commit_rows(lake, 0, 2)
    with pytest.raises(WatermarkError):
        provider.update_watermark("p/s", "{oops", **IDS)
    assert lake.positions().position() == 1


def test_a_position_of_another_kind_is_an_error(lake: Lake, provider: DeltaLogMetadataProvider) -> None:
    positions = lake.positions()
    positions.commit(positions.open(), lake.change(0, 2))
    with raises(StateError, "watermark columns"):
        provider.get_watermark("p/s")
