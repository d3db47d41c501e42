"""What work units cost: a thousand small ones through Spark, and one per cent of a table that is read again.

``python -m benchmarks.units [--units 1000] [--rows 50000000] [--rounds 3] [--in-flight 8] [--quick]``: in a temporary
folder, against an API on loopback, a process of its own that answers after 20 ms. The requests of the first part are
also made by a plain loop with one connection, and by asyncio with as many requests under way as the work units have. In
the second part one per cent of the units of a table are replaced by one statement, against rewriting their partition
and the whole table by Spark, as a job without high watermarks does it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2

from benchmarks import report
from tidegate.protocol.change import Change, Identity, SourceKey
from tidegate.protocol.documents import WORK
from tidegate.protocol.follow_ups import WorkRemover, new_work_area
from tidegate.protocol.position import TableContext
from tidegate.protocol.store import PositionStore, open_delta
from tidegate.sources.units.work import UnitWave, UnitWork, UnitWritten, WaveResult
from tidegate.spark.frames import columns_of, write_rows
from tidegate.spark.loading.strategies import unit_frame
from tidegate.spark.session import open_session
from tidegate.spark.work_units import carry_out_tasks
from tidegate.specs.columns import FunctionRead, HttpRead
from tidegate.specs.locations import Location
from tidegate.specs.project import PipelineSpec, SparkSpec
from tidegate.specs.table import FieldSpec, SchemaSpec, SinkSpec
from tidegate.specs.units import Replace, UnitSource
from tidegate.storage.stores import open_store
from tidegate.tasks.row_task import Batch, row_task
from tidegate.tasks.unit_share import carry_out_here
from tidegate.tasks.unit_task import ReplacedUnit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEY = SourceKey("answers", "api")
RECORDS = 20
UNITS = 1000
PARTITIONS = 10
TASKS = 16
DAY = 86_400_000


CONTENT = json.dumps([{"id": number, "body": f"answer {number}"} for number in range(RECORDS)]).encode()
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(CONTENT) + CONTENT
DELAY_SECS = 0.02


class _Answers(asyncio.Protocol):
    """A few records for whatever is asked, after a while; many connections wait beside each other."""

    transport: asyncio.Transport
    waiting = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        *requests, self.waiting = (self.waiting + data).split(b"\r\n\r\n")
        for _ in requests:
            asyncio.get_running_loop().call_later(DELAY_SECS, self.answer)

    def answer(self) -> None:
        """Send the records, unless the other side has gone."""
        if not self.transport.is_closing():
            self.transport.write(ANSWER)


async def _serve(port: Connection) -> None:
    server = await asyncio.get_running_loop().create_server(_Answers, "127.0.0.1", 0)
    port.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def _serve_until_killed(port: Connection) -> None:
    asyncio.run(_serve(port))


@contextmanager
def api() -> Iterator[str]:
    """An API on loopback, in a process of its own."""
    ours, theirs = get_context("spawn").Pipe()
    server = get_context("spawn").Process(target=_serve_until_killed, args=(theirs,), daemon=True)
    server.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        server.kill()
        server.join()


def plain_loop(url: str, count: int, _turn: int) -> None:
    """The same requests, one after the other, and nothing else."""
    with httpx2.Client() as client:
        for number in range(count):
            assert len(client.get(f"{url}/answers/{number}").json()) == RECORDS


def plain_asyncio(url: str, count: int, in_flight: int, _turn: int) -> None:
    """The same requests, so many at once, and nothing else."""

    async def ask_all() -> None:
        places = asyncio.Semaphore(in_flight)
        async with httpx2.AsyncClient() as client:

            async def ask(number: int) -> None:
                async with places:
                    assert len((await client.get(f"{url}/answers/{number}")).json()) == RECORDS

            await asyncio.gather(*map(ask, range(count)))

    asyncio.run(ask_all())


def wave_of(folder: Path, url: str, count: int, in_flight: int, name: str, *, infers: bool) -> UnitWave:
    """All of them as one wave."""
    source = UnitSource("api", HttpRead(url, "/answers/{{survey}}", max_in_flight=in_flight))
    columns = SchemaSpec(() if infers else (FieldSpec("id", "int64"), FieldSpec("body", "string")), infer=infers)
    pipeline = PipelineSpec("answers", (source,), columns, SinkSpec(Location((folder / f"answers-{name}").as_uri())))
    works = tuple(UnitWork(f"{n}", 0, ((0, DAY),), {"survey": f"{n}"}) for n in range(count))
    return UnitWave(pipeline, source, works, Location((folder / f"scratch-{name}").as_uri()), datetime.now(UTC))


def check(done: WaveResult, files: int) -> None:
    """All rows are written, in few files."""
    written = [each for each in done.results if isinstance(each, UnitWritten)]
    assert [each.rows for each in written] == [RECORDS] * len(done.results)
    assert len({file.path for each in written for file in each.data_files}) <= files


def through_spark(
    session: SparkSession, folder: Path, url: str, count: int, in_flight: int, turn: int, *, infers: bool = False
) -> None:
    """Fetched, written as Parquet, ready to be committed."""
    wave = wave_of(folder, url, count, in_flight, f"spark-{infers}-{turn}", infers=infers)
    check(carry_out_tasks(session, wave, lambda: False), 8)


def in_process(folder: Path, url: str, count: int, in_flight: int, turn: int) -> None:
    """The same in this process, without Spark."""
    check(carry_out_here(wave_of(folder, url, count, in_flight, f"here-{turn}", infers=False)), 1)


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
    pipeline = PipelineSpec("answers", (source,), SchemaSpec(infer=True), SinkSpec(location))
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


def small_units(session: SparkSession, folder: Path, count: int, rounds: int, in_flight: int) -> None:
    """The first part."""
    with api() as url:
        asked = (url, count, in_flight)
        contenders: dict[str, Callable[[int], None]] = {
            "plain loop": partial(plain_loop, url, count),
            f"asyncio, {in_flight} at once": partial(plain_asyncio, *asked),
            "work units, columns declared": partial(through_spark, session, folder, *asked),
            "work units, columns inferred": partial(through_spark, session, folder, *asked, infers=True),
            "work units without Spark": partial(in_process, folder, *asked),
        }
        for work in list(contenders.values())[1:]:
            work(rounds)
        seconds = report.alternate(contenders, rounds, slow={"plain loop": 1})
    peer = seconds[f"asyncio, {in_flight} at once"]
    lines = [
        (
            name,
            f"{median:.2f} s",
            f"{count / median:.0f}",
            f"{report.side_by_side(seconds[name], peer):.2f}",
        )
        for name, median in report.medians(seconds).items()
    ]
    header = ("contender", "median", "units a second", "asyncio's time by its own (median of rounds)")
    report.table(f"{count:,} work units of {RECORDS} records, {in_flight} requests at once", header, lines)
    report.store("units_small", {"units": count, "in_flight": in_flight, "seconds": seconds})


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
    parser.add_argument("--in-flight", type=int, default=8)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    units, size, rounds = (40, 100_000, 1) if given.quick else (given.units, given.rows, given.rounds)
    print(report.machine(), flush=True)
    session = open_session(SparkSpec(), delta=True)
    with tempfile.TemporaryDirectory() as name:
        small_units(session, Path(name), units, rounds, given.in_flight)
        if size:
            read_again(session, Path(name), size, rounds)
    session.stop()


if __name__ == "__main__":
    main()
