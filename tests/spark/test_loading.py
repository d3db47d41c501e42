"""Load strategies: every batch is one commit with the position inside, and the rows are what the strategy says."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.functions import expr

from spark.loaded_tables import COLUMNS, LoadedTable, at, window
from support.errors import raises
from tidegate.compat import MergeOverwriteStrategy
from tidegate.errors import RowsRefused, SchemaMismatch, TableError
from tidegate.specs.columns import Load, LoadType
from tidegate.specs.table import PartitionBy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EXTRA = f"{COLUMNS}, extra int"


def by_id(kind: LoadType, **settings: Any) -> Load:
    return Load(kind, merge_keys=("id",), **settings)


def replacing(**settings: Any) -> Load:
    return by_id(LoadType.MERGE_OVERWRITE, replace_by_watermark=True, **settings)


def positions(table: LoadedTable) -> list[int]:
    return [entry["txn"]["version"] for entry in table.log()]


def test_rows_are_appended_straight_into_the_folder_and_evaluated_once(spark: SparkSession, tmp_path: Path) -> None:
    table = LoadedTable(spark, tmp_path, Load(), partition_by=PartitionBy("day=%Y-%m-%d", "t"), watermarks=("u", "t"))
    columns = "id int, u decimal(10,2), t timestamp, local timestamp_ntz, tags array<string>"
    naive = datetime(2026, 1, 1, 12)
    first = [(1, Decimal("1.50"), at(1), naive, ["a"]), (2, None, at(2), None, None), (3, None, None, naive, [])]
    seen = table.append(spark.createDataFrame(first, columns).withColumn("name", expr("uuid()")))
    assert (seen.rows, seen.greatest, seen.nulls) == (3, {"u": Decimal("1.50"), "t": at(2)}, 1)
    later = spark.createDataFrame([(4, None, at(3), None, None)], columns).selectExpr("*", "cast(9 as bigint) as more")
    table.append(later.selectExpr("id + 0 as id", "u", "t", "local", "tags", "more"))
    days = [(1, "2026-01-01"), (2, "2026-01-02"), (3, None), (4, "2026-01-03")]
    assert table.rows("id", "day") == days
    assert table.rows("id", "local", "more")[0] == (1, naive, None)
    assert len({name for (name,) in table.rows("name")}) == 4
    assert [entry["txn"]["version"] for entry in table.log() if "txn" in entry] == [1, 2]


def test_an_overwrite_is_one_commit_and_takes_the_place_of_everything(spark: SparkSession, tmp_path: Path) -> None:
    table = LoadedTable(spark, tmp_path, Load(LoadType.OVERWRITE))
    table.load([(1, 1, "a"), (2, 2, "b")])
    table.load([(2, 3, "c", 9)], EXTRA)
    assert table.rows("id", "u", "v", "extra") == [(2, 3, "c", 9)]
    assert positions(table) == [1, 2]
    assert table.left() == []
    with raises(TableError, "orders/db", "overwrite", "chunk"):
        table.load([(1, 1, "a")], window=window(u=(1, 2)), chunk=True)


def test_an_upsert_updates_what_is_there_and_adds_the_rest(spark: SparkSession, tmp_path: Path) -> None:
    table = LoadedTable(spark, tmp_path, by_id(LoadType.MERGE_UPSERT))
    table.load([(1, 1, "a"), (2, 2, "b"), (None, 2, "null"), (1, 3, "A"), (2, 2, "b")])
    assert table.rows() == [(None, 2, "null"), (1, 3, "A"), (2, 2, "b")]
    table.load(
        [(2, 4, "B", 7, (1, 2)), (3, 4, "c", 8, None), (None, 5, "still null", 9, None)],
        f"{EXTRA}, pair struct<a: int, b: int>",
    )
    expected = [(None, 5, "still null", 9), (1, 3, "A", None), (2, 4, "B", 7), (3, 4, "c", 8)]
    assert table.rows("id", "u", "v", "extra") == expected
    table.load([])
    table.load(
        [(3, 4, (5,))],
        "id int, u int, pair struct<a: int>",
        meanwhile=lambda: table.foreign("insert into {} values (9, 9, 'x', null, null)"),
    )
    assert table.rows("id", "pair.a") == [(None, None), (1, None), (2, 1), (3, 5), (9, None)]
    assert table.rows("id", "u", "v", "extra") == [*expected, (9, 9, "x", None)]
    assert [entry["txn"]["version"] for entry in table.log() if "txn" in entry] == [1, 2, 3, 4]
    assert "add" not in table.log()[2]
    assert table.left() == []


def test_rows_with_the_same_key_are_decided_or_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Also by a key whose name has a dot."""
    load = Load(LoadType.MERGE_UPSERT, merge_keys=("order.id",), tie_break=("n",))
    table = LoadedTable(spark, tmp_path, load, watermarks=("u", "w"))
    columns = "`order.id` bigint, u bigint, w bigint, n int, v string"
    table.load([(1, 1, 9, 1, "later by w"), (1, 8, None, 5, "b"), (2, 3, 3, 1, "b"), (2, None, 3, 2, "tie")], columns)
    table.load([(2, 4, 4, 1, "next")], columns)
    assert table.rows("`order.id`", "v") == [(1, "later by w"), (2, "next")]
    same = [(7, 1, 1, 1, "one"), (7, 1, 1, 1, "two")]
    with raises(RowsRefused, "orders/db", "order.id = 7", "sink.tie_break", "u, w, n"):
        table.load(same, columns)
    with raises(SchemaMismatch, "orders/db", "tie_break 'n'", "order.id, u, w"):
        table.load([(1, 1, 1)], "`order.id` bigint, u bigint, w bigint")
    assert positions(table) == [1, 2]


