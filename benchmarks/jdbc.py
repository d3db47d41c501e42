"""A table of PostgreSQL with a skewed key into memory: Tidegate beside ``spark.read.jdbc`` with as many connections.

    python -m benchmarks.jdbc [--rows 10000000] [--table-rows 3000000] [--parallelism 4] [--rounds 3] [--cores 2]
        [--quick]

The key of nine rows in ten lies in the first thousandth of its range: equal ranges are unequal shares. Both read
every row (Spark's sink ``noop``, which computes all columns and keeps nothing), in turns, in one warm session. Then an
increment of one row in a hundred is read, which should cost about a hundredth. The server runs on this machine.

Then both fill a Delta table from the first rows of the same table, end to end: a first run of a pipeline that appends,
with its position in the commit, by ADBC and by JDBC, beside ``spark.read.jdbc(…).write.format("delta")`` with as many
connections, whose equal ranges of the identity are equal shares, and with one connection. The processor seconds are
those of everything: this process, Java, the Python workers and the server.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.commits import cpu_seconds
from benchmarks.report import alternate, consumed, machine, medians, store
from tidegate import run
from tidegate.core.columns.predicates import Bound, ColumnRange, RowFilter
from tidegate.core.dialects.postgresql import Postgresql
from tidegate.spark.readers.jdbc import JdbcReader
from tidegate.spark.session import open_session
from tidegate.specs.columns import ColumnSource, JdbcRead, RowReader
from tidegate.specs.locations import Secret
from tidegate.specs.project import SparkSpec
from tidegate.specs.table import SchemaSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from servers.postgres import Server

sys.path.append(str(Path(__file__).parents[1] / "tests"))

TABLE = """
create table events as
select n as id, case when n % 10 < 9 then n else n * 1000 end as key,
  now() + n * interval '1 millisecond' as updated_at,
  (n % 100000)::numeric(12, 2) as amount, 'customer ' || (n % 1000) as customer
from generate_series(1, {rows}::bigint) n
"""
INDEXES = ("create index on events (key)", "create index on events (id)", "vacuum analyze events")


def into_tables(
    session: SparkSession, server: Server, folder: Path, rows: int, parallelism: int
) -> dict[str, Callable[[int], None]]:
    """Contenders that fill a new table each time."""
    from servers import postgres

    query = f"(select * from events where id <= {rows}) as wanted"
    properties = {"user": postgres.USER, "password": postgres.PASSWORD, "fetchsize": "10000"}
    properties |= {"driver": "org.postgresql.Driver"}

    def with_tidegate(turn: int, reader: str = "adbc") -> None:
        connection = {"type": "jdbc", "url": server.jdbc_url(), "user": postgres.USER, "password": postgres.PASSWORD}
        source = {"connection": "shop", "table": "events", "filter_expression": f"id <= {rows}"}
        source |= {"watermark_columns": ["id"], "parallelism": parallelism, "reader": reader}
        pipeline = {"source": source, "sink": {"table_uri": str(folder / f"tidegate-{reader}-{turn}")}}
        path = folder / "jdbc.yml"
        path.write_text(json.dumps({"connections": {"shop": connection}, "pipelines": {"events": pipeline}}))
        (report,) = run(path).sources
        assert report.rows == rows, report

    def with_spark(turn: int) -> None:
        bounds = {"lowerBound": 1, "upperBound": rows + 1, "numPartitions": parallelism}
        frame = session.read.jdbc(server.jdbc_url(), query, column="id", properties=properties, **bounds)
        frame.write.format("delta").save(str(folder / f"spark-{turn}"))

    def with_one_connection(turn: int) -> None:
        frame = session.read.jdbc(server.jdbc_url(), query, properties=properties)
        frame.write.format("delta").save(str(folder / f"single-{turn}"))

    return {
        "into a table: tidegate": with_tidegate,
        "into a table: tidegate, jdbc": partial(with_tidegate, reader="jdbc"),
        "into a table: spark": with_spark,
        "into a table: spark, one connection": with_one_connection,
    }


def counted(work: Callable[[int], None], taken: list[float]) -> Callable[[int], None]:
    """The same work, whose processor seconds join ``taken``."""

    def run_counted(turn: int) -> None:
        before = cpu_seconds(os.getpid())
        work(turn)
        taken.append(cpu_seconds(os.getpid()) - before)

    return run_counted


def main() -> None:
    """Fill the server, then let both read."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--table-rows", type=int, default=3_000_000)
    parser.add_argument("--parallelism", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    rows, rounds = (100_000, 1) if given.quick else (given.rows, given.rounds)

    from servers import postgres

    with postgres.running() as server:
        with server.connect() as connection:
            connection.execute(TABLE.format(rows=rows).encode())
            for statement in INDEXES:
                connection.execute(statement.encode())
        master = f"local[{given.cores}]"
        session = open_session(SparkSpec(master=master), delta=True, packages=(Postgresql.driver.package,))
        read = JdbcRead(
            server.jdbc_url(),
            user=postgres.USER,
            password=Secret(postgres.PASSWORD),
            table="events",
            partition_column="key",
            parallelism=given.parallelism,
            reader=RowReader.JDBC,
        )
        reader = JdbcReader(session, ColumnSource("events", read, ("id",)), read, SchemaSpec())
        options = {"user": postgres.USER, "password": postgres.PASSWORD, "fetchsize": "10000"}
        options |= {"driver": "org.postgresql.Driver"}

        def with_tidegate(_: int) -> None:
            consumed(reader.read(RowFilter()))

        def with_spark(_: int) -> None:
            bounds = {"lowerBound": 1, "upperBound": rows * 1000, "numPartitions": given.parallelism}
            consumed(session.read.jdbc(server.jdbc_url(), "events", column="key", properties=options, **bounds))

        def increment(_: int) -> None:
            wanted = RowFilter((ColumnRange("id", Bound(rows - rows // 100)),))
            seen = reader.greatest(wanted)
            cap = {name: Bound(value, inclusive=True) for name, value in seen.values.items() if value is not None}
            consumed(reader.read(wanted.capped(cap)))

        contenders = {"tidegate": with_tidegate, "spark.read.jdbc": with_spark, "tidegate, 1 %": increment}
        increment(0)  # so that the session is warm for all
        seconds = alternate(contenders, rounds)
        with tempfile.TemporaryDirectory(prefix="tidegate-jdbc-") as folder:
            tables = into_tables(session, server, Path(folder), min(rows, given.table_rows), given.parallelism)
            for work in tables.values():
                work(-1)  # so that the session is warm for all
            cpu: dict[str, list[float]] = {name: [] for name in tables}
            seconds |= alternate({name: counted(work, cpu[name]) for name, work in tables.items()}, rounds)
        middle = medians(seconds)
        print(f"{machine()}; {rows:,} rows, {given.parallelism} connections, {given.cores} tasks at once")
        print(f"full read: {middle['spark.read.jdbc'] / middle['tidegate']:.2f} times as fast as spark.read.jdbc")
        print(f"increment: {middle['tidegate, 1 %'] / middle['tidegate']:.3f} of the full read")
        ours = middle["into a table: tidegate"]
        others = tuple(each for each in tables if each != "into a table: tidegate")
        print(
            "into a table: " + ", ".join(f"{middle[each] / ours:.2f} times as fast as {each[14:]}" for each in others)
        )
        for name, taken in cpu.items():
            print(f"{name}: {', '.join(f'{each:.2f}' for each in taken)} CPU seconds")
        store("jdbc", {"rows": rows, "parallelism": given.parallelism, "seconds": seconds, "cpu_seconds": cpu})
        session.stop()


if __name__ == "__main__":
    main()
