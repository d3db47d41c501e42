"""Blocks of tables on Spark: each table is merged by its own key, and those without a watermark are replaced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidegate
from servers import mariadb as mariadb_server
from servers import postgres as postgres_server
from tidegate.protocol.delta import query
from tidegate.reports.run import RunReport
from tidegate.specs.locations import Location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
needs_mariadb = pytest.mark.skipif(not mariadb_server.is_possible(), reason="its programs are for Linux on x86-64")


def configure(folder: Path, url: str, tables: str, **source: Any) -> Path:
    connection = {"type": "jdbc", "url": url, "user": postgres_server.USER, "password": postgres_server.PASSWORD}
    block = {
        "source": {"connection": "shop", "tables": [tables], "watermark_columns": ["version", "id"], **source},
        "sink": {"table_uri": "lake/{schema}/{table}", "load_type": "merge_upsert"},
    }
    config = folder / "shop.yml"
    connections = {"shop": connection | {"max_connections": 2}}
    config.write_text(json.dumps({"connections": connections, "pipelines": {"shop": block}}))
    return config


def rows(folder: Path, schema: str, table: str) -> list[tuple[Any, ...]]:
    found = query(Location((folder / "lake" / schema / table).as_uri()), "select * from t order by 1")
    return [tuple(each.values()) for each in found]


def outcomes(report: RunReport) -> dict[str, int | None]:
    return {each.pipeline.rpartition(".")[2]: None if each.error else each.rows for each in report.sources}


def test_each_table_is_merged_by_its_own_key(
    spark: SparkSession, postgres: postgres_server.Server, tmp_path: Path
) -> None:
    database = postgres.new_database()
    with postgres.connect(database) as connection:
        connection.execute("create table orders (id int, line int, version int, primary key (id, line))")
        connection.execute("insert into orders values (1, 1, 1), (1, 2, 1)")
        connection.execute("create table units (name text); insert into units values ('kg')")
        connection.execute("create view newest as select id, version from orders")
    config = configure(
        tmp_path, postgres.jdbc_url(database), "public.*", without_watermark="overwrite", fetch_size=1, parallelism=4
    )
    assert outcomes(tidegate.run(config)) == {"orders": 2, "units": 1, "newest": None}
    with postgres.connect(database) as connection:
        connection.execute("update orders set version = 5 where line = 2")
        connection.execute("delete from units; insert into units values ('l'), ('m')")
    report = tidegate.run(config)
    assert outcomes(report) == {"orders": 1, "units": 2, "newest": None}
    (error,) = (each.error for each in report.sources if each.error)
    assert error.startswith("public.newest is a view and has no primary key, and load_type merge_upsert needs key")
    assert rows(tmp_path, "public", "orders") == [(1, 1, 1), (1, 2, 5)]
    assert rows(tmp_path, "public", "units") == [("l",), ("m",)]


@needs_mariadb
def test_a_table_of_mariadb_with_an_odd_name_is_merged(
    spark: SparkSession, mariadb: mariadb_server.Server, tmp_path: Path
) -> None:
    database = mariadb.new_database()
    mariadb.execute("create table `Odd - name` (id int primary key, v int)", database)
    mariadb.execute("insert into `Odd - name` values (1, 1), (2, 2)", database)
    config = configure(tmp_path, mariadb.jdbc_url(database), f"{database}.Odd*")
    assert outcomes(tidegate.run(config)) == {"Odd-20-2d-20name": 2}
    assert rows(tmp_path, database, "Odd-20-2d-20name") == [(1, 1), (2, 2)]
