"""A real MariaDB server is read, by its own driver and by MySQL's; what it is asked stands in its own log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as f

from servers import mariadb as mariadb_server
from support.errors import raises
from support.long_runs import LONG, chosen
from tidegate.core.columns.predicates import Bound, ColumnRange, RowFilter
from tidegate.errors import SourceError
from tidegate.sources.reader import GreatestValues
from tidegate.spark.engine import open_reader
from tidegate.spark.jars import read_spark_version
from tidegate.specs.columns import ColumnSource, JdbcRead, NullWatermark, Value, WatermarkMode
from tidegate.specs.locations import Options, Secret
from tidegate.specs.table import SchemaSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.sources.reader import Reader

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not mariadb_server.is_possible(), reason="its programs are for Linux on x86-64"),
]

NOW = datetime(2026, 6, 1, tzinfo=UTC)
TABLES = """
set time_zone = '+00:00';
create table txt (code varchar(10), name varchar(20)) collate utf8mb4_general_ci;
insert into txt values ('B', 'Berta'), ('a', 'Anton'), ('a ', 'Anton again'), ('b', 'Zürich ☃'), ('c\\\\', 'back');
create table orders (id bigint primary key, made timestamp(6) null, at datetime(6), day date, price decimal(12,2));
insert into orders values
  (1, '2026-03-01 00:00:00', '2026-03-08 02:30:00', '2026-03-08', 1.10),
  (2, '2026-03-05 10:00:00.000001', '2026-10-25 02:30:00.5', '2026-10-25', 2.20),
  (3, null, null, null, null), (4, '2026-03-03 00:00:00', null, '2026-03-09', 4.40);
create table skewed (id bigint, `key` bigint, text_key varchar(40), at timestamp null);
insert into skewed select seq, if(seq <= 900, seq, seq * 1000000), md5(seq),
  timestampadd(second, seq, timestamp'2026-03-08 00:00:00') from seq_1_to_1000;
