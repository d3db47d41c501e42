"""Files of each format into Parquet: Tidegate beside DuckDB and, on request, Spark's own readers.

    python -m benchmarks.formats [--records 1000000] [--rounds 5] [--only csv parquet] [--spark]

One process and one thread each. The contenders take turns, after one that is not counted; CPU seconds of the process,
medians of the rounds. All get the same declared columns and write snappy Parquet. Spark's time is the wall clock of a
warm session with one thread, since its work is done in another process. DuckDB has no reader for Avro here.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq

from benchmarks.report import machine, medians, store, table
from tidegate.core.files.plan import FileGroup, FileSlice
from tidegate.schema.types import arrow_schema
from tidegate.specs.files import Format
from tidegate.specs.locations import Location
from tidegate.specs.table import FieldSpec
from tidegate.tasks.read_task import ReadTask
from tidegate.tasks.task import read_group_at_once

FIELDS = (
    FieldSpec("id", "int64", nullable=False),
    FieldSpec("ts", "timestamp"),
    FieldSpec("event", "string"),
    FieldSpec("price", "float64"),
    FieldSpec("amount", "decimal(12,2)"),
    FieldSpec("ok", "boolean"),
)
COLUMNS = "{id: 'BIGINT', ts: 'TIMESTAMPTZ', event: 'VARCHAR', price: 'DOUBLE', amount: 'DECIMAL(12,2)', ok: 'BOOLEAN'}"
READERS = {
    "csv": f"read_csv('FILE', header = true, columns = {COLUMNS})",
    "parquet": "read_parquet('FILE')",
    "json": f"read_json('FILE', format = 'array', columns = {COLUMNS})",
    "ndjson": f"read_json('FILE', format = 'newline_delimited', columns = {COLUMNS})",
}
SPARK_COLUMNS = "id bigint, ts timestamp, event string, price double, amount decimal(12,2), ok boolean"


def events(records: int) -> pa.Table:
    """Records of six plain columns."""
    start = datetime(2024, 1, 28, 14, tzinfo=UTC)
    words = ("click", "view", "purchase", "sign, up", "logout")
    rows = range(records)
    columns = [
        pa.array(rows, pa.int64()),
        pa.array([start + timedelta(milliseconds=7 * row) for row in rows], pa.timestamp("us", "UTC")),
        pa.array([words[row % 5] for row in rows]),
        pa.array([row * 0.37 % 1000 for row in rows], pa.float64()),
        pa.array([f"{row % 99991}.{row % 90 + 10}" for row in rows]).cast(pa.decimal128(12, 2)),
        pa.array([row % 3 == 0 for row in rows]),
    ]
    return pa.Table.from_arrays(columns, schema=arrow_schema(FIELDS))


def write(folder: Path, records: int) -> dict[str, Path]:
    """The same records as a file of each format."""
    found = events(records)
    paths = {name: folder / f"events.{name}" for name in ("csv", "parquet", "json", "ndjson", "avro")}
    pq.write_table(found, paths["parquet"])
    pv.write_csv(found, paths["csv"])
    connection = duckdb.connect()
    iso = f"select * replace (strftime(ts, '%Y-%m-%dT%H:%M:%S.%fZ') as ts) from '{paths['parquet']}'"
    connection.sql("set timezone = 'UTC'")
    connection.sql(f"copy ({iso}) to '{paths['json']}' (format json, array true)")
    connection.sql(f"copy ({iso}) to '{paths['ndjson']}' (format json)")
    _write_avro(found, paths["avro"])
    return paths


def _write_avro(found: pa.Table, path: Path) -> None:
    import fastavro

    types = {
        "id": "long",
        "ts": {"type": "long", "logicalType": "timestamp-micros"},
        "event": "string",
        "price": "double",
        "amount": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
        "ok": "boolean",
    }
    fields = [{"name": name, "type": ["null", kind]} for name, kind in types.items()]
    records = (row for batch in found.to_batches(10_000) for row in batch.to_pylist())
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "event", "fields": fields}, records, codec="deflate")


def with_tidegate(path: Path, out: Path, format: str, records: int) -> None:
    """One unit, read and written."""
    task = ReadTask(
        source=Location(path.parent.as_uri()),
        table=Location(out.as_uri()),
        fields=FIELDS,
        file_schema=arrow_schema(FIELDS).serialize().to_pybytes(),
        format=Format(format),
    )
    result = read_group_at_once(task, FileGroup(0, (FileSlice(path.name, path.stat().st_size),)))
    assert result.rows == records, result.outcomes


def with_duckdb(path: Path, out: Path, format: str) -> None:
    """The same by DuckDB on one thread."""
    connection = duckdb.connect(config={"threads": 1})
    connection.sql("set timezone = 'UTC'")
    source = READERS[format].replace("FILE", str(path))
    connection.sql(f"copy (from {source}) to '{out / 'duckdb.parquet'}' (format parquet, compression snappy)")


def spark_reader(folder: Path) -> Callable[[Path, str], None]:
    """The same by Spark; the session is made once."""
    from tidegate.spark.session import open_session
    from tidegate.specs.project import SparkSpec

    session = open_session(SparkSpec(master="local[1]", config={"spark.driver.memory": "6g"}), delta=True)

    def read(path: Path, format: str) -> None:
        reader = session.read.schema(SPARK_COLUMNS)
        if format == "csv":
            reader = reader.option("header", True)
        if format == "json":
            reader = reader.option("multiLine", True)
        reader.format("json" if format == "ndjson" else format).load(str(path)).write.mode("overwrite").parquet(
            str(folder / "spark")
        )

    return read


Contender = tuple[Callable[[], float], Callable[[], None]]
"""The clock of a contender, and its work."""


def in_turns(contenders: Mapping[str, Contender], rounds: int) -> dict[str, list[float]]:
    """Seconds of each round, which begin with another contender each; the first turn warms up and is not counted."""
    names = list(contenders)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds + 1):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            clock, work = contenders[name]
            start = clock()
            work()
            seconds[name].append(clock() - start)
    return {name: found[1:] for name, found in seconds.items()}


def main() -> None:
    """Measure every format and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--spark", action="store_true", help="also Spark's own readers")
    options = parser.parse_args()
    results: dict[str, dict[str, list[float]]] = {}
    rows = []
    with tempfile.TemporaryDirectory(prefix="tidegate-formats-") as name:
        folder = Path(name)
        paths = write(folder, options.records)
        out = folder / "out"
        out.mkdir()
        spark = spark_reader(folder) if options.spark else None
        for format, path in paths.items():
            if options.only and format not in options.only:
                continue
            ours = partial(with_tidegate, path, out, format, options.records)
            contenders: dict[str, Contender] = {"Tidegate": (time.process_time, ours)}
            if format in READERS:
                contenders["DuckDB"] = (time.process_time, partial(with_duckdb, path, out, format))
                if spark is not None:
                    contenders["Spark"] = (time.perf_counter, partial(spark, path, format))
            results[format] = in_turns(contenders, options.rounds)
            middle = medians(results[format])
            ratios = [f"{middle[other] / middle['Tidegate']:.2f}" for other in list(middle)[1:]]
            seconds = [f"{each:.2f}" for each in middle.values()]
            missing = [""] * (3 - len(middle))
            rows.append([format, f"{path.stat().st_size / 1e6:.0f}", *seconds, *missing, *ratios, *missing])
    header = ["format", "MB", "Tidegate s", "DuckDB s", "Spark s", "times as fast as DuckDB", "times as fast as Spark"]
    table(f"{machine()}; {options.records:,} records, {options.rounds} rounds", header, rows)
    store("formats", {"seconds": results, "records": options.records})


if __name__ == "__main__":
    main()
