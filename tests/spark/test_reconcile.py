"""Late files read by Spark tasks, and tables that Spark compacted, through the public function."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidegate
from support.lake import Lake
from support.reconciling import DAY, leave_behind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_late_files_are_read_once_and_what_spark_compacted_is_no_orphan(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(tmp_path, source_settings={"late_window": 1}, settings={"spark": {"master": "local[2]"}})
    for number in range(10, 14):
        lake.arrive(f"d=1/{number}.ndjson")
        assert lake.run().ok
    lake.arrive("d=1/10-late.ndjson")
    lake.arrive("d=1/11-late.ndjson.gz")
    first = tidegate.reconcile(lake.config, ingest=True)
    assert (first.ok, first.sources[0].ingested_files, first.sources[0].ingested_rows) == (True, 2, 20)
    assert tidegate.reconcile(lake.config, ingest=True).sources[0].commits == 0
    lake.assert_exactly_once()

    table = lake.root / "lake" / "events"
    spark.sql(f"optimize delta.`{table}`").collect()
    left = leave_behind(table)
    for path in table.glob("*.parquet"):
        moment = path.stat().st_mtime - 2 * DAY.total_seconds()
        os.utime(path, (moment, moment))
    report = tidegate.reconcile(lake.config, clean=True)
    assert [each.path for each in report.tables[0].removed.files] == [left.name]
    assert (report.ok, report.tables[0].foreign.count) == (True, 0)
    lake.assert_exactly_once()
    assert spark.read.format("delta").option("versionAsOf", 4).load(str(table)).count() == 60
