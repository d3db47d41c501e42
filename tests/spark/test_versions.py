"""``scd2``: versions of rows and the times in which they held."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark.loaded_tables import LoadedTable, at
from support.errors import raises
from tidegate.errors import RowsRefused, SchemaMismatch
from tidegate.specs.columns import Load, LoadType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = "id bigint, u timestamp, v string"


def versions(spark: SparkSession, folder: Path, **settings: Any) -> LoadedTable:
    return LoadedTable(spark, folder, Load(LoadType.SCD2, merge_keys=("id",), **settings))


def history(table: LoadedTable) -> list[tuple[Any, ...]]:
    """Key, attribute, the days from which and until which it held, and whether it is the last."""
    found = table.rows("id", "v", "__valid_from", "__valid_to", "__is_current")
    days = [(key, v, since.day, until and until.day, last) for key, v, since, until, last in found]
    return sorted(days, key=lambda row: (row[0] is not None, row[0], row[2]))


def test_a_history_grows_by_changes_only(spark: SparkSession, tmp_path: Path) -> None:
    table = versions(spark, tmp_path)
    table.load([(1, at(1), "a"), (1, at(3), "b"), (1, at(2), "a"), (2, at(1), None), (None, at(1), "null")], COLUMNS)
    first = [(None, "null", 1, None, True), (1, "a", 1, 3, False), (1, "b", 3, None, True), (2, None, 1, None, True)]
    assert history(table) == first
    batch = [(1, at(5), "b"), (2, at(4), "x"), (2, at(6), None), (None, at(7), "null"), (3, at(7), "new")]
    second = [
        (None, "null", 1, None, True),
        (1, "a", 1, 3, False),
        (1, "b", 3, None, True),
        (2, None, 1, 4, False),
        (2, "x", 4, 6, False),
        (2, None, 6, None, True),
        (3, "new", 7, None, True),
    ]
    for _ in range(2):
        table.load(batch, COLUMNS)
        assert history(table) == second
    log = table.log()
    assert [entry["txn"]["version"] for entry in log] == [1, 2, 3]
    assert "add" not in log[2]
    kinds = {
        each.name: each.dataType.simpleString() for each in spark.read.format("delta").load(str(table.path)).schema
    }
    assert [kinds[name] for name in ("__valid_from", "__valid_to", "__is_current")] == ["timestamp"] * 2 + ["boolean"]


def test_late_and_corrected_versions_find_their_place(spark: SparkSession, tmp_path: Path) -> None:
    table = versions(spark, tmp_path)
    table.load([(1, at(10), "b"), (1, at(20), "d"), (2, at(10), "x")], COLUMNS)
    batch = [(1, at(15), "c"), (1, at(5), "a"), (1, at(12), "b"), (2, at(10), "corrected")]
    for _ in range(2):
        table.load(batch, COLUMNS, meanwhile=lambda: table.foreign("delete from {} where id = 99"))
        assert table.columns == ["id", "u", "v", "__valid_from", "__valid_to", "__is_current"]
        assert history(table) == [
            (1, "a", 5, 10, False),
            (1, "b", 10, 15, False),
            (1, "c", 15, 20, False),
            (1, "d", 20, None, True),
            (2, "corrected", 10, None, True),
        ]


def test_attributes_and_the_time_of_a_version_can_be_named(spark: SparkSession, tmp_path: Path) -> None:
    table = versions(spark, tmp_path, scd2_effective_column="since", scd2_attributes=("v",))
    columns = "id bigint, u bigint, v string, since date, note map<string, int>"
    table.load([(1, 1, "a", at(1).date(), {"n": 1})], columns)
    table.load([(1, 2, "a", at(2).date(), {"n": 2}), (1, 3, "b", at(3).date(), {"n": 3})], columns)
    assert history(table) == [(1, "a", 1, 3, False), (1, "b", 3, None, True)]
    with raises(RowsRefused, "orders/db", "id = 5", "sink.scd2_effective_column"):
        table.load([(5, 1, "a", None, None)], columns)
    with raises(SchemaMismatch, "orders/db", "'u'", "bigint", "sink.scd2_effective_column"):
        versions(spark, tmp_path).load([(1, 1, "a")], "id bigint, u bigint, v string")
    same = [(7, 1, "x", at(1).date(), None), (7, 1, "y", at(1).date(), None)]
    with raises(RowsRefused, "orders/db", "id = 7", "__valid_from", "sink.tie_break"):
        table.load(same, columns)


def test_a_new_attribute_makes_versions_and_a_map_can_be_one(spark: SparkSession, tmp_path: Path) -> None:
    table = versions(spark, tmp_path)
    table.load([(1, at(1), "a"), (2, at(1), "b")], COLUMNS)
    table.load([(1, at(2), "a", {"n": 1}), (2, at(2), "b", None)], f"{COLUMNS}, note map<string, int>")
    assert history(table) == [(1, "a", 1, 2, False), (1, "a", 2, None, True), (2, "b", 1, None, True)]
