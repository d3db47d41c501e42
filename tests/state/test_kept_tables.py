"""A commit goes on from the table that the last one was built on, unless that may be another one by now."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from state.lake import Lake
from support.errors import raises
from tidegate.errors import CommitLost, StateError
from tidegate.protocol import delta
from tidegate.protocol.delta import DeltaLakeTable
from tidegate.protocol.position import Position
from tidegate.protocol.store import PositionStore


class Writer:
    """A run that has committed a few times."""

    def __init__(self, lake: Lake, source: str = "s") -> None:
        self.lake, self.source = lake, source
        self.positions: PositionStore = lake.positions(source)
        self.opened: Position = self.positions.open()
        for _ in range(3):
            self.commit()

    def commit(self) -> Position:
        start = 0 if self.opened.state is None else int(self.opened.state["next"])
        self.opened = self.positions.commit(self.opened, self.lake.change(start, start + 1, self.source))
        return self.opened


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.local(tmp_path / "table")


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every load of a table by the library."""
    load, counted = DeltaLakeTable._load, list[int]()

    def count(table: DeltaLakeTable) -> Any:
        counted.append(1)
        return load(table)

    monkeypatch.setattr(DeltaLakeTable, "_load", count)
    return counted


def test_further_commits_of_a_run_load_nothing(lake: Lake, loads: list[int]) -> None:
    writer = Writer(lake)
    loads.clear()
    for _ in range(5):
        writer.commit()
    assert (loads, lake.ids()) == ([], list(range(8)))


def test_what_others_committed_in_between_is_seen(lake: Lake) -> None:
    writer = Writer(lake)
    other = Writer(lake, "other")
    for number in range(20):
        write_deltalake(lake.location.uri, pa.table({"id": [number], "source": ["foreign"]}), mode="append")
        writer.commit()
        if number % 3 == 0:
            other.commit()
    assert lake.ids() == list(range(23))
    assert lake.ids("other") == list(range(10))
    assert lake.ids("foreign") == list(range(20))
    assert writer.positions.open().version == 23


def test_another_run_of_the_source_is_seen(lake: Lake) -> None:
    writer, second = Writer(lake), lake.positions()
    second.commit(second.open(), lake.change(3, 4))
    with raises(CommitLost, "position 4"):
        writer.commit()
    assert lake.ids() == [0, 1, 2, 3]


def test_a_table_that_was_made_anew_is_not_taken_for_the_kept_one(lake: Lake) -> None:
    writer = Writer(lake)
    shutil.rmtree(lake.path / "_delta_log")
    for number in range(6):
        write_deltalake(lake.location.uri, pa.table({"id": [number], "source": ["new"]}), mode="append")
    with raises(StateError, "was replaced"):
        writer.commit()
    assert lake.ids("new") == list(range(6))


def test_a_table_that_is_gone_is_not_taken_for_the_kept_one(lake: Lake) -> None:
    writer = Writer(lake)
    shutil.rmtree(lake.path / "_delta_log")
    with raises(StateError, "there is no table any more"):
        writer.commit()


def test_a_log_put_back_from_a_backup_is_not_taken_for_the_kept_one(lake: Lake) -> None:
    """The same table at the same version: only the entries differ."""
    writer = Writer(lake)
    (lake.path / "_delta_log" / f"{2:020d}.json").unlink()
    write_deltalake(lake.location.uri, pa.table({"id": [9], "source": ["foreign"]}), mode="append")
    # The source is at position 2 in this log, and the run at 3.
    with pytest.raises((CommitLost, StateError)):
        writer.commit()
    assert lake.ids() == [0, 1]


def test_a_log_that_was_cleaned_up_is_loaded(lake: Lake, loads: list[int]) -> None:
    writer = Writer(lake)
    write_deltalake(lake.location.uri, pa.table({"id": [9], "source": ["foreign"]}), mode="append")
    lake.table().create_checkpoint()
    for version in range(3):
        (lake.path / "_delta_log" / f"{version:020d}.json").unlink()
    loads.clear()
    writer.commit()
    assert loads
    assert lake.ids() == [0, 1, 2, 3]


def test_a_table_of_many_files_is_not_kept(lake: Lake, loads: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta, "_KEPT_FILES", 4)
    writer = Writer(lake)
    loads.clear()
    for _ in range(6):
        writer.commit()
    assert len(loads) == 3
    assert lake.ids() == list(range(9))
