"""Load strategies through whole runs on Spark: repeated runs, sources that change; for kills see test_column_kills."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.column_loads import LOOK_BACK, go, lake_of, row, table

pytestmark = pytest.mark.spark


def test_rows_that_left_the_window_of_the_source_leave_the_table(spark: SparkSession, tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "window")
    lake.arrive(row(1, 0), row(2, 4), row(3, 5), row(4, 6), row(5, 6))
    go(lake)
    lake.rows = [row(1, 0), row(2, 4), row(4, 6), row(5, 6)]
    lake.save()
    go(lake)
    assert [number for number, _ in table(lake)] == [1, 2, 4, 5]


def test_a_run_that_finds_the_same_rows_again_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "merge_upsert")
    lake.arrive(row(1, 0), row(2, 1))
    go(lake)
    before = table(lake)
    go(lake)
    assert table(lake) == before


def test_a_new_column_and_a_null_in_the_watermark_are_taken_as_configured(spark: SparkSession, tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "merge_upsert")
    lake.source_settings = {**LOOK_BACK, "null_watermark": "include"}
    lake.arrive(row(1, 0), {"id": 2, "at": None, "note": "no time"})
    go(lake)
    go(lake)
    assert table(lake) == [(1, "new"), (2, "no time")]
