"""Columns and commits, against real tables and their twin in memory: replaced, widened, checked file by file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from state.lake import SCHEMA, Lake, ingest
from support.changes import appended
from support.errors import raises
from tidegate import failpoints
from tidegate.errors import ColumnsChanged, CommitLost, ReplacesTable, SchemaMismatch, TableError
from tidegate.protocol.change import AppendFiles, Change, DataFile, NextState, ReplaceRows, Written
from tidegate.protocol.table import CommitNote, arrow_schema, no_rows
from tidegate.specs.locations import Location
from tidegate.specs.table import Evolution
from tidegate.storage.memory import forget

TEXT = pa.schema([("id", pa.string()), ("source", pa.string())])
MORE = SCHEMA.append(pa.field("more", pa.int64()))
OTHER = SCHEMA.append(pa.field("other", pa.struct([("a", pa.string())])))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Six rows of source s."""
    lake = Lake.local(tmp_path / "table")
    ingest(lake, lake.positions(), 6)
    return lake


def file(lake: Lake, number: int, schema: pa.Schema, **values: Any) -> DataFile:
    row = {"id": number, "source": "s", **values}
    return lake.data_file(pa.Table.from_pylist([row], schema))


def grouped(*groups: Written) -> Change:
    return Change(NextState.of({"next": 9}), AppendFiles(groups))


class TestGroups:
    """Every file of a commit is checked against the snapshot that it is committed to."""

    def test_the_columns_of_all_files_are_there_before_their_rows(self, lake: Lake) -> None:
        positions = lake.positions()
        change = grouped(
            Written(SCHEMA, (), (file(lake, 6, SCHEMA),)),
            Written(MORE, (), (file(lake, 7, MORE, more=1),)),
            Written(OTHER, (), (file(lake, 8, OTHER, other={"a": "x"}),)),
        )
        after = positions.commit(positions.open(), change)
        assert lake.ids() == list(range(9))
        assert pa.schema(lake.table().schema()).names == ["id", "source", "more", "other"]
        kinds = [next(iter(action)) for action in lake.log(after.table_version)]
        assert "metaData" not in kinds
        assert "metaData" in [next(iter(action)) for action in lake.log(after.table_version - 1)]

    def test_one_file_that_does_not_fit_keeps_all_of_them_out(self, lake: Lake) -> None:
        wrong = file(lake, 0, TEXT, id="x")
        change = grouped(Written(SCHEMA, (), (file(lake, 6, SCHEMA),)), Written(TEXT, (), (wrong,)))
        positions = lake.positions()
        with raises(SchemaMismatch, "'id'", wrong.path):
            positions.commit(positions.open(), change)
        assert lake.ids() == list(range(6))

    def test_groups_that_do_not_fit_each_other_are_refused(self, lake: Lake) -> None:
        other = MORE.set(2, pa.field("more", pa.string()))
        change = grouped(
            Written(MORE, (), (file(lake, 6, MORE, more=1),)), Written(other, (), (file(lake, 7, other, more="x"),))
        )
        positions = lake.positions()
        with raises(SchemaMismatch, "'more'", "int64", "string"):
            positions.commit(positions.open(), change)
        assert lake.ids() == list(range(6))

    def test_a_new_table_has_the_columns_of_all_files(self, tmp_path: Path) -> None:
        lake = Lake.local(tmp_path / "new")
        positions = lake.positions()
        change = grouped(
            Written(SCHEMA, (), (file(lake, 0, SCHEMA),)), Written(MORE, (), (file(lake, 1, MORE, more=1),))
        )
        positions.commit(positions.open(), change)
        assert pa.schema(lake.table().schema()).names == ["id", "source", "more"]
        assert lake.ids() == [0, 1]

    def test_a_column_that_was_widened_meanwhile_asks_for_another_plan(self, tmp_path: Path) -> None:
        lake = Lake.local(tmp_path / "narrow")
        narrow = SCHEMA.set(0, pa.field("id", pa.int32()))
        positions = lake.positions()
        opened = positions.commit(positions.open(), lake.change(0, 1, schema=narrow))
        table = lake.table()
        rows = pa.table(table.scan()).cast(SCHEMA)
        write_deltalake(table, rows, mode="overwrite", schema_mode="overwrite")
        with raises(ColumnsChanged, "'id'", "int32", "int64", "run again") as caught:
            positions.commit(opened, lake.change(1, 2, schema=narrow))
        assert caught.value.retryable
        assert lake.ids() == [0]


def replaced(lake: Lake, rows: Callable[[pa.Schema], pa.RecordBatchReader] = no_rows) -> Change:
    return Change(NextState.of({"next": 6}), ReplaceRows(None, rows, TEXT), action="schema replace")


