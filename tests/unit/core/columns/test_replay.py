"""A replay: its grid, what is kept of it, and the way back to production."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest

from support.errors import raises
from tidegate.core.columns.replay import (
    Chunk,
    ChunkInterval,
    ReplayConfig,
    ReplayState,
    check_handover,
    chunks,
    columns_read_twice,
    decode,
    encode,
    hand_over,
)
from tidegate.core.columns.state import ColumnState
from tidegate.errors import ConfigError, StateError, WatermarkError
from tidegate.specs.columns import ColumnSource, FunctionRead, Load, LoadType, Value, WatermarkMode


def day(text: str) -> date:
    return date.fromisoformat(text)


def hour(day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2025, 1, day, hour, minute, tzinfo=UTC)


TABLE: list[tuple[Value, Value, dict[str, Any], list[Value]]] = [
    (day("2025-01-01"), day("2025-03-15"), {"months": 1}, [day("2025-02-01"), day("2025-03-01")]),
    (
        day("2025-01-31"),
        day("2025-04-30"),
        {"months": 1},
        [day("2025-02-01"), day("2025-03-01"), day("2025-04-01")],
    ),
    (
        day("2025-01-01"),
        day("2025-01-22"),
        {"weeks": 1},
        [day("2025-01-06"), day("2025-01-13"), day("2025-01-20")],
    ),
    (hour(1, 3), hour(2, 0), {"hours": 6}, [hour(1, 6), hour(1, 12), hour(1, 18)]),
    (150, 400, {"step": 100}, [200, 300]),
    (hour(1, 3), hour(1, 4), {"minutes": 25}, [hour(1, 3, 20), hour(1, 3, 45)]),
    (hour(1, 3), hour(3, 4), {"days": 1}, [hour(2, 3), hour(3, 3)]),
    (day("2025-01-03"), day("2025-02-03"), {"weeks": 2}, [day("2025-01-13"), day("2025-01-27")]),
    (
        day("2025-06-15"),
        day("2026-07-01"),
        {"months": 5},
        [day("2025-11-01"), day("2026-04-01")],
    ),
    (day("2023-05-01"), day("2032-01-01"), {"years": 5}, [day("2025-01-01"), day("2030-01-01")]),
    (
        hour(1, 12),
        datetime(2027, 3, 1, tzinfo=UTC),
        {"years": 1},
        [datetime(y, 1, 1, tzinfo=UTC) for y in (2026, 2027)],
    ),
    (-150, 50, {"step": 100}, [-100, 0]),
    (Decimal("0.1"), Decimal("1.1"), {"step": 0.5}, [Decimal("0.5"), Decimal("1.0")]),
    (1, 2, {"step": Decimal("0.5")}, [Decimal("1.5")]),
    (0.25, 1.25, {"step": Decimal("0.5")}, [0.5, 1.0]),
    (100, 200, {"step": 100}, []),
    (day("9999-11-15"), day("9999-12-31"), {"months": 1}, [day("9999-12-01")]),
    (day("2025-01-01"), day("2025-01-03"), {"days": 10**12}, []),
]


@pytest.mark.parametrize(("start", "end", "interval", "between"), TABLE)
def test_the_table_of_chunks(start: Value, end: Value, interval: dict[str, Any], between: list[Value]) -> None:
    edges = [start, *between, end]
    expected = tuple(Chunk(low, high) for low, high in pairwise(edges))
    found = chunks(start, end, ChunkInterval.of(interval))
    assert found == expected
    assert {type(each.low) for each in found[1:]} <= {type(each) for each in between}
    assert ReplayConfig(start, end, interval).chunks() == expected


def test_without_an_interval_there_is_one_chunk() -> None:
    assert chunks("a", "b", None) == (Chunk("a", "b"),)
    assert ReplayConfig(1, 9).chunks() == (Chunk(1, 9),)


NAIVE = datetime(2025, 1, 1)


@pytest.mark.parametrize(
    ("start", "end", "interval", "said"),
    [
        (5, 5, None, "start 5 … end 5"),
        (9, 5, None, "start 9 … end 5"),
        (5, 9, {"step": 0}, "step … above 0"),
        (5, 9, {"step": -1}, "step … above 0"),
        (5, 9, {"step": "1"}, "step … above 0"),
        (5, 9, {"step": True}, "step … above 0"),
        (day("2025-01-01"), day("2025-02-01"), {"days": 1.5}, "days … 1.5"),
        (day("2025-01-01"), day("2025-02-01"), {"days": 1, "hours": 1}, "one unit"),
        (day("2025-01-01"), day("2025-02-01"), {}, "one unit"),
        (day("2025-01-01"), day("2025-02-01"), {"fortnights": 1}, "fortnights"),
        (day("2025-01-01"), day("2025-02-01"), {"hours": 6}, "hours … times"),
        (day("2025-01-01"), day("2025-02-01"), {"minutes": 6}, "minutes … times"),
        (day("2025-01-01"), NAIVE, None, "different kinds"),
        (NAIVE, NAIVE.replace(tzinfo=UTC), None, "different kinds"),
        (1, day("2025-01-01"), None, "different kinds"),
        (day("2025-01-01"), day("2025-02-01"), {"step": 1}, "do not fit"),
        (1, 9, {"days": 1}, "do not fit"),
        ("a", "b", {"step": 1}, "do not fit"),
        (1, 10**9, {"step": 1}, "100,000"),
    ],
)
def test_what_makes_no_grid_is_a_configuration_error(
    start: Value, end: Value, interval: dict[str, Any] | None, said: str
) -> None:
    with raises(ConfigError, said):
        ReplayConfig(start, end, interval)


def test_only_the_chunks_finished_from_the_first_on_count() -> None:
    def reached(*finished: int) -> Value | None:
        return ReplayState("n", 0, 400, ChunkInterval("step", 100), frozenset(finished)).reached

    assert reached() is None
    assert reached(1, 2, 3) is None
    assert reached(0, 1, 3) == 200
    assert reached(0, 1, 2, 3) == 400


NOW = datetime(2026, 3, 8, 12, tzinfo=UTC)
STATE = ReplayState("id", 0, 100, ChunkInterval("step", 10), frozenset({0, 1, 2, 7}), 4, NOW)


@pytest.mark.parametrize(
    ("start", "end", "interval"),
    [
        (0, 100, None),
        (0, 100, ChunkInterval("step", 10)),
        (Decimal("0.5"), Decimal("2.5"), ChunkInterval("step", Decimal("0.5"))),
        (date(2025, 1, 1), date(2025, 3, 15), ChunkInterval("months", 1)),
        (datetime(2025, 1, 1), datetime(2025, 1, 2), ChunkInterval("hours", 6)),
        (datetime(2025, 1, 1, tzinfo=UTC), datetime(2025, 2, 1, tzinfo=UTC), ChunkInterval("weeks", 1)),
        ("a", "m", None),
    ],
)
def test_a_record_comes_back_as_it_was_kept(start: Value, end: Value, interval: ChunkInterval | None) -> None:
    state = ReplayState("u", start, end, interval, frozenset({0}), 3, NOW)
    kept = json.loads(json.dumps(encode(state)))
    assert decode(kept) == state
    assert decode(kept).is_same(state)


def test_finished_chunks_are_kept_as_ranges() -> None:
    assert encode(STATE)["finished"] == [[0, 2], [7, 7]]
    assert encode(ReplayState("id", 0, 9))["finished"] == []


def test_what_is_reached_ends_at_the_first_chunk_that_is_not_finished() -> None:
    assert STATE.reached == 30
    assert ReplayState("id", 0, 30, ChunkInterval("step", 10), frozenset({1, 2})).reached is None


def test_a_replay_is_finished_with_its_last_chunk() -> None:
    state = ReplayState("id", 0, 20, ChunkInterval("step", 10), frozenset({1}))
    assert not state.is_finished
    assert state.with_finished(0, NOW).is_finished


@pytest.mark.parametrize(
    "other",
    [
        ReplayState("nr", 0, 100, ChunkInterval("step", 10)),
        ReplayState("id", 1, 100, ChunkInterval("step", 10)),
        ReplayState("id", 0, 99, ChunkInterval("step", 10)),
        ReplayState("id", 0, 100, ChunkInterval("step", 20)),
        ReplayState("id", 0, 100),
    ],
)
def test_other_chunks_are_another_replay(other: ReplayState) -> None:
    assert not STATE.is_same(other)
    assert STATE.is_same(ReplayState("id", 0, 100, ChunkInterval("step", 10)))


def test_the_same_moment_in_another_zone_makes_other_months() -> None:
    here, there = datetime(2025, 1, 1, tzinfo=UTC), datetime(2024, 12, 31, 19, tzinfo=timezone(timedelta(hours=-5)))
    end = datetime(2025, 6, 1, tzinfo=UTC)
    assert here == there
    months = ChunkInterval("months", 1)
    assert not ReplayState("u", here, end, months).is_same(ReplayState("u", there, end, months))


@pytest.mark.parametrize(
    "damage",
    [
        {"kind": "column"},
        {"watermark": "{oops"},
        {"watermark": None},
        {"watermark": '{"start": 0}'},
        {"watermark": '{"end": 0, "start": 100}'},
        {"column": 7},
        {"interval": "months"},
        {"interval": {"months": "1", "days": "2"}},
        {"interval": {"step": "x"}},
        {"interval": {"moons": "1"}},
        {"finished": None},
        {"finished": [3]},
        {"finished": [[0, 10]]},
        {"finished": [[-1, 2]]},
        {"begun": "soon"},
        {"update_ts": None},
    ],
    ids=str,
)
def test_a_damaged_record_is_refused_with_the_way_out(damage: dict[str, object]) -> None:
    with raises(StateError, "replay", "--fresh") as caught:
        decode({**encode(STATE), **damage})
    assert "--fresh" in caught.value.remedy


def test_a_record_of_a_newer_program_is_left_alone() -> None:
    with raises(StateError, "schema_version 9"):
        decode({**encode(STATE), "schema_version": 9})


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
    with raises(WatermarkError, "shop/orders", "5", "--skip-gap") as caught:
        check_handover("shop/orders", source("u"), APPEND, state, replay)
    assert "--skip-gap" in caught.value.remedy
    check_handover("shop/orders", source("u"), APPEND, state, replay, skip_gap=True)


def test_a_replay_from_the_watermark_leaves_no_gap() -> None:
    check_handover("shop/orders", source("u"), APPEND, ColumnState({"u": 5}), ReplayConfig(5, 9))
    check_handover("shop/orders", source("u"), APPEND, ColumnState({"u": 50}), ReplayConfig(5, 9))


@pytest.mark.parametrize(
    ("given", "load", "stored", "column", "said"),
    [
        (source("u"), APPEND, {"u": 5}, "day", "day … watermark column"),
        (source(), APPEND, {}, None, "no column … watermark column"),
        (source("u", "id", mode=WatermarkMode.TUPLE), APPEND, {"u": 5, "id": 5}, "id", "id … first column … u, id"),
        (source("a", "b"), APPEND, {"a": 5, "b": 5}, "a", "a … chunk_column"),
        (source("a", "b"), MERGE, {"a": 9, "b": 5}, None, "9 … b (5) … a (9)"),
        (source("a", "b"), MERGE, {"a": 9, "b": 4}, None, "5 … b (4) … --skip-gap"),
    ],
)
def test_what_production_could_not_go_on_from_is_refused(
    given: ColumnSource, load: Load, stored: dict[str, Any], column: str | None, said: str
) -> None:
    with raises(WatermarkError, said):
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
