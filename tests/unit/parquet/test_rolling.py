"""When files roll: by size, by age, by silence, by number; partitioned or not, and also while nothing comes."""

from __future__ import annotations

import pickle
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.errors import raises
from tidegate import failpoints
from tidegate.core.files.plan import FileGroup, FileSlice
from tidegate.core.files.state import Covered, NotReached
from tidegate.errors import StorageError
from tidegate.failpoints import InjectedFailure
from tidegate.parquet.parquet_file import RowOrigin, detach
from tidegate.parquet.partitions import Partition
from tidegate.parquet.writer import RollingWriter, WriterSettings
from tidegate.protocol.change import RecordRange
from tidegate.schema.types import arrow_schema
from tidegate.specs.locations import Location
from tidegate.specs.table import FieldSpec, ParquetCodec, PartitionBy
from tidegate.storage.port import ObjectStore
from tidegate.storage.stores import open_store
from tidegate.tasks.read_task import GroupResult, ReadTask
from tidegate.tasks.task import read_group, read_group_at_once

KILOBYTE = 1024
ROWS = 512
SPREADS = {
    "unpartitioned": [Partition()],
    "partitioned": [Partition((("k", name),)) for name in ("a", "b", "c")],
}


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return open_store(Location((tmp_path / "table").as_uri()))


@pytest.fixture(autouse=True)
def _no_failpoints() -> Iterator[None]:
    yield
    failpoints.arm("")


def noise(rows: int = ROWS, seed: int = 0) -> pa.RecordBatch:
    """Rows of 16 bytes that do not compress."""
    numbers = np.random.default_rng(seed).integers(0, 2**62, (2, rows))
    return pa.record_batch({"a": numbers[0], "b": numbers[1]})


def waited_for(happened: Any) -> bool:
    """Whether something happens within a time that is long enough on any machine."""
    pause = threading.Event()
    return any(happened() or pause.wait(0.01) for _ in range(3000))


@pytest.mark.parametrize("partitions", SPREADS.values(), ids=SPREADS)
@pytest.mark.parametrize(
    ("policy", "steps", "rolled"),
    [
        ({"file_size": 200 * KILOBYTE}, [0] * 60, 2),
        ({"file_size": 200 * KILOBYTE}, [0] * 20, 0),
        ({"rollover_secs": 10}, [0, 9.9], 0),
        ({"rollover_secs": 10}, [0, 9, 10], 1),
        ({"inactivity_secs": 10}, [0, 9, 18], 0),
        ({"inactivity_secs": 10}, [0, 10], 1),
        ({"inactivity_secs": 10, "rollover_secs": 15}, [0, 9, 18], 1),
    ],
)
def test_every_policy_by_itself_and_together(
    store: ObjectStore, partitions: list[Partition], policy: dict[str, Any], steps: list[float], rolled: int
) -> None:
    clock = Clock()
    writer = RollingWriter(store, WriterSettings(**policy), clock)
    for number, now in enumerate(steps):
        clock.now = now
        writer.tick()
        for partition in partitions:
            writer.write(noise(ROWS, number), partition, "s")
    assert writer.rolled_files == rolled * len(partitions)
    finished = writer.cut()
    writer.close()
    assert sum(file.record_count for file in finished) == len(steps) * ROWS * len(partitions)
    assert all(file.record_count % ROWS == 0 for file in finished), "a batch goes into one file, with what triggered it"


@pytest.mark.parametrize("partitions", SPREADS.values(), ids=SPREADS)
@pytest.mark.parametrize("policy", [{"inactivity_secs": 0.05}, {"rollover_secs": 0.05}], ids=["idle", "old"])
def test_files_roll_and_arrive_while_the_reader_waits_and_belong_to_the_next_cut(
    store: ObjectStore, partitions: list[Partition], policy: dict[str, Any]
) -> None:
    writer = RollingWriter(store, WriterSettings(**policy))
    for partition in partitions:
        writer.write(noise(), partition, "s")
    assert waited_for(lambda: store.uploads.counts.files == len(partitions))
    assert writer.rolled_files == len(partitions)
    assert len(list(store.list())) == len(partitions)
    writer.write(noise(), partitions[0], "s")
    finished = writer.cut()
    assert [file.record_count for file in finished] == [ROWS] * (len(partitions) + 1)
    assert writer.cut() == ()
    writer.close()


