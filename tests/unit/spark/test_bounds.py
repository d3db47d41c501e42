"""Bounds meet columns: names in the source's spelling, types that compare, zones by ``source_timezone`` alone."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from pyspark.sql.types import (
    DataType,
    DateType,
    DecimalType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from support.errors import raises
from tidegate.core.columns.predicates import Bound, ColumnRange, RowFilter
from tidegate.errors import SourceError
from tidegate.spark.filters import fit_to_schema
from tidegate.specs.columns import Value

BERLIN = "Europe/Berlin"


def schema(**kinds: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


def fit(kind: DataType, lower: Bound | None = None, upper: Bound | None = None) -> ColumnRange:
    (found,) = fit_to_schema(RowFilter((ColumnRange("c", lower, upper),)), schema(c=kind), BERLIN, "orders").ranges
    return found


def test_names_are_those_of_the_source() -> None:
    columns = schema(ID=LongType(), Name=StringType(), name=StringType())
    (found,) = fit_to_schema(RowFilter((ColumnRange("id", Bound(1)),)), columns, "UTC", "orders").ranges
    assert found.column == "ID"
    with raises(SourceError, "orders", "'NAME'", "'Name'", "'name'"):
        fit_to_schema(RowFilter((ColumnRange("NAME"),)), columns, "UTC", "orders")
    with raises(SourceError, "orders", "'IDD'", "'ID'"):
        fit_to_schema(RowFilter((ColumnRange("IDD"),)), columns, "UTC", "orders")


NOON = datetime(2026, 7, 1, 12)
AWARE = datetime(2026, 7, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (TimestampType(), AWARE, AWARE),
        (TimestampType(), NOON, AWARE),
        (TimestampNTZType(), NOON, NOON),
        (TimestampNTZType(), AWARE, NOON),
        (LongType(), 5, 5),
        (LongType(), Decimal("5.5"), Decimal("5.5")),
        (DecimalType(10, 2), 5, 5),
        (StringType(), "x", "x"),
        (DateType(), date(2026, 7, 1), date(2026, 7, 1)),
    ],
)
def test_a_value_is_brought_to_the_kind_of_its_column(kind: DataType, value: Value, expected: Value) -> None:
    found = fit(kind, Bound(value), Bound(value, inclusive=True))
    assert found.lower == Bound(expected)
    assert found.upper == Bound(expected, inclusive=True)


def test_a_day_is_its_midnight_where_the_column_holds_times() -> None:
    day = Bound(date(2026, 7, 1), inclusive=True)
    assert fit(TimestampNTZType(), day).lower == Bound(datetime(2026, 7, 1), inclusive=True)
    found = fit(TimestampType(), day, Bound(date(2026, 7, 2)))
    assert found.lower is not None
    assert found.upper is not None
    assert found.lower.value == datetime(2026, 6, 30, 22, tzinfo=UTC)
    assert found.upper == Bound(found.upper.value)
    assert found.upper.value == datetime(2026, 7, 1, 22, tzinfo=UTC)


def test_after_a_whole_day_nobody_knows_which_times_were_read() -> None:
    with raises(SourceError, "orders", "'c'", "2026-07-01", "tidegate watermark set"):
        fit(TimestampType(), Bound(date(2026, 7, 1)))


@pytest.mark.parametrize("inclusive", [True, False])
def test_a_time_within_a_day_lies_above_that_day(inclusive: bool) -> None:
    day = date(2026, 7, 1)
    found = fit(DateType(), Bound(NOON, inclusive), Bound(NOON, inclusive))
    assert (found.lower, found.upper) == (Bound(day), Bound(day, inclusive=True))
    midnight = Bound(datetime(2026, 6, 30, 22, tzinfo=UTC), inclusive)
    assert fit(DateType(), midnight, midnight).lower == Bound(day, inclusive)


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (StringType(), 5, "string … '9' … '10'"),
        (LongType(), "5", "bigint … tidegate watermark set"),
        (LongType(), True, "bigint … tidegate watermark set"),
        (TimestampType(), 5, "timestamp … tidegate watermark set"),
        (DateType(), "2026-07-01", "date … tidegate watermark set"),
        (StringType(), NOON, "string … tidegate watermark set"),
    ],
)
def test_what_does_not_compare_is_refused(kind: DataType, value: Value, said: str) -> None:
    for lower, upper in ((Bound(value), None), (None, Bound(value))):
        with raises(SourceError, "orders", "'c'", repr(value), said):
            fit(kind, lower, upper)
