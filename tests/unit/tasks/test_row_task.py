"""Rows that are handed over as Arrow batches become finished files, and tell what their watermark columns hold."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.errors import raises
from tidegate.errors import RowsRefused, SchemaMismatch
from tidegate.specs.columns import ColumnSource, FunctionRead, WatermarkMode
from tidegate.specs.locations import Location
from tidegate.specs.project import PipelineSpec, TransformSpec
from tidegate.specs.table import PartitionBy, SchemaSpec, SinkSpec
from tidegate.tasks.row_task import Batch, RowTask, join_results, row_task, write_batches

MOMENT = pa.timestamp("us", tz="UTC")
COLUMNS = pa.schema([("id", pa.int32()), ("u", MOMENT), ("country", pa.string())])
BANGKOK = timezone(timedelta(hours=7))


def at(day: int) -> datetime:
    return datetime(2026, 1, day, tzinfo=UTC)


def pipeline(folder: Path, by: PartitionBy | None = None, transform: str | None = None) -> PipelineSpec:
    sink = SinkSpec(Location((folder / "t").as_uri()), partition_by=by)
    return PipelineSpec("p", (), SchemaSpec(), sink, transform=TransformSpec(sql=transform) if transform else None)


def source(*columns: str, mode: WatermarkMode = WatermarkMode.ANY) -> ColumnSource:
    return ColumnSource("s", FunctionRead("m:f"), watermark_columns=columns, mode=mode)


def batch(*rows: tuple[Any, ...], columns: pa.Schema = COLUMNS) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(columns.names, row, strict=True)) for row in rows], columns)


def found(folder: Path, paths: list[str]) -> list[dict[str, Any]]:
    return [row for path in paths for row in pq.ParquetFile(folder / "t" / path).read().to_pylist()]


def test_rows_go_straight_into_the_partitions_of_the_table(tmp_path: Path) -> None:
    by = PartitionBy("day=%Y-%m-%d/country", "u")
    table = pa.schema([("id", pa.int64()), ("u", MOMENT), ("country", pa.string()), ("day", pa.string())])
    task = row_task(pipeline(tmp_path, by), source("u"), COLUMNS, table)
    assert task.partition_columns == ("day", "country")
    assert task.written.field("id").type == pa.int64()
    assert task.written.names == ["id", "u", "country", "day"]
    written = write_batches(task, [batch((1, at(1), "de"), (2, at(2), None)), batch((3, at(1), "de"))])
    values = {file.path.rpartition("/")[0]: file.partition_values for file in written.data_files}
    assert values == {
        "day=2026-01-01/country=de": {"day": "2026-01-01", "country": "de"},
        "day=2026-01-02/country=__HIVE_DEFAULT_PARTITION__": {"day": "2026-01-02", "country": None},
    }
    assert (written.rows, written.greatest, written.nulls) == (3, {"u": at(2)}, 0)
    assert all('"minValues":{"id":' in (file.stats or "") for file in written.data_files)
    assert sorted(row["id"] for row in found(tmp_path, [file.path for file in written.data_files])) == [1, 2, 3]


def test_a_work_area_has_the_keys_as_columns(tmp_path: Path) -> None:
    spec = pipeline(tmp_path, PartitionBy("day=%Y-%m-%d", "u"))
    task = row_task(spec, source(), COLUMNS, work=Location((tmp_path / "t").as_uri()))
    written = write_batches(task, [batch((1, at(1), "de"), (2, None, "de"))])
    made = Batch.of(spec, source(), task, written)
    assert (made.partitioned_by, made.rows, len(made.files)) == (("day",), 2, 1)
    assert [(row["id"], row["day"]) for row in found(tmp_path, list(made.files))] == [(1, "2026-01-01"), (2, None)]
    assert made.columns.names == [*COLUMNS.names, "day"]
    through = replace(spec, transform=TransformSpec(sql="select 1"))
    assert row_task(through, source(), COLUMNS, work=task.place).written.names == COLUMNS.names


def test_a_key_without_a_column_is_one_itself(tmp_path: Path) -> None:
    task = row_task(pipeline(tmp_path, PartitionBy("country")), source(), COLUMNS)
    (file,) = write_batches(task, [batch((1, None, "a/b"))]).data_files
    assert file.path.startswith("country=a%2Fb/")


VALUES: list[tuple[pa.DataType, list[Any], Any]] = [
    (pa.int64(), [3, None, 7], 7),
    (pa.decimal128(20, 4), [Decimal("1.5"), Decimal("10.25")], Decimal("10.2500")),
    (pa.string(), ["9", "10"], "9"),
    (pa.date32(), [date(2026, 1, 2), None], date(2026, 1, 2)),
    (pa.timestamp("us"), [datetime(2026, 1, 2), datetime(2026, 1, 1)], datetime(2026, 1, 2)),
    (pa.timestamp("us", tz="+07:00"), [datetime(2026, 1, 2, 7, tzinfo=BANGKOK)], at(2)),
    (pa.int64(), [None, None], None),
]


@pytest.mark.parametrize(("kind", "values", "greatest"), VALUES)
def test_the_greatest_value_of_a_column(tmp_path: Path, kind: pa.DataType, values: list[Any], greatest: Any) -> None:
    columns = pa.schema([("u", kind)])
    task = row_task(pipeline(tmp_path), source("u"), columns)
    written = write_batches(task, [batch(*((value,) for value in values), columns=columns)])
    assert (written.greatest, written.nulls) == ({"u": greatest}, values.count(None))
    both = join_results(task, [written, write_batches(task, [])])
    assert (both.greatest, both.rows) == ({"u": greatest}, len(values))


def test_columns_by_themselves_and_as_a_cursor(tmp_path: Path) -> None:
    columns = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    rows = [(1, 9), (2, None), (None, None), (2, 3)], [(2, 5), (1, 1)], [(None, 7)]

    def seen(mode: WatermarkMode) -> tuple[Any, int]:
        task: RowTask = row_task(pipeline(tmp_path), source("a", "b", mode=mode), columns)
        parts = [write_batches(task, [batch(*part, columns=columns)]) for part in rows]
        whole = join_results(task, parts)
        return whole.greatest, whole.nulls

    assert seen(WatermarkMode.ANY) == ({"a": 2, "b": 9}, 1)
    assert seen(WatermarkMode.TUPLE) == ({"a": 2, "b": 5}, 3)


def test_rows_must_have_what_is_required(tmp_path: Path) -> None:
    table = pa.schema([pa.field("id", pa.int32(), nullable=False), ("u", MOMENT), ("country", pa.string())])
    task = row_task(pipeline(tmp_path), source("u"), COLUMNS, table)
    assert write_batches(task, [batch((1, None, None))]).rows == 1
    with raises(RowsRefused, "null", "'id'"):
        write_batches(task, [batch((None, None, None))])
    with raises(SchemaMismatch, "p/s", "'x'", "id, u, country"):
        row_task(pipeline(tmp_path), source("x"), COLUMNS)
    with raises(SchemaMismatch, "'u'", "int64", "timestamp"):
        row_task(pipeline(tmp_path), source("u"), COLUMNS, pa.schema([("u", pa.int64())]))


def test_names_of_a_configuration_may_be_spelled_otherwise(tmp_path: Path) -> None:
    """The table gets the rows' own; what was seen is told by the names of the configuration, as the state has them."""
    task = row_task(pipeline(tmp_path, PartitionBy("day=%Y-%m-%d/Country", "U")), source("U"), COLUMNS)
    assert task.partition_columns == ("day", "country")
    parts = [write_batches(task, [batch((1, at(1), "de"))]), write_batches(task, [batch((2, at(2), "fr"))])]
    assert join_results(task, parts).greatest == {"U": at(2)}
    assert {file.path.rpartition("/")[0] for part in parts for file in part.data_files} == {
        "day=2026-01-01/country=de",
        "day=2026-01-02/country=fr",
    }


def test_a_watermark_that_may_be_two_columns_is_refused(tmp_path: Path) -> None:
    columns = pa.schema([("ab", pa.int32()), ("AB", pa.int32())])
    with raises(SchemaMismatch, "'aB'", "'ab'", "'AB'"):
        row_task(pipeline(tmp_path), source("aB"), columns)