insert into skewed values (1001, null, null, null), (1002, 500, 'x', '2026-03-08 00:00:07');
"""


@dataclass(frozen=True, slots=True)
class Shop:
    """A database with some tables, a session that can read it, and the driver to do it by."""

    spark: SparkSession
    server: mariadb_server.Server
    database: str
    scheme: str

    def read(self, table: str | None, **more: Any) -> JdbcRead:
        url = self.server.jdbc_url(self.database, self.scheme)
        user, password = mariadb_server.USER, Secret(mariadb_server.PASSWORD)
        return replace(JdbcRead(url, user=user, password=password, table=table, parallelism=1), **more)

    def reader(self, read: JdbcRead, *columns: str, zone: str = "UTC") -> Reader:
        return open_reader(self.spark, ColumnSource("orders", read, columns, source_timezone=zone), SchemaSpec(), NOW)


@pytest.fixture(scope="module")
def database(mariadb: mariadb_server.Server) -> str:
    name = mariadb.new_database()
    mariadb.execute(TABLES, name)
    return name


@pytest.fixture(params=["mariadb", "mysql"])
def shop(spark: SparkSession, mariadb: mariadb_server.Server, database: str, request: pytest.FixtureRequest) -> Shop:
    return Shop(spark, mariadb, database, request.param)


def above(**lowers: Value | None) -> RowFilter:
    ranges = (ColumnRange(name, None if value is None else Bound(value)) for name, value in lowers.items())
    return RowFilter(tuple(ranges))


def up_to(rows: RowFilter, seen: GreatestValues) -> RowFilter:
    return rows.capped({name: Bound(value, inclusive=True) for name, value in seen.values.items() if value is not None})


def listed(frame: DataFrame, column: str = "id") -> list[Any]:
    return sorted(row[0] for row in frame.select(column).collect())


@pytest.mark.parametrize("query", [None, 'select code, name from txt where name <> "none" # all of them'])
def test_values_are_read_and_never_the_names_of_columns(shop: Shop, query: str | None) -> None:
    read = shop.read("txt") if query is None else shop.read(None, query=query)
    rows = shop.reader(read).read(RowFilter()).collect()
    names = {"B": "Berta", "a": "Anton", "a ": "Anton again", "b": "Zürich ☃", "c\\": "back"}
    assert {row["code"]: row["name"] for row in rows} == names


def test_text_is_followed_by_code_points_and_blanks_at_the_end_count(shop: Shop) -> None:
    reader = shop.reader(shop.read("txt"), "code")
    assert reader.greatest(above(code=None)).values == {"code": "c\\"}
    assert listed(reader.read(above(code="B")), "code") == ["a", "a ", "b", "c\\"]
    assert listed(reader.read(above(code="a")), "code") == ["a ", "b", "c\\"]
    below = RowFilter((ColumnRange("code", Bound("a"), Bound("c\\")),))
    assert listed(reader.read(below), "code") == ["a ", "b"]
    names = shop.reader(shop.read("txt"), "name")
    assert names.greatest(above(name="Berta")).values == {"name": "back"}
    assert listed(names.read(above(name="Zürich")), "name") == ["Zürich ☃", "back"]


def test_moments_are_followed_whatever_zone_the_server_is_in(shop: Shop) -> None:
    reader = shop.reader(shop.read("orders"), "made")
    first = above(made=datetime(2026, 3, 1, tzinfo=UTC))
    seen = reader.greatest(first)
    assert seen == GreatestValues({"made": datetime(2026, 3, 5, 10, 0, 0, 1, tzinfo=UTC)}, nulls=1)
    rows = reader.read(up_to(first, seen)).orderBy("id").toArrow().to_pylist()
    assert [(row["id"], row["made"]) for row in rows] == [
        (2, datetime(2026, 3, 5, 10, 0, 0, 1, tzinfo=UTC)),
        (4, datetime(2026, 3, 3, tzinfo=UTC)),
    ]
    after = RowFilter((ColumnRange("made", Bound(seen.values["made"] or 0)),), nulls=NullWatermark.INCLUDE)
    assert listed(reader.read(after)) == [3]


def test_times_days_and_decimals_are_followed(shop: Shop) -> None:
    reader = shop.reader(shop.read("orders"), "at", "day", "price", zone="Europe/Berlin")
    seen = reader.greatest(above(at=None, day=None, price=None))
    greatest = {"at": datetime(2026, 10, 25, 2, 30, 0, 500_000), "price": Decimal("4.40")}
    assert seen.values == {**greatest, "day": datetime(2026, 10, 25).date()}
    capped = up_to(above(at=datetime(2026, 3, 8, 2, 30)), GreatestValues({"at": greatest["at"]}))
    (row,) = reader.read(capped).toArrow().to_pylist()
    assert (row["id"], row["at"]) == (2, datetime(2026, 10, 25, 0, 30, 0, 500_000, tzinfo=UTC))
    cursor = replace(above(day=datetime(2026, 3, 8).date(), id=1), mode=WatermarkMode.TUPLE)
    assert shop.reader(shop.read("orders"), "day", "id").greatest(cursor) == GreatestValues(
        {"day": datetime(2026, 10, 25).date(), "id": 2}, nulls=1
    )


@pytest.mark.parametrize("column", chosen(("key", "text_key", "at"), "text_key"))
def test_a_skewed_key_makes_equal_parts_and_every_row_is_in_one(shop: Shop, column: str) -> None:
    reader = shop.reader(shop.read("skewed", parallelism=4, fetch_size=100, partition_column=column), "id")
    frame = reader.read(above(id=2))
    assert frame.columns == ["id", "key", "text_key", "at"]
    found = frame.select("id", f.spark_partition_id().alias("part")).collect()
    assert sorted(row["id"] for row in found) == list(range(3, 1003))
    sizes = Counter(row["part"] for row in found)
    assert len(sizes) == 4
    assert max(sizes.values()) <= 260


def test_the_zone_of_a_session_cannot_be_taken_away(shop: Shop) -> None:
    zones = Options({"connectionTimeZone": "America/New_York", "forceConnectionTimeZoneToSession": "false"})
    reader = shop.reader(shop.read("orders", properties=zones), "made")
    assert reader.greatest(above(made=None)).values == {"made": datetime(2026, 3, 5, 10, 0, 0, 1, tzinfo=UTC)}
    other = Options({"sessionInitStatement": "set time_zone = '+05:00'"})
    with raises(SourceError, "orders", "properties.sessionInitStatement", "sessionVariables"):
        shop.reader(shop.read("orders", properties=other), "made").greatest(above(made=None))


@pytest.mark.skipif(not LONG, reason="a Spark Connect server of its own takes its time: make test-long")
def test_a_spark_connect_server_reads_the_same(mariadb: mariadb_server.Server, database: str, tmp_path: Path) -> None:
    table = tmp_path / "orders"
    config = {
        "spark": {"remote": "local"},
        "connections": {
            "shop": {
                "type": "jdbc",
                "url": mariadb.jdbc_url(database),
                "user": mariadb_server.USER,
                "password": mariadb_server.PASSWORD,
            }
        },
        "pipelines": {
            "orders": {
                "source": {"connection": "shop", "table": "orders", "watermark_columns": ["made"]},
                "sink": {"table_uri": str(table)},
            }
        },
    }
    (tmp_path / "orders.yml").write_text(json.dumps(config))
    worker = Path(__file__).with_name("column_worker.py")
    done = subprocess.run(
        [sys.executable, str(worker), str(tmp_path / "orders.yml")],
        env={**os.environ, "TZ": "America/New_York"},
        capture_output=True,
        text=True,
        check=False,
    )
    if (read_spark_version() or "").startswith("4.0."):  # its Connect does not pass on what a database calls its types
        assert "use Spark 4.1 or newer" in done.stderr
        assert not (table / "_delta_log").exists()
        return
    assert done.returncode == 0, done.stderr[-3000:]
    found = pa.table(DeltaTable(table).scan()).sort_by("id").select(["id", "made"]).to_pylist()
    assert [(row["id"], row["made"]) for row in found] == [
        (1, datetime(2026, 3, 1, tzinfo=UTC)),
        (2, datetime(2026, 3, 5, 10, 0, 0, 1, tzinfo=UTC)),
        (4, datetime(2026, 3, 3, tzinfo=UTC)),
    ]


def test_each_cause_of_a_refusal_has_its_remedy(shop: Shop) -> None:
    wrong = shop.read("orders", password=Secret("canary-wrong"))
    with raises(SourceError, "orders", "Access denied", "user and password") as denied:
        shop.reader(wrong, "id").greatest(above(id=0))
    assert "canary" not in str(denied.value)
    with raises(SourceError, "orders", "orderz", "table or the query"):
        shop.reader(shop.read("orderz"), "id").greatest(above(id=0))
    bad = RowFilter((ColumnRange("id", Bound(0)),), extra="amout > 1")
    with raises(SourceError, "orders", "Unknown column 'amout'", "filter_expression"):
        shop.reader(shop.read("orders"), "id").greatest(bad)
    if shop.scheme == "mariadb":
        odd = shop.read(None, query="select cast('ffffffff-0000-0000-0000-000000000000' as uuid) as u")
        with raises(SourceError, "orders", "uuid", "cast(x as char)"):
            shop.reader(odd).read(RowFilter())
