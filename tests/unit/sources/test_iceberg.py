"""Which data files of an Iceberg table are planned: those that can hold wanted rows, of one state of the table."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)

from support.errors import raises
from support.iceberg_tables import add, data_file, delete_rows, new_table
from tidegate.core.columns.predicates import Bound, ColumnRange, RowFilter, matches
from tidegate.errors import SourceError
from tidegate.sources.iceberg import IcebergTable, PlannedFile, _convert_column
from tidegate.specs.columns import NullWatermark, Value, WatermarkMode
from tidegate.specs.locations import Location

FILES = 4
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SCHEMA = Schema(
    NestedField(1, "id", IntegerType()),
    NestedField(2, "at", TimestamptzType()),
    NestedField(3, "local", TimestampType()),
    NestedField(4, "day", DateType()),
    NestedField(5, "price", DecimalType(10, 2)),
    NestedField(6, "name", StringType()),
    NestedField(7, "rate", DoubleType()),
    NestedField(8, "sparse", LongType()),
)


def row(number: int) -> dict[str, Any]:
    """Row ``number``; the first of each ten has null in ``sparse``, and so have the last ten rows."""
    at = NOON + timedelta(hours=number)
    return {
        "id": number,
        "at": at,
        "local": at.replace(tzinfo=None),
        "day": date(2026, 3, 1) + timedelta(days=number),
        "price": Decimal(number) + Decimal("0.50"),
        "name": f"n{number:03}",
        "rate": float("nan") if number == 0 else number / 2,
        "sparse": None if number % 10 == 0 or number >= 30 else number,
    }


ROWS = [row(number) for number in range(FILES * 10)]


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Four files of ten rows each, in order."""
    table = new_table(tmp_path_factory.mktemp("lake") / "a {b} c", "orders", SCHEMA)
    for number in range(FILES):
        add(table, ROWS[number * 10 : number * 10 + 10])
    return table


@pytest.fixture
def small(tmp_path: Path) -> Table:
    """Two files with one row each."""
    table = new_table(tmp_path, "small", Schema(NestedField(1, "id", IntegerType())))
    add(table, [{"id": 1}])
    add(table, [{"id": 2}])
    return table


def opened(table: Table) -> IcebergTable:
    return IcebergTable(Location(Path(table.location().removeprefix("file://")).as_uri()), "orders")


def above(column: str, value: Value, inclusive: bool = False) -> RowFilter:
    return RowFilter((ColumnRange(column, Bound(value, inclusive)),))


def ids(planned: tuple[PlannedFile, ...]) -> list[int]:
    """The rows in the planned files, all of them."""
    tables = [pq.ParquetFile(f"/{each.path}").read(["id"]) for each in planned]
    return sorted(number for each in tables for number in each["id"].to_pylist())


@pytest.mark.parametrize(
    ("rows", "files"),
    [
        (RowFilter(), 4),
        (above("id", 29), 1),
        (above("id", 29, inclusive=True), 2),
        (above("id", 10**12), 0),
        (above("id", Decimal("28.5")), 2),
        (above("at", NOON + timedelta(hours=19)), 2),
        (above("local", datetime(2026, 3, 1, 12) + timedelta(hours=19)), 2),
        (above("day", date(2026, 3, 30)), 1),
        (above("price", Decimal("29.5")), 1),
        (above("price", Decimal("29.4999")), 2),
        (above("price", 30), 1),
        (above("name", "n029"), 1),
        (above("rate", 14.5), 4),
        (above("sparse", 29), 0),
        (RowFilter((ColumnRange("sparse", any_value=True),)), 3),
        (RowFilter((ColumnRange("sparse", only_null=True),)), 4),
        (RowFilter((ColumnRange("sparse", Bound(29)),), nulls=NullWatermark.INCLUDE), 4),
        (RowFilter((ColumnRange("id", Bound(19), Bound(29, inclusive=True)),)), 1),
        (RowFilter((ColumnRange("id", Bound(19), Bound(30)),)), 1),
        (RowFilter((ColumnRange("id", Bound(35)), ColumnRange("sparse", Bound(15)))), 3),
    ],
)
def test_files_without_wanted_rows_are_passed_over(orders: Table, rows: RowFilter, files: int) -> None:
    assert len(opened(orders).plan_files(rows)) == files


def filters() -> Iterator[RowFilter]:
    """Bounds of two columns, in both orders where that matters."""
    numbers = [ColumnRange("id", *each) for each in product((None, Bound(9)), (None, Bound(20, inclusive=True)))]
    sparse = [ColumnRange("sparse", lower) for lower in (None, Bound(9), Bound(31))]
    sparse += [ColumnRange("sparse", any_value=True), ColumnRange("sparse", only_null=True)]
    for ranges, nulls in product(product(numbers, sparse), (NullWatermark.EXCLUDE, NullWatermark.INCLUDE)):
        yield RowFilter(ranges, WatermarkMode.ANY, nulls)
        yield RowFilter(ranges, WatermarkMode.TUPLE, nulls)
        yield RowFilter(ranges[::-1], WatermarkMode.TUPLE, nulls)


def test_no_wanted_row_is_in_a_file_that_is_passed_over(orders: Table) -> None:
    table = opened(orders)
    contents: dict[PlannedFile, set[int]] = {each: set(ids((each,))) for each in table.plan_files(RowFilter())}
    for rows in filters():
        wanted = {each["id"] for each in ROWS if matches(rows, each)}
        assert wanted <= set().union(*(contents[each] for each in table.plan_files(rows))), rows


def test_the_state_is_the_one_when_the_table_was_opened(small: Table) -> None:
    before = opened(small)
    add(small, [{"id": 3}])
    assert ids(before.plan_files(RowFilter())) == [1, 2]
    assert ids(opened(small).plan_files(RowFilter())) == [1, 2, 3]


