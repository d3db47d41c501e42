"""The examples for databases and windows run as they are: against a real PostgreSQL server and a real Delta table."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from servers import postgres as postgres_server
from tidegate import RunReport, run, show_watermarks
from tidegate.protocol.delta import query
from tidegate.specs.locations import Location
from tidegate.storage.options import absolute_uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).parents[2] / "examples"
PASSWORD = "only-for-reading"
TABLES = f"""
create table orders (order_id int primary key, created_at timestamptz, modified_at timestamptz, amount numeric(10,2));
create table order_lines (line_id int primary key, order_id int, deleted boolean);
create role reader login password '{PASSWORD}';
grant select on orders, order_lines to reader;
"""


def rows(folder: Path, name: str, question: str) -> list[tuple[Any, ...]]:
    """What a table of the example holds."""
    return [tuple(each.values()) for each in query(Location(absolute_uri(name, folder)), question)]


def went_well(report: RunReport) -> list[int]:
    """How many rows each source brought."""
    assert report.ok, [source.error for source in report.sources]
    return [source.rows for source in report.sources]


@pytest.fixture
def shop(postgres: postgres_server.Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[postgres_server.Server]:
    """The database of the example, and the environment that says where it is."""
    with postgres.connect() as connection:
        connection.execute("create database shop")
    monkeypatch.setenv("SHOP_PORT", str(postgres.port))
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)
    monkeypatch.delenv("SHOP_HOST", raising=False)
    with postgres.connect("shop") as connection:
        connection.execute(TABLES.encode())
    yield postgres
    with postgres.connect() as connection:
        connection.execute("drop database shop with (force)")
        connection.execute("drop role reader")


def test_orders_are_merged_and_lines_are_added(
    spark: SparkSession, shop: postgres_server.Server, tmp_path: Path
) -> None:
    config = Path(shutil.copy(EXAMPLES / "database.yml", tmp_path))
    with shop.connect("shop") as database:
        database.execute("insert into orders values (1, '2026-01-02Z', null, 10), (2, '2026-01-03Z', null, 20)")
        database.execute("insert into order_lines values (10, 1, false), (11, 1, true), (12, 2, false)")
        assert went_well(run(config)) == [2, 2]
        database.execute("update orders set amount = 11, modified_at = '2026-01-04Z' where order_id = 1")
        database.execute("update orders set amount = 21 where order_id = 2")
        database.execute("insert into orders values (3, '2026-01-03Z', null, 30), (4, null, '2026-01-09Z', 40)")
        database.execute("insert into order_lines values (13, 3, false), (14, 3, true)")
        assert went_well(run(config)) == [4, 1]
        went_well(run(config))
    amounts = rows(tmp_path, "lake/orders", "select order_id, amount from t order by 1")
    assert amounts == [(1, Decimal(11)), (2, Decimal(21)), (3, Decimal(30)), (4, Decimal(40))]
    assert rows(tmp_path, "lake/order_lines", "select line_id from t order by 1") == [(10,), (12,), (13,)]
    assert show_watermarks(config, "order_lines")[0].value == '{"line_id": 13}'


Order = tuple[date, str, int, str]


def save(folder: Path, orders: list[Order]) -> None:
    """The source of the example, which is another team's Delta table."""
    names = ("order_day", "shop", "amount", "status")
    found = pa.Table.from_pylist([dict(zip(names, each, strict=True)) for each in orders])
    write_deltalake(str(folder / "lake" / "orders"), found, mode="overwrite")


def sums(folder: Path) -> dict[tuple[date, str], int]:
    found = rows(folder, "lake/daily_sales", "select order_day, shop, amount from t")
    assert len({each[:2] for each in found}) == len(found), "a day of a shop is there twice"
    return {(when, shop): amount for when, shop, amount in found}


def test_the_last_days_are_summed_up_again_as_a_whole(spark: SparkSession, tmp_path: Path) -> None:
    config = Path(shutil.copy(EXAMPLES / "window.yml", tmp_path))
    start = date(2026, 3, 1)
    orders: list[Order] = [(start + timedelta(days=n), shop, n, "paid") for n in range(20) for shop in "ab"]
    save(tmp_path, [*orders, (start, "a", 1000, "draft")])
    went_well(run(config))
    expected = {(when, shop): amount for when, shop, amount, _ in orders}
    assert sums(tmp_path) == expected

    last, old = start + timedelta(days=19), start + timedelta(days=2)
    changed = [each for each in orders if each[:2] != (last, "b")]
    changed += [(last, "a", 5, "paid"), (last, "a", 500, "draft"), (last - timedelta(days=7), "c", 7, "paid")]
    changed += [(old, "a", 9999, "paid")]
    save(tmp_path, changed)
    went_well(run(config))
    del expected[last, "b"]
    expected |= {(last, "a"): 24, (last - timedelta(days=7), "c"): 7}
    assert sums(tmp_path) == expected

    went_well(run(config))
    assert sums(tmp_path) == expected
