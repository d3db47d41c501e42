"""NDJSON.gz into a table: Tidegate against Spark's own reader and writer, and DuckDB as the limit.

All in one process and one warm Spark session with two threads, in turns. ``python -m benchmarks.throughput``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path

import duckdb

import tidegate
from benchmarks import events, report
from tidegate.spark.session import open_session
from tidegate.specs.project import SparkSpec

THREADS = 2
SPARK = "spark json → delta"


def configuration(folder: Path, source: Path, table: Path, **settings: object) -> Path:
    """A one-pipeline configuration for ``source`` → ``table``."""
    path = folder / "bench.yml"
    body = {
        "pipelines": {
            "events": {
                "source": {"source_uri": str(source), "use_watermark": True, "lateness": "none", **settings},
                "schema": {"fields": events.FIELDS},
                "sink": {"table_uri": str(table)},
            }
        },
        "spark": {"master": f"local[{THREADS}]"},
    }
    path.write_text(json.dumps(body))
    return path


def compare(name: str, source: Path, raw_bytes: int, records: int, rounds: int, warm_up: bool) -> dict[str, float]:
    """Seconds per contender (medians), after one warm-up each; checks that all wrote every record."""
    work = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
    session = open_session(SparkSpec(master=f"local[{THREADS}]"), delta=True)

    def with_tidegate(turn: int) -> None:
        table = work / f"tidegate-{turn}"
        outcome = tidegate.run(configuration(work, source, table))
        assert outcome.ok
        assert sum(one.rows for one in outcome.sources) == records
        shutil.rmtree(table)

    def with_spark(turn: int) -> None:
        table = work / f"spark-{turn}"
        session.read.schema(events.SPARK_SCHEMA).json(str(source)).write.format("delta").save(str(table))
        shutil.rmtree(table)

    def with_duckdb(turn: int) -> None:
        table = work / f"duckdb-{turn}"
        duckdb.sql(f"SET threads = {THREADS}")
        duckdb.sql(
            f"COPY (SELECT * FROM read_ndjson('{source}/**/*.ndjson.gz', columns = {events.DUCKDB_COLUMNS})) "
            f"TO '{table}' (FORMAT parquet, PER_THREAD_OUTPUT true)"
        )
        shutil.rmtree(table)

    contenders = {"tidegate": with_tidegate, "duckdb ndjson → parquet": with_duckdb, SPARK: with_spark}
    for warm in contenders.values() if warm_up else ():
        warm(-1)
    seconds = report.alternate(contenders, rounds, slow={SPARK: (rounds + 1) // 2})
    shutil.rmtree(work)
    middle, best = report.medians(seconds), {who: min(taken) for who, taken in seconds.items()}
    report.table(
        f"{name}: {records:,} records, {raw_bytes / 1e9:.2f} GB raw",
        ("contender", "median s", "best s", "MB/s raw", "tidegate is … times as fast (median of rounds, best)"),
        [
            (
                who,
                f"{middle[who]:.2f}",
                f"{best[who]:.2f}",
                f"{raw_bytes / 1e6 / middle[who]:.0f}",
                f"{report.side_by_side(seconds['tidegate'], seconds[who]):.2f}, {best[who] / best['tidegate']:.2f}",
            )
            for who in contenders
        ],
    )
    report.store(name, {"seconds": seconds, "raw_bytes": raw_bytes, "records": records})
    return middle


def main() -> None:
    """Large files, then many small ones."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="a fortieth of the data, one round")
    arguments.add_argument("--data", type=Path, default=Path(__file__).parent / "data")
    chosen = arguments.parse_args()
    print(report.machine())
    small, large = ("small-files", 200 if chosen.quick else 5000, 200), ("throughput", 32, 500_000)
    if chosen.quick:
        large = ("throughput", 4, 100_000)
    rounds = 1 if chosen.quick else 5
    for name, files, records in (small, large) if chosen.quick else (large, small):
        source, raw = events.dataset(chosen.data, files, records)
        compare(name, source, raw, files * records, rounds, warm_up=name == "small-files" or not chosen.quick)


if __name__ == "__main__":
    main()
