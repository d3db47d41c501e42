"""Names in a configuration may differ in case from those of the source; tables keep the source's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from spark.loaded_tables import LoadedTable, at, window
from spark.unit_tables import UnitTable
from support.column_lake import ColumnLake
from support.column_loads import go, row, table
from support.errors import raises
from support.long_runs import chosen
from tidegate.errors import SchemaMismatch
from tidegate.specs.columns import Load, LoadType
from tidegate.specs.table import PartitionBy
from tidegate.specs.units import Replace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = "Id bigint, Upd timestamp, Text string, Country string"
LOADS: dict[str, tuple[Load, Any, set[int]]] = {
    "merge_upsert": (Load(LoadType.MERGE_UPSERT, merge_keys=("ID",), tie_break=("TEXT",)), {}, {1, 2, 3}),
    "window": (
        Load(LoadType.MERGE_OVERWRITE, merge_keys=("ID",), replace_by_watermark=True, max_delete_fraction=1.0),
        {"window": window(UPD=(at(2), at(9)))},
        {1, 3},
    ),
    "deduplicate": (Load(deduplicate=("ID",)), {"window": window(UPD=(at(1), at(9)))}, {1, 2, 3}),
    "chunk": (Load(), {"window": window(UPD=(at(2), at(9))), "chunk": True}, {1, 3}),
    "scd2": (
        Load(LoadType.SCD2, merge_keys=("ID",), scd2_effective_column="UPD", scd2_attributes=("TEXT",)),
        {},
        {1, 2, 3},
    ),
    "scd2_by_watermark": (Load(LoadType.SCD2, merge_keys=("ID",)), {}, {1, 2, 3}),
}


@pytest.mark.parametrize("load", chosen(list(LOADS), "window"))
def test_every_strategy_finds_its_columns(spark: SparkSession, tmp_path: Path, load: str) -> None:
    chosen_load, given, left = LOADS[load]
    by = PartitionBy("day=%Y-%m-%d/COUNTRY", "UPD")
    loaded = LoadedTable(spark, tmp_path, chosen_load, watermarks=("UPD",), partition_by=by)
    loaded.load([(1, at(1), "a", "de"), (2, at(2), "b", "de")], COLUMNS)
    loaded.load([(3, at(3), "c", "fr")], COLUMNS, **given)
    assert {key for (key,) in loaded.rows("Id")} == left
    assert loaded.columns[:4] == ["Id", "Upd", "Text", "Country"]
    assert {day for (day,) in loaded.rows("day")} >= {"2026-01-01", "2026-01-03"}


def test_a_run_reads_on_in_another_spelling(spark: SparkSession, tmp_path: Path) -> None:
    """The reader's condition, the greatest values, the keys of the merge; and a configuration that changes its mind."""
    sink = {"load_type": "merge_upsert", "merge_keys": ["ID"]}
    lake = ColumnLake(tmp_path, source_settings={"watermark_columns": ["AT"]}, sink_settings=sink)
    lake.arrive(row(1, 0), row(2, 1))
    go(lake)
    lake.arrive(row(3, 2))
    assert go(lake).rows == 1
    lake.source_settings = {"watermark_columns": ["At"]}
    lake.arrive(row(4, 3))
    assert go(lake).rows == 1
    assert [number for number, _ in table(lake)] == [1, 2, 3, 4]


def test_units_are_replaced_by_a_time_column_in_another_spelling(spark: SparkSession, tmp_path: Path) -> None:
    kinds = {"Seen": pa.timestamp("us", "UTC"), "v": pa.int64()}
    units = UnitTable(spark, tmp_path, kinds, replace=Replace.TIME_COLUMN, time_column="SEEN")
    first = [at(1).replace(year=1970), at(2).replace(year=1970)]
    units.append({"a": [(0, moment, 1) for moment in first]})
    units.replace({"a": [(1, first[1], 2)]}, ("a", 1, 2))
    assert units.rows("v") == [(1,), (2,)]


def test_a_key_that_no_column_is_like_is_still_refused(spark: SparkSession, tmp_path: Path) -> None:
    loaded = LoadedTable(spark, tmp_path, Load(LoadType.MERGE_UPSERT, merge_keys=("nothing",)), watermarks=("UPD",))
    with raises(SchemaMismatch, "orders/db", "merge key 'nothing'", "Id, Upd, Text, Country"):
        loaded.load([(1, at(1), "a", "de")], COLUMNS)
