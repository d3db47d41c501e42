"""The rolling writer: sizes, times, memory, partitions, cuts; read back by Parquet readers."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate import failpoints
from tidegate.failpoints import InjectedFailure
from tidegate.parquet.partitions import Partition
from tidegate.parquet.writer import RollingWriter, WriterSettings
from tidegate.specs.locations import Location
from tidegate.specs.table import ParquetCodec
from tidegate.storage.port import ObjectStore
from tidegate.storage.stores import open_store

ALL = Partition()
KILOBYTE = 1024


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return open_store(Location(tmp_path.as_uri()))


@pytest.fixture(autouse=True)
def _no_failpoints() -> Iterator[None]:
    yield
    failpoints.arm("")


def noise(rows: int, seed: int = 0) -> pa.RecordBatch:
    """Rows of 16 bytes that do not compress."""
    rng = random.Random(seed)
    numbers = [rng.getrandbits(63) for _ in range(rows)]
    return pa.record_batch({"a": numbers, "b": [rng.getrandbits(63) for _ in range(rows)]})


def rows_of(tmp_path: Path) -> int:
    return sum(pq.read_metadata(path).num_rows for path in tmp_path.rglob("*.parquet"))


def test_files_roll_at_the_written_size_with_the_batch_that_filled_them(store: ObjectStore, tmp_path: Path) -> None:
    writer = RollingWriter(store, WriterSettings(file_size=256 * KILOBYTE, row_group_size=64 * KILOBYTE))
    for number in range(64):
        writer.write(noise(1024, number), ALL, "s")
    finished = writer.cut()
    writer.close()
    assert [file.size for file in finished[:-1]] == pytest.approx([256 * KILOBYTE] * (len(finished) - 1), rel=0.15)
    assert sum(file.record_count for file in finished) == rows_of(tmp_path) == 64 * 1024
    assert {file.size for file in finished} == {path.stat().st_size for path in tmp_path.glob("*.parquet")}


def test_compressible_rows_fill_a_file_by_their_compressed_size(store: ObjectStore) -> None:
    writer = RollingWriter(store, WriterSettings(file_size=20 * KILOBYTE, row_group_size=4096 * KILOBYTE))
    batch = pa.record_batch({"a": [f"the same text again and again {number % 7}" for number in range(5000)]})
    for _ in range(40):
        writer.write(batch, ALL, "s")
    finished = writer.cut()
    writer.close()
    assert all(file.size > 8 * KILOBYTE for file in finished[:-1])
    assert len(finished) < 20


def test_row_groups_are_bounded_by_arrow_bytes(store: ObjectStore, tmp_path: Path) -> None:
    writer = RollingWriter(store, WriterSettings(row_group_size=64 * KILOBYTE))
    for number in range(20):
        writer.write(noise(1024, number), ALL, "s")
    writer.cut()
    writer.close()
    metadata = pq.read_metadata(next(tmp_path.glob("*.parquet")))
    assert metadata.num_row_groups == 5
    assert metadata.row_group(0).num_rows == 4096


def test_memory_is_bounded_over_all_partitions_together(store: ObjectStore) -> None:
    writer = RollingWriter(store, WriterSettings(row_group_size=64 * KILOBYTE))
    largest = 0
    for number in range(100):
        writer.write(noise(512, number), Partition((("k", str(number % 10)),)), "s")
        largest = max(largest, sum(file.held_bytes for file in writer._open.values()))
    finished = writer.cut()
    writer.close()
    assert largest < 64 * KILOBYTE
    assert len(finished) == 10


def test_the_least_recently_used_file_is_closed_when_too_many_are_open(store: ObjectStore) -> None:
    writer = RollingWriter(store, WriterSettings(open_files=3))
    for key in ("a", "b", "c", "a", "d"):
        writer.write(noise(10), Partition((("k", key),)), "s")
    assert writer.rolled_files == 1
    finished = writer.cut()
    writer.close()
    assert [file.partition_values["k"] for file in finished] == ["b", "c", "a", "d"]
    assert [file.record_count for file in finished] == [10, 10, 20, 10]
    assert all(file.path.startswith(f"k={file.partition_values['k']}/") for file in finished)


def test_a_file_rolls_when_it_has_been_open_too_long(store: ObjectStore) -> None:
    clock = Clock()
    writer = RollingWriter(store, WriterSettings(rollover_secs=300), clock)
    for now in (0.0, 299.0, 300.0):
        clock.now = now
        writer.write(noise(10), ALL, "s")
    assert writer.rolled_files == 1
    assert [file.record_count for file in writer.cut()] == [30]
    writer.close()


def test_a_file_rolls_without_a_further_write_when_nothing_comes(store: ObjectStore) -> None:
    clock = Clock()
    writer = RollingWriter(store, WriterSettings(inactivity_secs=60), clock)
    writer.write(noise(10), ALL, "s")
    clock.now = 59.0
    writer.tick()
    assert writer.rolled_files == 0
    clock.now = 60.0
    writer.tick()
    assert writer.rolled_files == 1
    writer.close()


def test_nothing_written_makes_no_file(store: ObjectStore, tmp_path: Path) -> None:
    writer = RollingWriter(store, WriterSettings())
    writer.write(noise(0), ALL, "s")
    assert writer.cut() == ()
    writer.close()
    assert not list(tmp_path.rglob("*.parquet"))


@pytest.mark.parametrize("codec", list(ParquetCodec))
def test_the_codec_in_the_footer_is_the_one_asked_for(store: ObjectStore, tmp_path: Path, codec: ParquetCodec) -> None:
    writer = RollingWriter(store, WriterSettings(codec=codec))
    writer.write(noise(100), ALL, "s")
    writer.cut()
    writer.close()
    column = pq.read_metadata(next(tmp_path.glob("*.parquet"))).row_group(0).column(0)
    assert column.compression == codec.value.upper()


def test_abandoning_removes_what_came_after_the_cut_and_nothing_else(store: ObjectStore, tmp_path: Path) -> None:
    writer = RollingWriter(store, WriterSettings(file_size=32 * KILOBYTE, row_group_size=16 * KILOBYTE))
    writer.write(noise(100), ALL, "s")
    kept = writer.cut()
    for number in range(10):
        writer.write(noise(1024, number), ALL, "s")
    writer.write(noise(1024, 10), Partition((("k", "other"),)), "s")
    assert writer.rolled_files > 1
    assert any(file.written_bytes for file in writer._open.values())
    writer.abandon()
    assert writer.cut() == ()
    writer.close()
    assert [path.name for path in tmp_path.glob("*.parquet")] == [kept[0].path]


def test_an_upload_that_fails_fails_the_cut(store: ObjectStore) -> None:
    failpoints.arm("sink.upload.before=raise")
    writer = RollingWriter(store, WriterSettings())
    writer.write(noise(10), ALL, "s")
    with pytest.raises(InjectedFailure):
        writer.cut()
    writer.close()


def test_a_finished_file_tells_name_size_rows_partition_and_source_and_holds_no_bytes(
    store: ObjectStore, tmp_path: Path
) -> None:
    writer = RollingWriter(store, WriterSettings())
    writer.write(noise(10), Partition((("date", "2024-01-01"),)), "s3://bucket/input/events.ndjson.gz")
    (finished,) = writer.cut()
    writer.close()
    (written,) = tmp_path.glob("date=2024-01-01/*.parquet")
    assert finished.path == f"date=2024-01-01/{written.name}"
    assert (finished.size, finished.record_count) == (written.stat().st_size, 10)
    assert finished.partition_values == {"date": "2024-01-01"}
    assert finished.source_file == "s3://bucket/input/events.ndjson.gz"
    assert finished.stats is not None
    assert '"numRecords":10' in finished.stats
    assert len(pickle.dumps(finished)) < written.stat().st_size


def test_rows_of_a_rare_partition_do_not_keep_their_neighbours_in_memory(store: ObjectStore) -> None:
    writer = RollingWriter(store, WriterSettings())
    before = pa.total_allocated_bytes()
    for number in range(50):
        whole = noise(20_000, number)
        writer.write(whole.slice(100, 1), Partition((("k", "rare"),)), "s")
        del whole
    assert pa.total_allocated_bytes() - before < 1_000_000
    finished = writer.cut()
    writer.close()
    assert [file.record_count for file in finished] == [50]
