"""Rows of many partition values are divided together: what arrives is what dividing every batch would give."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.errors import raises
from tidegate.core.files.plan import FileGroup, FileSlice
from tidegate.core.files.state import Covered, Refused
from tidegate.parquet.parquet_file import Covering, FinishedFile, RowOrigin
from tidegate.parquet.partitions import Partitioning, table_schema
from tidegate.parquet.writer import RollingWriter, WriterSettings
from tidegate.protocol.change import RecordRange
from tidegate.specs.locations import Location
from tidegate.specs.table import FieldSpec, PartitionBy
from tidegate.storage.port import ObjectStore
from tidegate.storage.stores import open_store
from tidegate.tasks.read_task import ReadTask
from tidegate.tasks.task import read_group_at_once

ROWS = 200
SCHEMA = pa.schema({"n": pa.int64(), "k": pa.string(), "text": pa.string()})
PARTITIONING = Partitioning(PartitionBy("k", "k"), SCHEMA)
DIVIDE = partial(PARTITIONING.split, path="")


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return open_store(Location((tmp_path / "table").as_uri()))


def batch(number: int, values: int = 50) -> pa.RecordBatch:
    """Numbers that go on from one batch to the next, spread over so many values."""
    numbers = range(number * ROWS, (number + 1) * ROWS)
    keys = [f"v{n * 7 % values}" for n in numbers]
    return pa.record_batch([list(numbers), keys, [f"text {n}" for n in numbers]], schema=SCHEMA)


def origin(number: int) -> RowOrigin:
    """Two batches of every file."""
    return RowOrigin.of_file(f"f{number // 2}", np.arange(ROWS), number % 2 * ROWS)


def scatter(writer: RollingWriter, *numbers: int, values: int = 50) -> None:
    for number in numbers:
        writer.scatter(batch(number, values), DIVIDE, f"s3://f{number // 2}", origin(number))


def told(finished: tuple[FinishedFile, ...], root: Path) -> dict[Any, Any]:
    """Source file, ranges and rows in order, by partition value."""
    return {
        file.partition_values["k"]: (
            file.source_file,
            file.ranges,
            pq.read_table(root / "table" / file.path, partitioning=None).to_pylist(),
        )
        for file in finished
    }


def test_gathered_rows_arrive_as_if_every_batch_had_been_divided(store: ObjectStore, tmp_path: Path) -> None:
    gathered, divided = (RollingWriter(store, WriterSettings()) for _ in range(2))
    scatter(gathered, *range(9))
    for number in range(9):
        for partition, rows, positions in DIVIDE(batch(number)):
            divided.write(rows, partition, f"s3://f{number // 2}", origin(number).of(positions))
    assert gathered._open == {}
    found, expected = told(gathered.cut(), tmp_path), told(divided.cut(), tmp_path)
    gathered.close()
    divided.close()
    assert len(found) == 50
    assert found == expected


def test_rows_that_are_many_for_each_value_are_divided_at_once_behind_what_waits(
    store: ObjectStore, tmp_path: Path
) -> None:
    writer = RollingWriter(store, WriterSettings())
    scatter(writer, 0, values=1)
    assert len(writer._open) == 1
    scatter(writer, 1)
    assert len(writer._open) == 1
    ((partition, rows, _),) = DIVIDE(batch(2, values=1))
    writer.write(rows, partition, "s", origin(2))
    _, _, written = told(writer.cut(), tmp_path)["v0"]
    writer.close()
    assert [row["n"] for row in written] == [*range(ROWS), *range(ROWS, 2 * ROWS, 50), *range(2 * ROWS, 3 * ROWS)]


def test_batches_of_another_schema_are_not_divided_together(store: ObjectStore) -> None:
    writer = RollingWriter(store, WriterSettings())
    divide = partial(PARTITIONING.split, path="", schema=SCHEMA.remove(1))
    scatter(writer, 0)
    assert writer._open == {}
    narrow = batch(1).set_column(0, "n", pa.array(range(ROWS), pa.int32()))
    writer.scatter(narrow, divide, "s", origin(1))
    assert len(writer._open) == 50
    assert sum(file.record_count for file in writer.cut()) == 2 * ROWS
    writer.close()


def test_memory_counts_what_waits_and_is_bounded(store: ObjectStore) -> None:
    writer = RollingWriter(store, WriterSettings(row_group_size=200_000))
    waits, most = 0, 0
    for number in range(60):
        scatter(writer, number)
        waits = max(waits, writer._gathering.memory)
        most = max(most, writer._memory)
        assert writer._memory == writer._gathering.memory + sum(file.memory for file in writer._open.values())
    assert 10_000 < waits <= 50_000
    assert most < 200_000
    assert sum(file.record_count for file in writer.cut()) == 60 * ROWS
    assert writer._memory == 0
    writer.close()


def test_what_waits_is_abandoned_with_the_rest(store: ObjectStore) -> None:
    writer = RollingWriter(store, WriterSettings())
    scatter(writer, 0)
    kept = writer.cut()
    scatter(writer, 1)
    writer.abandon()
    assert writer._memory == 0
    assert writer.cut() == ()
    writer.close()
    assert {info.path for info in store.list()} == {file.path for file in kept}


def test_rows_that_wait_roll_by_the_time_they_came(store: ObjectStore) -> None:
    clock = [0.0]
    writer = RollingWriter(store, WriterSettings(rollover_secs=300, inactivity_secs=60), lambda: clock[0])
    scatter(writer, 0)
    for clock[0], rolled in ((59.9, 0), (60.0, 50)):
        writer.tick()
        assert writer.rolled_files == rolled
    scatter(writer, 1)
    clock[0] = 119.0
    scatter(writer, 2)
    clock[0] = 125.0
    writer.tick()
    assert writer.rolled_files == 50, "the rows that came at 119 were not forgotten"
    writer.close()


def test_rows_that_wait_are_rolled_while_nothing_comes(store: ObjectStore) -> None:
    writer = RollingWriter(store, WriterSettings(inactivity_secs=0.05))
    scatter(writer, 0, values=5)
    pause = threading.Event()
    assert any(writer.rolled_files == 5 or pause.wait(0.01) for _ in range(3000))
    writer.close()


def test_a_failure_while_dividing_is_told_until_all_is_abandoned(store: ObjectStore, tmp_path: Path) -> None:
    (tmp_path / "table").write_text("no directory")
    writer = RollingWriter(store, WriterSettings(row_group_size=20_000, open_files=3))
    with raises(Exception, "ENOTDIR", "table"):
        scatter(writer, *range(10))
    with raises(Exception, "ENOTDIR", "table"):
        writer.cut()
    writer.abandon()
    assert writer.cut() == ()
    writer.close()


blocks = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 50), st.lists(st.integers(0, 20), min_size=1, unique=True)),
    min_size=1,
    max_size=6,
)


@given(blocks, st.integers(0, 60))
def test_joined_blocks_have_the_ranges_of_all(drawn: list[tuple[str, int, list[int]]], at: int) -> None:
    origins = [RowOrigin.of_file(file, np.array(sorted(lines)), first) for file, first, lines in drawn]
    several = RowOrigin(("x", "a"), np.array([0, 3]), np.array([1, 2, 3, 7]))
    rows = [(file, first + line) for file, first, lines in drawn for line in sorted(lines)]
    rows += [("x", 1), ("x", 2), ("a", 0), ("a", 4)]
    for part in (slice(0, at), slice(at, None)):
        covering = Covering()
        covering.add(RowOrigin.join([*origins, several]).of(part).ranges())
        assert covering.ranges() == tuple(
            RecordRange(name, min(own), max(own) + 1)
            for name in dict.fromkeys(file for file, _ in rows[part])
            for own in [[line for file, line in rows[part] if file == name]]
        )


@pytest.mark.slow
def test_a_unit_of_many_values_keeps_every_row_with_its_source_and_forgets_refused_files(tmp_path: Path) -> None:
    fields = (FieldSpec("id", "int64"), FieldSpec("k", "string"))
    slices = []
    for name in ("a", "b", "c"):
        lines = [b'{"id":%d,"k":"v%d"}\n' % (n, n * 7919 % 300) for n in range(20_000)]
        lines[-1] = b"no record\n" if name == "b" else lines[-1]
        (tmp_path / f"{name}.ndjson").write_bytes(b"".join(lines))
        slices.append(FileSlice(f"{name}.ndjson", (tmp_path / f"{name}.ndjson").stat().st_size))
    by, metadata = PartitionBy("k", "k"), ("_source_file", "_source_record")
    schema = table_schema(fields, by, metadata)
    task = ReadTask(
        Location(tmp_path.as_uri()),
        Location((tmp_path / "table").as_uri()),
        fields,
        pa.schema([field for field in schema if field.name != "k"]).serialize().to_pybytes(),
        partition_by=by,
        metadata_columns=metadata,
        held_bytes=1000,
    )
    result = read_group_at_once(task, FileGroup(0, tuple(slices)))
    assert [type(outcome) for outcome in result.outcomes] == [Covered, Refused, Covered]
    assert result.rows == 40_000
    seen = set()
    for file in result.data_files:
        rows = pq.read_table(tmp_path / "table" / file.path, partitioning=None).to_pylist()
        records = [row["_source_record"] for row in rows]
        assert records == sorted(records) == [row["id"] for row in rows]
        assert {f"v{row['id'] * 7919 % 300}" for row in rows} == {file.partition_values["k"]}
        assert {row["_source_file"] for row in rows} == {file.source_file}
        (covered,) = file.ranges
        assert (covered.start, covered.end) == (records[0], records[-1] + 1)
        assert str(file.source_file).endswith(covered.file)
        seen |= {(covered.file, record) for record in records}
    assert len(seen) == 40_000


@pytest.mark.slow
@pytest.mark.parametrize("share", [20, 1], ids=["evenly", "most of one value"])
def test_batches_that_were_divided_do_not_pile_up(store: ObjectStore, share: int) -> None:
    """Each value holds a part of every batch: copied or written in time, none of them keeps a whole batch."""
    settings = WriterSettings(row_group_size=1024 * 1024, file_size=256 * 1024)
    writer = RollingWriter(store, settings)
    noise = np.random.default_rng(1)
    keys = [f"v{number}" for number in range(100) for _ in range(share)]
    keys += ["v0"] * (2000 - len(keys))
    before, greatest = pa.total_allocated_bytes(), 0
    for _ in range(60):
        texts = [noise.bytes(20).hex() for _ in range(2000)]
        made = pa.record_batch([list(range(2000)), keys, texts], schema=SCHEMA)
        writer.scatter(made, DIVIDE, "", RowOrigin.of_file("", np.arange(2000)))
        greatest = max(greatest, pa.total_allocated_bytes() - before)
    assert sum(file.record_count for file in writer.cut()) == 60 * 2000
    writer.close()
    assert greatest < 4 * settings.row_group_size, f"{greatest:,} bytes"
