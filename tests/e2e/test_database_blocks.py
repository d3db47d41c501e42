"""Whole databases in one block, on real servers: every table is a pipeline, and fails alone."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import tidegate
from servers import mariadb as mariadb_server
from servers import postgres as postgres_server
from support.errors import raises
from tidegate.cli.main import cli
from tidegate.errors import ConfigError, SourceError
from tidegate.observe.events import Event, Notice, SourceFinished
from tidegate.protocol.delta import query
from tidegate.reports.run import RunReport
from tidegate.specs.locations import Location

needs_mariadb = pytest.mark.skipif(not mariadb_server.is_possible(), reason="its programs are for Linux on x86-64")


@dataclass(frozen=True, slots=True)
class Shop:
    """A new database, and a configuration with one block of its tables."""

    folder: Path
    schema: str
    connection: dict[str, Any]
    execute: Callable[[str], object]
    statements: Callable[[], list[str]]

    @property
    def config(self) -> Path:
        return self.folder / "shop.yml"

    def configure(
        self, more: dict[str, Any] | None = None, *, sink: dict[str, Any] | None = None, **source: Any
    ) -> None:
        given = {"connection": "shop", "tables": [f"{self.schema}.*"], "watermark_columns": ["updated_at", "id"]}
        block = {"source": given | source, "sink": {"table_uri": "lake/{schema}/{table}"} | (sink or {})}
        pipelines = {"shop": block} | (more or {})
        text = {"engine": "local", "connections": {"shop": self.connection}, "pipelines": pipelines}
        self.config.write_text(json.dumps(text))

    def run(self, pipeline: str | None = None) -> tuple[RunReport, list[str]]:
        told: list[Event] = []
        report = tidegate.run(self.config, pipeline, emit=told.append)
        return report, [each.text for each in told if isinstance(each, Notice)]

    def rows(self, table: str, sql: str = "select count(*) as n from t") -> list[dict[str, Any]]:
        return query(Location((self.folder / "lake" / self.schema / table).as_uri()), sql)


@pytest.fixture
def in_postgres(postgres: postgres_server.Server, tmp_path: Path) -> Shop:
    name = postgres.new_database()

    def execute(statement: str) -> None:
        with postgres.connect(name) as connection:
            connection.execute(statement.encode())

    url = {"type": "jdbc", "url": postgres.jdbc_url(name), "user": postgres_server.USER}
    return Shop(tmp_path, "public", url | {"password": postgres_server.PASSWORD}, execute, postgres.statements)


@pytest.fixture
def in_mariadb(mariadb: mariadb_server.Server, tmp_path: Path) -> Shop:
    name = mariadb.new_database()
    url = {"type": "jdbc", "url": mariadb.jdbc_url(name), "user": mariadb_server.USER}
    password = {"password": mariadb_server.PASSWORD}
    return Shop(tmp_path, name, url | password, lambda text: mariadb.execute(text, name), mariadb.statements)


@pytest.fixture(params=["postgres", pytest.param("mariadb", marks=needs_mariadb)])
def shop(request: pytest.FixtureRequest) -> Shop:
    found: Shop = request.getfixturevalue(f"in_{request.param}")
    is_postgres = request.param == "postgres"
    quoted = '"Odd Näme"' if is_postgres else "`Odd Näme`"
    parts = (
        "create table parts (id int, v int, primary key (id)) partition by range (id);"
        "create table parts_1 partition of parts for values from (0) to (10);"
        if is_postgres
        else "create table parts (id int primary key, v int) partition by range (id) "
        "(partition p0 values less than (10));"
    )
    found.execute(
        "create table orders (id int primary key, updated_at timestamp, name text);"
        "insert into orders values (1, '2026-01-01 00:00:00', 'one'), (2, '2026-01-02 00:00:00', 'two');"
        f"create table {quoted} (id int primary key, v int); insert into {quoted} values (1, 1);"
        "create table nothing (v int); create table old_tmp (id int primary key);"
        f"create view totals as select id, name from orders; {parts} insert into parts values (3, 4);"
    )
    return found


def invoke(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


def outcomes(report: RunReport) -> dict[str, int | None]:
    """The rows of each table; None if it failed."""
    return {each.pipeline: None if each.error else each.rows for each in report.sources}


def test_every_table_is_a_pipeline_and_one_that_is_refused_stops_no_other(shop: Shop) -> None:
    shop.configure(exclude=["*_tmp"], per_table={f"{shop.schema}.parts": {"watermark_columns": ["v"]}})
    before = len(shop.statements())
    report, _ = shop.run()
    name = f"shop.{shop.schema}"
    assert outcomes(report) == {
        f"{name}.Odd-20N-c3-a4me": 1,
        f"{name}.orders": 2,
        f"{name}.parts": 1,
        f"{name}.totals": 2,
        f"{name}.nothing": None,
    }
    failed = next(each for each in report.sources if each.error)
    assert failed.error is not None
    assert failed.error.startswith(f"{shop.schema}.nothing has none of the watermark columns updated_at, id - name one")
    assert (report.code(), {each.block for each in report.sources}) == (SourceError.exit_code, {"shop"})
    assert shop.rows("orders", "select id, name from t order by id") == [
        {"id": 1, "name": "one"},
        {"id": 2, "name": "two"},
    ]
    assert outcomes(shop.run(f"{name}.orders")[0]) == {f"{name}.orders": 0}
    asked = [line for line in shop.statements()[before:] if "n.nspname" in line or "TABLE_SCHEMA" in line]
    assert 2 <= len(asked) <= 4, "one or two statements list all tables, whatever their number"


def test_tables_join_and_vanish_and_each_is_told_once(shop: Shop) -> None:
    shop.configure(exclude=["*_tmp", "nothing"])
    assert shop.run()[1] == []
    shop.execute("create table fresh (id int primary key); insert into fresh values (7); drop view totals;")
    (new,) = (each for each in tidegate.plan(shop.config) if each.pipeline.endswith(".fresh"))
    assert new.position == 0
    report, told = shop.run()
    assert told == [
        f"shop: new in the database, and read from now on: {shop.schema}.fresh",
        f"shop: no longer in the database: {shop.schema}.totals; tables and positions are kept",
    ]
    assert outcomes(report)[f"shop.{shop.schema}.fresh"] == 1
    assert f"shop.{shop.schema}.totals" not in outcomes(report)
    assert shop.run()[1] == []
    states = {each.pipeline: each for each in tidegate.status(shop.config, "shop")}
    gone = states[f"shop.{shop.schema}.totals"]
    assert (gone.vanished, gone.error, gone.watermark) == (True, None, "id=2")
    assert any("no longer in the database" in note for note in gone.notes)
    shop.execute("create view totals as select id, name from orders")
    assert shop.run()[1] == [f"shop: new in the database, and read from now on: {shop.schema}.totals"]
    assert shop.rows("totals") == [{"n": 2}], "it goes on from its position"


def test_a_continuous_run_takes_tables_that_join_and_leaves_those_that_vanish(
    in_postgres: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.runs.loop.LIST_TABLES_SECS", 0.2)
    in_postgres.execute("create table a (id int primary key); insert into a values (1); create table b (id int);")
    in_postgres.configure(poll_interval_secs=1)
    stop, told, begun, seen = threading.Event(), list[str](), threading.Event(), threading.Event()

    def follow(event: Event) -> None:
        if isinstance(event, Notice):
            told.append(event.text)
        if isinstance(event, SourceFinished) and event.pipeline == "shop.public.b":
            begun.set()
        if isinstance(event, SourceFinished) and (event.pipeline, event.rows) == ("shop.public.fresh", 1):
            seen.set()

    run = threading.Thread(
        target=lambda: tidegate.run(in_postgres.config, mode="continuous", emit=follow, stop=stop), daemon=True
    )
    run.start()
    try:
        assert begun.wait(60), told
        in_postgres.execute("create table fresh (id int primary key); insert into fresh values (7); drop table b;")
        assert seen.wait(60), told
        wait_until(lambda: any("no longer in the database" in text for text in told))
    finally:
        stop.set()
        run.join(60)
    assert in_postgres.rows("fresh") == [{"n": 1}]


def wait_until(happens: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_new_column_concerns_its_table_alone(shop: Shop) -> None:
    shop.configure(tables=[f"{shop.schema}.orders", f"{shop.schema}.parts"])
    shop.run()
    shop.execute("alter table orders add column price int")
    shop.execute("insert into orders values (3, '2026-01-03 00:00:00', 'three', 5); insert into parts values (4, 4)")
    report, told = shop.run()
    assert [*outcomes(report).values()] == [1, 1]
    assert told == ["the table gets new columns: price; they are null in its old rows"]


def test_a_command_without_the_database_knows_the_tables_of_the_last_run(shop: Shop) -> None:
    shop.configure(exclude=["*_tmp", "nothing"])
    (unknown,) = tidegate.status(shop.config)
    assert unknown.error == "its tables are not known yet - run it once, or `tidegate plan`"
    assert "tables not known before the first run" in invoke("config", "check", str(shop.config)).stdout
    shop.run()
    remembered = (shop.folder / ".tidegate" / "shop.databases.json").read_text()
    assert shop.connection["password"] not in remembered
    shop.connection["url"] = shop.connection["url"].replace(":127.0.0.1:", ":localhost:")
    before = len(shop.statements())
    assert len(tidegate.status(shop.config)) == 4
    (shown,) = tidegate.show_watermarks(shop.config, f"shop.{shop.schema}.parts")
    assert shown.partitions == {"id": "3"}
    assert len(shop.statements()) == before


def test_a_database_that_is_away_fails_its_block_and_no_other_pipeline(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id": 1}\n')
    files = {"files": {"source": {"path": "in"}, "schema": {"infer": True}, "sink": {"path": "files"}}}
    shop.connection["url"] = shop.connection["url"].replace(shop.connection["url"].split("/")[-1], "no_such_database")
    shop.configure(files)
    report, _ = shop.run()
    assert outcomes(report) == {"files": 1, "shop": None}
    (error,) = (each.error for each in report.sources if each.error)
    assert error.startswith("connection 'shop': the database refused: ")
    (one,) = tidegate.run(shop.config, "shop.public.orders").sources
    assert one.error == error
    (checked,) = (each for each in tidegate.doctor(shop.config) if each.name == "source shop/default")
    assert (checked.verdict, checked.detail) == ("fail", error.split(" - ")[0])
    assert shop.connection["password"] not in str(report)


def test_one_table_is_asked_for_by_name_and_an_unknown_one_is_refused(in_postgres: Shop) -> None:
    in_postgres.execute("create table a (id int primary key); create table b (id int primary key)")
    in_postgres.configure()
    assert outcomes(in_postgres.run("shop.public.a")[0]) == {"shop.public.a": 0}
    with raises(ConfigError, "'shop.public.c' … allowed: shop"):
        in_postgres.run("shop.public.c")
    with raises(ConfigError, "'shop' … 2 tables … -p shop.public.a"):
        tidegate.optimize_table(in_postgres.config, "shop")
    with raises(ConfigError, "'shop' … 2 tables … -p shop.public.a"):
        tidegate.reset_watermark(in_postgres.config, "shop")
    project = tidegate.load(in_postgres.config, pipeline="shop.public.b")
    assert outcomes(tidegate.run(project)) == {"shop.public.b": 0}
    assert outcomes(tidegate.run(tidegate.load(in_postgres.config))) == {"shop.public.a": 0, "shop.public.b": 0}


def test_names_that_differ_in_case_alone_are_refused_by_name(in_postgres: Shop) -> None:
    in_postgres.execute('create table a (id int primary key); create table "A" (id int); create table b (id int)')
    in_postgres.configure()
    assert outcomes(in_postgres.run()[0]) == {"shop.public.A": None, "shop.public.a": None, "shop.public.b": 0}


def test_a_table_that_needs_spark_is_refused_alone_and_a_block_that_does_as_a_whole(in_postgres: Shop) -> None:
    in_postgres.execute("create table a (id int primary key); create table b (v int)")
    in_postgres.configure(without_watermark="overwrite")
    report, _ = in_postgres.run()
    assert outcomes(report) == {"shop.public.a": 0, "shop.public.b": None}
    assert "sink.load_type: overwrite needs Spark" in str(report.sources[-1].error)
    in_postgres.configure(sink={"load_type": "merge_upsert"})
    with raises(ConfigError, "pipelines.shop.sink.load_type … merge_upsert … engine: spark"):
        in_postgres.run()


def test_a_block_without_any_table_fails(in_postgres: Shop) -> None:
    in_postgres.configure(tables=["publik.*"])
    report, told = in_postgres.run()
    assert told == ["shop: tables: 'publik.*' matches no table of the database"]
    assert "the database has no table that matches publik.*" in str(report.sources[0].error)


def test_two_hundred_tables_are_one_row_of_a_report(in_postgres: Shop) -> None:
    made = "".join(f"create table t{n} (id int primary key); insert into t{n} values ({n});" for n in range(200))
    in_postgres.execute(f"{made} create table odd (v int)")
    in_postgres.configure()
    before = len(in_postgres.statements())
    shown = invoke("run", str(in_postgres.config), "-q")
    assert shown.exit_code == SourceError.exit_code
    assert "shop (201 tables, 1 failed)" in shown.stdout
    assert len(shown.stdout.splitlines()) < 12
    assert "shop.public.odd/default" in shown.stdout
    listed = [line for line in in_postgres.statements()[before:] if "n.nspname" in line]
    assert len(listed) == 1
    counted = json.loads(invoke("status", str(in_postgres.config), "--json").stdout)["sources"]
    assert len(counted) == 201
    assert {each["block"] for each in counted} == {"shop"}
    planned = invoke("plan", str(in_postgres.config)).stdout
    assert "shop → 201 tables" in planned
    assert len(planned.splitlines()) < 12
    assert "shop (201 tables, 1 failed)" in invoke("status", str(in_postgres.config)).stdout


def test_no_more_connections_are_open_at_once_than_allowed(in_postgres: Shop) -> None:
    in_postgres.execute("".join(f"create table t{n} (id int primary key);" for n in range(6)))
    in_postgres.connection["max_connections"] = 2
    in_postgres.configure()
    project = tidegate.load(in_postgres.config)
    most = 0
    done = threading.Event()

    def look() -> None:
        nonlocal most
        from tidegate.sources.connection_slots import _POOLS

        while not done.is_set():
            busy = [each.size - each.free for each in _POOLS.values() if each.size == 2]
            most = max([most, *busy])
            time.sleep(0.001)

    def run(number: int) -> None:
        reports.append(tidegate.run(project, f"shop.public.t{number}"))

    reports: list[RunReport] = []
    threads = [threading.Thread(target=run, args=(n,)) for n in range(6)]
    watching = threading.Thread(target=look)
    watching.start()
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    done.set()
    watching.join()
    assert [each.ok for each in reports] == [True] * 6
    assert 1 <= most <= 2


def test_ingest_drafts_a_block_runs_it_and_ends_with_the_configuration(
    in_postgres: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(in_postgres.folder)
    in_postgres.execute("create table a (id int primary key); insert into a values (1); create table b_tmp (id int)")
    address = in_postgres.connection["url"].removeprefix("jdbc:")
    address = address.replace("//", f"//{postgres_server.USER}:{postgres_server.PASSWORD}@")
    options = tidegate.IngestOptions(tables=("public.*",), exclude=("*_tmp",), watermark=("updated_at", "id"))
    report = tidegate.ingest(address, "lake/", options, engine="local", save=Path("p.yml"))
    assert report.run is not None
    assert outcomes(report.run) == {"lake.public.a": 1}
    assert dict(report.found)["tables"] == "1: public.a"
    assert "tables: [public.*]" in report.yaml
    assert postgres_server.PASSWORD not in report.yaml
    monkeypatch.setenv(report.variables[0], postgres_server.PASSWORD)
    assert outcomes(tidegate.run("p.yml")) == {"lake.public.a": 0}
    for wrong, words in (
        (replace(options, table="public.a"), "--table … --tables"),
        (tidegate.IngestOptions(exclude=("a",)), "--exclude … --tables"),
    ):
        with raises(ConfigError, words):
            tidegate.ingest(address, "lake/", wrong)
