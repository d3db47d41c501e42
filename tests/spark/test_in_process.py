"""The engine of this process and Spark write the same rows, types and watermarks; either goes on from the other."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from pyiceberg.types import LongType, StringType

from servers import mariadb as mariadb_server
from servers import postgres as postgres_server
from support.database_types import MARIADB, POSTGRESQL, Typed
from support.iceberg_tables import ORDERS, add, new_table, row
from tidegate import ProjectSpec, RunReport, load, run
from tidegate.cli.main import cli
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ONLY_SPARK = ("bit(1)", "integer[]", "text[]")
"""Types of PostgreSQL that the engine of this process refuses."""


def here(config: Path) -> RunReport:
    """One pass without Spark."""
    project: ProjectSpec = load(config)
    return Loop(project, InProcessEngine(), 1).once(project.pipelines)


def both(folder: Path, source: dict[str, Any], connections: dict[str, Any], arrive: Callable[[], object]) -> None:
    """Pipelines that differ in their tables alone: tables and documents are the same, whoever went on from whom."""
    configs = {name: folder / f"{name}.yml" for name in ("one", "other")}
    for name, path in configs.items():
        pipelines = {"p": {"source": source, "sink": {"table_uri": f"{name}/p"}}}
        path.write_text(json.dumps({"pipelines": pipelines, "connections": connections}))
    for ways in ((here, run), (run, here)):
        arrive()
        for path, way in zip(configs.values(), ways, strict=True):
            report = way(path)
            assert report.ok, report.sources[0].error
            assert report.sources[0].rows == 2
        one, other = (DeltaTable(folder / name / "p") for name in configs)
        assert one.schema().to_json() == other.schema().to_json()
        assert values(one) == values(other)
        assert document(folder / "one") == document(folder / "other")


def values(table: DeltaTable) -> list[str]:
    """All rows; times as numbers, since Python has no years of five digits."""
    rows = table.to_pyarrow_table()
    times = {n: each.type for n, each in enumerate(rows.schema) if pa.types.is_timestamp(each.type)}
    for number, kind in times.items():
        rows = rows.set_column(
            number, rows.column_names[number], rows.column(number).cast(pa.timestamp(kind.unit)).cast("int64")
        )
    return sorted(map(repr, rows.to_pylist()))


def document(folder: Path) -> str:
    """The newest state document, without what no two runs have in common."""
    newest = max((folder / "p" / "_tidegate" / "p" / "default").glob("*.json"))
    found = json.loads(newest.read_text())
    own = {"attempt", "parent", "written_at", "table_id", "data_files", "run"}
    state = {**found["state"], "update_ts": None}
    return json.dumps({**{key: value for key, value in found.items() if key not in own}, "state": state})


def rows(types: Sequence[Typed], number: int) -> str:
    """Statements that add a row of these types, and one without values."""
    columns = ", ".join(f"c{index} {each.sql} null" for index, each in enumerate(types))
    keys, at = "id bigint primary key", f"'2026-02-0{number} 00:00:00.00000{number}'"
    made = f"create table fit ({keys}, at timestamp(6) not null, {columns}); " if number == 1 else ""
    values = ", ".join(each.literal for each in types)
    return f"{made}insert into fit values ({number}, {at}, {values}); insert into fit (id, at) values (-{number}, {at})"


def test_postgresql(spark: SparkSession, postgres: postgres_server.Server, tmp_path: Path) -> None:
    database, numbers = postgres.new_database(), count(1)

    def arrive() -> None:
        with postgres.connect(database) as connection:
            connection.execute(rows(types, next(numbers)).encode())

    odd = [Typed("timestamp", "'294246-12-31 23:59:59.5'", "", 0), Typed("timestamp", "'2026-03-08 02:30:00'", "", 0)]
    odd.append(Typed("timestamp", "'2380-03-20 12:00:00'", "", 0))
    types = [*(each for each in POSTGRESQL if each.sql not in ONLY_SPARK), *odd]
    connection = {"type": "jdbc", "url": postgres.jdbc_url(database)}
    connection |= {"user": postgres_server.USER, "password": postgres_server.PASSWORD}
    source = {"connection": "shop", "table": "fit", "watermark_columns": ["at", "id"]}
    both(tmp_path, {**source, "source_timezone": "America/New_York"}, {"shop": connection}, arrive)


@pytest.mark.skipif(not mariadb_server.is_possible(), reason="its programs are for Linux on x86-64")
def test_mariadb(spark: SparkSession, mariadb: mariadb_server.Server, tmp_path: Path) -> None:
    database, numbers = mariadb.new_database(), count(1)

    def arrive() -> None:
        mariadb.execute(f"set time_zone = '+00:00'; {rows(types, next(numbers))}", database)

    types = [*MARIADB, Typed("datetime", "'2026-11-01 01:30:00'", "", 0)]
    connection = {"type": "jdbc", "url": mariadb.jdbc_url(database)}
    connection |= {"user": mariadb_server.USER, "password": mariadb_server.PASSWORD}
    source = {"connection": "shop", "table": "fit", "watermark_columns": ["at", "id"], "watermark_mode": "tuple"}
    mariadb.execute("set global sql_select_limit = 1")
    try:
        both(tmp_path, {**source, "source_timezone": "America/New_York"}, {"shop": connection}, arrive)
    finally:
        mariadb.execute("set global sql_select_limit = default")


def test_a_table_is_carried_by_either_in_turn_from_the_command_line(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "p.yml").write_text("source: {source_uri: in, format: csv}\nsink: {table_uri: lake}\n")
    for number, engine in enumerate(("local", "spark", "local", "spark")):
        (tmp_path / "in" / f"{number}.csv").write_text(f"id,price\n{number},2.5\n")
        done = CliRunner().invoke(cli, ["run", str(tmp_path / "p.yml"), "--engine", engine, "--json", "-q"])
        assert done.exit_code == 0, done.output
        report = json.loads(done.stdout)
        assert (report["engine"], report["sources"][0]["rows"]) == (engine, 1)
    assert sorted(row["id"] for row in DeltaTable(tmp_path / "lake").to_pyarrow_table().to_pylist()) == [0, 1, 2, 3]


def test_iceberg(spark: SparkSession, tmp_path: Path) -> None:
    table, numbers = new_table(tmp_path / "from", "orders", ORDERS), count(1)

    def arrive() -> None:
        number = next(numbers) * 4
        add(table, [{**row(number), "buyer": None}])
        if number == 4:
            with table.update_schema() as update:
                update.add_column("note", StringType())
                update.update_column("id", LongType())
                update.rename_column("buyer.name", "full_name")
        add(table, [{**row(number + 1), "buyer": {"full_name": "b", "mark": b"xy"}}])

    source = {"type": "iceberg", "source_uri": "from/orders", "watermark_columns": ["at", "id"]}
    both(tmp_path, {**source, "source_timezone": "America/New_York"}, {}, arrive)
