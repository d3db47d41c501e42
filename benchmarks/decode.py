"""Decoding and writing in one process, beside DuckDB on one thread: NDJSON (gzip) in, snappy Parquet out.

    python benchmarks/decode.py [--records 1000000] [--rounds 5] [--tiny 5000] [--steps] [--memory]

CPU seconds of this process and its threads, the best of the rounds; the two take turns, so that a busy machine
hurts both. DuckDB gets the same declared columns. ``--steps`` shows where the time goes,
``--memory`` the peak memory for a file and for one ten times as large.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import duckdb

from tidegate.core.files.plan import FileGroup, FileSlice
from tidegate.formats.json import Decoder
from tidegate.parquet import parquet_file
from tidegate.schema.types import arrow_schema
from tidegate.specs.locations import Location
from tidegate.specs.table import FieldSpec, Numbers
from tidegate.tasks.read_task import GroupResult, ReadTask
from tidegate.tasks.task import read_group_at_once

FIELDS = (
    FieldSpec("id", "int64", nullable=False),
    FieldSpec("ts", "timestamp"),
    FieldSpec("event", "string"),
    FieldSpec("price", "float64"),
    FieldSpec("user", "struct", fields=(FieldSpec("name", "string"), FieldSpec("country", "string"))),
    FieldSpec("tags", "list", items=FieldSpec("element", "string")),
    FieldSpec("ok", "boolean"),
)
COLUMNS = (
    "{id: 'BIGINT', ts: 'TIMESTAMP', event: 'VARCHAR', price: 'DOUBLE', "
    "'user': 'STRUCT(name VARCHAR, country VARCHAR)', tags: 'VARCHAR[]', ok: 'BOOLEAN'}"
)


def lines(count: int, seed: int = 7) -> Iterator[bytes]:
    """Records of about 152 bytes: seven fields with a struct and a list."""
    rng = random.Random(seed)
    start = datetime(2024, 1, 28, 14)
    for number in range(count):
        at = start + timedelta(milliseconds=7 * number)
        record = {
            "id": number,
            "ts": at.isoformat(timespec="milliseconds") + "Z",
            "event": rng.choice(("click", "view", "purchase", "signup", "logout")),
            "price": round(rng.random() * 1000, 2),
            "user": {"name": f"user{rng.randrange(5000):05d}", "country": rng.choice(("DE", "FR", "US", "CN", "JP"))},
            "tags": [f"tag{rng.randrange(50)}" for _ in range(rng.randrange(4))],
            "ok": rng.random() < 0.5,
        }
        yield json.dumps(record, separators=(",", ":")).encode() + b"\n"


def read_task(root: Path, numbers: Numbers = Numbers.STRICT) -> ReadTask:
    """Reads ``root`` into ``root``/table."""
    return ReadTask(
        source=Location(root.as_uri()),
        table=Location((root / "table").as_uri()),
        fields=FIELDS,
        file_schema=arrow_schema(FIELDS).serialize().to_pybytes(),
        numbers=numbers,
    )


def sliced(root: Path, *names: str) -> FileGroup:
    """A unit of these files."""
    return FileGroup(0, tuple(FileSlice(name, (root / name).stat().st_size) for name in names))


def with_duckdb(source: str, target: Path) -> None:
    """The same work by DuckDB, on one thread."""
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.execute(
            f"COPY (SELECT * FROM read_ndjson('{source}', columns = {COLUMNS})) "
            f"TO '{target}' (FORMAT parquet, COMPRESSION snappy)"
        )


def best(rounds: int, ways: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The smallest CPU time of each way, taking turns."""
    found: dict[str, float] = defaultdict(lambda: float("inf"))
    for _ in range(rounds):
        for name, way in ways.items():
            before = time.process_time()
            way()
            found[name] = min(found[name], time.process_time() - before)
    return dict(found)


@contextmanager
def stopwatch(places: dict[str, tuple[object, str]]) -> Iterator[dict[str, float]]:
    """CPU seconds spent inside functions, by name; nested ones count for both."""
    spent: dict[str, float] = defaultdict(float)

    def timed(name: str, function: Callable[..., object]) -> Callable[..., object]:
        def run(*args: object, **kwargs: object) -> object:
            before = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                spent[name] += time.process_time() - before

        return run

    originals = {name: getattr(owner, attribute) for name, (owner, attribute) in places.items()}
    for name, (owner, attribute) in places.items():
        setattr(owner, attribute, timed(name, originals[name]))
    try:
        yield spent
    finally:
        for name, (owner, attribute) in places.items():
            setattr(owner, attribute, originals[name])


