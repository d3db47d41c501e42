"""Which times were read: sorted half-open intervals in milliseconds that neither overlap nor touch."""

from __future__ import annotations

from bisect import bisect_right

Coverage = tuple[tuple[int, int], ...]


def joined(coverage: Coverage, low: int, high: int) -> Coverage:
    """``coverage`` and ``[low, high)`` together."""
    if low >= high:
        return coverage
    before = [each for each in coverage if each[1] < low]
    after = [each for each in coverage if each[0] > high]
    touched = coverage[len(before) : len(coverage) - len(after)]
    if touched:
        low, high = min(low, touched[0][0]), max(high, touched[-1][1])
    return (*before, (low, high), *after)


def without(coverage: Coverage, low: int, high: int) -> Coverage:
    """What of ``coverage`` lies outside ``[low, high)``."""
    pieces = (piece for begin, end in coverage for piece in ((begin, min(end, low)), (max(begin, high), end)))
    return tuple(piece for piece in pieces if piece[0] < piece[1]) if low < high else coverage


def within(coverage: Coverage, low: int, high: int | None) -> Coverage:
    """What of ``coverage`` lies in ``[low, high)``, without ``high`` in all above ``low``."""
    pieces = ((max(begin, low), end if high is None else min(end, high)) for begin, end in coverage)
    return tuple(piece for piece in pieces if piece[0] < piece[1])


def interval_at(coverage: Coverage, moment: int) -> tuple[int, int] | None:
    """The interval that has ``moment`` in it."""
    place = bisect_right(coverage, moment, key=lambda each: each[0]) - 1
    return coverage[place] if place >= 0 and moment < coverage[place][1] else None


def high_of(coverage: Coverage, start: int, nominal_end: int | None) -> int | None:
    """Up to where the partition was read without a gap from its ``start`` on; None if not even there."""
    found = interval_at(coverage, start)
    if found is None:
        return None
    return found[1] if nominal_end is None else min(found[1], nominal_end)