def test_an_overwrite_by_key_replaces_all_rows_of_the_keys_that_come(spark: SparkSession, tmp_path: Path) -> None:
    by = PartitionBy("day=%Y-%m-%d/v", "t")
    table = LoadedTable(spark, tmp_path, by_id(LoadType.MERGE_OVERWRITE), watermarks=("t",), partition_by=by)
    columns = "id bigint, n int, t timestamp, v string"
    table.load([(1, 1, at(1), "a"), (1, 2, at(1), "b"), (2, 1, at(2), "a"), (None, 1, at(2), "x")], columns)
    batch = [(1, 1, at(3), "c"), (1, 1, at(3), "c"), (None, 2, at(3), "y"), (3, 1, at(3), "a")]
    table.load(batch, columns)
    expected = [
        (None, 2, "y", "2026-01-03"),
        (1, 1, "c", "2026-01-03"),
        (1, 1, "c", "2026-01-03"),
        (2, 1, "a", "2026-01-02"),
        (3, 1, "a", "2026-01-03"),
    ]
    assert table.rows("id", "n", "v", "day") == expected
    table.load(batch, columns)
    assert table.rows("id", "n", "v", "day") == expected
    assert positions(table) == [1, 2, 3]
    assert table.log()[0]["metaData"]["partitionColumns"] == ["day", "v"]


def test_a_chunk_of_a_replay_leaves_later_rows_of_the_same_key(spark: SparkSession, tmp_path: Path) -> None:
    table = LoadedTable(spark, tmp_path, by_id(LoadType.MERGE_OVERWRITE, max_delete_fraction=1.0))
    table.load([(1, 9, "newest"), (2, 2, "old"), (3, 3, "deleted at the source")])
    table.load([(1, 2, "an older version"), (2, 3, "read again")], window=window(u=(1, 4)), chunk=True)
    assert table.rows() == [(1, 9, "newest"), (2, 3, "read again")]


