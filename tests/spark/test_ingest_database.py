"""Ingest of a database without a configuration, and a run of the configuration that was saved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidegate
from servers import postgres as postgres_server
from tidegate import IngestOptions
from tidegate.protocol.delta import query
from tidegate.specs.locations import Location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_database_is_merged_and_goes_on_from_the_saved_configuration(
    spark: SparkSession, postgres: postgres_server.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    database = postgres.new_database()
    with postgres.connect(database) as connection:
        connection.execute("create table orders (id int primary key, version int, name text)")
        connection.execute("insert into orders values (1, 1, 'one'), (2, 2, 'two')")
    options = IngestOptions(table="public.orders", watermark=("version",), merge_keys=("id",))
    report = tidegate.ingest(postgres.url(database, driver=""), "lake/orders", options, save=Path("p.yml"))
    assert report.run is not None
    assert [(each.error, each.rows) for each in report.run.sources] == [(None, 2)]
    assert postgres_server.PASSWORD not in Path("p.yml").read_text()

    with postgres.connect(database) as connection:
        connection.execute("update orders set version = 3, name = 'uno' where id = 1")
    monkeypatch.setenv(report.variables[0], postgres_server.PASSWORD)
    again = tidegate.run("p.yml")
    assert [(each.error, each.rows) for each in again.sources] == [(None, 1)]
    table = Location((tmp_path / "lake" / "orders").as_uri())
    assert [(row["id"], row["name"]) for row in query(table, "select id, name from t order by id")] == [
        (1, "uno"),
        (2, "two"),
    ]


def test_a_project_for_a_database_runs(
    spark: SparkSession, postgres: postgres_server.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tidegate.init(tmp_path, "database")
    database = postgres.new_database()
    with postgres.connect(database) as connection:
        connection.execute("create table orders (order_id int primary key, modified_at timestamptz)")
        connection.execute("insert into orders values (1, '2026-01-28'), (2, '2026-01-29')")
    for name, value in {
        "HOST": "127.0.0.1",
        "PORT": str(postgres.port),
        "DATABASE": database,
        "USER": postgres_server.USER,
        "PASSWORD": postgres_server.PASSWORD,
    }.items():
        monkeypatch.setenv(f"SHOP_{name}", value)
    found = [tidegate.run(tmp_path / "pipelines.yml").sources[0] for _ in range(2)]
    assert [(each.error, each.rows) for each in found] == [(None, 2), (None, 0)]
