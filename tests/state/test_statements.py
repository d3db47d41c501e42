"""Statements of Spark that find nothing to do commit nothing: then the position moves alone, in a commit of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from state.lake import SCHEMA, Lake
from support.errors import raises
from tidegate import failpoints
from tidegate.errors import TableError
from tidegate.observe.events import Committed, Event
from tidegate.protocol.change import Change, NextState, RowChanges, RowCount, SparkWrite
from tidegate.protocol.table import CommitNote


@dataclass
class Statement:
    """Something that Spark is told; what it does is one entry of ``acts`` for each time."""

    acts: list[object]
    asked: list[CommitNote] = field(default_factory=list)
    offered: int | None = None

    def write(self, note: CommitNote, table: pa.Schema | None, *, new_columns: bool) -> None:
        self.asked.append(note)
        act = self.acts.pop(0)
        if isinstance(act, Exception):
            raise act
        if callable(act):
            act()


def change(statement: Statement) -> Change:
    return Change(NextState.of({"next": 5}), SparkWrite(statement, SCHEMA, (), 0))


def begun(folder: Path) -> Lake:
    lake = Lake.local(folder / "t")
    positions = lake.positions()
    positions.commit(positions.open(), lake.change(0, 3))
    return lake


def test_the_position_moves_alone_after_a_statement_that_did_nothing(tmp_path: Path) -> None:
    lake = begun(tmp_path)
    positions, statement = lake.positions(), Statement([None])
    after = positions.commit(positions.open(), change(statement))
    assert (after.version, len(statement.asked), lake.ids()) == (2, 1, [0, 1, 2])
    assert sorted(key for action in lake.log(1) for key in action) == ["commitInfo", "txn"]
    assert lake.positions().open().state == {"next": 5}


def test_changes_are_those_of_the_log_whatever_the_statement_returned(tmp_path: Path) -> None:
    """The answer to a commit that is durable is lost; a statement that finds nothing to do leaves every row alone."""
    lake = begun(tmp_path)
    statement = Statement([])

    def merge_and_fail() -> None:
        ((app_id, version),) = statement.asked[-1].transactions.items()
        metrics = {"numTargetRowsInserted": "1", "numTargetRowsUpdated": "2", "numTargetRowsDeleted": "0"}
        info = {"operation": "MERGE", "operationMetrics": metrics, "userMetadata": statement.asked[-1].user_metadata}
        actions = [{"commitInfo": info}, {"txn": {"appId": app_id, "version": version}}]
        text = "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions)
        lake.store.put(f"_delta_log/{1:020d}.json", text.encode())
        raise OSError("the answer was lost")

    statement.acts += [merge_and_fail, None]
    statement.offered = 10
    seen: list[Event] = []
    positions = lake.positions(emit=seen.append)
    after = positions.commit(positions.open(), change(statement))
    assert after.changes == RowChanges(1, 2, 0, 7)
    after = positions.commit(after, change(statement))
    assert after.changes == RowChanges(0, 0, 0, 10)
    told = [(each.inserted, each.updated, each.deleted, each.unchanged) for each in seen if isinstance(each, Committed)]
    assert told == [(1, 2, 0, 7), (0, 0, 0, 10)]


@pytest.mark.parametrize("gathered", [3, None, 2])
def test_rows_that_spark_did_not_write_are_not_counted_as_good(tmp_path: Path, gathered: int | None) -> None:
    """The commit is durable and its position stands; only what was to be written tells that rows are missing."""
    lake = begun(tmp_path)
    positions = lake.positions()
    statement = Statement([])

    def fewer() -> None:
        ((app_id, version),) = statement.asked[-1].transactions.items()
        info = {"operation": "WRITE", "userMetadata": statement.asked[-1].user_metadata}
        info["operationMetrics"] = {"numOutputRows": "2"}
        actions = [{"commitInfo": info}, {"txn": {"appId": app_id, "version": version}}]
        text = "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions)
        lake.store.put(f"_delta_log/{1:020d}.json", text.encode())

    statement.acts.append(fewer)
    counts = RowCount.LOGGED if gathered is None else RowCount.EXACT
    wanted = replace(change(statement), write=SparkWrite(statement, SCHEMA, (), gathered or 0, counts))
    if gathered == 3:
        with raises(TableError, "p/s", "3 rows", "2", "table version 1", "tidegate watermark set"):
            positions.commit(positions.open(), wanted)
    else:
        positions.commit(positions.open(), wanted)
    after = lake.positions().open()
    assert (after.version, after.state, len(statement.asked)) == (2, {"next": 5}, 1)


def test_a_statement_that_failed_is_given_again(tmp_path: Path) -> None:
    lake = begun(tmp_path)
    positions, statement = lake.positions(), Statement([OSError("reset"), None])
    assert positions.commit(positions.open(), change(statement)).version == 2
    assert len(statement.asked) == 2


def test_a_statement_is_given_again_where_the_table_went_on_meanwhile(tmp_path: Path) -> None:
    """What it did not find then, it may find now; and an entry that somebody replaced is made again."""
    lake = begun(tmp_path)

    def somebody_else() -> None:
        write_deltalake(lake.location.uri, pa.table({"id": [9], "source": ["other"]}, schema=SCHEMA), mode="append")

    positions, statement = lake.positions(), Statement([somebody_else, None])
    assert positions.commit(positions.open(), change(statement)).version == 2
    assert (len(statement.asked), lake.table().version()) == (2, 2)


def test_a_lost_answer_to_the_lone_position_is_found_in_the_log(tmp_path: Path) -> None:
    lake = begun(tmp_path)
    positions, statement = lake.positions(), Statement([None])
    failpoints.arm("state.commit.after=lose@2")
    try:
        assert positions.commit(positions.open(), change(statement)).version == 2
    finally:
        failpoints.arm("")
    assert lake.table().version() == 1
