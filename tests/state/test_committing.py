"""COMMIT and RESOLVE against real Delta tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from state.lake import SCHEMA, Lake, Unlucky, following, ingest
from support.changes import appended, moved
from support.errors import raises
from tidegate import failpoints
from tidegate.errors import (
    CommitLost,
    ObjectChanged,
    ObjectMissing,
    OutcomeUnknown,
    SchemaMismatch,
    StateError,
    StorageError,
    StorageUnavailable,
    TableError,
    UnsupportedTable,
)
from tidegate.migrate.foreign import BLIZZARD
from tidegate.observe.events import Committed, Notice
from tidegate.protocol.change import DataFile
from tidegate.specs.table import Evolution


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.local(tmp_path / "table")


def test_the_first_commit_creates_the_table_with_rows_and_position_in_one_entry(lake: Lake) -> None:
    positions = lake.positions()
    opened = positions.open()
    assert opened.first_run
    assert opened.state is None
    now = positions.commit(opened, lake.change(0, 3))
    actions = lake.log(0)
    assert now.version == 1
    assert now.table_version == 0
    assert now.table_id == lake.table().metadata().id
    assert [action["txn"]["version"] for action in actions if "txn" in action] == [1]
    assert [action["txn"]["appId"] for action in actions if "txn" in action] == ["tidegate/p/s"]
    assert sum("add" in action for action in actions) == 1
    assert lake.ids() == [0, 1, 2]


def test_the_transaction_carries_the_time_in_milliseconds(lake: Lake) -> None:
    positions = lake.positions()
    positions.commit(positions.open(), lake.change(0, 1))
    (txn,) = [action["txn"] for action in lake.log(0) if "txn" in action]
    assert 1_500_000_000_000 < txn["lastUpdated"] < 5_000_000_000_000


def test_a_commit_returns_the_position_to_go_on_from(lake: Lake) -> None:
    positions = lake.positions()
    opened = positions.open()
    for start in range(4):
        opened = positions.commit(opened, lake.change(start, start + 1))
    assert (opened.version, opened.table_version, opened.state) == (4, 3, {"next": 4})
    assert lake.ids() == [0, 1, 2, 3]
    reopen_partitions = lake.positions().open()
    assert (reopen_partitions.version, reopen_partitions.state, reopen_partitions.parent) == (
        4,
        {"next": 4},
        opened.parent,
    )


def test_documents_are_a_chain_of_parents_and_name_their_files(lake: Lake) -> None:
    positions = lake.positions()
    first = positions.commit(positions.open(), lake.change(0, 1))
    change = lake.change(1, 2)
    second = positions.commit(first, change)
    assert first.parent is not None
    assert second.parent is not None
    document = json.loads(lake.store.get(positions.site.key.document(2, second.parent.attempt)))
    assert document["parent"] == {"version": 1, "attempt": first.parent.attempt, "sha256": first.parent.sha256}
    assert document["data_files"][0]["path"] == change.write.data_files[0].path
    assert document["coverage"] == [
        {"file": "file-1", "size": 10, "etag": None, "from": 0, "to": 1, "eof": True, "rows": 0, "bad": 0}
    ]
    assert document["identity"] == {"kind": "path", "source_uri": "file:///landing/events", "pattern": None}
    assert (document["delta_version"], document["table_id"]) == (0, first.table_id)


def test_the_commit_says_in_the_log_whose_it_is(lake: Lake) -> None:
    positions = lake.positions()
    now = positions.commit(positions.open(), lake.change(0, 1))
    (entry,) = lake.table().history(1)
    (mark,) = json.loads(entry["userMetadata"])["tidegate"]
    assert now.parent is not None
    assert (mark["attempt"], mark["sha256"]) == (now.parent.attempt, now.parent.sha256)
    assert mark["state"] == {"next": 1}


def test_a_large_state_is_compressed_in_the_log_and_read_back(lake: Lake) -> None:
    positions = lake.positions()
    state = {"next": 0, "files": {f"date=2026-01-28/{number:040d}": "Finished" for number in range(2000)}}
    now = positions.commit(positions.open(), moved(state, SCHEMA))
    (entry,) = lake.table().history(1)
    (mark,) = json.loads(entry["userMetadata"])["tidegate"]
    assert "state" not in mark
    assert len(mark["state_zlib"]) < len(json.dumps(state)) / 5
    assert now.parent is not None
    lake.store.delete(positions.site.key.document(1, now.parent.attempt))
    reopen_partitions = lake.positions().open()
    assert reopen_partitions.from_log
    assert reopen_partitions.state == state


def test_an_empty_commit_creates_the_table_when_there_is_a_schema(lake: Lake) -> None:
    positions = lake.positions()
    now = positions.commit(positions.open(), moved({"next": 0}, SCHEMA))
    assert now.version == 1
    assert lake.table().schema().to_arrow().names == ["id", "source"]
    assert lake.ids() == []


def test_an_empty_commit_moves_the_position_of_a_table_that_exists(lake: Lake) -> None:
    positions = lake.positions()
    now = positions.commit(positions.open(), lake.change(0, 2))
    now = positions.commit(now, moved({"next": 2, "note": "x"}, embedded={"next": 2}))
    assert now.version == 2
    assert lake.positions().open().state == {"next": 2, "note": "x"}
    assert lake.ids() == [0, 1]


def test_without_a_table_and_without_a_schema_nothing_can_be_committed(lake: Lake) -> None:
    positions = lake.positions()
    with raises(TableError, "p/s", "no table", "schema.fields"):
        positions.commit(positions.open(), moved({"next": 0}))


def test_a_data_file_that_is_gone_stops_the_commit_before_anything_is_written(lake: Lake) -> None:
    positions = lake.positions()
    change = lake.change(0, 1)
    lake.store.delete(change.write.data_files[0].path)
    with raises(ObjectMissing, "data file", "VACUUM"):
        positions.commit(positions.open(), change)
    assert positions.open().first_run
    assert list(lake.store.list("_tidegate")) == []


def test_a_data_file_of_another_size_stops_the_commit(lake: Lake) -> None:
    positions = lake.positions()
    change = lake.change(0, 1)
    written = change.write.data_files[0]
    lake.store.put(written.path, b"short")
    with raises(ObjectChanged, "data file", "5 bytes", str(written.size)):
        positions.commit(positions.open(), change)


def test_the_same_data_file_twice_is_refused(lake: Lake) -> None:
    positions = lake.positions()
    change = lake.change(0, 1)
    twice = appended(change.next.complete, change.write.data_files * 2, SCHEMA)
    with raises(TableError, "data file", "twice"):
        positions.commit(positions.open(), twice)
    now = positions.commit(positions.open(), change)
    with raises(TableError, "data file", "twice"):
        positions.commit(now, change)
    with raises(TableError, "data file", "twice"):
        positions.commit(lake.positions().open(), change)
    assert lake.ids() == [0]


def test_more_files_than_a_commit_may_hold_are_refused(lake: Lake) -> None:
    positions = lake.positions()
    files = tuple(DataFile(f"f{number}.parquet", 1, 1, {}) for number in range(10_001))
    with raises(TableError, "10001 data files", "10000", "sink.partition_by"):
        positions.commit(positions.open(), appended({}, files, SCHEMA))


def test_many_files_are_measured_and_committed_at_once(lake: Lake) -> None:
    positions = lake.positions()
    table = pa.table({"id": [1], "source": ["s"]}, schema=SCHEMA)
    files = tuple(lake.data_file(table) for _ in range(40))
    positions.commit(positions.open(), appended({"next": 1}, files, SCHEMA))
    assert lake.ids() == [1] * 40


def test_names_with_spaces_and_signs_are_found_again(tmp_path: Path) -> None:
    lake = Lake.local(tmp_path / "a b=ü")
    schema = pa.schema([("id", pa.int64()), ("source", pa.string()), ("p", pa.string())])
    table = pa.table({"id": [1], "source": ["s"]}, schema=SCHEMA)
    file = lake.data_file(table, "p=x%20y/", p="x y")
    positions = lake.positions()
    change = appended({"next": 1}, [file], schema, ("p",))
    positions.commit(positions.open(), change)
    assert lake.ids() == [1]
    snapshot = positions.site.delta.snapshot()
    assert snapshot is not None
    assert snapshot.active_paths() == {file.path}


def test_a_table_path_that_the_library_would_open_elsewhere_is_refused(tmp_path: Path) -> None:
    lake = Lake.local(tmp_path / "a%20b")
    with raises(StorageError, "a%2520b", "percent sign"):
        lake.positions()


class TestForeignWriters:
    """What others do to the table between OPEN and COMMIT, and in the middle of it."""

    def committed_after(self, lake: Lake, act: Any) -> Lake:
        positions = lake.positions()
        opened = positions.commit(positions.open(), lake.change(0, 2))
        act(lake)
        positions.commit(opened, lake.change(2, 4))
        return lake

    def test_an_append_is_no_obstacle(self, lake: Lake) -> None:
        rows = pa.table({"id": [77], "source": ["other"]})
        self.committed_after(lake, lambda lake: write_deltalake(lake.location.uri, rows, mode="append"))
        assert lake.ids() == [0, 1, 2, 3]
        assert lake.ids("other") == [77]

    def test_optimize_is_no_obstacle(self, lake: Lake) -> None:
        def compact(lake: Lake) -> None:
            write_deltalake(lake.location.uri, pa.table({"id": [7], "source": ["other"]}), mode="append")
            lake.table().optimize.compact()

        self.committed_after(lake, compact)
        assert lake.ids() == [0, 1, 2, 3]

    def test_a_new_column_and_a_delete_are_no_obstacle(self, lake: Lake) -> None:
        def change(lake: Lake) -> None:
            write_deltalake(lake.location.uri, pa.table({"id": [7], "source": ["other"]}), mode="append")
            write_deltalake(
                lake.location.uri,
                pa.table({"id": [8], "source": ["other"], "n": [1]}),
                mode="append",
                schema_mode="merge",
            )
            lake.table().delete("id = 7")

        self.committed_after(lake, change)
        assert lake.ids() == [0, 1, 2, 3]

    @pytest.mark.parametrize("operation", ["append", "optimize", "add column", "delete", "property"])
    def test_what_happens_between_snapshot_and_commit_is_no_obstacle(self, lake: Lake, operation: str) -> None:
        class Interrupted(Unlucky):
            def append(self, *args: Any) -> None:
                if self.sent == 0:
                    interfere(lake, operation)
                super().append(*args)

        positions = lake.positions()
        positions.commit(positions.open(), lake.change(0, 2))
        write_deltalake(lake.location.uri, pa.table({"id": [7], "source": ["other"]}), mode="append")
        delta = Interrupted(lake.location, lake.store, [])
        positions = lake.positions(delta=delta)
        now = positions.commit(positions.open(), lake.change(2, 4))
        assert now.version == 2
        assert lake.ids() == [0, 1, 2, 3]
        assert delta.sent == (1 if operation in ("append", "optimize") else 2)

    def test_a_constraint_that_appears_meanwhile_stops_the_commit(self, lake: Lake) -> None:
        positions = lake.positions()
        opened = positions.commit(positions.open(), lake.change(0, 2))
        lake.table().alter.add_constraint({"small": "id < 100"})
        with raises(UnsupportedTable, "CHECK constraint 'small'", "tidegate run"):
            positions.commit(opened, lake.change(2, 3))
        assert lake.ids() == [0, 1]

    def test_a_restore_meanwhile_stops_the_commit(self, lake: Lake) -> None:
        positions = lake.positions()
        opened = positions.commit(positions.open(), lake.change(0, 2))
        opened = positions.commit(opened, lake.change(2, 3))
        lake.table().restore(0)
        with raises(StateError, "p/s", "version 2", "tidegate recover --accept restore"):
            positions.commit(opened, lake.change(3, 4))

    def test_another_table_in_its_place_stops_the_commit(self, lake: Lake) -> None:
        positions = lake.positions()
        opened = positions.commit(positions.open(), lake.change(0, 2))
        (lake.path / "_delta_log").rename(lake.path / "old")
        with raises(StateError, "p/s", "replaced", "no table", "table_uri"):
            positions.commit(opened, lake.change(2, 3))
        write_deltalake(lake.location.uri, pa.table({"id": [7], "source": ["other"]}), mode="append")
        with raises(StateError, "p/s", "replaced", "now table", "table_uri"):
            positions.commit(opened, lake.change(2, 3))


def interfere(lake: Lake, operation: str) -> None:
    """One commit of somebody else."""
    table = lake.table()
    match operation:
        case "append":
            write_deltalake(lake.location.uri, pa.table({"id": [9], "source": ["other"]}), mode="append")
        case "optimize":
            table.optimize.compact()
        case "add column":
            from deltalake.schema import Field, PrimitiveType

            table.alter.add_columns([Field("extra", PrimitiveType("string"))])
        case "delete":
            table.delete("source = 'other'")
        case _:
            table.alter.set_table_properties({"delta.logRetentionDuration": "interval 60 days"})


class TestErrorsThatTellNothing:
    """A call that raises may have committed; a call that failed may be repeated."""

    @pytest.mark.parametrize("troubles", [["lost"], ["refused"], ["refused", "refused", "lost"]])
    def test_rows_are_there_once_whatever_creation_and_append_raise(self, lake: Lake, troubles: list[str]) -> None:
        delta = Unlucky(lake.location, lake.store, [*troubles, *troubles])
        positions = lake.positions(delta=delta)
        now = positions.commit(positions.open(), lake.change(0, 2))
        assert now.version == 1
        now = positions.commit(now, lake.change(2, 4))
        assert now.version == 2
        assert delta.troubles == []
        assert delta.sent == 2 * len(troubles) + 2 * (troubles[-1] == "refused")
        assert lake.ids() == [0, 1, 2, 3]

    def test_a_lost_response_on_a_commit_that_another_run_followed_is_still_recognised(self, lake: Lake) -> None:
        class Overtaken(Unlucky):
            def append(self, *args: Any) -> None:
                try:
                    super().append(*args)
                finally:
                    ingest(lake, lake.positions(), 5)

        positions = lake.positions()
        opened = positions.commit(positions.open(), lake.change(0, 1))
        positions = lake.positions(delta=Overtaken(lake.location, lake.store, ["lost"]))
        now = positions.commit(opened, lake.change(1, 2))
        assert now.version == 2
        with pytest.raises(CommitLost):
            positions.commit(now, lake.change(2, 3))
        assert lake.ids() == [0, 1, 2, 3, 4]

    def test_the_log_decides_even_when_a_failpoint_raises_after_the_commit(self, lake: Lake) -> None:
        failpoints.arm("state.commit.after=raise")
        try:
            positions = lake.positions()
            now = positions.commit(positions.open(), lake.change(0, 2))
        finally:
            failpoints.arm("")
        assert now.version == 1
        assert lake.ids() == [0, 1]

    def test_an_unreadable_log_ends_with_an_unknown_outcome_and_the_next_run_decides(self, lake: Lake) -> None:
        class Blinding(Unlucky):
            def append(self, *args: Any) -> None:
                super().append(*args)
                lake.store.put(f"_delta_log/{1:020d}.json.bak", lake.store.get(f"_delta_log/{1:020d}.json"))
                lake.store.put(f"_delta_log/{1:020d}.json", b"{damaged")

        positions = lake.positions()
        opened = positions.commit(positions.open(), lake.change(0, 1))
        blinded = lake.positions(delta=Blinding(lake.location, lake.store, []), deadline_secs=0.5)
        with raises(OutcomeUnknown, "p/s", "position 2", "unknown"):
            blinded.commit(opened, lake.change(1, 2))
        lake.store.put(f"_delta_log/{1:020d}.json", lake.store.get(f"_delta_log/{1:020d}.json.bak"))
        reopen_partitions = lake.positions().open()
        assert (reopen_partitions.version, following(reopen_partitions)) == (2, 2)
        assert lake.ids() == [0, 1]

    def test_a_commit_that_never_succeeds_ends_at_the_deadline_and_says_why(self, lake: Lake) -> None:
        delta = Unlucky(lake.location, lake.store, ["refused"] * 1000)
        positions = lake.positions(delta=delta, deadline_secs=0.5)
        with raises(StorageUnavailable, "p/s", "position 1", "connection reset by peer", "global.commit_deadline_secs"):
            positions.commit(positions.open(), lake.change(0, 1))
        assert lake.positions().open().first_run

    def test_a_commit_that_is_refused_leaves_neither_rows_nor_a_position(self, lake: Lake) -> None:
        positions = lake.positions()
        opened = positions.commit(positions.open(), lake.change(0, 1))
        refused = Unlucky(lake.location, lake.store, ["refused"] * 1000)
        with pytest.raises(StorageUnavailable):
            lake.positions(delta=refused, deadline_secs=0.5).commit(opened, lake.change(1, 2))
        assert [path.name for path in (lake.path / "_delta_log").glob("*.json")] == [f"{0:020d}.json"]
        assert (lake.ids(), lake.table().transaction_version("tidegate/p/s")) == ([0], 1)
        assert following(lake.positions().open()) == 1

    def test_a_log_cleaned_up_in_the_middle_of_a_commit_is_an_unknown_outcome(self, lake: Lake) -> None:
        class Slept(Unlucky):
            def append(self, *args: Any) -> None:
                super().append(*args)
                lake.table().create_checkpoint()
                lake.store.delete(f"_delta_log/{1:020d}.json")
                raise OSError("woke up")

        positions = lake.positions()
        opened = positions.commit(positions.open(), lake.change(0, 1))
        slept = lake.positions(delta=Slept(lake.location, lake.store, []), deadline_secs=0.5)
        with pytest.raises(OutcomeUnknown):
            slept.commit(opened, lake.change(1, 2))


class TestTwoRunsOfOneSource:
    def test_the_second_is_told_that_it_lost_and_goes_on_from_the_new_position(self, lake: Lake) -> None:
        first, second = lake.positions(), lake.positions()
        one, two = first.open(), second.open()
        first.commit(one, lake.change(0, 2))
        with raises(CommitLost, "p/s", "position 1", "attempt", "table version 0"):
            second.commit(two, lake.change(0, 1))
        reopen_partitions = second.open()
        assert following(reopen_partitions) == 2
        second.commit(reopen_partitions, lake.change(2, 3))
        assert lake.ids() == [0, 1, 2]

    def test_files_of_the_loser_are_forgotten_and_not_deleted(self, lake: Lake) -> None:
        first, second = lake.positions(), lake.positions()
        one, two = first.open(), second.open()
        first.commit(one, lake.change(0, 2))
        change = lake.change(0, 1)
        with pytest.raises(CommitLost):
            second.commit(two, change)
        assert lake.store.head(change.write.data_files[0].path).size == change.write.data_files[0].size

    def test_two_sources_create_the_table_one_after_the_other_and_both_are_in(self, lake: Lake) -> None:
        a, b = lake.positions("a"), lake.positions("b")
        one, two = a.open(), b.open()
        a.commit(one, lake.change(0, 2, "a"))
        wider = pa.schema([*SCHEMA, ("n", pa.int64())])
        b.commit(two, lake.change(0, 2, "b", schema=wider, columns={"n": [1, 2]}))
        assert lake.ids("a") == [0, 1]
        assert lake.ids("b") == [0, 1]
        assert lake.table().schema().to_arrow().names == ["id", "source", "n"]


class TestColumns:
    def test_a_nullable_column_is_added_before_the_data_that_needs_it(self, lake: Lake) -> None:
        positions = lake.positions()
        opened = positions.commit(positions.open(), lake.change(0, 1))
        wider = pa.schema([*SCHEMA, ("n", pa.int64())])
        now = positions.commit(opened, lake.change(1, 2, schema=wider, columns={"n": [5]}))
        assert now.table_version == 2
        assert any("metaData" in action for action in lake.log(1))
        assert not any("add" in action for action in lake.log(1))
        rows = pa.table(lake.table().scan(columns=["id", "n"])).to_pylist()
        assert sorted(rows, key=lambda row: row["id"]) == [{"id": 0, "n": None}, {"id": 1, "n": 5}]
        assert now.schema() == wider

    def test_a_field_inside_a_struct_is_added_too(self, lake: Lake) -> None:
        narrow = pa.schema([*SCHEMA, ("user", pa.struct([("name", pa.string())]))])
        wide = pa.schema([*SCHEMA, ("user", pa.struct([("name", pa.string()), ("age", pa.int64())]))])
        positions = lake.positions()
        first = lake.change(0, 1, schema=narrow, columns={"user": [{"name": "a"}]})
        opened = positions.commit(positions.open(), first)
        second = lake.change(1, 2, schema=wide, columns={"user": [{"name": "b", "age": 3}]})
        positions.commit(opened, second)
        rows = pa.table(lake.table().scan(columns=["id", "user"])).to_pylist()
        assert {"id": 1, "user": {"name": "b", "age": 3}} in rows
        assert {"id": 0, "user": {"name": "a", "age": None}} in rows

    def test_two_runs_that_add_the_same_column_both_get_through(self, lake: Lake) -> None:
        wider = pa.schema([*SCHEMA, ("n", pa.int64())])
        positions = lake.positions("a")
        opened = positions.commit(positions.open(), lake.change(0, 1, "a"))
        other = lake.positions("b")
        two = other.open()
        positions.commit(opened, lake.change(1, 2, "a", schema=wider, columns={"n": [5]}))
        other.commit(two, lake.change(0, 1, "b", schema=wider, columns={"n": [6]}))
        assert lake.ids("a") == [0, 1]
        assert lake.ids("b") == [0]
        assert lake.table().schema().to_arrow().names == ["id", "source", "n"]

    def test_strict_evolution_refuses_a_new_column(self, lake: Lake) -> None:
        positions = lake.positions(evolution=Evolution.STRICT)
        opened = positions.commit(positions.open(), lake.change(0, 1))
        wider = pa.schema([*SCHEMA, ("n", pa.int64())])
        with raises(SchemaMismatch, "'n'", "int64", "schema_evolution: merge"):
            positions.commit(opened, lake.change(1, 2, schema=wider, columns={"n": [5]}))
        assert lake.ids() == [0]

    def test_files_written_with_a_narrower_type_than_the_table_has_are_refused(self, lake: Lake) -> None:
        positions = lake.positions()
        opened = positions.commit(positions.open(), lake.change(0, 1))
        narrow = pa.schema([("id", pa.int32()), ("source", pa.string())])
        with raises(SchemaMismatch, "'id'", "int32", "int64", "run again"):
            positions.commit(opened, lake.change(1, 2, schema=narrow))

    def test_columns_that_would_have_to_be_replaced_are_refused(self, lake: Lake) -> None:
        positions = lake.positions(evolution=Evolution.OVERWRITE)
        opened = positions.commit(positions.open(), lake.change(0, 1))
        other = pa.schema([("id", pa.string()), ("source", pa.string())])
        change = lake.change(1, 1, schema=other)
        with raises(SchemaMismatch, "'id'", "int64", "string", "tidegate schema replace"):
            positions.commit(opened, change)

    def test_another_partitioning_is_refused(self, lake: Lake) -> None:
        positions = lake.positions()
        opened = positions.commit(positions.open(), lake.change(0, 1))
        with raises(SchemaMismatch, "[]", "['source']", "sink.partition_by"):
            positions.commit(opened, lake.change(1, 2, partition_columns=("source",)))


class TestAfterTheCommit:
    def test_the_note_and_the_mirror_follow(self, lake: Lake) -> None:
        positions = lake.positions()
        now = positions.commit(positions.open(), lake.change(0, 2))
        key = positions.site.key
        assert now.parent is not None
        note = json.loads(lake.store.get(key.won(1, now.parent.attempt)))
        mirror = json.loads(lake.store.get("_tidegate/p_s_checkpoint.json"))
        assert (note["table_version"], note["table_id"]) == (0, now.table_id)
        assert mirror["next"] == 2
        assert mirror["delta_version"] == -1
        assert mirror["tidegate"]["version"] == 1
        assert not lake.store.exists() or not list(lake.store.list("_blizzard"))

    def test_the_mirror_is_also_kept_at_the_old_place_on_request(self, lake: Lake) -> None:
        positions = lake.positions(second_mirror="_blizzard/p_s_checkpoint.json")
        positions.commit(positions.open(), lake.change(0, 2))
        old = lake.store.get("_blizzard/p_s_checkpoint.json")
        assert old == lake.store.get("_tidegate/p_s_checkpoint.json")
        assert lake.positions("another", foreign=BLIZZARD).open().first_run

    def test_a_debt_that_cannot_be_paid_does_not_undo_the_commit_and_is_paid_before_the_next(self, lake: Lake) -> None:
        failpoints.arm("state.mirror.before=raise")
        try:
            positions = lake.positions()
            now = positions.commit(positions.open(), lake.change(0, 1))
        finally:
            failpoints.arm("")
        assert now.unpaid
        assert any(isinstance(event, Notice) for event in lake.events)
        positions.commit(now, lake.change(1, 2))
        assert json.loads(lake.store.get("_tidegate/p_s_checkpoint.json"))["tidegate"]["version"] == 2

    def test_debts_of_other_kinds_are_paid_by_whoever_is_registered(self, lake: Lake) -> None:
        paid: list[tuple[int, str]] = []
        payers = {"letters": lambda opened, debt: paid.append((opened.version, debt["path"]))}
        change = lake.change(0, 1, debts=({"kind": "letters", "path": "x"},))
        positions = lake.positions()
        assert positions.commit(positions.open(), change).unpaid
        with raises(StateError, "p/s", "position 1", "'letters'", "upgrade"):
            lake.positions().open()
        for _ in range(2):
            lake.positions(payers=payers).open()
        assert paid == [(1, "x")]

    def test_a_delta_checkpoint_is_made_every_so_many_commits(self, lake: Lake) -> None:
        ingest(lake, lake.positions(checkpoint_every=3), 4)
        checkpoints = [item.path for item in lake.store.list("_delta_log") if "checkpoint.parquet" in item.path]
        assert checkpoints == [f"_delta_log/{2:020d}.checkpoint.parquet"]
        assert lake.ids() == [0, 1, 2, 3]

    def test_a_checkpoint_that_fails_is_a_notice_and_nothing_more(self, lake: Lake) -> None:
        class NoCheckpoint(Unlucky):
            def checkpoint(self) -> None:
                raise OSError("disk full")

        delta = NoCheckpoint(lake.location, lake.store, [])
        now = 0
        positions = lake.positions(delta=delta, checkpoint_every=1)
        now = positions.commit(positions.open(), lake.change(0, 1)).version
        assert now == 1
        assert any(isinstance(event, Notice) and "disk full" in event.text for event in lake.events)

    def test_the_library_neither_checkpoints_nor_cleans_up_by_itself(self, lake: Lake) -> None:
        ingest(lake, lake.positions(), 25)
        names = [item.path for item in lake.store.list("_delta_log")]
        assert len(names) == 25
        assert all(name.endswith(".json") for name in names)

    def test_an_event_tells_what_was_committed(self, lake: Lake) -> None:
        positions = lake.positions()
        positions.commit(positions.open(), lake.change(0, 3))
        (event,) = [event for event in lake.events if isinstance(event, Committed)]
        assert (event.position, event.source_files, event.source_bytes, event.rows) == (1, 3, 30, 3)

    def test_the_table_is_plain_delta_for_every_reader(self, lake: Lake) -> None:
        import duckdb

        ingest(lake, lake.positions(), 3)
        files = DeltaTable(lake.location.uri).file_uris()
        counted = duckdb.sql(f"select count(*), sum(id) from read_parquet({files})").fetchall()
        assert counted == [(3, 3)]
