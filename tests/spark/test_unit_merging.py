"""Work units whose rows are told apart by keys, read in any order: the newest row of a key stays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from spark.unit_tables import UnitTable
from tidegate.specs.columns import Load, LoadType
from tidegate.specs.units import Replace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_an_older_work_unit_that_is_read_later_takes_no_newer_row(spark: SparkSession, tmp_path: Path) -> None:
    columns = {"id": pa.int64(), "t": pa.timestamp("us", "UTC"), "revision": pa.int64()}
    table = UnitTable(spark, tmp_path, columns, replace=Replace.MERGE_KEYS, time_column="t")
    load = Load(LoadType.MERGE_UPSERT, merge_keys=("id",), tie_break=("revision",))
    table.pipeline = replace(table.pipeline, sink=replace(table.pipeline.sink, load=load))
    table.append({"a": [(0, 1, 200, 5), (0, 2, 200, 5), (0, 3, 200, 5), (0, 4, None, None)]})
    late = [(0, 1, 100, 9), (0, 2, 200, 4), (0, 3, 200, 6), (0, 4, 100, 1), (0, 5, 100, 1), (0, 5, 90, 2)]
    table.replace({"a": late})
    assert table.rows("id", "revision") == [(1, 5), (2, 5), (3, 6), (4, 1), (5, 1)]
