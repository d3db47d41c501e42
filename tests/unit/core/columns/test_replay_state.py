"""The record of a replay: what is kept of it, and what is refused."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from tidegate.core.columns.replay import ChunkInterval, ReplayState, decode, encode
from tidegate.errors import StateError
from tidegate.specs.columns import Value

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
    with pytest.raises(StateError, match="the record of the replay is damaged") as caught:
        decode({**encode(STATE), **damage})
    assert "--fresh" in caught.value.remedy


def test_a_record_of_a_newer_program_is_left_alone() -> None:
    with pytest.raises(StateError, match="schema_version 9"):
        decode({**encode(STATE), "schema_version": 9})
