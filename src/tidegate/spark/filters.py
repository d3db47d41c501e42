"""Watermarks as conditions over a DataFrame, and the greatest values of one.

The condition is the text that the planner shows, in Spark SQL with typed values, so that a scan uses it unchanged and
no zone of a machine or a session matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidegate.core.columns.predicates import (
    EXCLUSIVE,
    INCLUSIVE,
    Bound,
    ColumnRange,
    RowFilter,
    predicate,
)
from tidegate.core.dialects.dialect import SPARK
from tidegate.errors import ConfigError
from tidegate.sources.reader import GreatestValues, fit_bounds
from tidegate.specs.columns import NullWatermark, Value, Watermark, WatermarkMode

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType


def fit_to_schema(rows: RowFilter, schema: StructType, timezone: str, source: str) -> RowFilter:
    """``rows`` with the names and types of ``schema``; raises if a bound and its column do not compare."""
    return fit_bounds(rows, kinds_in(schema), timezone, source)


def kinds_in(schema: StructType) -> dict[str, str]:
    """The types of columns, with Spark's names."""
    return {field.name: field.dataType.simpleString() for field in schema}


def exact_column(column: str) -> Column:
    from pyspark.sql.functions import col

    return col(SPARK.quote(column))


def include_nulls(rows: RowFilter) -> RowFilter:
    """The same rows plus, for counting, those with null instead of a watermark."""
    return replace(rows, nulls=NullWatermark.INCLUDE)


def filter_rows(frame: DataFrame, rows: RowFilter) -> DataFrame:
    """The matching rows of ``frame``; Spark checks the condition on use."""
    wanted = predicate(rows, SPARK)
    return frame if wanted is None else frame.where(wanted)


def apply_watermark_filter(
    frame: DataFrame,
    watermark: Watermark | None,
    watermark_operator: str = EXCLUSIVE,
    *,
    rows: RowFilter | None = None,
) -> DataFrame:
    """The rows above ``watermark`` in one of its columns; all of them if it is empty.

    A column whose value is None was never seen filled: any value is new. Runs give ``rows``: the same bounds with
    everything else about a read, including its end.
    """
    if rows is not None:
        return filter_rows(frame, rows)
    if watermark_operator not in (EXCLUSIVE, INCLUSIVE):
        raise ConfigError((f"watermark_operator is {watermark_operator!r}; it is '>' or '>='",))
    known = dict(watermark or {})
    if all(value is None for value in known.values()):
        return frame
    inclusive = watermark_operator == INCLUSIVE
    ranges = tuple(
        ColumnRange(column, any_value=True) if value is None else ColumnRange(column, Bound(value, inclusive))
        for column, value in sorted(known.items())
    )
    return filter_rows(frame, RowFilter(ranges))


def greatest_of(frame: DataFrame, columns: Sequence[str], mode: WatermarkMode = WatermarkMode.ANY) -> GreatestValues:
    """The greatest value of each column, or the greatest tuple, by one aggregate over all rows of ``frame``."""
    from pyspark.sql import functions as f

    if not columns:
        return GreatestValues()
    found_in = [exact_column(column) for column in columns]
    nulls = [each.isNull() for each in found_in]
    is_tuple = mode is WatermarkMode.TUPLE
    unknown = nulls[0]
    for null in nulls[1:]:
        unknown = unknown | null if is_tuple else unknown & null
    if is_tuple:
        # Spark compares structs field by field, as a tuple is compared.
        whole = f.struct(*(each.alias(f"g{index}") for index, each in enumerate(found_in)))
        found = [f.max(f.when(~unknown, whole)).alias("greatest")]
        picked = [f.col(f"greatest.g{index}").alias(f"g{index}") for index in range(len(columns))]
    else:
        found = [f.max(each).alias(f"g{index}") for index, each in enumerate(found_in)]
        picked = [f.col(f"g{index}") for index in range(len(columns))]
    row = collect_rows(frame.agg(*found, f.count_if(unknown).alias("nulls")).select(*picked, "nulls"))[0]
    return GreatestValues({column: row[f"g{index}"] for index, column in enumerate(columns)}, count_in(row["nulls"]))


def collect_rows(frame: DataFrame) -> list[dict[str, Value | None]]:
    """A few rows as Python values; times are those of the data, whatever the zones of session and machine."""
    # Through Arrow: `collect` would shift times to the zone of this machine.
    return [
        {
            name: value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo is not None else value
            for name, value in row.items()
        }
        for row in frame.toArrow().to_pylist()
    ]


def count_in(value: Value | None) -> int:
    """A count, which some databases return as a decimal, and as null if there was nothing to count."""
    return int(value or 0)  # type: ignore[arg-type]  # a number