class TestReplacedColumns:
    def test_columns_rows_and_position_are_one_log_entry(self, lake: Lake) -> None:
        positions = lake.positions(evolution=Evolution.OVERWRITE)
        opened = positions.open()
        after = positions.commit(opened, replaced(lake))
        assert (after.version, after.table_version) == (opened.version + 1, opened.table_version + 1)
        assert after.schema() == TEXT
        kinds = [next(iter(action)) for action in lake.log(after.table_version)]
        assert (kinds.count("remove"), kinds.count("txn"), kinds.count("metaData"), kinds.count("add")) == (6, 1, 1, 0)
        again = lake.positions().open()
        assert (again.version, again.state, again.table_id) == (after.version, {"next": 6}, opened.table_id)

    @pytest.mark.parametrize("place", ["state.commit.before", "state.commit.after"])
    def test_an_error_at_the_commit_decides_nothing(self, lake: Lake, place: str) -> None:
        positions = lake.positions(evolution=Evolution.OVERWRITE)
        opened = positions.open()
        failpoints.arm(f"{place}=raise")
        try:
            after = positions.commit(opened, replaced(lake))
        finally:
            failpoints.arm("")
        assert after.table_version == opened.table_version + 1

    def test_another_commit_of_the_source_wins_and_its_rows_stay(self, lake: Lake) -> None:
        positions = lake.positions(evolution=Evolution.OVERWRITE)
        opened = positions.open()

        def meanwhile(columns: pa.Schema) -> pa.RecordBatchReader:
            other = lake.positions()
            other.commit(other.open(), lake.change(6, 7))
            return no_rows(columns)

        with pytest.raises(CommitLost):
            positions.commit(opened, replaced(lake, meanwhile))
        assert lake.ids() == list(range(7))

    @pytest.mark.parametrize("place", ["state.columns.before", "state.columns.after"])
    def test_an_empty_table_takes_the_columns_once_whatever_is_lost(self, lake: Lake, place: str) -> None:
        lake.table().delete()
        positions = lake.positions(evolution=Evolution.OVERWRITE)
        opened = positions.open()
        failpoints.arm(f"{place}=raise")
        try:
            state = {"next": 7}
            written = lake.data_file(pa.table({"id": ["x"], "source": ["s"]}, schema=TEXT))
            after = positions.commit(opened, appended(state, [written], TEXT))
        finally:
            failpoints.arm("")
        assert after.version == opened.version + 1
        assert lake.ids() == ["x"]

    def test_rows_that_came_meanwhile_keep_their_columns(self, lake: Lake) -> None:
        lake.table().delete()
        positions = lake.positions(evolution=Evolution.OVERWRITE)
        opened = positions.open()
        write_deltalake(lake.location.uri, pa.table({"id": [9], "source": ["other"]}, schema=SCHEMA), mode="append")
        written = lake.data_file(pa.table({"id": ["x"], "source": ["s"]}, schema=TEXT))
        with raises(ReplacesTable, "'id'", "int64", "string", "tidegate schema replace"):
            positions.commit(opened, appended({}, [written], TEXT))
        assert lake.ids("other") == [9]


@pytest.fixture(params=["delta", "memory"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """The same table on disk and in memory."""
    lake = Lake.local(tmp_path / "table") if request.param == "delta" else Lake(Location("memory://columns/table"))
    positions = lake.positions()
    positions.commit(positions.open(), lake.change(0, 3))
    yield lake
    forget("columns")


NOTE = CommitNote({"other": 4}, 1, "tidegate: a remark")


class TestPort:
    def test_overwriting_keeps_what_is_not_rows_or_columns(self, either: Lake) -> None:
        delta = either.positions().site.delta
        base = delta.snapshot()
        assert base is not None
        delta.overwrite(base, no_rows(TEXT), NOTE)
        after = delta.snapshot()
        assert after is not None
        assert after.facts.version == base.facts.version + 1
        assert (after.facts.table_id, after.facts.properties) == (base.facts.table_id, base.facts.properties)
        assert arrow_schema(after.facts.schema_json) == TEXT
        assert (after.active_paths(), after.size().files) == (frozenset(), 0)
        assert (after.transaction_version("tidegate/p/s"), after.transaction_version("other")) == (1, 4)

    def test_overwriting_is_refused_after_any_commit(self, either: Lake) -> None:
        delta = either.positions().site.delta
        base = delta.snapshot()
        assert base is not None
        positions = either.positions()
        positions.commit(positions.open(), either.change(3, 4))
        with pytest.raises(TableError):
            delta.overwrite(base, no_rows(TEXT), NOTE)
        assert arrow_schema((delta.snapshot() or base).facts.schema_json) == SCHEMA

    def test_reading_every_row_ends_early_without_a_trace(self, lake: Lake) -> None:
        delta = lake.positions().site.delta
        base = delta.snapshot()
        assert base is not None
        with delta.all_rows(base) as batches:
            first = next(batches)
        assert first.num_rows
        with delta.all_rows(base) as batches:
            assert sum(batch.num_rows for batch in batches) == 6
        assert base.size().rows == 6


def test_the_twin_in_memory_has_no_rows_to_give() -> None:
    lake = Lake(Location("memory://rows/table"))
    positions = lake.positions()
    positions.commit(positions.open(), lake.change(0, 1))
    delta = positions.site.delta
    base = delta.snapshot()
    assert base is not None
    with raises(TableError, "memory", "rows"):
        delta.all_rows(base)
    rows = pa.table({"id": [1], "source": ["s"]}, schema=SCHEMA).to_reader()
    with raises(TableError, "memory", "rows"):
        delta.overwrite(base, rows, NOTE)
    forget("rows")
