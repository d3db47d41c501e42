"""Which strategy a load has, and the window of a table in SQL; no Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from support.errors import raises
from tidegate.core.columns.predicates import Bound, ColumnRange, RowFilter
from tidegate.errors import SchemaMismatch, TableError
from tidegate.spark.loading.scd2 import Versions
from tidegate.spark.loading.strategies import (
    Append,
    Deduplicated,
    KeyOverwrite,
    Overwrite,
    ReplaceWindow,
    Strategy,
    Upsert,
    strategy_of,
)
from tidegate.spark.loading.target import TableWindow, equal_keys, insert_values, update_values
from tidegate.specs.columns import ColumnSource, FunctionRead, Load, LoadType, NullWatermark, Value

MOMENT, NAIVE = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
SOURCE = ColumnSource("db", FunctionRead("m:f"), watermark_columns=("u", "w"), source_timezone="Asia/Jakarta")


def bounds(column: str, low: Value, high: Value, **more: Any) -> RowFilter:
    return RowFilter((ColumnRange(column, Bound(low, inclusive=True), Bound(high)),), **more)


def chosen(window: RowFilter | None = None, *, chunk: bool = False, **settings: Any) -> Strategy:
    return strategy_of(Load(**settings), SOURCE, "p/db", window, chunk=chunk)


@pytest.mark.parametrize(
    ("settings", "once", "in_a_replay"),
    [
        ({}, Append, ReplaceWindow),
        ({"deduplicate": ("id",)}, Deduplicated, ReplaceWindow),
        ({"type": LoadType.MERGE_UPSERT, "merge_keys": ("id",)}, Upsert, Upsert),
        ({"type": LoadType.MERGE_OVERWRITE, "merge_keys": ("id",)}, KeyOverwrite, KeyOverwrite),
        ({"type": LoadType.SCD2, "merge_keys": ("id",)}, Versions, Versions),
    ],
)
def test_a_load_has_one_strategy_and_a_chunk_may_have_another(
    settings: dict[str, Any], once: type, in_a_replay: type
) -> None:
    assert type(chosen(bounds("u", 1, 2), **settings)) is once
    assert type(chosen(bounds("u", 1, 2), chunk=True, **settings)) is in_a_replay


@pytest.mark.parametrize("kind", [LoadType.OVERWRITE, LoadType.FULL_LOAD])
def test_the_whole_table_is_never_replaced_by_a_chunk(kind: LoadType) -> None:
    assert type(chosen(type=kind)) is Overwrite
    with raises(TableError, "p/db", kind.value, "chunk"):
        chosen(bounds("u", 1, 2), chunk=True, type=kind)


def test_only_a_load_that_replaces_has_a_window() -> None:
    by_key = {"type": LoadType.MERGE_OVERWRITE, "merge_keys": ("id",)}
    windows = [
        getattr(chosen(bounds("u", 1, 2), chunk=chunk, **by_key, replace_by_watermark=replaces), "window", None)
        for chunk, replaces in ((False, False), (False, True), (True, False))
    ]
    assert [window is not None for window in windows] == [False, True, True]


def test_the_latest_row_is_found_by_the_names_behind_the_transform() -> None:
    strategy = chosen(type=LoadType.MERGE_UPSERT, merge_keys=("id",), window_columns={"u": "changed"})
    assert isinstance(strategy, Upsert)
    assert strategy.keys.order == ("changed", "w")


NEW_YEAR = datetime(2026, 1, 1)


@pytest.mark.parametrize(
    ("kind", "low", "condition"),
    [
        (MOMENT, NEW_YEAR, "2025-12-31 17:00:00"),
        (NAIVE, NEW_YEAR, "2026-01-01 00:00:00"),
        (MOMENT, NEW_YEAR.replace(tzinfo=UTC), "2026-01-01 00:00:00"),
        (pa.date32(), date(2026, 1, 1), "2026-01-01"),
    ],
)
def test_times_without_a_zone_are_compared_as_the_table_has_them(kind: pa.DataType, low: Value, condition: str) -> None:
    window = TableWindow(RowFilter((ColumnRange("u", Bound(low, inclusive=True)),)), "p/db", {}, "Asia/Jakarta")
    assert condition in window.condition(pa.schema([("u", kind)]))


def test_a_day_begins_at_the_midnight_of_the_source() -> None:
    low, high = Bound(date(2026, 1, 2), inclusive=True), Bound(date(2026, 1, 3))
    window = TableWindow(RowFilter((ColumnRange("u", low, high),)), "p/db", {}, "Asia/Jakarta")
    assert window.condition(pa.schema([("u", pa.timestamp("us", "UTC"))])) == (
        "`u` >= TIMESTAMP_LTZ '2026-01-01 17:00:00+00:00' AND `u` < TIMESTAMP_LTZ '2026-01-02 17:00:00+00:00'"
    )
    assert "DATE '2026-01-02'" in window.condition(pa.schema([("u", pa.date32())]))


def test_a_window_has_the_names_of_the_table_and_not_the_filter_of_the_source() -> None:
    rows = bounds("u", 1, 5, extra="status <> 'draft'", nulls=NullWatermark.INCLUDE)
    window = TableWindow(rows, "p/db", {"u": "changed"})
    assert window.columns == ("changed",)
    text = window.condition(pa.schema([("changed", pa.int64())]))
    assert text == "(`changed` >= 1 OR `changed` IS NULL) AND (`changed` < 5 OR `changed` IS NULL)"
    with raises(SchemaMismatch, "p/db", "'changed'", "sink.window_columns", "replace_by_watermark: false"):
        window.condition(pa.schema([("u", pa.int64())]))
    with raises(SchemaMismatch, "p/db", "'changed'", "transform", "sink.window_columns"):
        window.check(("u",))


def test_bounds_of_a_window_given_by_hand_are_both_inside() -> None:
    window = TableWindow.of_bounds({"a": (1, 5), "b": (2, 6)}, "x")
    text = window.condition(pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    assert text == "(`a` >= 1 OR `b` >= 2) AND (`a` <= 5 OR `a` IS NULL) AND (`b` <= 6 OR `b` IS NULL)"


def test_names_are_quoted_in_every_part_of_a_merge() -> None:
    assert equal_keys(("a.b", "c`"), nulls=True) == "t.`a.b` <=> s.`a.b` AND t.`c``` <=> s.`c```"
    assert equal_keys(("a",), nulls=False, called={"a": "x"}) == "t.`a` = s.`x`"
    assert insert_values(("a b", "c"), {"c": "x"}) == "(`a b`, `c`) VALUES (s.`a b`, s.`x`)"
    assert update_values(("a b",)) == "`a b` = s.`a b`"


def test_versions_have_real_times() -> None:
    strategy = chosen(type=LoadType.SCD2, merge_keys=("id",))
    columns = strategy.columns(pa.schema([("id", pa.int64())]))
    assert columns.names == ["id", "__valid_from", "__valid_to", "__is_current"]
    assert columns.types == [pa.int64(), MOMENT, MOMENT, pa.bool_()]
    with raises(SchemaMismatch, "p/db", "'__valid_to'"):
        strategy.columns(pa.schema([("__valid_to", pa.int64())]))
