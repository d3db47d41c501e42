"""Watermarks as conditions over a DataFrame, and the greatest values of one.

A stored watermark, a bound of a replay and a column may each have a zone, have none, or be a whole day. They are
brought together here, once, by ``source_timezone`` and never by the zone of a machine or a session. A day is its
midnight. What cannot be compared in order is refused.

The condition is the text that the planner shows, in Spark's own language with typed values, so that a scan takes it as
it is and no zone of a machine or a session has a say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from difflib import get_close_matches
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from tidegate.core.columns.predicates import (
    EXCLUSIVE,
    INCLUSIVE,
    Bound,
    ColumnRange,
    RowFilter,
    SqlDialect,
    predicate,
    quote,
)
from tidegate.errors import ConfigError, SchemaMismatch, SourceError
from tidegate.schema.names import spell
from tidegate.sources.reader import GreatestValues
from tidegate.specs.columns import NullWatermark, Value, Watermark, WatermarkMode

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType


def column_named(name: str, names: Sequence[str], source: str) -> str:
    """``name`` as the source spells it: exactly, or the only one that differs in case."""
    try:
        found = spell(name, names)
    except SchemaMismatch as error:
        raise SourceError(f"{source}: there is no column {name!r} alone: {error.problem}", error.remedy) from error
    if found in names:
        return found
    near = get_close_matches(name, names, 1)
    remedy = f"did you mean {near[0]!r}?" if near else f"its columns are {', '.join(names)}"
    raise SourceError(f"{source}: there is no column {name!r}", remedy)


def fitted(rows: RowFilter, schema: StructType, timezone: str, source: str) -> RowFilter:
    """``rows`` with the names and for the types of ``schema``; raises where a bound and its column do not compare."""
    kinds = {field.name: field.dataType for field in schema}
    ranges = []
    for each in rows.ranges:
        name = column_named(each.column, schema.names, source)
        ranges.append(_fitted_range(replace(each, column=name), kinds[name], ZoneInfo(timezone), source))
    return replace(rows, ranges=tuple(ranges))


def kinds_of_times(columns: Sequence[str], schema: StructType, source: str) -> dict[str, str]:
    """Which of these columns hold times, and of which kind."""
    from pyspark.sql.types import DateType, TimestampNTZType, TimestampType

    words: dict[type, str] = {TimestampType: "datetime", TimestampNTZType: "datetime_naive", DateType: "date"}
    held = {field.name: words.get(type(field.dataType)) for field in schema}
    found = {column: held[column_named(column, schema.names, source)] for column in columns}
    return {column: kind for column, kind in found.items() if kind is not None}


def _fitted_range(wanted: ColumnRange, kind: DataType, zone: ZoneInfo, source: str) -> ColumnRange:
    from pyspark.sql.types import DateType, TimestampNTZType, TimestampType

    if isinstance(kind, DateType):
        wanted = replace(wanted, lower=_as_day(wanted.lower, zone), upper=_as_day(wanted.upper, zone, is_upper=True))
    elif isinstance(kind, TimestampType | TimestampNTZType):
        _refuse_day(wanted, source)
        aware = isinstance(kind, TimestampType)
        wanted = replace(
            wanted, lower=_as_time(wanted.lower, zone, aware=aware), upper=_as_time(wanted.upper, zone, aware=aware)
        )
    for bound in (wanted.lower, wanted.upper):
        if bound is not None:
            _check(bound.value, wanted.column, kind, source)
    return wanted


def _as_day(bound: Bound | None, zone: ZoneInfo, *, is_upper: bool = False) -> Bound | None:
    """A bound for a column of days: a time within a day lies above that day's midnight and below the next."""
    if bound is None or not isinstance(bound.value, datetime):
        return bound
    local = bound.value if bound.value.tzinfo is None else bound.value.astimezone(zone)
    is_midnight = local.time() == time()
    return Bound(local.date(), bound.inclusive if is_midnight else is_upper)


def _as_time(bound: Bound | None, zone: ZoneInfo, *, aware: bool) -> Bound | None:
    """A bound for a column of times, with a zone (``aware``) or without."""
    if bound is None or not isinstance(bound.value, date):
        return bound
    value = bound.value if isinstance(bound.value, datetime) else datetime.combine(bound.value, time())
    if aware and value.tzinfo is None:
        value = value.replace(tzinfo=zone)
    elif not aware and value.tzinfo is not None:
        value = value.astimezone(zone).replace(tzinfo=None)
    return replace(bound, value=value)