def test_a_window_is_replaced_and_no_row_is_there_twice(spark: SparkSession, tmp_path: Path) -> None:
    """Rows deleted at the source, a row that moves into the window, and a window whose last rows are gone."""
    table = LoadedTable(spark, tmp_path, replacing())
    table.load([(1, 1, "old"), (2, 5, "b"), (3, 6, "c"), (4, 7, "d"), (5, None, "null")])
    table.load([(1, 8, "moved in"), (2, 5, "b"), (3, 6, "C")], window=window(u=(5, 8)))
    assert table.rows() == [(1, 8, "moved in"), (2, 5, "b"), (3, 6, "C"), (5, None, "null")]
    table.load([(2, 5, "b"), (3, 6, "C")], window=window(u=(5, 8)))
    expected = [(2, 5, "b"), (3, 6, "C"), (5, None, "null")]
    assert table.rows() == expected
    with raises(RowsRefused, "orders/db", "2 of the table's 2 rows", "max_delete_fraction (0.5)"):
        table.load([(9, 6, "x")], window=window(u=(5, 8)))
    with raises(RowsRefused, "orders/db", "window", "the table has 2", "sink.allow_empty_window: true"):
        table.load([], window=window(u=(5, 8)))
    with raises(RowsRefused, "orders/db", "1 rows", "outside the window"):
        table.load([(2, 5, "b"), (3, 4, "C")], window=window(u=(5, 8)))
    assert table.rows() == expected
    table.load([], window=window(u=(50, 80)))
    assert table.rows() == expected
    assert positions(table) == [1, 2, 3, 4]


def test_a_window_that_may_be_empty_and_a_foreign_commit(spark: SparkSession, tmp_path: Path) -> None:
    table = LoadedTable(spark, tmp_path, replacing(allow_empty_window=True, max_delete_fraction=1.0))
    table.load([(1, 1, "a"), (2, 5, "b")])
    table.load([], window=window(u=(5, 8)), meanwhile=lambda: table.foreign("insert into {} values (3, 6, 'c')"))
    assert table.rows() == [(1, 1, "a")]
    table.load([(7, 6, "x", 1)], EXTRA, window=window(u=(5, 8)))
    assert table.rows("id", "u", "v", "extra") == [(1, 1, "a", None), (7, 6, "x", 1)]


def test_a_window_on_a_column_that_the_transform_renames(spark: SparkSession, tmp_path: Path) -> None:
    """Times without a zone belong to the zone of the source; the transform runs once."""
    load = replacing(window_columns={"u": "changed"})
    renames = "select id, to_utc_timestamp(cast(u as timestamp), 'Asia/Jakarta') as changed, uuid() as v from source"
    table = LoadedTable(spark, tmp_path, load, transform=renames, source_timezone="Asia/Jakarta")
    columns = "id bigint, u timestamp_ntz"
    table.load([(1, datetime(2026, 1, 1)), (2, datetime(2026, 1, 2)), (3, datetime(2026, 1, 2, 1))], columns)
    part = window(u=(datetime(2026, 1, 2), datetime(2026, 1, 3)))
    table.load([(2, datetime(2026, 1, 2))], columns, window=part)
    assert [row[0] for row in table.rows("id")] == [1, 2]
    assert table.left() == []
    other = LoadedTable(spark, tmp_path, replacing(), transform="select id, u as changed, 'v' as v from source")
    with raises(SchemaMismatch, "orders/db", "'u'", "sink.window_columns: {u:"):
        other.load([(2, datetime(2026, 1, 2))], columns, window=part)


def test_an_append_leaves_out_what_the_look_back_has_brought_already(spark: SparkSession, tmp_path: Path) -> None:
    table = LoadedTable(spark, tmp_path, Load(deduplicate=("id",)))
    table.load([(1, 1, "a"), (2, 5, "b"), (2, 5, "b")])
    batch = [(2, 5, "b", 0), (1, 6, "again", 1), (3, 6, "c", 2), (None, 6, "d", 3)]
    table.load(batch, EXTRA, window=window(u=(5, 6)))
    table.load(batch, EXTRA, window=window(u=(5, 6)))
    assert table.rows() == [(None, 6, "d"), (1, 1, "a"), (1, 6, "again"), (2, 5, "b"), (3, 6, "c")]
    assert table.columns == ["id", "u", "v", "extra"]
    assert positions(table) == [1, 2, 3]


