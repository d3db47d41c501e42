"""The rolling writer and uploads: row shapes, partition values, codecs, an S3 server.

``python -m benchmarks.writer [--quick]``.

The same Arrow rows are written by this writer and by Spark's Parquet writer with one thread, from memory, in turns.
Uploads go to the S3 server of the tests, on loopback: their numbers compare settings, not networks.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from benchmarks import report
from tidegate.parquet.parquet_file import RowOrigin
from tidegate.parquet.partitions import Partitioning
from tidegate.parquet.writer import RollingWriter, WriterSettings
from tidegate.spark.session import open_session
from tidegate.specs.locations import Location
from tidegate.specs.project import SparkSpec
from tidegate.specs.table import ParquetCodec, PartitionBy
from tidegate.storage.port import Upload
from tidegate.storage.stores import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIDEGATE = "tidegate"
SPARK = "spark parquet"
MEGABYTE = 1024 * 1024
BLOCK_ROWS = 20_000
_WORDS = np.array([f"word{number}" for number in range(5000)])

Rows = Callable[[int, np.random.Generator], pa.RecordBatch]


def plain(rows: int, chance: np.random.Generator) -> pa.RecordBatch:
    """Seven columns: numbers, a time, words."""
    return pa.record_batch(
        {
            "id": np.arange(rows),
            "at": pa.array(1_760_000_000_000_000 + np.arange(rows) * 20_000, pa.timestamp("us", "UTC")),
            "event": _WORDS[chance.integers(0, 5, rows)],
            "price": chance.integers(0, 100_000, rows) / 100,
            "user": _WORDS[chance.integers(0, 5000, rows)],
            "age": chance.integers(0, 90, rows).astype(np.int32),
            "ok": chance.integers(0, 2, rows).astype(bool),
        }
    )


def wide(rows: int, chance: np.random.Generator) -> pa.RecordBatch:
    """Two hundred columns: whole numbers, fractions and words in turn."""
    kinds: tuple[Callable[[], np.ndarray], ...] = (
        lambda: chance.integers(0, 1000, rows),
        lambda: chance.random(rows),
        lambda: _WORDS[chance.integers(0, 2000, rows)],
    )
    return pa.record_batch({f"c{number}": kinds[number % 3]() for number in range(200)})


def deep(rows: int, chance: np.random.Generator) -> pa.RecordBatch:
    """Structs of structs, and a list of structs."""
    numbers = chance.integers(0, 10**6, rows).tolist()
    items = [
        {"a": {"b": {"c": n, "d": f"t{n % 50}"}}, "l": [{"x": n % 7, "y": n / 3} for _ in range(n % 4)]}
        for n in numbers
    ]
    return pa.record_batch({"id": np.arange(rows), "deep": items})


def long(rows: int, chance: np.random.Generator) -> pa.RecordBatch:
    """Texts of about four kilobytes."""
    return pa.record_batch(
        {"id": np.arange(rows), "text": [" ".join(_WORDS[chance.integers(0, 5000, 500)]) for _ in range(rows)]}
    )


SHAPES: dict[str, tuple[Rows, int]] = {
    "plain": (plain, 100_000),
    "wide (200 columns)": (wide, 5_000),
    "deep": (deep, 50_000),
    "long strings": (long, 2_000),
}
"""Rows of each shape, and how many of them are about one block."""


def written(
    batches: list[pa.RecordBatch], folder: Path, settings: WriterSettings, by: PartitionBy | None = None
) -> tuple[int, int]:
    """Number and bytes of the files that the writer makes of ``batches``."""
    divide = partial(Partitioning(by, batches[0].schema).split, path="")
    writer = RollingWriter(open_store(Location(folder.as_uri())), settings)
    for batch in batches:
        writer.scatter(batch, divide, "", RowOrigin.of_file("", np.arange(batch.num_rows)))
    files = writer.cut()
    writer.close()
    return len(files), sum(file.size for file in files)


def _bytes_below(folder: Path) -> tuple[int, int]:
    sizes = [path.stat().st_size for path in folder.rglob("*.parquet")]
    return len(sizes), sum(sizes)


def against_spark(
    name: str, batches: list[pa.RecordBatch], session: SparkSession, rounds: int, by: PartitionBy | None = None
) -> list[object]:
    """One line of a table: both writers over the same rows, and how large their files are."""
    frame = session.createDataFrame(pa.Table.from_batches(batches)).cache()
    frame.count()
    work = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
    sizes: dict[str, tuple[int, int]] = {}

    def ours(turn: int) -> None:
        sizes[TIDEGATE] = written(batches, work / f"tidegate-{turn}", WriterSettings(), by)

    def theirs(turn: int) -> None:
        folder = work / f"spark-{turn}"
        writer = frame.coalesce(1).write
        (writer if by is None else writer.partitionBy(by.prefix_template)).parquet(str(folder))
        sizes[SPARK] = _bytes_below(folder)

    theirs(-1)
    seconds = report.alternate({TIDEGATE: ours, SPARK: theirs}, rounds)
    frame.unpersist()
    shutil.rmtree(work)
    middle = report.medians(seconds)
    megabytes = sum(batch.nbytes for batch in batches) / 1e6
    return [
        name,
        f"{megabytes:.0f}",
        f"{middle[TIDEGATE]:.2f}",
        f"{middle[SPARK]:.2f}",
        f"{report.side_by_side(seconds[TIDEGATE], seconds[SPARK]):.2f}",
        f"{sizes[TIDEGATE][1] / max(sizes[SPARK][1], 1):.2f}",
        f"{sizes[TIDEGATE][0]} / {sizes[SPARK][0]}",
    ]


def codecs(batches: list[pa.RecordBatch], rounds: int) -> list[list[object]]:
    """Seconds and size of each codec, as ratios to snappy."""
    work = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
    sizes: dict[str, int] = {}

    def with_codec(codec: ParquetCodec) -> Callable[[int], None]:
        def write(turn: int) -> None:
            sizes[codec.value] = written(batches, work / f"{codec.value}-{turn}", WriterSettings(codec=codec))[1]

        return write

    seconds = report.alternate({codec.value: with_codec(codec) for codec in ParquetCodec}, rounds)
    shutil.rmtree(work)
    snappy = ParquetCodec.SNAPPY.value
    return [
        [
            name,
            f"{report.medians(seconds)[name]:.2f}",
            f"{1 / report.side_by_side(seconds[name], seconds[snappy]):.2f}",
            f"{sizes[name] / sizes[snappy]:.2f}",
        ]
        for name in seconds
    ]


def peak_of(values: int, blocks: int) -> tuple[float, int, int]:
    """Seconds, peak MiB and files of a fresh process that writes rows of so many partition values."""
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.writer", "--peak", str(values), "--blocks", str(blocks)],
        check=True,
        capture_output=True,
        text=True,
    )
    seconds, mebibytes, files = ran.stdout.split()
    return float(seconds), int(mebibytes), int(files)


def _print_peak(values: int, blocks: int) -> None:
    chance = np.random.default_rng(0)
    batch = plain(BLOCK_ROWS, chance).append_column(
        "k", pa.array([f"v{number}" for number in chance.integers(0, values, BLOCK_ROWS)])
    )
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        started = time.perf_counter()
        settings = WriterSettings(row_group_size=32 * MEGABYTE)
        files, _ = written([batch] * blocks, Path(folder), settings, PartitionBy("k", "k"))
        seconds = time.perf_counter() - started
    print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, files)


def uploads(megabytes: int, rounds: int) -> list[list[object]]:
    """Seconds to bring one large file to the S3 server of the tests, by the number of parts at once."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from servers import s3

    content = np.random.default_rng(0).bytes(megabytes * MEGABYTE)
    with s3.running() as server:
        store = open_store(server.location("bench"))

        def with_parts(parts: int) -> Callable[[int], None]:
            def upload(turn: int) -> None:
                way = Upload(
                    part_size=8 * MEGABYTE, concurrent_parts=parts or 1, multipart_from=MEGABYTE if parts else 2**40
                )
                with store.open_output(f"{parts}-{turn}", way) as output:
                    output.write(content)
                store.delete(f"{parts}-{turn}")

            return upload

        seconds = report.alternate(
            {"one request" if not n else f"{n} parts at once": with_parts(n) for n in (0, 1, 4, 8)}, rounds
        )
    return [
        [name, f"{report.medians(seconds)[name]:.2f}", f"{report.side_by_side(taken, seconds['one request']):.2f}"]
        for name, taken in seconds.items()
    ]


