"""Columns that were widened, named with a dot, added by Spark and rescued: read back by Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidegate
from support.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_spark_reads_what_was_widened_and_what_was_rescued(spark: SparkSession, tmp_path: Path) -> None:
    odd = [
        {"name": "user.name", "type": "string"},
        {"name": "u", "type": "struct", "fields": [{"name": "n", "type": "int32"}]},
    ]
    lake = Lake(tmp_path, settings={"spark": {"master": "local[2]"}})
    lake.schema = {"fields": [{"name": "id", "type": "int32"}, *odd], "rescued": True}
    lake.write("d/1.ndjson", '{"id": 1, "user.name": "ann", "u": {"n": 7}}\n{"id": 2, "u": {"n": "x"}, "more": 1.50}\n')
    assert tidegate.run(lake.config).ok
    assert tidegate.widen_table(lake.config, "events", column="u.n", to="int64").applied
    spark.sql(f"alter table delta.`{tmp_path}/lake/events` add columns (extra string)")
    lake.write("d/2.ndjson", '{"id": 3, "u": {"n": 4}}\n')
    assert tidegate.run(lake.config).ok
    found = spark.read.format("delta").load(str(tmp_path / "lake/events"))
    assert dict(found.dtypes)["u"] == "struct<n:bigint>"
    rows = {row["id"]: row for row in found.collect()}
    assert (rows[1]["user.name"], rows[1]["u"]["n"], rows[1]["_rescued"]) == ("ann", 7, None)
    assert (rows[2]["u"]["n"], rows[2]["_rescued"]) == (None, '{"u.n":"x","more":1.50}')
    assert (rows[3]["u"]["n"], rows[3]["extra"]) == (4, None)
    assert found.where("`user.name` = 'ann' and u.n > 6").count() == 1
