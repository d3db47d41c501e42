"""Planning a column source: where a read begins, where it ends, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from support.errors import raises
from tidegate.core.columns.planner import ColumnPlan, ReadBounds, fix_bounds, plan_columns
from tidegate.core.columns.predicates import Bound, predicate
from tidegate.core.columns.replay import Chunk
from tidegate.core.columns.state import ColumnState
from tidegate.core.dialects.dialect import Dialect
from tidegate.errors import WatermarkError
from tidegate.specs.columns import (
    ColumnSource,
    FunctionRead,
    JdbcRead,
    Load,
    LoadType,
    LookBack,
    NullWatermark,
    Value,
    WatermarkMode,
)

NOW = datetime(2026, 3, 8, 12, tzinfo=UTC)
MERGE = Load(LoadType.MERGE_UPSERT, merge_keys=("id",))
WINDOW = Load(LoadType.MERGE_OVERWRITE, merge_keys=("id",), replace_by_watermark=True)


def source(*columns: str, **changes: Any) -> ColumnSource:
    return ColumnSource("orders", FunctionRead("shop:orders"), watermark_columns=columns, **changes)


def planned(
    given: ColumnSource, state: ColumnState | None = None, load: Load | None = None, **changes: Any
) -> ColumnPlan:
    return plan_columns("shop", given, load or Load(), state, 1, NOW, **changes)


def fixing(
    given: ColumnSource, stored: dict[str, Any] | None, seen: dict[str, Any], load: Load | None = None
) -> ReadBounds:
    state = None if stored is None else ColumnState(stored)
    return fix_bounds(planned(given, state, load), state, seen)


def text(found: ColumnPlan | ReadBounds) -> str | None:
    rows = found.reads if isinstance(found, ColumnPlan) else found.rows
    written = predicate(rows, Dialect())
    return None if written is None else written.replace('"', "")


def test_the_first_read_has_no_predicate() -> None:
    plan = planned(source("a", "b"))
    assert text(plan) is None
    assert (plan.full, plan.window, plan.stored, plan.effective) == (False, False, {}, {})


def test_an_empty_watermark_means_everything() -> None:
    for stored in ({}, {"a": None}, {"a": None, "b": None}):
        assert text(planned(source("a", "b"), ColumnState(stored))) is None


def test_the_next_read_begins_above_the_stored_value() -> None:
    given = source("a", "b", filter_expression="f")
    assert text(planned(given, ColumnState({"a": 1, "b": 2}))) == "(a > 1 OR b > 2) AND (f)"


def test_the_read_is_capped_at_what_was_seen() -> None:
    found = fixing(source("a", "b", filter_expression="f"), {"a": 1, "b": 2}, {"a": 7, "b": 9})
    assert text(found) == "(a > 1 OR b > 2) AND (a <= 7 OR a IS NULL) AND (b <= 9 OR b IS NULL) AND (f)"
    assert found.state == ColumnState({"a": 7, "b": 9}, updated=NOW)
    assert not found.nothing


def test_a_column_that_moves_backwards_keeps_its_watermark_and_its_cap() -> None:
    found = fixing(source("a", "b"), {"a": 5, "b": 2}, {"a": 3, "b": 9})
    assert found.state.values == {"a": 5, "b": 9}
    assert text(found) == "(a > 5 OR b > 2) AND (a <= 5 OR a IS NULL) AND (b <= 9 OR b IS NULL)"


def test_a_column_that_was_always_empty_takes_whatever_has_a_value() -> None:
    state = ColumnState({"a": 1, "b": None})
    plan = planned(source("a", "b"), state)
    assert text(plan) == "a > 1 OR b IS NOT NULL"
    assert text(fix_bounds(plan, state, {"a": 5, "b": 3})) == (
        "(a > 1 OR b IS NOT NULL) AND (a <= 5 OR a IS NULL) AND (b <= 3 OR b IS NULL)"
    )


def test_a_value_that_appears_in_an_empty_column_after_the_read_was_fixed_waits() -> None:
    found = fixing(source("a", "b"), {"a": 1, "b": None}, {"a": 5, "b": None})
    assert text(found) == "(a > 1 OR b IS NOT NULL) AND (a <= 5 OR a IS NULL) AND b IS NULL"
    first = fixing(source("a", "b"), None, {"a": 5, "b": None})
    assert text(first) == "(a IS NOT NULL OR b IS NOT NULL) AND (a <= 5 OR a IS NULL) AND b IS NULL"
    assert first.state.values == {"a": 5, "b": None}


def test_a_column_added_later_is_refused_for_an_append() -> None:
    with raises(WatermarkError, "shop/orders", "b", "watermark_columns", "tidegate watermark set") as caught:
        planned(source("a", "b"), ColumnState({"a": 1}))
    assert "tidegate watermark set" in caught.value.remedy


def test_a_column_added_later_reads_its_rows_again_where_that_doubles_nothing() -> None:
    plan = planned(source("a", "b"), ColumnState({"a": 1}), MERGE)
    assert text(plan) == "a > 1 OR b IS NOT NULL"
    assert any("b is new among the watermark columns" in note for note in plan.notes)


def test_a_column_that_is_no_longer_used_loses_its_watermark_with_the_next_rows() -> None:
    found = fixing(source("a"), {"a": 1, "old": 9}, {"a": 2})
    assert found.state.values == {"a": 2}
    assert any("old is forgotten" in note for note in planned(source("a"), ColumnState({"a": 1, "old": 9})).notes)


def test_nothing_new_is_nothing() -> None:
    assert fixing(source("a"), {"a": 1}, {"a": None}).nothing
    assert fixing(source("a"), None, {"a": None}).nothing
    assert not fixing(source("a", null_watermark=NullWatermark.INCLUDE), {"a": 1}, {"a": None}, MERGE).nothing


def test_a_boundary_that_is_still_to_be_read_is_not_read_before_its_time() -> None:
    state = ColumnState({"a": 5, "b": 1}, frozenset({"a"}))
    found = fix_bounds(planned(source("a", "b"), state), state, {"a": 4, "b": 2})
    assert text(found) == "(a >= 5 OR b > 1) AND (a < 5 OR a IS NULL) AND (b <= 2 OR b IS NULL)"
    assert found.state.inclusive == {"a"}


def test_an_inclusive_column_reads_its_boundary_once() -> None:
    state = ColumnState({"a": 5}, frozenset({"a"}))
    plan = planned(source("a"), state)
    assert text(plan) == "a >= 5"
    found = fix_bounds(plan, state, {"a": 5})
    assert text(found) == "a >= 5 AND a <= 5"
    assert text(planned(source("a"), found.state)) == "a > 5"
    assert text(planned(source("a"), fix_bounds(plan, state, {"a": None}).state)) == "a >= 5"


@pytest.mark.parametrize(
    ("stored", "look_back", "low"),
    [
        (datetime(2026, 3, 8, 12, tzinfo=UTC), LookBack(days=7), "TIMESTAMP '2026-03-01 12:00:00+00:00'"),
        (datetime(2026, 3, 8, 12), LookBack(days=7), "TIMESTAMP '2026-03-01 12:00:00'"),
        (date(2026, 3, 31), LookBack(months=1), "DATE '2026-02-28'"),
        (Decimal("10.50"), LookBack(value=1), "9.50"),
    ],
)
def test_with_look_back_the_lower_bound_is_inclusive(stored: Value, look_back: LookBack, low: str) -> None:
    plan = planned(source("u", look_back=look_back, future_tolerance=None), ColumnState({"u": stored}), MERGE)
    assert text(plan) == f"u >= {low}"
    assert plan.stored == {"u": stored}


@pytest.mark.parametrize(
    ("given", "stored", "again"),
    [
        (source("u"), {"u": 5}, False),
        (source("u", "w"), {"u": 5, "w": 1}, False),
        (source("u", "w", mode=WatermarkMode.TUPLE), {"u": 5, "w": 1}, False),
        (source("u", "w"), {"u": 5, "w": None}, True),
        (source("u", look_back=LookBack(value=1)), {"u": 5}, True),
        (source("u", watermark_operator=">="), {"u": 5}, True),
        (source("u", null_watermark=NullWatermark.INCLUDE), {"u": 5}, True),
        (source("u"), {}, True),
        (source(), {}, True),
    ],
)
def test_only_a_read_right_above_the_watermark_brings_nothing_again(
    given: ColumnSource, stored: dict[str, Any], again: bool
) -> None:
    assert planned(given, ColumnState(stored), MERGE).reads_again is again
    if stored:
        assert planned(given, ColumnState(stored), MERGE, chunk=Chunk(1, 2)).reads_again


def test_a_look_back_of_zero_is_none() -> None:
    assert text(planned(source("u", look_back=LookBack()), ColumnState({"u": 5}))) == "u > 5"


def test_without_a_stored_value_look_back_has_no_effect() -> None:
    assert text(planned(source("u", look_back=LookBack(days=7)))) is None


def test_a_look_back_that_does_not_fit_names_the_column() -> None:
    with raises(WatermarkError, "shop/orders", "'id'", "look-back", "5 (a whole number)"):
        planned(source("id", look_back=LookBack(days=7)), ColumnState({"id": 5}), MERGE)


def test_the_plan_says_what_has_no_effect_beside_closing_day() -> None:
    given = source("u", look_back=LookBack(days=7, closing_day=10))
    assert "days and hours of the look-back have no effect beside closing_day" in planned(given).notes


@pytest.mark.parametrize("load_type", [LoadType.OVERWRITE, LoadType.FULL_LOAD])
def test_a_full_load_reads_everything_with_nulls_and_keeps_the_watermark_for_show(load_type: LoadType) -> None:
    state = ColumnState({"a": 5})
    plan = planned(source("a", look_back=LookBack(value=1)), state, Load(load_type))
    assert plan.full
    assert text(plan) is None
    found = fix_bounds(plan, state, {"a": 9})
    assert text(found) == "a <= 9 OR a IS NULL"
    assert found.state.values == {"a": 9}
    assert not fix_bounds(plan, state, {"a": None}).nothing


def test_without_watermark_columns_everything_is_read() -> None:
    for mode in WatermarkMode:
        plan = planned(source(filter_expression="f", mode=mode))
        assert plan.full
        found = fix_bounds(plan, None, {})
        assert (text(found), found.nothing, found.state.values) == ("(f)", False, {})


def test_a_cursor_reads_above_itself_and_up_to_the_greatest() -> None:
    given = source("u", "id", mode=WatermarkMode.TUPLE)
    found = fixing(given, {"u": 5, "id": 7}, {"u": 6, "id": 1})
    assert text(found) == (
        "(u >= 5 AND (u > 5 OR (u = 5 AND id > 7))) AND id IS NOT NULL AND (u <= 6 AND (u < 6 OR (u = 6 AND id <= 1)))"
    )
    assert found.state.values == {"u": 6, "id": 1}


def test_look_back_of_a_cursor_applies_to_the_first_column_and_drops_the_rest() -> None:
    given = source("u", "id", mode=WatermarkMode.TUPLE, look_back=LookBack(days=7))
    plan = planned(given, ColumnState({"u": date(2026, 3, 8), "id": 7}), MERGE)
    assert text(plan) == "u >= DATE '2026-03-01' AND id IS NOT NULL"
    assert plan.effective == {"u": date(2026, 3, 1)}


def test_a_cursor_that_is_known_in_part_begins_with_what_is_known() -> None:
    given = source("u", "id", mode=WatermarkMode.TUPLE)
    assert text(planned(given, ColumnState({"u": 5}), MERGE)) == "u >= 5 AND id IS NOT NULL"
    replayed = ColumnState({"u": 5, "id": 7}, frozenset({"u"}))
    assert text(planned(given, replayed)) == "u >= 5 AND id IS NOT NULL"
    with raises(WatermarkError, "id", "watermark_columns", "tidegate watermark set"):
        planned(given, ColumnState({"u": 5}))


def test_a_safety_lag_caps_times_and_nothing_else() -> None:
    given = source("u", "id", safety_lag=timedelta(minutes=5))
    state = ColumnState({"u": datetime(2026, 3, 8, 9, tzinfo=UTC), "id": 7})
    plan = planned(given, state)
    until = datetime(2026, 3, 8, 11, 55, tzinfo=UTC)
    assert [each.upper for each in plan.reads.ranges] == [Bound(until, inclusive=True), None]
    assert text(plan) == (
        "(u > TIMESTAMP '2026-03-08 09:00:00+00:00' OR id > 7)"
        " AND (u <= TIMESTAMP '2026-03-08 11:55:00+00:00' OR u IS NULL)"
    )
    assert fix_bounds(plan, state, {"u": until - timedelta(hours=1), "id": 9}).state.values == {
        "u": until - timedelta(hours=1),
        "id": 9,
    }


def test_a_safety_lag_holds_on_the_first_read_too() -> None:
    given = source("u", safety_lag=timedelta(minutes=5), source_timezone="Asia/Tokyo")
    until = NOW - timedelta(minutes=5)
    assert fixing(given, None, {"u": NOW}).state.values == {"u": until}
    assert fixing(given, None, {"u": datetime(2027, 1, 1)}).state.values == {"u": datetime(2026, 3, 8, 20, 55)}
    assert fixing(given, None, {"u": date(2027, 1, 1)}).state.values == {"u": date(2026, 3, 8)}
    earlier = until - timedelta(seconds=1)
    assert fixing(given, None, {"u": earlier}).state.values == {"u": earlier}


@pytest.mark.parametrize("value", [2027, Decimal("1.5"), 1.5, "2027-01-01", True])
def test_a_safety_lag_on_what_is_no_time_is_refused_with_what_helps_instead(value: Value) -> None:
    given = source("u", safety_lag=timedelta(minutes=5))
    for attempt in (
        lambda: fixing(given, None, {"u": value}),
        lambda: planned(given, ColumnState({"u": value})),
        lambda: planned(replace(given, watermark_columns=("u", "id")), ColumnState({"u": value, "id": 3})),
        lambda: planned(
            replace(given, watermark_columns=("u", "at"), mode=WatermarkMode.TUPLE),
            ColumnState({"u": value, "at": NOW}),
        ),
    ):
        with raises(WatermarkError, "shop/orders", "safety_lag", "u", "backward: {value: …}") as caught:
            attempt()
        assert "a column of dates or times" in caught.value.remedy
        assert "backward: {value: …}" in caught.value.remedy


def test_a_safety_lag_claims_no_more_than_it_does() -> None:
    given = source("u", safety_lag=timedelta(minutes=5))
    (note,) = planned(given).notes
    assert note == (
        "rows later than 2026-03-08T11:55:00+00:00 wait for a later run (safety_lag), if u holds dates or times; the "
        "run stops where it does not"
    )
    (note,) = planned(given, ColumnState({"u": NOW - timedelta(hours=1)})).notes
    assert note == "rows whose u is later than 2026-03-08T11:55:00+00:00 wait for a later run (safety_lag)"
    both = source("u", "id", safety_lag=timedelta(minutes=5))
    (note,) = planned(both, ColumnState({"u": NOW - timedelta(hours=1), "id": 7})).notes
    assert note.startswith("rows whose u is later than")
    assert planned(given, load=Load(LoadType.OVERWRITE)).notes == (
        "overwrite reads everything each time; the watermark is kept for show",
        "safety_lag has no effect where every run reads everything",
    )


def test_a_safety_lag_never_lies_below_what_was_read() -> None:
    given = source("u", safety_lag=timedelta(hours=5), look_back=LookBack(days=1))
    stored = NOW - timedelta(hours=1)
    plan = planned(given, ColumnState({"u": stored}), WINDOW)
    assert plan.reads.ranges[0].upper == Bound(stored, inclusive=True)
    assert fix_bounds(plan, ColumnState({"u": stored}), {"u": stored}).state.values == {"u": stored}


def test_a_safety_lag_caps_the_first_column_of_a_cursor() -> None:
    given = source("u", "id", mode=WatermarkMode.TUPLE, safety_lag=timedelta(days=2))
    state = ColumnState({"u": date(2026, 3, 1), "id": 7})
    plan = planned(given, state)
    assert (text(plan) or "").endswith("AND u <= DATE '2026-03-06'")


def test_the_window_is_read_and_deleted_by_the_same_bounds() -> None:
    given = source("day", look_back=LookBack(days=7), filter_expression="status <> 'draft'")
    found = fixing(given, {"day": date(2026, 3, 8)}, {"day": date(2026, 3, 7)}, WINDOW)
    assert text(found) == "day >= DATE '2026-03-01' AND day <= DATE '2026-03-08' AND (status <> 'draft')"
    assert found.window == replace(found.rows, extra=None)


def test_a_window_whose_rows_are_all_gone_is_not_nothing() -> None:
    given = source("day", look_back=LookBack(days=7))
    found = fixing(given, {"day": date(2026, 3, 8)}, {"day": None}, WINDOW)
    assert not found.nothing
    assert found.window is not None
    assert text(found) == "day >= DATE '2026-03-01' AND day <= DATE '2026-03-08'"


def test_there_is_no_window_before_both_bounds_are_known() -> None:
    given = source("a", "b", look_back=LookBack(value=1))
    assert fixing(given, None, {"a": 5, "b": 5}, WINDOW).window is None
    assert fixing(given, {"a": 5}, {"a": 6, "b": 6}, WINDOW).window is None
    assert fixing(given, {"a": 5, "b": None}, {"a": 6, "b": None}, WINDOW).window is not None
    assert fixing(given, {"a": 5, "b": 5}, {"a": 6, "b": 6}, MERGE).window is None


def test_a_chunk_is_read_from_its_lower_bound_to_before_its_upper_without_look_back() -> None:
    given = source("u", look_back=LookBack(value=3), filter_expression="f")
    state = ColumnState({"u": 100})
    plan = planned(given, state, MERGE, chunk=Chunk(5, 9))
    assert text(plan) == "u >= 5 AND u < 9 AND (f)"
    found = fix_bounds(plan, state, {"u": 8})
    assert (text(found), found.state, found.nothing) == ("u >= 5 AND u < 9 AND (f)", state, False)
    assert not fix_bounds(plan, state, {"u": None}).nothing
    assert found.window == replace(plan.reads, extra=None)


def test_a_row_belongs_to_the_chunk_of_its_greatest_column() -> None:
    plan = planned(source("a", "b"), chunk=Chunk(5, 9))
    assert text(plan) == "(a >= 5 OR b >= 5) AND (a < 9 OR a IS NULL) AND (b < 9 OR b IS NULL)"


def test_a_chunk_may_have_a_column_of_its_own() -> None:
    assert text(planned(source("a", "b"), chunk=Chunk(5, 9), chunk_column="c")) == "c >= 5 AND c < 9"
    assert text(planned(source("a", "b", mode=WatermarkMode.TUPLE), chunk=Chunk(5, 9))) == "a >= 5 AND a < 9"
    with raises(WatermarkError, "shop/orders", "chunk_column", "needs"):
        planned(source(), chunk=Chunk(5, 9))


@pytest.mark.parametrize("load_type", [LoadType.OVERWRITE, LoadType.FULL_LOAD])
def test_a_chunk_never_takes_the_place_of_a_whole_table(load_type: LoadType) -> None:
    with raises(WatermarkError, "shop/orders", "replaces"):
        planned(source("u"), None, Load(load_type), chunk=Chunk(5, 9))


def test_bounds_of_another_kind_than_the_column_are_refused() -> None:
    state = ColumnState({"u": datetime(2026, 3, 8, tzinfo=UTC)})
    with raises(WatermarkError, "'u'", "2026-01-01 (a date)", "chunk_column"):
        planned(source("u"), state, chunk=Chunk(date(2026, 1, 1), date(2026, 2, 1)))


@pytest.mark.parametrize(
    ("stored", "seen"),
    [
        (10, "abc"),
        (datetime(2026, 3, 8), datetime(2026, 3, 9, tzinfo=UTC)),
        (datetime(2026, 3, 8, tzinfo=UTC), datetime(2026, 3, 9)),
        (date(2026, 3, 8), datetime(2026, 3, 9)),
    ],
)
def test_a_column_that_changed_its_type_is_refused(stored: Value, seen: Value) -> None:
    with raises(WatermarkError, "shop/orders", "'u'", "tidegate watermark set"):
        fixing(source("u"), {"u": stored}, {"u": seen})


@pytest.mark.parametrize("value", ["9", " 10", "-3", "1.5", "007"])
def test_numbers_as_text_are_refused(value: str) -> None:
    with raises(WatermarkError, "'u'", "shop/orders", "numbers"):
        fixing(source("u"), None, {"u": value})


def test_other_text_is_a_watermark() -> None:
    assert fixing(source("u"), {"u": "2026-03-08"}, {"u": "2026-03-09"}).state.values == {"u": "2026-03-09"}


def test_what_is_no_number_is_refused() -> None:
    with raises(WatermarkError, "'u'", "nan", "filter_expression"):
        fixing(source("u"), None, {"u": float("nan")})


def test_decimals_and_whole_numbers_go_together() -> None:
    found = fixing(source("u"), {"u": Decimal("10.5")}, {"u": 11})
    assert found.state.values == {"u": 11}
    assert text(found) == "u > 10.5 AND u <= 11"


def test_plans_of_equal_arguments_are_equal() -> None:
    state = ColumnState({"a": 1})
    assert planned(source("a"), state) == planned(source("a"), state)


@pytest.mark.parametrize("load", [Load(), Load(LoadType.OVERWRITE)])
def test_a_database_that_no_test_runs_is_told_until_the_first_commit(load: Load) -> None:
    oracle = ColumnSource("orders", JdbcRead("jdbc:oracle:thin:@db:1521/shop", table="t"))
    told = "no test of Tidegate runs against Oracle; statements follow its documentation"
    assert told in plan_columns("shop", oracle, load, None, 0, NOW).notes
    assert told not in plan_columns("shop", oracle, load, ColumnState({}), 1, NOW).notes
    tested = replace(oracle, read=JdbcRead("jdbc:mariadb://db/shop", table="t"))
    assert plan_columns("shop", tested, load, None, 0, NOW).notes == ()


def test_a_window_does_not_begin_where_clocks_jump() -> None:
    given = source("u", look_back=LookBack(hours=24), source_timezone="Europe/Berlin", future_tolerance=None)
    stored = datetime(2026, 3, 30, 3, 5)
    assert planned(given, ColumnState({"u": stored}), WINDOW).effective == {"u": datetime(2026, 3, 29, 2)}
    assert planned(replace(given, source_timezone="UTC"), ColumnState({"u": stored}), WINDOW).effective == {
        "u": datetime(2026, 3, 29, 3, 5)
    }
