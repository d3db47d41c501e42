"""Times that lie ahead are no watermark: rows that have them wait, and what is stored already is refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from support.errors import raises
from tidegate.core.columns.planner import (
    ColumnPlan,
    cap_plan,
    caps_ahead,
    find_stored_ahead,
    fix_bounds,
    plan_columns,
    rows_ahead,
)
from tidegate.core.columns.predicates import RowFilter, predicate
from tidegate.core.columns.state import ColumnState
from tidegate.core.dialects.dialect import Dialect
from tidegate.errors import WatermarkError
from tidegate.specs.columns import ColumnSource, FunctionRead, Load, LoadType, Value, WatermarkMode

NOW = datetime(2026, 3, 8, 22, tzinfo=UTC)
HORIZON = NOW + timedelta(days=1)
FAR = datetime(9999, 12, 31, tzinfo=UTC)


def source(*columns: str, **changes: Any) -> ColumnSource:
    return ColumnSource("orders", FunctionRead("shop:orders"), watermark_columns=columns, **changes)


def planned(given: ColumnSource, stored: dict[str, Any] | None = None, load: Load | None = None) -> ColumnPlan:
    state = None if stored is None else ColumnState(stored)
    return plan_columns("shop", given, load or Load(LoadType.MERGE_UPSERT), state, 1, NOW)


def text(rows: RowFilter) -> str:
    return (predicate(rows, Dialect()) or "").replace('"', "")


@pytest.mark.parametrize(
    ("value", "latest"),
    [
        (FAR, HORIZON),
        (datetime(9999, 12, 31), datetime(2026, 3, 10, 7)),
        (date(9999, 12, 31), date(2026, 3, 10)),
        (HORIZON, None),
        (datetime(2026, 3, 10, 7), None),
        (date(2026, 3, 10), None),
        (99991231, None),
        (None, None),
    ],
)
def test_a_time_beyond_now_and_a_day_is_no_watermark(value: Value | None, latest: Value | None) -> None:
    plan = planned(source("u", source_timezone="Asia/Tokyo"))
    assert caps_ahead(plan, {"u": value}) == ({} if latest is None else {"u": latest})


def test_rows_ahead_wait_and_the_others_are_read_up_to_their_own_greatest_value() -> None:
    plan = planned(source("u", filter_expression="x"), {"u": NOW})
    caps = caps_ahead(plan, {"u": FAR})
    assert text(rows_ahead(plan, caps)) == "u > TIMESTAMP '2026-03-09 22:00:00+00:00' AND (x)"
    due = cap_plan(plan, caps)
    assert "u <= TIMESTAMP '2026-03-09 22:00:00+00:00'" in text(due.reads)
    seen = NOW + timedelta(hours=1)
    assert fix_bounds(due, ColumnState({"u": NOW}), {"u": seen}).state.values == {"u": seen}
    assert fix_bounds(due, ColumnState({"u": NOW}), {"u": None}).nothing


def test_of_a_cursor_the_first_column_counts_and_of_others_each() -> None:
    cursor = planned(source("u", "v", mode=WatermarkMode.TUPLE))
    assert caps_ahead(cursor, {"u": NOW, "v": FAR}) == {}
    assert caps_ahead(cursor, {"u": FAR, "v": NOW}) == {"u": HORIZON}
    both = planned(source("u", "v"))
    assert caps_ahead(both, {"u": FAR, "v": FAR}) == {"u": HORIZON, "v": HORIZON}
    assert text(rows_ahead(both, {"u": HORIZON, "v": HORIZON})).count(" OR ") == 1


def test_the_guard_is_off_where_it_is_switched_off_or_nothing_is_limited() -> None:
    assert caps_ahead(planned(source("u", future_tolerance=None)), {"u": FAR}) == {}
    assert caps_ahead(planned(source("u"), load=Load(LoadType.OVERWRITE)), {"u": FAR}) == {}
    lag = planned(source("u", safety_lag=timedelta(hours=1)))
    assert (lag.horizon, caps_ahead(lag, {"u": FAR})) == (None, {})
    assert fix_bounds(lag, None, {"u": FAR}).state.values == {"u": NOW - timedelta(hours=1)}
    wide = planned(source("u", future_tolerance=timedelta(days=30)))
    assert caps_ahead(wide, {"u": NOW + timedelta(days=29)}) == {}


@pytest.mark.parametrize("value", [FAR, datetime(9999, 12, 31), date(9999, 12, 31), "9999-12-31", "9999-12-31T00:00Z"])
def test_a_stored_watermark_that_lies_ahead_is_refused_with_the_way_out(value: Value) -> None:
    with raises(WatermarkError, "shop/orders", "u", value, "tidegate watermark set", "future_tolerance: none"):
        planned(source("u"), {"u": value})
    assert planned(source("u", future_tolerance=None), {"u": value}).stored == {"u": value}
    assert planned(source("u"), {"u": value}, Load(LoadType.OVERWRITE)).full
    assert len(list(find_stored_ahead(source("u"), {"u": value}, NOW))) == 1


@pytest.mark.parametrize("value", ["9999-12-31", "9999-12-31T23:59:59Z", "2026-03-10 23:00:00"])
def test_a_text_that_is_a_time_ahead_stops_the_read(value: str) -> None:
    with raises(WatermarkError, "shop/orders", "'u'", "future_tolerance", "2026-03-09T22:00:00+00:00", "timestamp"):
        fix_bounds(planned(source("u")), None, {"u": value})


@pytest.mark.parametrize("value", ["9999", "9999-12", "99991231", "9999-99-99", "2026-03-09T22:00:00Z", "Z-9999-12-31"])
def test_other_texts_are_texts(value: str) -> None:
    plan = planned(source("u"), {"u": "a"})
    assert caps_ahead(plan, {"u": value}) == {}
    if not value.isdigit():
        assert fix_bounds(plan, None, {"u": value}).state.values == {"u": value}
