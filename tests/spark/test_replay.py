"""A replay whose files are read by Spark tasks; Spark reads the table back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidegate
from support.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_spark_sees_the_replaced_rows_once_and_the_position_in_the_history(spark: SparkSession, tmp_path: Path) -> None:
    settings = {"spark": {"master": "local[2]"}}
    lake = Lake(tmp_path, sink_settings={"metadata_columns": ["_source_file"]}, settings=settings)
    for number in range(4):
        lake.arrive(f"date=2026-01-28/{number}.ndjson.gz")
    assert tidegate.run(lake.config).ok
    lake.write("date=2026-01-28/2.ndjson.gz", '{"id": 1000}\n{"id": 1001}\n')
    report = tidegate.replay(lake.config, "events", files="date=2026-01-28/2.*")
    assert (report.rows_removed, report.rows_written, report.version) == (10, 2, 2)
    found = spark.read.format("delta").load(str(lake.root / "lake/events"))
    ids = sorted(row["id"] for row in found.select("id").collect())
    assert ids == [*range(20), *range(30, 40), 1000, 1001]
    history = spark.sql(f"describe history delta.`{lake.root}/lake/events`").collect()
    mark = json.loads(history[0]["userMetadata"])["tidegate"][0]
    assert (mark["source"], mark["version"]) == ("default", 2)
    assert tidegate.run(lake.config).sources[0].files == 0