def test_a_table_without_rows_has_no_files(tmp_path: Path) -> None:
    table = opened(new_table(tmp_path, "empty", SCHEMA))
    assert table.plan_files(above("id", 1)) == ()
    assert [each["name"] for each in table.fields][:2] == ["id", "at"]


def test_partitions_are_passed_over_and_their_paths_are_taken_as_they_are(tmp_path: Path) -> None:
    identity = IdentityTransform()
    spec = PartitionSpec(PartitionField(4, 1000, identity, "day"), PartitionField(6, 1001, identity, "name"))
    table = new_table(tmp_path, "parted", SCHEMA, partition_spec=spec)
    add(table, [{**row(0), "name": "a b/[c]%"}, {**row(30), "name": "d"}])
    assert ids(opened(table).plan_files(above("day", date(2026, 3, 2)))) == [30]
    assert ids(opened(table).plan_files(RowFilter())) == [0, 30]


def test_names_are_kept_until_one_changes(small: Table) -> None:
    with small.update_schema() as update:
        update.add_column("note", StringType())
        update.update_column("id", LongType())
    assert opened(small).keeps_names
    assert ids(opened(small).plan_files(above("id", 1))) == [2]
    with small.update_schema() as update:
        update.rename_column("id", "number")
    assert not opened(small).keeps_names
    assert ids(opened(small).plan_files(above("number", 1))) == [2]


@pytest.mark.parametrize("name", ["order id", "order.id", "1st"])
def test_a_name_that_files_cannot_have_is_not_kept(tmp_path: Path, name: str) -> None:
    table = new_table(tmp_path, "odd", Schema(NestedField(1, name, IntegerType())))
    assert not opened(table).keeps_names


def test_a_column_that_takes_the_name_of_another_is_noticed(small: Table) -> None:
    with small.update_schema() as update:
        update.add_column("note", StringType())
    with small.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("id")
    with small.update_schema() as update:
        update.add_column("ID", LongType())
    assert not opened(small).keeps_names


def test_the_newest_metadata_is_found(small: Table, tmp_path: Path) -> None:
    metadata = tmp_path / "small" / "metadata"
    older = sorted(metadata.glob("00001-*.metadata.json"))[0]
    pinned = IcebergTable(Location(older.as_uri()), "orders")
    assert ids(pinned.plan_files(RowFilter())) == [1]
    (metadata / "version-hint.text").write_text("7\n")
    assert ids(opened(small).plan_files(RowFilter())) == [1, 2]
    (metadata / "version-hint.text").write_text(older.name)
    assert ids(opened(small).plan_files(RowFilter())) == [1]
    (metadata / "version-hint.text").unlink()
    for number in (9, 10):
        (metadata / f"v{number}.metadata.json").write_bytes(older.read_bytes())
    assert ids(opened(small).plan_files(RowFilter())) == [1]


def test_two_writers_that_both_claim_to_be_the_newest_are_refused(small: Table, tmp_path: Path) -> None:
    metadata = tmp_path / "small" / "metadata"
    newest = max(metadata.glob("*.metadata.json"))
    (metadata / "00002-other.metadata.json").write_bytes(newest.read_bytes())
    with raises(SourceError, "orders", "metadata/00002-other.metadata.json", "wait", "source_uri"):
        opened(small)


def test_what_is_not_there_or_not_readable_is_named(tmp_path: Path) -> None:
    nothing = Location(tmp_path.as_uri())
    with raises(SourceError, "orders", "Iceberg metadata", "source_uri"):
        IcebergTable(nothing, "orders")
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "v1.metadata.json").write_text("{}")
    with raises(SourceError, "orders", "source_uri", "Iceberg table"):
        IcebergTable(nothing, "orders")


@pytest.mark.parametrize(
    ("content", "facts", "told"),
    [
        (DataFileContent.POSITION_DELETES, {}, "orders … data file … delete file … rewrite_data_files"),
        (
            DataFileContent.EQUALITY_DELETES,
            {"equality_ids": [1]},
            "orders … equality_deletes.parquet … rewrite_data_files",
        ),
    ],
)
def test_delete_files_are_refused(small: Table, content: DataFileContent, facts: dict[str, Any], told: str) -> None:
    delete_rows(small, content, **facts)
    with raises(SourceError, told):
        opened(small).plan_files(above("id", 0))


def test_other_files_than_parquet_are_refused(small: Table) -> None:
    with small.transaction() as transaction, transaction.update_snapshot().fast_append() as appending:
        appending.append_data_file(data_file(small, DataFileContent.DATA, FileFormat.ORC))
    with raises(SourceError, "orders", "data.orc", "Orc", "Parquet", "type: python"):
        opened(small).plan_files(RowFilter())


def test_lists_and_maps_get_wider_values_and_keep_their_nulls() -> None:
    maps = pa.array([[("a", 1)], None, [], [("b", 2), ("c", None)]], pa.map_(pa.string(), pa.int32()))
    lists = pa.array([[1], None, [], [2, None]], pa.list_(pa.int32()))
    ways = [
        (maps, {"type": "map", "key": "string", "value": "long"}, pa.map_(pa.string(), pa.int64())),
        (lists, {"type": "list", "element": "long"}, pa.list_(pa.field("element", pa.int64()))),
        (lists.cast(pa.large_list(pa.int32())), {"type": "list", "element": "long"}, pa.list_(pa.int64())),
    ]
    for whole, described, kind in ways:
        for array in (whole, whole[1:], whole[3:], whole[:0]):
            found = _convert_column(array, described, kind)
            found.validate(full=True)
            assert (found.type, found.to_pylist()) == (kind, array.to_pylist())
