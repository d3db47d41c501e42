"""What work units cost: a thousand small ones through Spark, and one per cent of a table that is read again.

``python -m benchmarks.units [--units 1000] [--rows 50000000] [--rounds 3] [--quick]``: in a temporary folder, against
an API on loopback. The requests of the first part are also made by a plain loop with one connection; a Spark job with
as many tasks that do nothing shows what Spark itself takes. In the second part one per cent of the units of a table are
replaced by one statement, against rewriting their partition and the whole table by Spark, as a job without high
watermarks does it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from benchmarks import report
from tidegate.protocol.change import Change
from tidegate.protocol.documents import WORK
from tidegate.protocol.follow_ups import WorkRemover, new_work_area
from tidegate.protocol.identity import Identity, SourceKey
from tidegate.protocol.position import TableContext
from tidegate.protocol.store import PositionStore, open_delta
from tidegate.sink.row_task import Batch, row_task
from tidegate.sink.unit_task import ReplacedUnit
from tidegate.sources.units.work import UnitWave, UnitWork, UnitWritten
from tidegate.spark.frames import columns_of, write_rows
from tidegate.spark.loading.replaced_units import unit_frame
from tidegate.spark.session import open_session
from tidegate.spark.work_units import carry_out_tasks
from tidegate.specs.columns import FunctionRead, HttpRead
from tidegate.specs.locations import Location
from tidegate.specs.project import FieldSpec, PipelineSpec, SchemaSpec, SinkSpec, SparkSpec
from tidegate.specs.units import Replace, UnitSource
from tidegate.storage.stores import open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEY = SourceKey("answers", "api")
RECORDS = 20
UNITS = 1000
PARTITIONS = 10
TASKS = 16
DAY = 86_400_000


class _Answers(BaseHTTPRequestHandler):
    """A few records for whatever is asked."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    content = json.dumps([{"id": number, "body": f"answer {number}"} for number in range(RECORDS)]).encode()

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, *_: object) -> None:
        """Nothing is told."""