def test_what_rolled_while_the_reader_waited_is_abandoned_with_the_rest(store: ObjectStore) -> None:
    writer = RollingWriter(store, WriterSettings(inactivity_secs=0.05))
    writer.write(noise(), Partition(), "s")
    assert waited_for(lambda: writer.rolled_files == 1)
    writer.abandon()
    assert writer.cut() == ()
    writer.close()
    assert list(store.list()) == []


def test_a_failure_while_the_reader_waits_is_told_to_it(store: ObjectStore, tmp_path: Path) -> None:
    (tmp_path / "table").write_text("no directory")
    writer = RollingWriter(store, WriterSettings(inactivity_secs=0.05))
    writer.write(noise(), Partition(), "s")
    assert waited_for(lambda: writer._failure is not None)
    for call in (lambda: writer.write(noise(), Partition(), "s"), writer.tick, writer.cut):
        with raises(StorageError, "ENOTDIR", "table"):
            call()
    writer.close()


class Slow:
    """A source file whose reader hangs in the middle until it is let go."""

    def __init__(self, content: bytes) -> None:
        self._parts = [content[: len(content) // 2], content[len(content) // 2 :]]
        self.hangs = threading.Event()
        self.go_on = threading.Event()

    def read(self, size: int = -1) -> bytes:
        if len(self._parts) == 1:
            self.hangs.set()
            assert self.go_on.wait(60)
        return self._parts.pop(0) if self._parts else b""

    def close(self) -> None: ...


def test_a_task_whose_source_hangs_has_its_files_rolled_and_uploaded_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = b"".join(b'{"id":%d,"k":"%032x"}\n' % (n, random.getrandbits(120)) for n in range(200_000))
    (tmp_path / "a.ndjson").write_bytes(lines)
    slow = Slow(lines)
    monkeypatch.setattr("tidegate.formats.port.Fetcher.open", lambda self, each, **_: slow)
    fields = (FieldSpec("id", "int64"), FieldSpec("k", "string"))
    task = ReadTask(
        Location(tmp_path.as_uri()),
        Location((tmp_path / "table").as_uri()),
        fields,
        arrow_schema(fields).serialize().to_pybytes(),
        writer=WriterSettings(inactivity_secs=0.1),
        held_bytes=1000,
    )
    results: list[GroupResult] = []
    unit = FileGroup(0, (FileSlice("a.ndjson", len(lines)),))
    reading = threading.Thread(target=lambda: results.append(read_group_at_once(task, unit)))
    reading.start()
    assert slow.hangs.wait(60)
    assert waited_for(lambda: any(pq_rows(path) for path in (tmp_path / "table").glob("*.parquet")))
    slow.go_on.set()
    reading.join(60)
    (result,) = results
    assert [type(outcome) for outcome in result.outcomes] == [Covered]
    assert len(result.data_files) >= 2
    assert result.rows == 200_000
    ranges = [each for file in result.data_files for each in file.ranges]
    assert {each.file for each in ranges} == {"a.ndjson"}
    assert sorted(each.start for each in ranges)[0] == 0
    assert sorted((each.start, each.end) for each in ranges)[-1][1] == 200_000
    assert sum(each.end - each.start for each in ranges) == 200_000


def pq_rows(path: Path) -> int:
    """Rows of a finished file; nothing while it is being written."""
    try:
        return int(pq.read_metadata(path).num_rows)
    except (OSError, pa.ArrowInvalid):
        return 0


def shaped(shape: str, rows: int, seed: int) -> pa.RecordBatch:
    chance = np.random.default_rng(seed)
    words = np.array([f"word{number}" for number in range(500)])
    match shape:
        case "wide":
            columns = [chance.integers(0, 1000, rows), chance.random(rows), words[chance.integers(0, 500, rows)]]
            return pa.record_batch({f"c{number}": columns[number % 3] for number in range(60)})
        case "deep":
            numbers = chance.integers(0, 10**6, rows).tolist()
            items = [{"x": n, "l": [n + 1] * (n % 4), "s": {"t": f"t{n % 50}"}} for n in numbers]
            return pa.record_batch({"d": items})
        case "long":
            return pa.record_batch({"t": [" ".join(words[chance.integers(0, 500, 200)]) for _ in range(rows)]})
        case _:
            return pa.record_batch({"id": np.arange(rows), "t": words[chance.integers(0, 500, rows)]})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "rows", "codec"),
    [
        *(("plain", 50_000, codec) for codec in ParquetCodec),
        *((shape, rows, ParquetCodec.ZSTD) for shape, rows in (("wide", 1000), ("deep", 4000), ("long", 500))),
        ("wide", 1000, ParquetCodec.SNAPPY),
    ],
)
def test_written_sizes_land_within_a_tenth(store: ObjectStore, shape: str, rows: int, codec: ParquetCodec) -> None:
    size = 1024 * KILOBYTE
    writer = RollingWriter(store, WriterSettings(file_size=size, codec=codec))
    batches = [shaped(shape, rows, seed) for seed in range(8)]
    while writer.rolled_files < 3:
        writer.write(batches[0], Partition(), "s")
        batches.append(batches.pop(0))
    finished = writer.cut()[:3]
    writer.close()
    assert [file.size for file in finished] == pytest.approx([size] * 3, rel=0.1)
    assert [store.head(file.path).size for file in finished] == [file.size for file in finished]