def _refuse_day(wanted: ColumnRange, source: str) -> None:
    """After a whole day nothing tells which of its times were read."""
    lower = wanted.lower
    if lower is not None and not lower.inclusive and _name(lower.value) == "date":
        raise SourceError(
            f"{source}: the watermark of {wanted.column!r} is the day {lower.value}, but the column holds times",
            f"set the watermark with 'tidegate watermark set', such as {lower.value}T23:59:59+00:00",
        )


def _check(value: Value, column: str, kind: DataType, source: str) -> None:
    from pyspark.sql.types import BooleanType, DateType, NumericType, StringType, TimestampNTZType, TimestampType

    held = {
        NumericType: ("int", "float", "Decimal"),
        StringType: ("str",),
        TimestampType: ("datetime",),
        TimestampNTZType: ("datetime",),
        DateType: ("date",),
        BooleanType: ("bool",),
    }
    allowed = next((names for type_, names in held.items() if isinstance(kind, type_)), ())
    if _name(value) in allowed:
        return
    if isinstance(kind, StringType) and isinstance(value, int | float | Decimal):
        remedy = "text does not sort as numbers do ('9' is above '10'): use a query that casts the column"
    else:
        remedy = "use a query that casts the column, or move the watermark with 'tidegate watermark set'"
    raise SourceError(
        f"{source}: the watermark of {column!r} is {value!r}, but the column holds {kind.simpleString()}", remedy
    )


def _name(value: Value) -> str:
    return type(value).__name__


def named(column: str) -> Column:
    """A column by its name, whatever is in that."""
    from pyspark.sql.functions import col

    return col(quote(column, SqlDialect.SPARK))


def condition(rows: RowFilter) -> Column | None:
    """The rows as a condition; None where every row is wanted. Raises nothing: Spark looks when it is used."""
    from pyspark.sql.functions import expr

    text = predicate(rows, SqlDialect.SPARK)
    return None if text is None else expr(text)


def with_nulls(rows: RowFilter) -> RowFilter:
    """The same rows and, to be counted, those with null where a watermark should be."""
    return replace(rows, nulls=NullWatermark.INCLUDE)


def filtered(frame: DataFrame, rows: RowFilter) -> DataFrame:
    """The rows of ``frame`` that match."""
    wanted = condition(rows)
    return frame if wanted is None else frame.where(wanted)


def apply_watermark_filter(
    frame: DataFrame,
    watermark: Watermark | None,
    watermark_operator: str = EXCLUSIVE,
    *,
    rows: RowFilter | None = None,
) -> DataFrame:
    """The rows above ``watermark`` in one of its columns; all of them where it is empty.

    A column whose value is None was never seen filled: whatever is filled is new. Runs give ``rows``: the same bounds
    with everything else that they want of a read, its end among it.
    """
    if rows is not None:
        return filtered(frame, rows)
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
    return filtered(frame, RowFilter(ranges))


def greatest_of(frame: DataFrame, columns: Sequence[str], mode: WatermarkMode = WatermarkMode.ANY) -> GreatestValues:
    """The greatest value of each column, or the greatest tuple, by one aggregate over all rows of ``frame``."""
    from pyspark.sql import functions as f

    if not columns:
        return GreatestValues()
    found_in = [named(each) for each in columns]
    nulls = [each.isNull() for each in found_in]
    is_tuple = mode is WatermarkMode.TUPLE
    unknown = nulls[0]
    for each in nulls[1:]:
        unknown = unknown | each if is_tuple else unknown & each
    if is_tuple:
        whole = f.struct(*(each.alias(f"g{index}") for index, each in enumerate(found_in)))
        found = [f.max(f.when(~unknown, whole)).alias("greatest")]
        picked = [f.col(f"greatest.g{index}").alias(f"g{index}") for index in range(len(columns))]
    else:
        found = [f.max(each).alias(f"g{index}") for index, each in enumerate(found_in)]
        picked = [f.col(f"g{index}") for index in range(len(columns))]
    row = collected(frame.agg(*found, f.count_if(unknown).alias("nulls")).select(*picked, "nulls"))[0]
    return GreatestValues({column: row[f"g{index}"] for index, column in enumerate(columns)}, count_in(row["nulls"]))


def collected(frame: DataFrame) -> list[dict[str, Value | None]]:
    """A few rows as Python values; times are those of the data, whatever zones session and machine are in."""
    return [{name: _in_utc(value) for name, value in row.items()} for row in frame.toArrow().to_pylist()]


def count_in(value: Value | None) -> int:
    """A count, which some databases give as a decimal, and as null where there was nothing to count."""
    return int(value or 0)  # type: ignore[arg-type]  # a number


def _in_utc(value: Value | None) -> Value | None:
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo is not None else value
