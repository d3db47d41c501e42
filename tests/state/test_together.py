"""Several sources of one table in one commit: all of them move, or none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from state.lake import SCHEMA, Lake
from support.errors import raises
from tidegate.errors import CommitLost, ObjectMissing, SchemaMismatch, StateError, TableError
from tidegate.failpoints import InjectedFailure, arm
from tidegate.protocol.change import AppendFiles, Change, NextState, Written
from tidegate.protocol.commit import Member, commit_together
from tidegate.protocol.position import Position
from tidegate.protocol.store import PositionStore

WIDER = pa.schema([*SCHEMA, pa.field("note", pa.string())])
STRUCT = pa.schema([*SCHEMA, pa.field("at", pa.struct([("x", pa.int64())]))])
LARGER_STRUCT = pa.schema([*SCHEMA, pa.field("at", pa.struct([("x", pa.int64()), ("y", pa.int64())]))])


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.local(tmp_path / "table")


def member(lake: Lake, source: str, end: int, steps: int = 1, **more: Any) -> Member:
    """One source, freshly opened, that wants to bring its records up to ``end``."""
    positions = lake.positions(source)
    opened = positions.open()
    start = 0 if opened.state is None else opened.state["next"]
    return Member(positions.site, opened, lake.change(start, end, source, **more), steps)


def versions(lake: Lake, *sources: str) -> list[int]:
    return [lake.positions(source).position() for source in sources]


def test_one_log_entry_moves_both_and_brings_the_rows_of_both(lake: Lake) -> None:
    one, two = commit_together([member(lake, "a", 3), member(lake, "b", 5)])
    assert (one.version, two.version, one.table_version, two.table_version) == (1, 1, 0, 0)
    assert (lake.ids("a"), lake.ids("b")) == ([0, 1, 2], [0, 1, 2, 3, 4])
    assert sum("txn" in action for action in lake.log(0)) == 2
    assert [lake.positions(name).open().state for name in "ab"] == [{"next": 3}, {"next": 5}]


def test_a_source_may_move_by_several_positions_and_goes_on_from_there(lake: Lake) -> None:
    commit_together([member(lake, "a", 3, steps=4), member(lake, "b", 1)])
    again = lake.positions("a")
    opened = again.commit(again.open(), lake.change(3, 4, "a"))
    assert (opened.version, versions(lake, "a", "b")) == (5, [5, 1])
    assert lake.positions("a").open().parent == opened.parent
    assert lake.ids("a") == [0, 1, 2, 3]


def test_when_one_source_was_moved_by_another_run_none_of_them_moves(lake: Lake) -> None:
    commit_together([member(lake, "a", 1), member(lake, "b", 1)])
    ours = [member(lake, "a", 2), member(lake, "b", 2)]
    rival = lake.positions("b")
    rival.commit(rival.open(), lake.change(1, 3, "b"))
    with raises(CommitLost, "p/b", "position 2", "attempt"):
        commit_together(ours)
    assert versions(lake, "a", "b") == [1, 2]
    assert (lake.ids("a"), lake.ids("b")) == ([0], [0, 1, 2])


def test_of_two_that_create_the_table_one_wins_and_the_other_is_told(lake: Lake) -> None:
    ours, rivals = [[member(lake, "a", 2), member(lake, "b", 2)] for _ in range(2)]
    commit_together(rivals)
    with pytest.raises(CommitLost):
        commit_together(ours)
    assert (lake.ids("a"), lake.ids("b")) == ([0, 1], [0, 1])


def test_a_new_table_has_the_columns_of_all(lake: Lake) -> None:
    wider = member(lake, "b", 1, schema=WIDER, columns={"note": ["x"]})
    commit_together([member(lake, "a", 1), wider])
    assert [field.name for field in lake.table().schema().fields] == ["id", "source", "note"]
    assert (lake.ids("a"), lake.ids("b")) == ([0], [0])


def test_fields_that_two_sources_bring_to_the_same_struct_are_both_added(lake: Lake) -> None:
    commit_together([member(lake, "a", 1)])
    x = member(lake, "a", 2, schema=STRUCT, columns={"at": [{"x": 1}]})
    y = member(lake, "b", 1, schema=LARGER_STRUCT, columns={"at": [{"x": 1, "y": 2}]})
    commit_together([x, y])
    assert lake.table().schema().to_json().count('"name":"y"') == 1
    assert (lake.ids("a"), lake.ids("b")) == ([0, 1], [0])


def test_files_with_different_columns_in_one_change_are_checked_each(lake: Lake) -> None:
    commit_together([member(lake, "a", 1)])
    plain, wider = lake.change(1, 2, "a"), lake.change(2, 3, "a", schema=WIDER, columns={"note": ["x"]})
    both = Change(wider.next, AppendFiles((*plain.write.groups, *wider.write.groups)))
    positions = lake.positions("a")
    positions.commit(positions.open(), both)
    assert lake.ids("a") == [0, 1, 2]
    assert "note" in [field.name for field in lake.table().schema().fields]


def test_columns_that_do_not_fit_stop_all_of_them(lake: Lake) -> None:
    commit_together([member(lake, "a", 1)])
    other = pa.schema([("id", pa.string()), ("source", pa.string())])
    bad = Written(other, (), (lake.data_file(pa.table({"id": ["x"], "source": ["b"]}, schema=other)),))
    positions = lake.positions("b")
    change = Change(NextState.of({"next": 1}), AppendFiles((bad,)))
    with raises(SchemaMismatch, "'id'", "int64", "string"):
        commit_together([member(lake, "a", 2), Member(positions.site, positions.open(), change)])
    assert versions(lake, "a", "b") == [1, 0]


def test_a_missing_file_of_one_stops_all_of_them(lake: Lake) -> None:
    gone = member(lake, "b", 1)
    lake.store.delete(gone.change.write.data_files[0].path)
    with pytest.raises(ObjectMissing):
        commit_together([member(lake, "a", 1), gone])
    assert not (lake.path / "_delta_log").exists()


def test_the_same_file_in_two_members_is_refused(lake: Lake) -> None:
    one = member(lake, "a", 1)
    positions = lake.positions("b")
    with raises(TableError, "data file", "twice"):
        commit_together([one, Member(positions.site, positions.open(), one.change)])


@pytest.mark.parametrize(
    "place", ["state.document.after", "state.commit.before", "state.commit.after", "state.won.after"]
)
def test_wherever_it_crashes_a_restart_finds_all_or_none(lake: Lake, place: str) -> None:
    arm(f"{place}=raise")
    try:
        commit_together([member(lake, "a", 2), member(lake, "b", 2)])
    except InjectedFailure:
        pass
    finally:
        arm("")
    found = [lake.positions(name).open() for name in "ab"]
    assert len({opened.version for opened in found}) == 1
    rest = [_rest(lake, name, opened) for name, opened in zip("ab", found, strict=True)]
    if all(rest):
        commit_together([each for each in rest if each])
    assert (lake.ids("a"), lake.ids("b")) == ([0, 1], [0, 1])


def _rest(lake: Lake, source: str, opened: Position) -> Member | None:
    positions: PositionStore = lake.positions(source)
    return Member(positions.site, opened, lake.change(0, 2, source)) if opened.first_run else None


def test_a_restore_since_they_were_opened_stops_all_of_them(lake: Lake) -> None:
    commit_together([member(lake, "a", 1), member(lake, "b", 1)])
    commit_together([member(lake, "a", 2)])
    ours = [member(lake, "b", 2), member(lake, "a", 3)]
    lake.table().restore(0)
    with raises(StateError, "p/b", "version 2", "tidegate recover --accept restore"):
        commit_together(ours)
