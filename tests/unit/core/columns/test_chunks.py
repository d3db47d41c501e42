"""The grid of a replay: every row of its table."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest

from tidegate.core.columns.replay import Chunk, ChunkInterval, ReplayConfig, ReplayState, chunks
from tidegate.errors import ConfigError
from tidegate.specs.columns import Value


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
        (5, 5, None, "must lie before"),
        (9, 5, None, "must lie before"),
        (5, 9, {"step": 0}, "above 0"),
        (5, 9, {"step": -1}, "above 0"),
        (5, 9, {"step": "1"}, "above 0"),
        (5, 9, {"step": True}, "above 0"),
        (day("2025-01-01"), day("2025-02-01"), {"days": 1.5}, "whole number"),
        (day("2025-01-01"), day("2025-02-01"), {"days": 1, "hours": 1}, "exactly one unit"),
        (day("2025-01-01"), day("2025-02-01"), {}, "exactly one unit"),
        (day("2025-01-01"), day("2025-02-01"), {"fortnights": 1}, "unknown unit"),
        (day("2025-01-01"), day("2025-02-01"), {"hours": 6}, "need times"),
        (day("2025-01-01"), day("2025-02-01"), {"minutes": 6}, "need times"),
        (day("2025-01-01"), NAIVE, None, "different kinds"),
        (NAIVE, NAIVE.replace(tzinfo=UTC), None, "different kinds"),
        (1, day("2025-01-01"), None, "different kinds"),
        (day("2025-01-01"), day("2025-02-01"), {"step": 1}, "do not fit"),
        (1, 9, {"days": 1}, "do not fit"),
        ("a", "b", {"step": 1}, "do not fit"),
        (1, 10**9, {"step": 1}, "more than 100,000"),
    ],
)
def test_what_makes_no_grid_is_a_configuration_error(
    start: Value, end: Value, interval: dict[str, Any] | None, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        ReplayConfig(start, end, interval)


def test_only_the_chunks_finished_from_the_first_on_count() -> None:
    def reached(*finished: int) -> Value | None:
        return ReplayState("n", 0, 400, ChunkInterval("step", 100), frozenset(finished)).reached

    assert reached() is None
    assert reached(1, 2, 3) is None
    assert reached(0, 1, 3) == 200
    assert reached(0, 1, 2, 3) == 400
