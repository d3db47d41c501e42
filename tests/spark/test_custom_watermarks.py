"""A filter, an operator and a window of a user's own, by Spark: rows of the table change with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from support.column_lake import ColumnLake
from tidegate import DataFlow, run

pytestmark = pytest.mark.spark
MINE = "support.custom_watermarks"
MERGE = {"load_type": "merge_upsert", "merge_keys": ["id"]}
REPLACE = {"load_type": "merge_overwrite", "merge_keys": ["id"], "replace_by_watermark": True}


def notes(spark: SparkSession, lake: ColumnLake) -> dict[int, str]:
    found = spark.read.format("delta").load(str(lake.root / "lake" / "orders"))
    return {row["id"]: row["note"] for row in found.collect()}


def change(lake: ColumnLake, **to: str) -> None:
    """Rows that change at the source without a new id; ``_1="x"`` is row 1."""
    for row in lake.rows:
        row["note"] = to.get(f"_{row['id']}", row["note"])
    lake.save()


def test_rows_below_the_watermark_come_again_by_a_filter_and_at_it_by_the_operator(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = ColumnLake(tmp_path, sink_settings=MERGE)
    lake.arrive({"id": 1, "note": "open"}, {"id": 2, "note": "old"}, {"id": 3, "note": "old"})
    assert run(lake.config).ok
    change(lake, _1="open", _2="lost", _3="seen")
    lake.arrive({"id": 4, "note": "new"})
    lake.source_settings = {"watermark_filter": f"{MINE}:new_or_open", "watermark_operator": ">="}
    assert run(lake.config).ok
    assert notes(spark, lake) == {1: "open", 2: "old", 3: "seen", 4: "new"}


class Narrow(DataFlow):
    """Replaces the last two values alone."""

    def apply_watermark_window(self, source_runtime: Any) -> Any:
        upper = source_runtime.watermark_after["id"]
        self.watermark_window = {"id": (upper - 1, upper)}
        return self.watermark_window


def test_only_the_window_of_the_dataflow_is_replaced(spark: SparkSession, tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path, {"backward_value": 3}, {**REPLACE, "max_delete_fraction": 1})
    lake.arrive(*({"id": number, "note": "old"} for number in (1, 2, 3, 4)))
    assert run(lake.config).ok
    lake.rows = [row for row in lake.rows if row["id"] == 4]
    lake.save()
    flow = Narrow(lake.config, "orders")
    assert flow.run().ok
    assert flow.watermark_window == {"id": (3, 4)}
    assert sorted(notes(spark, lake)) == [1, 2, 4]
    assert DataFlow(lake.config, "orders").run().ok
    assert sorted(notes(spark, lake)) == [4]
