"""Rows replaced in one commit, against real Delta tables: whatever happens meanwhile, they are there once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from state.lake import SCHEMA, Lake, ingest
from support.errors import raises
from tidegate import failpoints
from tidegate.errors import CommitLost, StorageUnavailable, TableError, UnsupportedTable
from tidegate.protocol.change import Change, NextState, ReplaceRows
from tidegate.protocol.commit import Member, commit_together
from tidegate.protocol.table import TableFacts, TableProtocol
from tidegate.protocol.table_checks import check_replaceable
from tidegate.specs.locations import Location

Meanwhile = Callable[[], None]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Six rows of source s in six files."""
    lake = Lake.local(tmp_path / "table")
    ingest(lake, lake.positions(), 6)
    return lake


def replacement(ids: list[int], instead_of: list[int], *meanwhile: Meanwhile) -> ReplaceRows:
    """Rows with ``ids``; each call of ``meanwhile`` happens during one attempt, after its snapshot was taken."""
    waiting = list(meanwhile)

    def rows(columns: pa.Schema) -> pa.RecordBatchReader:
        if waiting:
            waiting.pop(0)()
        known = {"id": ids, "source": ["s"] * len(ids)}
        table = pa.table({field.name: known.get(field.name, [None] * len(ids)) for field in columns}, schema=columns)
        return table.to_reader()

    return ReplaceRows(f"id IN ({', '.join(map(str, [*instead_of, *ids]))})", rows, SCHEMA, rows=1)


def change(lake: Lake, made: ReplaceRows) -> Change:
    return Change(NextState.of({"next": 6}), made, action="replay")


def test_old_rows_new_rows_and_position_are_one_log_entry(lake: Lake) -> None:
    positions = lake.positions()
    before = positions.open()
    after = positions.commit(before, change(lake, replacement([10, 11], [2, 3])))
    assert (after.version, after.table_version) == (before.version + 1, before.table_version + 1)
    assert lake.ids() == [0, 1, 4, 5, 10, 11]
    kinds = [next(iter(action)) for action in lake.log(after.table_version)]
    assert kinds.count("remove") == 2
    assert kinds.count("txn") == 1
    assert "add" in kinds
    again = lake.positions().open()
    assert (again.version, again.state) == (after.version, {"next": 6})


def test_replacing_by_nothing_removes_rows_and_moves_the_position(lake: Lake) -> None:
    positions = lake.positions()
    after = positions.commit(positions.open(), change(lake, replacement([], [0, 5])))
    assert lake.ids() == [1, 2, 3, 4]
    assert lake.positions().open().version == after.version


def test_replacing_rows_that_are_not_there_still_moves_the_position(lake: Lake) -> None:
    positions = lake.positions()
    after = positions.commit(positions.open(), change(lake, replacement([], [99])))
    assert lake.ids() == [0, 1, 2, 3, 4, 5]
    assert lake.positions().open().version == after.version


def foreign_append(lake: Lake) -> None:
    write_deltalake(lake.location.uri, pa.table({"id": [2], "source": ["other"]}, schema=SCHEMA), mode="append")


def foreign_optimize(lake: Lake) -> None:
    DeltaTable(lake.location.uri).optimize.compact()


def foreign_delete(lake: Lake) -> None:
    DeltaTable(lake.location.uri).delete("id = 5")


@pytest.mark.parametrize(
    ("foreign", "expected"),
    [
        (foreign_append, [0, 1, 3, 4, 5, 10]),
        (foreign_optimize, [0, 1, 3, 4, 5, 10]),
        (foreign_delete, [0, 1, 3, 4, 10]),
    ],
    ids=["append", "optimize", "delete"],
)
def test_what_others_commit_in_between_is_neither_lost_nor_doubled(
    lake: Lake, foreign: Callable[[Lake], None], expected: list[int]
) -> None:
    positions = lake.positions()
    opened = positions.open()
    made = replacement([10], [2], lambda: foreign(lake), lambda: foreign_optimize(lake))
    after = positions.commit(opened, change(lake, made))
    assert after.table_version >= opened.table_version + 2
    assert lake.ids() == expected


def test_another_commit_of_the_source_in_between_wins(lake: Lake) -> None:
    positions = lake.positions()
    opened = positions.open()

    def another_run() -> None:
        other = lake.positions()
        other.commit(other.open(), lake.change(6, 7))

    with pytest.raises(CommitLost):
        positions.commit(opened, change(lake, replacement([10], [2], another_run)))
    assert lake.ids() == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("place", ["state.commit.before", "state.commit.after"])
def test_an_error_at_the_commit_decides_nothing(lake: Lake, place: str) -> None:
    positions = lake.positions()
    opened = positions.open()
    failpoints.arm(f"{place}=raise")
    try:
        after = positions.commit(opened, change(lake, replacement([10], [2])))
    finally:
        failpoints.arm("")
    assert after.table_version == opened.table_version + 1
    assert lake.ids() == [0, 1, 3, 4, 5, 10]


def test_a_row_that_does_not_belong_to_the_replaced_ones_is_never_written(lake: Lake) -> None:
    outside = {"id": [10], "source": ["s"]}
    wrong = ReplaceRows("id = 2", lambda columns: pa.table(outside, schema=columns).to_reader(), SCHEMA)
    positions = lake.positions(deadline_secs=0.5)
    with raises(StorageUnavailable, "p/s", "position 7", "cannot replace rows"):
        positions.commit(positions.open(), change(lake, wrong))
    assert lake.ids() == [0, 1, 2, 3, 4, 5]


def test_replaced_rows_do_not_share_a_commit_with_other_sources(lake: Lake) -> None:
    ours, theirs = lake.positions(), lake.positions("t")
    replacing = Member(ours.site, ours.open(), change(lake, replacement([10], [2])))
    with pytest.raises(TableError):
        commit_together([replacing, Member(theirs.site, theirs.open(), lake.change(0, 1, "t"))])
    assert (lake.ids(), lake.ids("t")) == ([0, 1, 2, 3, 4, 5], [])


def test_a_table_with_deletion_vectors_is_refused() -> None:
    protocol = TableProtocol(3, 7, ("deletionVectors",), ("deletionVectors",))
    with raises(UnsupportedTable, "'deletionVectors'", "DROP FEATURE deletionVectors"):
        check_replaceable(TableFacts(1, "id", protocol, "{}"), "file:///t")


def test_a_table_that_only_grows_is_refused_before_anything_is_written(lake: Lake) -> None:
    DeltaTable(lake.location.uri).alter.set_table_properties({"delta.appendOnly": "true"})
    positions = lake.positions()
    with raises(UnsupportedTable, "delta.appendOnly", "UNSET TBLPROPERTIES"):
        positions.commit(positions.open(), change(lake, replacement([10], [2])))
    assert lake.ids() == [0, 1, 2, 3, 4, 5]


def test_a_table_in_memory_says_that_it_has_no_rows_to_replace() -> None:
    lake = Lake(Location("memory://replacing/table"))
    positions = lake.positions(deadline_secs=0.1)
    opened = positions.commit(positions.open(), lake.change(0, 1))
    with raises(StorageUnavailable, "p/s", "position 2", "memory://replacing/table", "rows"):
        positions.commit(opened, change(lake, replacement([10], [2])))