@contextmanager
def api() -> Iterator[str]:
    """An API on loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def plain_loop(url: str, count: int, _turn: int) -> None:
    """The same requests, one after the other, and nothing else."""
    with httpx.Client() as client:
        for number in range(count):
            assert len(client.get(f"{url}/answers/{number}").json()) == RECORDS


def nothing(session: SparkSession, count: int, _turn: int) -> None:
    """A job of so many tasks that do nothing."""
    session.range(0, count, 1, count).mapInArrow(lambda batches: batches, "id bigint").collect()


def through_spark(session: SparkSession, folder: Path, url: str, count: int, turn: int) -> None:
    """All of them as one wave: fetched, written as Parquet, ready to be committed."""
    source = UnitSource("api", HttpRead(url, "/answers/{{survey}}"))
    columns = SchemaSpec((FieldSpec("id", "int64"), FieldSpec("body", "string")))
    table = Location((folder / f"answers-{turn}").as_uri())
    pipeline = PipelineSpec("answers", (), columns, SinkSpec(table), unit_sources=(source,))
    works = tuple(UnitWork(f"{n}", 0, ((0, DAY),), {"survey": f"{n}"}) for n in range(count))
    scratch = Location((folder / f"scratch-{turn}").as_uri())
    done = carry_out_tasks(session, UnitWave(pipeline, source, works, scratch, datetime.now(UTC)), lambda: False)
    assert all(isinstance(each, UnitWritten) and each.rows == RECORDS for each in done.results)


def answers(session: SparkSession, size: int, share: int = 1, tasks: int | None = None) -> DataFrame:
    """Rows of a thousand units, or of every so-manieth of them; each by a task of its own, unless that is said."""
    each = size // UNITS
    return session.range(0, UNITS, share, tasks or UNITS // share).selectExpr(
        "concat('unit-', lpad(id, 6, '0')) as _tidegate_unit",
        "timestamp '1970-01-01' as _tidegate_segment",
        f"id % {PARTITIONS} as part",
        f"explode(sequence(id * {each}, (id + 1) * {each} - 1)) as answer",
    )


def replaced_units(session: SparkSession, table: Path, size: int) -> None:
    """One per cent of the units, by one statement with the position in it."""
    source = UnitSource("api", FunctionRead("benchmark:rows"), replace=Replace.UNIT)
    location = Location(table.as_uri())
    pipeline = PipelineSpec("answers", (), SchemaSpec(infer=True), SinkSpec(location), unit_sources=(source,))
    store = open_store(location)
    identity, delta = Identity("unit", source.uri), open_delta(location, store)
    positions = PositionStore(TableContext(KEY, identity, store, delta, payers={WORK: WorkRemover(store).pay}))
    opened = positions.open()
    area = new_work_area(KEY, location)
    frame = answers(session, size, 100)
    task = row_task(pipeline, source.rows, columns_of(frame, "the units"), work=area.location)
    batch = Batch.of(pipeline, source.rows, task, write_rows(frame, task))
    units = [ReplacedUnit(f"unit-{number:06}", 0, DAY) for number in range(0, UNITS, 100)]
    waiting = unit_frame(session, batch, source, units)
    change = Change(
        {"n": 1},
        {"n": 1},
        rows=batch.rows,
        frame=waiting,
        schema=waiting.columns(opened.schema()),
        partition_columns=opened.partition_columns,
        debts=(area.debt(),),
    )
    positions.commit(opened, change)


def rewritten(session: SparkSession, table: Path, size: int, *, whole: bool) -> None:
    """The partition of these units, or everything, computed again and overwritten by Spark, in files of its own."""
    rows = answers(session, size, 1 if whole else PARTITIONS, TASKS)
    writer = rows.write.format("delta").mode("overwrite")
    (writer if whole else writer.option("replaceWhere", "part = 0")).save(str(table))


def removed(table: Path) -> int:
    """How many files the last commit took out of the table."""
    last = max((table / "_delta_log").glob("*.json"))
    return sum('"remove"' in line for line in last.read_text().splitlines())


def small_units(session: SparkSession, folder: Path, count: int, rounds: int) -> None:
    """The first part."""
    with api() as url:
        contenders: dict[str, Callable[[int], None]] = {
            "plain loop": partial(plain_loop, url, count),
            "empty Spark job": partial(nothing, session, count),
            "work units": partial(through_spark, session, folder, url, count),
        }
        for work in contenders.values():
            work(rounds)
        seconds = report.alternate(contenders, rounds)
    lines = [
        (name, f"{median:.2f} s", f"{median / count * 1000:.1f} ms") for name, median in report.medians(seconds).items()
    ]
    report.table(f"{count:,} work units of {RECORDS} records", ("contender", "median", "per unit"), lines)
    report.store("units_small", {"units": count, "seconds": seconds})


def read_again(session: SparkSession, folder: Path, size: int, rounds: int) -> None:
    """The second part: every round has tables of its own; one before the others is not timed."""
    names = {"work units": "units", "the partition": "partition", "the whole table": "whole"}
    answers(session, size).write.format("delta").partitionBy("part").save(str(folder / "table"))
    for turn in range(rounds + 1):
        for name in names.values():
            shutil.copytree(folder / "table", folder / f"{name}-{turn}")
    contenders: dict[str, Callable[[int], None]] = {
        "work units": lambda turn: replaced_units(session, folder / f"units-{turn}", size),
        "the partition": lambda turn: rewritten(session, folder / f"partition-{turn}", size, whole=False),
        "the whole table": lambda turn: rewritten(session, folder / f"whole-{turn}", size, whole=True),
    }
    for work in contenders.values():
        work(rounds)
    seconds = report.alternate(contenders, rounds)
    lines = [
        (name, f"{median:.2f} s", removed(folder / f"{names[name]}-0"))
        for name, median in report.medians(seconds).items()
    ]
    report.table(f"One per cent of the units of {size:,} rows", ("replaced by", "median", "files removed"), lines)
    report.store("units_again", {"rows": size, "seconds": seconds})


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--units", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    units, size, rounds = (40, 100_000, 1) if given.quick else (given.units, given.rows, given.rounds)
    print(report.machine(), flush=True)
    session = open_session(SparkSpec(), delta=True)
    with tempfile.TemporaryDirectory() as name:
        small_units(session, Path(name), units, rounds)
        read_again(session, Path(name), size, rounds)
    session.stop()


if __name__ == "__main__":
    main()