def test_a_chunk_of_a_replay_takes_the_place_of_what_is_there(spark: SparkSession, tmp_path: Path) -> None:
    table = LoadedTable(spark, tmp_path, Load())
    table.load([(1, 1, "a"), (2, 5, "b"), (3, 9, "c")])
    chunk = window(u=(5, 8))
    table.load([(2, 5, "B"), (4, 6, "d")], window=chunk, chunk=True)
    table.load([(2, 5, "B"), (4, 6, "d")], window=chunk, chunk=True)
    table.load([], window=window(u=(20, 30)), chunk=True)
    expected = [(1, 1, "a"), (2, 5, "B"), (3, 9, "c"), (4, 6, "d")]
    assert table.rows() == expected
    with raises(RowsRefused, "orders/db", "window", "sink.allow_empty_window: true"):
        table.load([], window=chunk, chunk=True)
    assert (table.rows(), positions(table)) == (expected, [1, 2, 3, 4])


def test_a_chunk_of_a_replay_has_each_key_once_where_production_has(spark: SparkSession, tmp_path: Path) -> None:
    table = LoadedTable(spark, tmp_path, Load(deduplicate=("id",)))
    table.load([(1, 1, "a"), (2, 5, "b"), (2, 6, "c")])
    assert table.rows() == [(1, 1, "a"), (2, 6, "c")]
    table.load([(2, 5, "b"), (2, 6, "c")], window=window(u=(5, 6)), chunk=True)
    assert table.rows() == [(1, 1, "a"), (2, 6, "c")]


def test_a_chunk_of_a_replay_does_not_undo_what_was_merged_later(spark: SparkSession, tmp_path: Path) -> None:
    table = LoadedTable(spark, tmp_path, by_id(LoadType.MERGE_UPSERT))
    table.load([(1, 9, "new"), (2, 5, "b"), (4, None, "d")])
    table.load([(1, 5, "old"), (2, 5, "B"), (3, 6, "c"), (4, 6, "D")], window=window(u=(5, 8)), chunk=True)
    assert table.rows() == [(1, 9, "new"), (2, 5, "B"), (3, 6, "c"), (4, 6, "D")]


def test_a_table_with_deletion_vectors_and_column_mapping_takes_a_merge(spark: SparkSession, tmp_path: Path) -> None:
    table = LoadedTable(spark, tmp_path, replacing())
    spark.sql(
        f"create table delta.`{table.path}` (id bigint not null, u bigint, v string, n bigint generated always as "
        "identity) using delta tblproperties ('delta.columnMapping.mode' = 'name', "
        "'delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true')"
    )
    table.load([(1, 1, "a"), (2, 5, "b"), (3, 6, "c")])
    table.load([(2, 5, "B"), (1, 7, "A")], window=window(u=(5, 8)))
    assert table.rows() == [(1, 7, "A"), (2, 5, "B")]
    assert table.columns == ["id", "u", "v", "n"]
    with raises(RowsRefused, "NOT NULL"):
        table.load([(2, 5, "B"), (None, 7, "A")], window=window(u=(5, 8)))
    assert table.position == 2


def test_python_code_can_replace_a_window_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    spark.createDataFrame([(1, 1, "a"), (2, 5, "b"), (3, 6, "c")], COLUMNS).write.format("delta").save(path)
    rows = spark.createDataFrame([(1, 7, "A"), (2, 5, "B")], COLUMNS)
    dataflow_window = {"u": (5, 8)}
    MergeOverwriteStrategy(["id"], dataflow_window).write(rows.where("id = 2"), path)
    MergeOverwriteStrategy(["id"], dataflow_window, replace_by_watermark=True).write(rows, path)
    found = spark.read.format("delta").load(path).collect()
    assert sorted(tuple(row) for row in found) == [(1, 7, "A"), (2, 5, "B")]
    with raises(RowsRefused, "MergeOverwriteStrategy", "2 of the table's 2 rows", "max_delete_fraction (0.5)"):
        MergeOverwriteStrategy(["id"], dataflow_window, replace_by_watermark=True).write(
            spark.createDataFrame([(9, 6, "x")], COLUMNS), path
        )
