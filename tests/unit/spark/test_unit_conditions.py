"""Which rows give way to work units that are read again, in SQL; no Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from support.errors import raises
from tidegate.errors import SchemaMismatch
from tidegate.spark.loading.strategies import ReplaceUnits, first_day
from tidegate.specs.columns import FunctionRead
from tidegate.specs.units import Replace, UnitSource
from tidegate.tasks.unit_task import ReplacedUnit

DAY = 86_400_000
BERLIN = "Europe/Berlin"


def condition(kind: pa.DataType, *replaced: ReplacedUnit, by: Replace = Replace.TIME_COLUMN, zone: str = "UTC") -> str:
    source = UnitSource("api", FunctionRead("m:f"), replace=by, time_column="t", timezone=zone)
    columns = pa.schema(
        [("_tidegate_unit", pa.string()), ("_tidegate_segment", pa.timestamp("us", "UTC")), ("t", kind)]
    )
    return ReplaceUnits(source, replaced, "p/api").condition(columns)


def test_units_with_one_range_share_it() -> None:
    replaced = (ReplacedUnit("a", 0, DAY), ReplacedUnit("b'", 0, DAY), ReplacedUnit("c", DAY, 2 * DAY))
    assert condition(pa.int64(), *replaced, by=Replace.SEGMENTS) == (
        "((`_tidegate_unit` IN ('a') OR `_tidegate_unit` IN ('b\\'')) AND "
        "`_tidegate_segment` >= TIMESTAMP_LTZ '1970-01-01 00:00:00+00:00' AND "
        "`_tidegate_segment` < TIMESTAMP_LTZ '1970-01-02 00:00:00+00:00') OR "
        "((`_tidegate_unit` IN ('c')) AND "
        "`_tidegate_segment` >= TIMESTAMP_LTZ '1970-01-02 00:00:00+00:00' AND "
        "`_tidegate_segment` < TIMESTAMP_LTZ '1970-01-03 00:00:00+00:00')"
    )


def test_very_many_units_are_compared_in_lists_of_neighbours() -> None:
    text = condition(pa.int64(), *(ReplacedUnit(f"{each:04}", 0, DAY) for each in range(999, -1, -1)), by=Replace.UNIT)
    assert text.startswith(
        "((`_tidegate_unit` IN ('0000', '0001', '0002', '0003', '0004') OR `_tidegate_unit` IN ('0005'"
    )
    assert text.count(" IN ") == 200


def test_a_time_column_is_compared_by_its_type() -> None:
    one = ReplacedUnit("a", DAY, 2 * DAY)
    assert "`t` >= TIMESTAMP_LTZ '1970-01-02 00:00:00+00:00'" in condition(pa.timestamp("us", "UTC"), one)
    assert "`t` >= DATE '1970-01-02' AND `t` < DATE '1970-01-03'" in condition(pa.date32(), one)
    local = condition(pa.timestamp("us"), one, zone=BERLIN)
    assert "convert_timezone('Europe/Berlin', 'UTC', `t`) >= TIMESTAMP_NTZ '1970-01-02 00:00:00'" in local
    assert "`t` >= TIMESTAMP_NTZ '1970-01-01 01:00:00' AND `t` < TIMESTAMP_NTZ '1970-01-04 01:00:00'" in local
    with raises(SchemaMismatch, "p/api", "'t'", "string", "source.replace"):
        condition(pa.string(), one)


def test_a_table_by_somebody_else_is_refused() -> None:
    source = UnitSource("api", FunctionRead("m:f"))
    with raises(SchemaMismatch, "p/api", "'_tidegate_unit'", "source.replace: merge_keys"):
        ReplaceUnits(source, (ReplacedUnit("a", 0, 1),), "p/api").condition(pa.schema([("v", pa.int64())]))


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (datetime(2026, 2, 20, 23, tzinfo=UTC), date(2026, 2, 21)),
        (datetime(2026, 2, 20, 22, 59, tzinfo=UTC), date(2026, 2, 21)),
        (datetime(2026, 2, 20, 23, 1, tzinfo=UTC), date(2026, 2, 22)),
    ],
)
def test_a_day_belongs_to_the_range_that_has_its_midnight(moment: datetime, expected: date) -> None:
    assert first_day(int(moment.timestamp() * 1000), BERLIN) == expected
