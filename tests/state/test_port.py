"""One suite for every adapter of the table port: the Delta library and its in-memory twin conflict alike."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from state.lake import SCHEMA, Lake
from support.errors import raises
from tidegate.errors import TableError, TidegateError
from tidegate.protocol.log import DeltaLog, entry_path
from tidegate.protocol.memory import encode
from tidegate.protocol.store import open_delta
from tidegate.protocol.table import Add, CommitNote, DeltaTablePort, Snapshot
from tidegate.specs.locations import Location
from tidegate.storage.memory import forget


@dataclass
class Bench:
    """An adapter, and a way to act on the same table as somebody else."""

    lake: Lake
    foreign: Callable[[str], None]

    def port(self) -> DeltaTablePort:
        return open_delta(self.lake.location, self.lake.store)

    def add(self) -> Add:
        file = self.lake.data_file(pa.table({"id": [1], "source": ["s"]}, schema=SCHEMA))
        return Add(file.path, file.size, {}, 1, json.dumps({"numRecords": 1}))

    def create(self) -> None:
        self.port().create(SCHEMA, (), [self.add()], note(1))

    def snapshot(self) -> Snapshot:
        found = self.port().snapshot()
        assert found is not None
        return found


def note(version: int, app: str = "app") -> CommitNote:
    return CommitNote({app: version}, 1_700_000_000_000, '{"tidegate": []}')


@pytest.fixture(params=["delta", "memory"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    if request.param == "delta":
        lake = Lake.local(tmp_path / "table")
        yield Bench(lake, lambda operation: real(lake, operation))
        return
    name = uuid4().hex
    lake = Lake(Location(f"memory://{name}/table"))
    yield Bench(lake, lambda operation: written(lake, operation))
    forget(name)


def real(lake: Lake, operation: str) -> None:
    """A foreign commit by the Delta library."""
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
        case "property":
            table.alter.set_table_properties({"delta.logRetentionDuration": "interval 60 days"})
        case "protocol":
            table.alter.add_constraint({"small": "id < 100"})
        case _:
            raise ValueError(operation)


def written(lake: Lake, operation: str) -> None:
    """The same commits as log entries."""
    log = DeltaLog(lake.store)
    version = log.versions()[-1] + 1
    metadata = next(action["metaData"] for action in lake.log(0) if "metaData" in action)
    actions: dict[str, list[dict[str, Any]]] = {
        "append": [{"add": {"path": f"other-{version}", "dataChange": True}}],
        "optimize": [
            {"remove": {"path": "other-1", "dataChange": False}},
            {"add": {"path": "compacted", "dataChange": False}},
        ],
        "add column": [{"metaData": metadata}],
        "delete": [{"remove": {"path": "other-1", "dataChange": True}}],
        "property": [{"metaData": metadata}],
        "protocol": [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 3}}],
    }
    lake.store.put_if_absent(entry_path(version), encode(actions[operation]))


def test_without_a_table_there_is_no_snapshot(bench: Bench) -> None:
    assert bench.port().snapshot() is None


def test_a_created_table_has_its_files_columns_and_position(bench: Bench) -> None:
    add = bench.add()
    bench.port().create(SCHEMA, (), [add], note(1))
    snapshot = bench.snapshot()
    assert snapshot.facts.version == 0
    assert snapshot.facts.partition_columns == ()
    assert snapshot.transaction_version("app") == 1
    assert snapshot.transaction_version("another") is None
    assert snapshot.active_paths() == {add.path}


def test_partition_columns_and_escaped_paths_are_kept(bench: Bench) -> None:
    bench.lake.store.put("source=a%20b/x.parquet", b"x")
    add = Add("source=a%20b/x.parquet", 1, {"source": "a b"}, 1, '{"numRecords":1}')
    bench.port().create(SCHEMA, ("source",), [add], note(1))
    assert bench.snapshot().facts.partition_columns == ("source",)
    assert bench.snapshot().active_paths() == {"source=a%20b/x.parquet"}


def test_of_two_creators_one_is_refused(bench: Bench) -> None:
    bench.create()
    table_id = bench.snapshot().facts.table_id
    with pytest.raises(Exception):  # noqa: B017  # which error it is tells nothing
        bench.create()
    assert bench.snapshot().facts.table_id == table_id
    assert bench.snapshot().facts.version == 0


def test_an_append_may_have_no_files(bench: Bench) -> None:
    bench.create()
    bench.port().append(bench.snapshot(), [], note(2))
    assert bench.snapshot().transaction_version("app") == 2
    assert len(bench.snapshot().active_paths()) == 1


def test_a_snapshot_does_not_move(bench: Bench) -> None:
    bench.create()
    before = bench.snapshot()
    bench.port().append(before, [bench.add()], note(2))
    assert before.facts.version == 0
    assert before.transaction_version("app") == 1


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_same_application_since_the_base_is_refused_whatever_its_version(bench: Bench, version: int) -> None:
    bench.create()
    base = bench.snapshot()
    bench.port().append(base, [bench.add()], note(2))
    with pytest.raises(Exception):  # noqa: B017  # which error it is tells nothing
        bench.port().append(base, [bench.add()], note(version))
    assert bench.snapshot().facts.version == 1


def test_versions_themselves_are_not_checked_which_is_why_commit_looks_first(bench: Bench) -> None:
    bench.create()
    bench.port().append(bench.snapshot(), [bench.add()], note(1))
    assert bench.snapshot().facts.version == 1


def test_another_application_is_not_in_the_way(bench: Bench) -> None:
    bench.create()
    base = bench.snapshot()
    bench.port().append(base, [bench.add()], note(1, "another"))
    bench.port().append(base, [bench.add()], note(2))
    assert bench.snapshot().facts.version == 2
    assert len(bench.snapshot().active_paths()) == 3


@pytest.mark.parametrize("operation", ["append", "optimize"])
def test_appends_and_rewrites_of_others_are_not_in_the_way(bench: Bench, operation: str) -> None:
    bench.create()
    bench.foreign("append")
    base = bench.snapshot()
    bench.foreign(operation)
    bench.port().append(base, [bench.add()], note(2))
    assert bench.snapshot().facts.version == 3
    assert bench.snapshot().transaction_version("app") == 2


@pytest.mark.parametrize("operation", ["add column", "delete", "property", "protocol"])
def test_changes_of_metadata_and_removed_data_are_in_the_way(bench: Bench, operation: str) -> None:
    bench.create()
    bench.foreign("append")
    base = bench.snapshot()
    bench.foreign(operation)
    with pytest.raises(Exception):  # noqa: B017  # which error it is tells nothing
        bench.port().append(base, [bench.add()], note(2))
    assert bench.snapshot().transaction_version("app") == 1


def test_columns_are_added_at_the_end(bench: Bench) -> None:
    bench.create()
    bench.port().add_columns(bench.snapshot(), [pa.field("n", pa.int64()), pa.field("m", pa.string())])
    fields = [field["name"] for field in json.loads(bench.snapshot().facts.schema_json)["fields"]]
    assert fields == ["id", "source", "n", "m"]


def test_adding_columns_is_refused_when_anything_was_committed_since(bench: Bench) -> None:
    bench.create()
    base = bench.snapshot()
    bench.port().append(base, [bench.add()], note(2))
    with pytest.raises(Exception):  # noqa: B017  # which error it is tells nothing
        bench.port().add_columns(base, [pa.field("n", pa.int64())])


def test_a_checkpoint_changes_nothing_that_is_seen(bench: Bench) -> None:
    bench.create()
    bench.port().checkpoint()
    assert bench.snapshot().facts.version == 0


def test_rows_are_replaced_only_on_top_of_the_snapshot_they_were_looked_for_in(bench: Bench) -> None:
    bench.create()
    old = bench.snapshot()
    rows = pa.table({"id": [1], "source": ["new"]}, schema=SCHEMA)
    if bench.lake.location.uri.startswith("memory:"):
        with raises(TableError, "memory", "rows"):
            bench.port().replace(old, "id = 1", rows.to_reader(), note(2))
        return
    bench.port().append(old, [bench.add()], note(1, "other"))
    with pytest.raises(TableError):
        bench.port().replace(old, "id = 1", rows.to_reader(), note(2))
    assert bench.lake.ids("s") == [1, 1]
    bench.port().replace(bench.snapshot(), "id = 1", rows.to_reader(), note(2))
    assert (bench.lake.ids("s"), bench.lake.ids("new")) == ([], [1])
    assert bench.snapshot().transaction_version("app") == 2


def test_files_are_replaced_whole_and_only_on_top_of_the_snapshot_that_has_them(bench: Bench) -> None:
    bench.create()
    old = bench.snapshot()
    (first,) = old.active_files()
    added = bench.add()
    bench.port().append(old, [bench.add()], note(1, "other"))
    with pytest.raises(TidegateError):
        bench.port().replace_files(old, [first], [added], note(2))
    assert first.path in bench.snapshot().active_paths()
    bench.port().replace_files(bench.snapshot(), [first], [added], note(2))
    after = bench.snapshot()
    assert (first.path in after.active_paths(), added.path in after.active_paths()) == (False, True)
    assert (len(after.active_paths()), after.transaction_version("app")) == (2, 2)
    bench.port().replace_files(after, after.active_files(), [], note(3))
    assert bench.snapshot().active_paths() == frozenset()


def test_an_append_that_saw_the_removed_files_does_not_follow_their_removal(bench: Bench) -> None:
    bench.create()
    old = bench.snapshot()
    bench.port().replace_files(old, old.active_files(), [], note(2))
    with pytest.raises(TableError):
        bench.port().append(old, [bench.add()], note(1, "other"))
