"""Iceberg tables are read by Spark from the files that were planned, each column by its number."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.table import Table
from pyiceberg.types import (
    DecimalType,
    LongType,
    StringType,
)

from servers.s3 import BUCKET, Server
from support.iceberg_tables import MARCH, ORDERS, add, new_table, row
from tidegate.core.columns.predicates import Bound, ColumnRange, RowFilter
from tidegate.sources.reader import GreatestValues, Reader
from tidegate.spark.engine import open_reader
from tidegate.specs.columns import ColumnSource, NullWatermark, TableFormat, TableRead
from tidegate.specs.locations import Location
from tidegate.specs.table import SchemaSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def opened(spark: SparkSession, location: str | Location, zone: str = "UTC") -> Reader:
    at = location if isinstance(location, Location) else Location(Path(location.removeprefix("file://")).as_uri())
    source = ColumnSource("orders", TableRead(TableFormat.ICEBERG, at), ("id",), source_timezone=zone)
    reader = open_reader(spark, source, SchemaSpec(), NOW)
    assert reader.fixed_first
    return reader


def above(**lowers: int) -> RowFilter:
    return RowFilter(tuple(ColumnRange(name, Bound(value)) for name, value in lowers.items()))


def values(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(each.values()) for each in frame.select(*columns).toArrow().to_pylist())


def numbers(frame: DataFrame) -> list[int]:
    return [each for (each,) in values(frame, "id")]


def filled(table: Table, numbers: Sequence[range]) -> Table:
    for each in numbers:
        add(table, map(row, each))
    return table


def test_an_increment_opens_the_files_that_hold_it(spark: SparkSession, tmp_path: Path) -> None:
    ranges = [range(first, first + 10) for first in (0, 10, 20, 30)]
    table = filled(new_table(tmp_path / "a [b] {c}", "orders", ORDERS), ranges)
    reader = opened(spark, table.location(), "Asia/Tokyo")
    assert reader.greatest(above(id=25, sparse=33)) == GreatestValues({"id": 39, "sparse": 39}, nulls=0)
    assert reader.greatest(above(sparse=35)) == GreatestValues({"sparse": 39}, nulls=4)
    add(table, [row(40)])
    frame = reader.read(above(id=31).capped({"id": Bound(38, inclusive=True)}))
    assert len(frame.inputFiles()) == 1
    pushed = str(frame._jdf.queryExecution().executedPlan().toString()).partition("PushedFilters: [")[2]
    assert "GreaterThan(id,31), LessThanOrEqual(id,38)" in pushed
    assert numbers(frame) == [32, 33, 34, 35, 36, 37, 38]
    (found,) = frame.where("id = 38").toArrow().to_pylist()
    assert found == {
        **row(38),
        "local": MARCH + timedelta(hours=38 - 9),
        "price": Decimal("9.50"),
        "code": str(uuid.UUID(int=38)),
    }
    assert "parquet.field.id" not in frame.schema.json()
    assert numbers(opened(spark, table.location()).read(above(id=38))) == [39, 40]
    with_nulls = RowFilter((ColumnRange("sparse", Bound(38)),), nulls=NullWatermark.INCLUDE)
    assert numbers(reader.read(with_nulls)) == [0, 10, 20, 30, 39]
    nothing = reader.read(above(id=1000))
    assert (nothing.inputFiles(), numbers(nothing)) == ([], [])


def test_columns_are_found_whatever_their_names_and_types_were(spark: SparkSession, tmp_path: Path) -> None:
    table = filled(new_table(tmp_path, "orders", ORDERS), [range(3)])
    with table.update_schema() as update:
        update.add_column("note", StringType())
        update.update_column("id", LongType())
        update.update_column("price", DecimalType(20, 2))
    add(table, [{**row(4), "id": 2**40, "note": "new"}])
    frame = opened(spark, table.location()).read(above(id=1))
    assert values(frame, "id", "price") == [(2, Decimal("0.50")), (2**40, Decimal("1.00"))]
    assert frame.where("note is null").count() == 1
    for old, new in (("id", "swap"), ("sparse", "id"), ("swap", "sparse"), ("buyer.name", "full_name")):
        with table.update_schema() as update:
            update.rename_column(old, new)
    with table.update_schema() as update:
        update.delete_column("raw")
    with table.update_schema() as update:
        update.add_column("raw", LongType())
    add(table, [{"id": 7, "sparse": 8, "raw": 9, "buyer": {"full_name": "b"}, "lines": []}])
    reader = opened(spark, table.location())
    assert reader.greatest(above(sparse=1)) == GreatestValues({"sparse": 2**40}, nulls=0)
    frame = reader.read(above(sparse=1))
    assert values(frame, "sparse", "id", "raw", "buyer.full_name") == [
        (2, 2, None, "b2"),
        (8, 7, 9, "b"),
        (2**40, 4, None, "b4"),
    ]
    assert numbers(reader.read(above(raw=8))) == [7]


@pytest.mark.s3
def test_a_table_in_a_bucket_is_reached_by_the_storage_options(spark: SparkSession, s3: Server, tmp_path: Path) -> None:
    place = s3.location("orders")
    properties = {
        "s3.endpoint": s3.endpoint,
        "s3.region": "us-east-1",
        "s3.access-key-id": place.options["AWS_ACCESS_KEY_ID"],
        "s3.secret-access-key": place.options["AWS_SECRET_ACCESS_KEY"],
    }
    table = new_table(tmp_path, "orders", ORDERS, place.uri, properties=properties)
    filled(table, [range(5), range(5, 9)])
    frame = opened(spark, place).read(above(id=6))
    assert numbers(frame) == [7, 8]
    assert [each.startswith(f"s3a://{BUCKET}/") for each in frame.inputFiles()] == [True]
