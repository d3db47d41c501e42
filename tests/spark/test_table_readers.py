"""Delta tables and Parquet files are scanned with the condition: Spark's plan shows it, and files are passed over."""

from __future__ import annotations

import contextlib
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

from support.errors import raises
from tidegate.core.columns.predicates import Bound, ColumnRange, RowFilter, watermark_operator
from tidegate.errors import ConfigError, SourceError
from tidegate.sources.reader import GreatestValues, Reader
from tidegate.spark.engine import open_reader
from tidegate.spark.filters import apply_watermark_filter, greatest_of
from tidegate.spark.readers.tables import find_overlooked
from tidegate.specs.columns import ColumnSource, TableFormat, TableRead, Value, WatermarkMode
from tidegate.specs.locations import Location
from tidegate.specs.table import SchemaSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

NOW = datetime(2026, 6, 1, tzinfo=UTC)
MARCH = datetime(2026, 3, 1, tzinfo=UTC)
FILES = 4
ROWS = """
    select id, timestamp'2026-03-01 00:00:00Z' + make_dt_interval(0, id) at, timestamp_ntz'2026-03-01' local,
    cast(id as decimal(30, 10)) / 3 as price, if(id % 10 = 0, null, id) as sparse,
    date'2026-03-01' + int(id / 10) as day
    from range({low}, {high})
"""


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows, ten in each file, as a Delta table and as a folder of Parquet files."""
    root = tmp_path_factory.mktemp("lake")
    rows = spark.sql(ROWS.format(low=0, high=f"{FILES * 10}, 1, {FILES}"))
    rows.write.format("delta").save(str(root / "delta"))
    rows.write.parquet(str(root / "parquet"))
    return root


def opened(spark: SparkSession, root: Path, format_: TableFormat, zone: str = "UTC") -> Reader:
    read = TableRead(format_, Location((root / format_.value).as_uri()))
    reader = open_reader(spark, ColumnSource("orders", read, ("at",), source_timezone=zone), SchemaSpec(), NOW)
    assert reader.fixed_first
    return reader


def hours(number: int) -> datetime:
    return MARCH + timedelta(hours=number)


def above(**lowers: Value | None) -> RowFilter:
    ranges = (ColumnRange(name, None if value is None else Bound(value)) for name, value in lowers.items())
    return RowFilter(tuple(ranges))


def ids(frame: DataFrame) -> list[int]:
    return sorted(row[0] for row in frame.select("id").collect())


def plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def files_read(frame: DataFrame) -> int:
    """In how many files Spark looked, by the metric of its scan."""
    frame.collect()
    leaves = frame._jdf.queryExecution().executedPlan().collectLeaves()
    return int(leaves.apply(0).metrics().apply("numFiles").value())


@pytest.mark.parametrize("format_", [TableFormat.DELTA, TableFormat.PARQUET])
def test_the_condition_is_in_the_scan(spark: SparkSession, lake: Path, format_: TableFormat) -> None:
    reader = opened(spark, lake, format_)
    seen = reader.greatest(above(at=hours(31), sparse=33))
    assert seen == GreatestValues({"at": hours(39), "sparse": 39}, nulls=0)
    wanted = above(at=hours(31)).capped({"at": Bound(hours(37), inclusive=True)})
    frame = reader.read(wanted)
    assert ids(frame) == [32, 33, 34, 35, 36, 37]
    pushed = plan(frame).partition("PushedFilters: [")[2].partition("]")[0]
    assert "GreaterThan(at,2026-03-02" in pushed
    assert "LessThanOrEqual(at,2026-03-02" in pushed
    if format_ is TableFormat.DELTA:
        assert files_read(frame) == 1


def test_a_delta_table_is_pinned_to_the_version_it_had(spark: SparkSession, lake: Path) -> None:
    reader = opened(spark, lake, TableFormat.DELTA)
    before = reader.greatest(above(id=None))
    spark.sql(ROWS.format(low=100, high=101)).write.format("delta").mode("append").save(str(lake / "delta"))
    assert reader.greatest(above(id=None)) == before == GreatestValues({"id": 39}, nulls=0)
    assert ids(reader.read(above(id=38))) == [39]
    assert ids(opened(spark, lake, TableFormat.DELTA).read(above(id=38))) == [39, 100]
    spark.sql(f"delete from delta.`{lake / 'delta'}` where id = 100")


def test_values_are_of_their_kind_and_nulls_are_counted(spark: SparkSession, lake: Path) -> None:
    reader = opened(spark, lake, TableFormat.PARQUET, zone="Asia/Tokyo")
    wanted = above(sparse=None, price=None, day=None, local=None)
    seen = reader.greatest(wanted).values
    assert seen == {
        "sparse": 39,
        "price": Decimal("13.000000000000"),
        "day": date(2026, 3, 4),
        "local": datetime(2026, 3, 1),
    }
    assert reader.greatest(above(sparse=20)) == GreatestValues({"sparse": 39}, nulls=4)
    instants = {row["local"] for row in reader.read(wanted).select("local").toArrow().to_pylist()}
    assert instants == {datetime(2026, 2, 28, 15, tzinfo=UTC)}


def test_a_cursor_goes_to_the_greatest_tuple_of_a_frame(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1, 9), (2, 1), (2, 3), (2, None), (None, 4)], "a int, b int")
    assert greatest_of(frame, ["a", "b"], WatermarkMode.TUPLE) == GreatestValues({"a": 2, "b": 3}, nulls=2)
    assert greatest_of(frame, ["a", "b"]) == GreatestValues({"a": 2, "b": 9}, nulls=0)
    assert greatest_of(frame.where("a > 5"), ["a", "b"], WatermarkMode.TUPLE) == GreatestValues(
        {"a": None, "b": None}, nulls=0
    )


def test_a_watermark_filters_any_frame(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1, None), (2, 5), (3, None)], "id int, other int")
    assert ids(apply_watermark_filter(frame, {"id": 2})) == [3]
    assert ids(apply_watermark_filter(frame, {"id": 2}, watermark_operator(replay=True))) == [2, 3]
    assert ids(apply_watermark_filter(frame, {"id": 3, "other": None}, watermark_operator())) == [2]
    assert ids(apply_watermark_filter(frame, None)) == ids(apply_watermark_filter(frame, {"id": None})) == [1, 2, 3]
    with raises(ConfigError, "watermark_operator", "'<'", "'>'", "'>='"):
        apply_watermark_filter(frame, {"id": 2}, "<")


def test_what_is_not_there_is_named(spark: SparkSession, tmp_path: Path) -> None:
    for format_ in (TableFormat.DELTA, TableFormat.PARQUET):
        with raises(SourceError, "orders", "source_uri", "'type'"):
            opened(spark, tmp_path, format_).read(above(id=1))


LAYOUTS = {
    "flat": ("a", "b"),
    "partitions": ("day=1/a", "day=2/b"),
    "hidden": ("a", "_old/b", ".c/d", "_e"),
    "below alone": ("year/a", "year/b"),
    "top and below": ("a", "late/b"),
    "top and partitions": ("a", "day=1/b"),
    "below and partitions": ("late/a", "day=1/b"),
    "below partitions": ("day=1/late/a", "day=2/b"),
    "above partitions": ("year/day=1/a", "year/day=2/b"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_parquet_files_that_spark_would_leave_out_are_named(spark: SparkSession, tmp_path: Path, layout: str) -> None:
    root = tmp_path / "parquet"
    wanted = set()
    for number, path in enumerate(f"{name}.parquet" for name in LAYOUTS[layout]):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"at": pa.array([hours(number)], pa.timestamp("us", "UTC"))}), root / path)
        if layout != "hidden" or path == "a.parquet":
            wanted.add(hours(number))

    def rows() -> set[datetime]:
        return {row["at"].astimezone(UTC) for row in spark.read.parquet(str(root)).select("at").collect()}

    reader = opened(spark, root.parent, TableFormat.PARQUET)
    overlooked = find_overlooked(sorted(str(path.relative_to(root)) for path in root.rglob("*.parquet")))
    if overlooked is None:
        assert rows() == wanted
        assert reader.greatest(above(at=None)).values == {"at": max(wanted)}
    else:
        with contextlib.suppress(PySparkException):
            assert rows() < wanted
        with raises(SourceError, overlooked, "*.parquet"):
            reader.greatest(above(at=None))
