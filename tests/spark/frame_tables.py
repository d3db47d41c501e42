"""Tables with features that only Spark honours, and questions to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FEATURES = {
    "columnMapping": ("id bigint not null, ts timestamp, event string", "'delta.columnMapping.mode' = 'name'"),
    "checkConstraints": ("id bigint not null, ts timestamp, event string", "'delta.constraints.small' = 'id < 1000'"),
    "generatedColumns": ("id bigint, ts timestamp, event string, day date generated always as (cast(ts as date))", ""),
    "typeWidening": ("id int, ts timestamp, event string", "'delta.enableTypeWidening' = 'true'"),
    "rowTracking": ("id bigint, ts timestamp, event string", "'delta.enableRowTracking' = 'true'"),
    "inCommitTimestamp": (
        "id bigint, ts timestamp, event string, kind string default 'new', n bigint generated always as identity",
        "'delta.enableInCommitTimestamps' = 'true', 'delta.feature.allowColumnDefaults' = 'supported'",
    ),
}
"""Columns and properties of a table with each feature."""


def create(spark: SparkSession, lake: Lake, feature: str) -> str:
    """A table with that feature where the lake's pipeline writes; its path."""
    path = str(lake.root / "lake/events")
    columns, properties = FEATURES[feature]
    with_properties = f"tblproperties ({properties})" if properties else ""
    spark.sql(f"create table delta.`{path}` ({columns}) using delta {with_properties}")
    if feature == "typeWidening":
        spark.sql(f"insert into delta.`{path}` values (-1, null, 'old')")
        spark.sql(f"alter table delta.`{path}` alter column id type bigint")
    return path


def rows(spark: SparkSession, lake: Lake) -> list[dict[str, Any]]:
    """All rows that the pipeline wrote, by id."""
    found = spark.read.format("delta").load(str(lake.root / "lake/events")).where("id >= 0")
    return sorted((row.asDict() for row in found.collect()), key=lambda row: int(row["id"]))
