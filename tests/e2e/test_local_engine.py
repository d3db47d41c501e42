"""``--engine local`` as people call it, where there is no Java and pyspark cannot be imported."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from openpyxl import Workbook  # type: ignore[import-untyped]  # it has no types

from servers import api as apis
from servers import postgres as servers
from servers.api import Answer, Asked

EXAMPLES = Path(__file__).parents[2] / "examples"
NO_PYSPARK = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j"):
            raise ImportError(f"{name} must not be imported here")

sys.meta_path.insert(0, Missing())
"""
NO_JAVA = """
import sys
from tidegate.spark import jars
jars._FOLDERS = ()
from tidegate.cli.main import cli
cli.main(sys.argv[1:], prog_name="tidegate")
"""
FUNCTIONS = """
import pyarrow as pa

def numbers(session, request):
    assert session is None
    return pa.table({"id": pa.array(range(1, 4), pa.int64())})

def visits(session, request):
    return pa.table({"at": pa.array([request.low], pa.timestamp("us", "UTC")), "who": [request.unit]})
"""


@dataclass
class Machine:
    """A folder, and a command line without Java and pyspark."""

    folder: Path

    def configure(self, source: Mapping[str, Any], /, connection: Mapping[str, Any] | None = None, **sink: Any) -> None:
        """Write ``p.yml`` with one pipeline ``p``."""
        body: dict[str, Any] = {"pipelines": {"p": {"source": source, "sink": {"table_uri": "lake/p", **sink}}}}
        if connection is not None:
            body["connections"] = {"there": connection}
        (self.folder / "p.yml").write_text(json.dumps(body))

    def tidegate(self, *arguments: str, code: int = 0) -> str:
        """What a command prints, with its errors if it fails."""
        env = {"PATH": "", "HOME": str(self.folder), "PYTHONPATH": os.pathsep.join((str(self.folder), *sys.path))}
        command = [sys.executable, "-c", NO_JAVA, *arguments]
        done = subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout if code == 0 else done.stdout + done.stderr

    def run(self, config: str = "p.yml") -> list[int]:
        """The rows per source of a run."""
        report = json.loads(self.tidegate("run", config, "--engine", "local", "--json", "-q"))
        assert (report["ok"], report["engine"]) == (True, "local")
        return [source["rows"] for source in report["sources"]]

    def rows(self, table: str = "lake/p") -> list[dict[str, Any]]:
        return DeltaTable(str(self.folder / table)).to_pyarrow_table().to_pylist()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "sitecustomize.py").write_text(NO_PYSPARK)
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    return Machine(tmp_path)


def test_a_folder_of_csv_files_is_ingested_and_followed(machine: Machine) -> None:
    (machine.folder / "landing").mkdir()
    (machine.folder / "landing" / "1.csv").write_text("id,price\n1,2.5\n2,3.5\n")
    told = json.loads(machine.tidegate("ingest", "landing", "lake/p", "--engine", "local", "--save", "p.yml", "--json"))
    assert (told["run"]["engine"], told["run"]["sources"][0]["rows"]) == ("local", 2)
    (machine.folder / "landing" / "2.csv").write_text("id,price\n3,4.5\n")
    assert (machine.folder / "p.yml").read_text().startswith("engine: local\n")
    assert json.loads(machine.tidegate("run", "p.yml", "--json", "-q"))["sources"][0]["rows"] == 1
    assert sorted(row["id"] for row in machine.rows()) == [1, 2, 3]


def test_the_demo_plays_without_java(machine: Machine) -> None:
    told = json.loads(machine.tidegate("demo", "d", "--engine", "local", "--json", "-q"))
    assert told["ok"]


def test_the_demo_prints_what_its_commands_print(machine: Machine) -> None:
    shown = machine.tidegate("demo", "d", "--engine", "local", "-q")
    assert "$ tidegate status d/tidegate.yml\n" + machine.tidegate("status", "d/tidegate.yml") in shown
    (headings, *_) = machine.tidegate("run", "d/tidegate.yml", "-q").splitlines()
    assert f"$ tidegate run d/tidegate.yml\n{headings}\n" in shown


@pytest.mark.parametrize("command", [("demo", "d"), ("ingest", "landing", "lake/p"), ("run", "p.yml")], ids=" ".join)
def test_without_java_one_sentence_names_the_local_engine(machine: Machine, command: tuple[str, ...]) -> None:
    (machine.folder / "sitecustomize.py").unlink()
    (machine.folder / "landing").mkdir()
    (machine.folder / "landing" / "1.csv").write_text("id\n1\n")
    machine.configure({"source_uri": "landing", "format": "csv"})
    assert "`--engine local` appends rows without Java" in machine.tidegate(*command, code=3)


