"""From a replay back to production: no row is left out, none is read by both."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tidegate.core.columns.replay import ReplayConfig, check_handover, columns_read_twice, hand_over
from tidegate.core.columns.state import ColumnState
from tidegate.errors import WatermarkError
from tidegate.specs.columns import ColumnSource, FunctionRead, Load, LoadType, WatermarkMode

NOW = datetime(2026, 3, 8, 12, tzinfo=UTC)
APPEND, MERGE = Load(), Load(LoadType.MERGE_UPSERT, merge_keys=("id",))


def source(*columns: str, mode: WatermarkMode = WatermarkMode.ANY) -> ColumnSource:
    return ColumnSource("orders", FunctionRead("shop:orders"), watermark_columns=columns, mode=mode)


def test_production_goes_on_at_the_end_of_the_replay_with_that_value_included() -> None:
    moved = hand_over(source("u"), ColumnState({"u": 5, "other": 1}), None, 9, NOW)
    assert moved == ColumnState({"u": 9, "other": 1}, frozenset({"u"}), NOW)
    assert hand_over(source("u"), None, None, 9, NOW) == ColumnState({"u": 9}, frozenset({"u"}), NOW)


@pytest.mark.parametrize("stored", [9, 10])
def test_a_replay_never_lowers_the_watermark(stored: int) -> None:
    state = ColumnState({"u": stored})
    assert hand_over(source("u"), state, None, 9, NOW) is state


def test_several_columns_move_together_or_not_at_all() -> None:
    given = source("a", "b")
    assert hand_over(given, ColumnState({"a": 5, "b": 3}), None, 9, NOW).values == {"a": 9, "b": 9}
    ahead = ColumnState({"a": 50, "b": 3})
    assert hand_over(given, ahead, None, 9, NOW) is ahead


def test_of_a_cursor_the_first_column_moves() -> None:
    given = source("u", "id", mode=WatermarkMode.TUPLE)
    moved = hand_over(given, ColumnState({"u": 5, "id": 700}), None, 9, NOW)
    assert (moved.values, moved.inclusive) == ({"u": 9, "id": None}, {"u"})


@pytest.mark.parametrize("stored", [None, {}, {"u": None}, {"u": 4}])
def test_a_replay_that_jumps_over_rows_never_read_is_refused(stored: dict[str, Any] | None) -> None:
    state = None if stored is None else ColumnState(stored)
    replay = ReplayConfig(5, 9)
    with pytest.raises(WatermarkError, match="never read") as caught:
        check_handover("shop/orders", source("u"), APPEND, state, replay)
    assert "--skip-gap" in caught.value.remedy
    check_handover("shop/orders", source("u"), APPEND, state, replay, skip_gap=True)


def test_a_replay_from_the_watermark_leaves_no_gap() -> None:
    check_handover("shop/orders", source("u"), APPEND, ColumnState({"u": 5}), ReplayConfig(5, 9))
    check_handover("shop/orders", source("u"), APPEND, ColumnState({"u": 50}), ReplayConfig(5, 9))


@pytest.mark.parametrize(
    ("given", "load", "stored", "column", "said"),
    [
        (source("u"), APPEND, {"u": 5}, "day", "day is not a watermark column"),
        (source(), APPEND, {}, None, "no column is not a watermark column"),
        (source("u", "id", mode=WatermarkMode.TUPLE), APPEND, {"u": 5, "id": 5}, "id", "not the first column"),
        (source("a", "b"), APPEND, {"a": 5, "b": 5}, "a", "appended again"),
        (source("a", "b"), MERGE, {"a": 9, "b": 5}, None, "would be left out"),
        (source("a", "b"), MERGE, {"a": 9, "b": 4}, None, "never read"),
    ],
)
def test_what_production_could_not_go_on_from_is_refused(
    given: ColumnSource, load: Load, stored: dict[str, Any], column: str | None, said: str
) -> None:
    with pytest.raises(WatermarkError, match=said):
        check_handover("shop/orders", given, load, ColumnState(stored), ReplayConfig(5, 9, chunk_column=column))


def test_an_append_beyond_the_watermark_that_does_not_move_it_is_found() -> None:
    state = ColumnState({"u": 5})
    beyond, within = ReplayConfig(1, 9), ReplayConfig(1, 6)
    assert columns_read_twice(source("u"), APPEND, state, ReplayConfig(1, 7)) == ("u",)
    assert columns_read_twice(source("u"), APPEND, state, ReplayConfig(1, 5)) == ()
    assert columns_read_twice(source("u"), APPEND, state, beyond) == ("u",)
    assert columns_read_twice(source("u"), APPEND, state, within) == ()
    assert columns_read_twice(source("u"), APPEND, state, ReplayConfig(1, 9, save_watermark=True)) == ()
    assert columns_read_twice(source("u"), MERGE, state, beyond) == ()
    assert columns_read_twice(source("u"), APPEND, None, beyond) == ("u",)
    assert columns_read_twice(source("u"), APPEND, None, ReplayConfig(1, 9, chunk_column="day")) == ("u",)
    assert columns_read_twice(source("u"), APPEND, state, ReplayConfig(1, 9, chunk_column="day")) == ()


def test_one_of_several_columns_is_enough_where_rows_are_merged() -> None:
    state = ColumnState({"a": 5, "b": 50})
    check_handover("shop/orders", source("a", "b"), MERGE, state, ReplayConfig(5, 9, chunk_column="a"))
    assert hand_over(source("a", "b"), state, "a", 9, NOW).values == {"a": 9, "b": 50}