def steps(root: Path) -> None:
    """Where the time of one file goes."""
    places = {
        "JSON to columns": (Decoder, "decode"),
        "Parquet": (parquet_file.GrowingFile, "flush"),
    }
    before = time.process_time()
    with stopwatch(places) as spent:
        read_group_at_once(read_task(root), sliced(root, "a.ndjson.gz"))
    whole = time.process_time() - before
    for name, seconds in spent.items():
        print(f"  {name:28s} {seconds:6.3f} s")
    print(f"  {'decompress, read, other':28s} {whole - sum(spent.values()):6.3f} s")


def large(root: Path, records: int, rounds: int) -> None:
    """One gzip file."""
    with gzip.open(root / "a.ndjson.gz", "wb", compresslevel=6) as file:
        file.writelines(lines(records))
    unit = sliced(root, "a.ndjson.gz")
    found = best(
        rounds,
        {
            "tidegate, strict": lambda: read_group_at_once(read_task(root), unit),
            "tidegate, lenient": lambda: read_group_at_once(read_task(root, Numbers.LENIENT), unit),
            "DuckDB": lambda: with_duckdb(str(root / "a.ndjson.gz"), root / "duckdb.parquet"),
        },
    )
    print(f"{records} records, {unit.bytes / 1e6:.0f} MB gzip, best of {rounds}, CPU seconds:")
    for name, seconds in found.items():
        print(f"  {name:28s} {seconds:6.3f} s   {found['DuckDB'] / seconds:4.2f} x DuckDB")
    print(f"  the strict check costs {found['tidegate, strict'] / found['tidegate, lenient'] - 1:.0%}")


def tiny(root: Path, count: int, rounds: int) -> None:
    """Many files of 200 records, against the same records in one file."""
    names = []
    content = list(lines(200 * 100))
    for number in range(count):
        start = number % 100 * 200
        name = f"tiny-{number:06d}.ndjson.gz"
        (root / name).write_bytes(gzip.compress(b"".join(content[start : start + 200]), 6))
        names.append(name)
    (root / "together.ndjson.gz").write_bytes(gzip.compress(b"".join(content) * (count // 100), 6))
    found = best(
        rounds,
        {
            "tiny": lambda: check(read_group_at_once(read_task(root), sliced(root, *names)), 200 * count),
            "together": lambda: read_group_at_once(read_task(root), sliced(root, "together.ndjson.gz")),
        },
    )
    extra = (found["tiny"] - found["together"]) / count
    print(f"{count} files of 200 records: {found['tiny']:.2f} s, in one file {found['together']:.2f} s:")
    print(f"  {extra * 1e3:.3f} ms more per file")


def check(result: GroupResult, rows: int) -> None:
    """Complain if rows are missing."""
    if result.rows != rows:
        raise SystemExit(f"{result.rows} rows instead of {rows}")


def memory(root: Path, records: int) -> None:
    """Peak memory of a fresh process for a file and for one ten times as large."""
    member = gzip.compress(b"".join(lines(records)), 6)
    for copies in (3, 30):
        (root / "memory.ndjson.gz").write_bytes(member * copies)
        subprocess.run([sys.executable, __file__, "--peak", str(root), "memory.ndjson.gz"], check=True)


def peak(root: Path, name: str) -> None:
    """Read one file and print the peak memory of this process."""
    result = read_group_at_once(replace(read_task(root), commit_batch_files=1000), sliced(root, name))
    status = Path("/proc/self/status").read_text()
    kilobytes = int(status.split("VmHWM:")[1].split()[0])
    print(f"{result.rows} rows: peak {kilobytes / 1024:.0f} MB")


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tiny", type=int, default=5000)
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("--quick", action="store_true", help="a fifth of the records, one round")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.records, arguments.rounds, arguments.tiny = 200_000, 1, 500
    if arguments.peak:
        peak(Path(arguments.peak[0]), arguments.peak[1])
        return
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        (root / "table").mkdir()
        large(root, arguments.records, arguments.rounds)
        if arguments.steps:
            steps(root)
        tiny(root, arguments.tiny, arguments.rounds)
        if arguments.memory:
            memory(root, arguments.records)


if __name__ == "__main__":
    main()