@pytest.mark.parametrize("kind", ["csv", "json", "excel", "parquet", "delta"])
def test_a_table_of_files_is_followed_by_a_column(machine: Machine, kind: str) -> None:
    place = machine.folder / "in"
    place.mkdir()

    def arrive(number: int) -> None:
        rows = pa.table({"id": pa.array([number], pa.int64())})
        match kind:
            case "csv":
                (place / f"{number}.csv").write_text(f"id\n{number}\n")
            case "json":
                (place / f"{number}.json").write_text(f'{{"id": {number}}}\n')
            case "excel":
                book = Workbook()
                book.active.append(["id"])
                book.active.append([number])
                book.save(place / f"{number}.xlsx")
            case "parquet":
                pq.write_table(rows, place / f"{number}.parquet")
            case _:
                write_deltalake(place, rows, mode="append")

    machine.configure({"type": kind, "source_uri": "in", "watermark_columns": ["id"]})
    arrive(1)
    assert machine.run() == [1]
    arrive(2)
    assert (machine.run(), machine.run()) == ([1], [0])
    assert sorted(row["id"] for row in machine.rows()) == [1, 2]


@pytest.mark.parametrize("reader", ["jdbc", "adbc"])
def test_a_table_of_postgresql(machine: Machine, postgres: servers.Server, reader: str) -> None:
    database = postgres.new_database()
    with psycopg.connect(postgres.url(database, driver=""), autocommit=True) as connection:
        connection.execute("create table orders (id int primary key, at timestamptz, price numeric(10,2))")
        connection.execute("insert into orders values (1, '2026-01-01T00:00:00Z', 1.50)")
        there = {"type": "jdbc", "url": postgres.jdbc_url(database), "user": servers.USER, "password": servers.PASSWORD}
        source = {"connection": "there", "table": "orders", "watermark_columns": ["id"], "reader": reader}
        machine.configure(source, there)
        assert machine.run() == [1]
        connection.execute("insert into orders values (2, null, 2.50)")
    assert (machine.run(), machine.run()) == ([1], [0])
    assert sorted((row["id"], str(row["price"])) for row in machine.rows()) == [(1, "1.50"), (2, "2.50")]


def test_an_api_and_a_function(machine: Machine) -> None:
    def answer(asked: Asked) -> Answer:
        return Answer({"data": [{"id": 1}, {"id": 2}]})

    with apis.running() as api:
        api.routes["/rows"] = answer
        source = {"connection": "there", "path": "/rows", "records": "data", "watermark_columns": ["id"]}
        machine.configure(source, {"type": "http", "url": api.url})
        assert (machine.run(), machine.run()) == ([2], [0])
    function = {"type": "python", "function": "functions:numbers", "watermark_columns": ["id"]}
    machine.configure(function, table_uri="lake/numbers")
    assert (machine.run(), machine.run()) == ([3], [0])


def test_work_units_are_read_once(machine: Machine) -> None:
    machine.configure(
        {
            "type": "python",
            "function": "functions:visits",
            "watermark": [
                {"name": "day", "type": "datetime", "range": {"from": "2026-01-01", "to": "2026-01-04"}},
                {"name": "who", "type": "unit", "units": ["ann", "bob"]},
            ],
            "work_unit": {"partition": "daily"},
        }
    )
    assert (machine.run(), machine.run()) == ([6], [0])
    assert len(machine.rows()) == 6


def test_a_refused_configuration_opens_nothing(machine: Machine) -> None:
    machine.configure(
        {"connection": "there", "table": "orders", "watermark_columns": ["id"]},
        {"type": "jdbc", "url": "jdbc:oracle:thin:@nowhere:1521:XE", "user": "me", "password": "hidden"},
        load_type="merge_upsert",
        merge_keys=["id"],
    )
    problems = [
        "p.yml: pipelines.p.sink.load_type: merge_upsert needs Spark; set load_type: append, or set engine: spark",
        "p.yml: pipelines.p.sources.default.connection: a jdbc:oracle address needs Spark",
    ]
    for command in (("run", "p.yml"), ("plan", "p.yml")):
        told = machine.tidegate(*command, "--engine", "local", code=2)
        assert all(problem in told for problem in problems)
    body = json.loads((machine.folder / "p.yml").read_text())
    (machine.folder / "local.yml").write_text(json.dumps({"engine": "local", **body}))
    assert "merge_upsert needs Spark" in machine.tidegate("config", "check", "local.yml", code=2)
    assert "merge_upsert needs Spark" in machine.tidegate("doctor", "local.yml", code=1)
    assert not (machine.folder / "lake").exists()


def test_a_table_that_only_spark_writes_is_refused_before_its_source_is_read(machine: Machine) -> None:
    machine.configure({"type": "python", "function": "functions:not_there", "watermark_columns": ["id"]})
    table = machine.folder / "lake" / "p"
    write_deltalake(table, pa.table({"id": pa.array([0], pa.int64())}))
    DeltaTable(str(table)).alter.add_constraint({"positive": "id >= 0"})
    told = machine.tidegate("run", "p.yml", "--engine", "local", code=3)
    assert "only Spark can write this table" in told
    assert "not_there" not in told


@pytest.mark.parametrize(
    ("name", "records"), [("files.yml", 6000), ("inferred.yml", 3000), ("formats.yml", 500), ("staged.yml", 2000)]
)
def test_an_example_runs(machine: Machine, name: str, records: int) -> None:
    shutil.copy(EXAMPLES / name, machine.folder)
    runpy.run_path(str(EXAMPLES / "make_data.py"))["main"](machine.folder)
    assert sum(machine.run(name)) == records
    assert sum(machine.run(name)) == 0
