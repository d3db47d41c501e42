"""Written files as rows of a table: partition values, missing columns, wider types."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.errors import raises
from tidegate.errors import SchemaMismatch
from tidegate.protocol.change import DataFile
from tidegate.specs.locations import Location
from tidegate.storage.options import absolute_uri
from tidegate.storage.port import ObjectStore
from tidegate.storage.stores import open_store
from tidegate.tasks.row_task import rows_of

NOON = datetime(2026, 1, 28, 12, 30, 0, 500_000, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return open_store(Location(absolute_uri(str(tmp_path), Path("/"))))


def put(store: ObjectStore, name: str, table: pa.Table, **values: str | None) -> DataFile:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    store.put(name, sink.getvalue())
    return DataFile(name, len(sink.getvalue()), table.num_rows, values)


def test_partition_values_become_columns_of_their_type(store: ObjectStore) -> None:
    rows = pa.table({"id": [1, 2]})
    files = [
        put(store, "a.parquet", rows, day="2026-01-28", n="7", word="x y", at="2026-01-28 12:30:00.500000"),
        put(store, "b.parquet", rows, day=None, n=None, word=None, at=None),
    ]
    columns = pa.schema(
        [
            ("day", pa.date32()),
            ("id", pa.int64()),
            ("n", pa.int32()),
            ("word", pa.string()),
            ("at", pa.timestamp("us", "UTC")),
        ]
    )
    with rows_of(store, files, columns) as reader:
        found = reader.read_all().to_pylist()
    assert found[0] == {"day": date(2026, 1, 28), "id": 1, "n": 7, "word": "x y", "at": NOON}
    assert found[3] == {"day": None, "id": 2, "n": None, "word": None, "at": None}


def test_what_a_file_lacks_is_null_at_any_depth_and_narrower_types_are_widened(store: ObjectStore) -> None:
    rows = pa.table({"id": pa.array([1], pa.int32()), "s": pa.array([{"b": 2}], pa.struct([("b", pa.int32())]))})
    columns = pa.schema(
        [
            ("id", pa.int64()),
            ("s", pa.struct([("a", pa.string()), ("b", pa.int64())])),
            ("new", pa.list_(pa.string())),
        ]
    )
    with rows_of(store, [put(store, "a.parquet", rows)], columns) as reader:
        assert reader.read_all().to_pylist() == [{"id": 1, "s": {"a": None, "b": 2}, "new": None}]


def test_a_column_that_the_table_lacks_is_not_dropped_silently(store: ObjectStore) -> None:
    file = put(store, "a.parquet", pa.table({"id": [1], "other": [2]}))
    with (
        rows_of(store, [file], pa.schema([("id", pa.int64())])) as reader,
        raises(SchemaMismatch, "other", "a.parquet"),
    ):
        reader.read_all()


def test_one_file_after_the_other_is_fetched(store: ObjectStore) -> None:
    files = [put(store, f"{number}.parquet", pa.table({"id": [number]})) for number in range(3)]
    with rows_of(store, files, pa.schema([("id", pa.int64())])) as reader:
        before = store.requests.get
        reader.read_next_batch()
        assert store.requests.get - before == 1