def main() -> None:
    """Shapes and partitions against Spark, codecs, memory by partition values, uploads."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="a tenth of the data, one round")
    arguments.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    arguments.add_argument("--blocks", type=int, default=10, help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    if chosen.peak:
        _print_peak(chosen.peak, chosen.blocks)
        return
    print(report.machine())
    blocks, rounds = (2, 1) if chosen.quick else (20, 5)
    chance = np.random.default_rng(0)
    session = open_session(SparkSpec(master="local[2]", config={"spark.driver.memory": "6g"}), delta=True)
    made = {name: [rows(count, chance) for _ in range(blocks)] for name, (rows, count) in SHAPES.items()}
    lines = [against_spark(name, batches, session, rounds) for name, batches in made.items()]
    keyed = [
        batch.append_column("k", pa.array([f"v{number}" for number in chance.integers(0, 1000, batch.num_rows)]))
        for batch in made["plain"]
    ]
    lines.append(against_spark("1,000 partition values", keyed, session, min(rounds, 3), PartitionBy("k", "k")))
    header = ("rows", "Arrow MB", "tidegate s", "spark s", "times as fast", "size of files", "files")
    report.table("Writing Parquet from memory, snappy, one thread", header, lines)
    by_codec = codecs(made["plain"], rounds)
    report.table("Codecs", ("codec", "s", "time beside snappy", "size beside snappy"), by_codec)
    peaks = [(values, *peak_of(values, blocks * 5)) for values in (1, 1000)]
    shown = [(f"{values:,}", f"{seconds:.1f}", peak, files) for values, seconds, peak, files in peaks]
    report.table("Partition values in one source, row groups of 32 MiB", ("values", "s", "peak MiB", "files"), shown)
    size = 32 if chosen.quick else 400
    report.table(f"Upload of {size} MiB", ("way", "s", "times as fast"), uploads(size, min(rounds, 2)))
    report.store("writer", {"against_spark": lines, "codecs": by_codec, "peaks": shown})


if __name__ == "__main__":
    main()
