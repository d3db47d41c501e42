"""Covered times: joined, taken away and asked."""

from __future__ import annotations

import pytest

from tidegate.core.units.state import Coverage, add_range, clip, high_of, interval_at, remove_range

TWO: Coverage = ((10, 20), (30, 40))


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 5, ((0, 5), (10, 20), (30, 40))),
        (0, 10, ((0, 20), (30, 40))),
        (20, 30, ((10, 40),)),
        (15, 35, ((10, 40),)),
        (12, 18, TWO),
        (22, 28, ((10, 20), (22, 28), (30, 40))),
        (5, 45, ((5, 45),)),
        (40, 50, ((10, 20), (30, 50))),
        (25, 25, TWO),
    ],
)
def test_joined(low: int, high: int, expected: Coverage) -> None:
    assert add_range(TWO, low, high) == expected


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 10, TWO),
        (10, 20, ((30, 40),)),
        (12, 18, ((10, 12), (18, 20), (30, 40))),
        (15, 35, ((10, 15), (35, 40))),
        (0, 100, ()),
        (20, 30, TWO),
        (15, 15, TWO),
    ],
)
def test_without(low: int, high: int, expected: Coverage) -> None:
    assert remove_range(TWO, low, high) == expected


@pytest.mark.parametrize(
    ("low", "high", "expected"), [(15, 35, ((15, 20), (30, 35))), (15, None, ((15, 20), (30, 40))), (20, 30, ())]
)
def test_within(low: int, high: int | None, expected: Coverage) -> None:
    assert clip(TWO, low, high) == expected


@pytest.mark.parametrize(
    ("moment", "expected"),
    [(9, None), (10, (10, 20)), (19, (10, 20)), (20, None), (30, (30, 40)), (40, None)],
)
def test_interval_at(moment: int, expected: tuple[int, int] | None) -> None:
    assert interval_at(TWO, moment) == expected


@pytest.mark.parametrize(
    ("start", "nominal_end", "expected"),
    [
        (10, 15, 15),
        (10, 20, 20),
        (10, 25, 20),
        (10, None, 20),
        (12, 25, 20),
        (5, 25, None),
        (20, 30, None),
        (30, 100, 40),
        (50, 60, None),
    ],
)
def test_the_high_watermark_ends_where_reading_was_interrupted(
    start: int, nominal_end: int | None, expected: int | None
) -> None:
    assert high_of(TWO, start, nominal_end) == expected