def test_a_batch_larger_than_a_file_becomes_several_files(store: ObjectStore) -> None:
    writer = RollingWriter(store, WriterSettings(file_size=64 * KILOBYTE))
    writer.write(noise(100_000), Partition(), "s")
    finished = writer.cut()
    writer.close()
    assert [file.size for file in finished[:-1]] == pytest.approx([64 * KILOBYTE] * (len(finished) - 1), rel=0.1)
    assert sum(file.record_count for file in finished) == 100_000


def test_rows_that_compress_worse_than_those_before_do_not_make_a_huge_file(store: ObjectStore) -> None:
    size = 128 * KILOBYTE
    writer = RollingWriter(store, WriterSettings(file_size=size))
    same = pa.record_batch({"a": np.zeros(50_000, np.int64), "b": np.zeros(50_000, np.int64)})
    for _ in range(20):
        writer.write(same, Partition(), "s")
    for number in range(100):
        writer.write(noise(1000, number), Partition(), "s")
    finished = writer.cut()
    writer.close()
    assert max(file.size for file in finished) < 6 * size
    assert [file.size for file in finished[1:-1]] == pytest.approx([size] * (len(finished) - 2), rel=0.1)


def test_more_values_than_files_that_may_be_open_need_no_more_files_while_they_fit_into_memory(
    store: ObjectStore,
) -> None:
    writer = RollingWriter(store, WriterSettings(open_outputs=2))
    for number in range(60):
        writer.write(noise(10, number), Partition((("k", str(number % 20)),)), "s")
    finished = writer.cut()
    writer.close()
    assert len(finished) == 20


def test_of_files_with_row_groups_only_so_many_are_open(store: ObjectStore) -> None:
    writer = RollingWriter(store, WriterSettings(open_outputs=3, row_group_size=16 * KILOBYTE))
    most = 0
    for number in range(100):
        writer.write(noise(ROWS, number), Partition((("k", str(number % 10)),)), "s")
        most = max(most, sum(file.has_output for file in writer._open.values()))
    finished = writer.cut()
    writer.close()
    assert most == 3
    assert sum(file.record_count for file in finished) == 100 * ROWS


def test_bytes_that_are_written_and_not_closed_are_bounded(store: ObjectStore) -> None:
    size = 32 * KILOBYTE
    writer = RollingWriter(store, WriterSettings(file_size=size, row_group_size=64 * KILOBYTE))
    most = 0
    for number in range(400):
        writer.write(noise(700, number), Partition((("k", str(number % 150)),)), "s")
        most = max(most, sum(file.written_bytes for file in writer._open.values()))
    writer.cut()
    writer.close()
    assert 32 * size < most <= 65 * size


def test_memory_counts_what_many_small_pieces_take(store: ObjectStore) -> None:
    writer = RollingWriter(store, WriterSettings(row_group_size=256 * KILOBYTE))
    for number in range(1000):
        writer.write(noise(1, number), Partition((("k", str(number % 250)),)), "s")
        assert sum(file.memory for file in writer._open.values()) == writer._memory < 256 * KILOBYTE
    assert sum(file.record_count for file in writer.cut()) == 1000
    writer.close()


def test_few_long_rows_are_not_copied_unless_they_are_a_part_of_more() -> None:
    batch = pa.record_batch({"text": ["x" * 1000] * 2000})
    assert detach(batch)[0].column(0).buffers()[2].address == batch.column(0).buffers()[2].address
    part, size = detach(batch.slice(10, 20))
    assert (part.to_pylist(), size) == (batch.slice(10, 20).to_pylist(), part.get_total_buffer_size())
    assert size < 30_000


def test_rows_keep_their_order_whatever_the_size_of_their_batches(store: ObjectStore, tmp_path: Path) -> None:
    writer = RollingWriter(store, WriterSettings())
    at = 0
    for rows in (1, 2, 5000, 3, 1, 6000, 7, *[1] * 40):
        writer.write(pa.record_batch({"n": np.arange(at, at + rows)}), Partition(), "s")
        at += rows
    (file,) = writer.cut()
    writer.close()
    assert pq.read_table(tmp_path / "table" / file.path).column("n").to_pylist() == list(range(at))


def test_files_know_their_ranges_also_where_a_batch_is_divided(store: ObjectStore) -> None:
    writer = RollingWriter(store, WriterSettings(file_size=64 * KILOBYTE))
    starts = np.array([0, 3000, 20_000])
    writer.write(noise(30_000), Partition(), "s", RowOrigin(("x", "y", "z"), starts, np.arange(30_000)))
    finished = writer.cut()
    writer.close()
    assert len(finished) > 3
    assert [sum(each.end - each.start for each in file.ranges) for file in finished] == [
        file.record_count for file in finished
    ]
    assert finished[0].ranges[0] == RecordRange("x", 0, 3000)
    assert finished[-1].ranges[-1] == RecordRange("z", finished[-1].ranges[-1].start, 10_000)


def test_gathered_files_and_partitions_have_the_ranges_of_their_own_rows(tmp_path: Path) -> None:
    slices = []
    for number in range(3):
        path = tmp_path / f"{number}.ndjson"
        path.write_text("".join(f'{{"id":{row},"k":"{"ab"[row > number]}"}}\n\n' for row in range(4)))
        slices.append(FileSlice(path.name, path.stat().st_size))
    fields = (FieldSpec("id", "int64"), FieldSpec("k", "string"))
    task = ReadTask(
        Location(tmp_path.as_uri()),
        Location((tmp_path / "table").as_uri()),
        fields,
        arrow_schema(fields[:1]).serialize().to_pybytes(),
        partition_by=PartitionBy("k", "k"),
    )
    result = read_group_at_once(task, FileGroup(0, tuple(slices)))
    found = {file.partition_values["k"]: file.ranges for file in result.data_files}
    assert found["a"] == (RecordRange("0.ndjson", 0, 1), RecordRange("1.ndjson", 0, 3), RecordRange("2.ndjson", 0, 5))
    assert found["b"] == (RecordRange("0.ndjson", 2, 7), RecordRange("1.ndjson", 4, 7), RecordRange("2.ndjson", 6, 7))
    assert pickle.loads(pickle.dumps(result)) == result


def test_a_unit_that_cannot_be_written_fails_alone(tmp_path: Path) -> None:
    units = []
    for number, day in enumerate(("01", "02", "03")):
        (tmp_path / f"date={day}").mkdir()
        (tmp_path / f"date={day}" / "a.ndjson").write_text('{"id":1}\n')
        units.append(FileGroup(number, (FileSlice(f"date={day}/a.ndjson", 9),)))
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "date=02").write_text("no directory")
    fields = (FieldSpec("id", "int64"),)
    task = ReadTask(
        Location(tmp_path.as_uri()),
        Location((tmp_path / "table").as_uri()),
        fields,
        arrow_schema(fields).serialize().to_pybytes(),
        partition_by=PartitionBy("date"),
    )
    results = [result for unit in units for result in read_group(task, unit)]
    assert [type(result.outcomes[0]) for result in results] == [Covered, NotReached, Covered]
    failed = pickle.loads(pickle.dumps(results[1]))
    assert isinstance(failed.failure, StorageError)
    assert "date=02" in str(failed.failure)
    assert failed.data_files == ()


def test_a_file_that_fails_at_its_end_leaves_nothing_behind(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = RollingWriter(store, WriterSettings())
    writer.write(noise(), Partition(), "s")
    monkeypatch.setattr(
        "tidegate.parquet.parquet_file.delta_statistics", lambda *a: (_ for _ in ()).throw(InjectedFailure("x"))
    )
    with pytest.raises(InjectedFailure):
        writer.cut()
    writer.close()
    assert list(store.list()) == []
