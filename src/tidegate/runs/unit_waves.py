"""Waves of work units: what is read together and committed together, and what became of each.

A wave is as large as can be read in the time that a group has, by how long the waves before took. Units of which rows
may be in the table and units of which none are do not share one: they are committed in different ways. Units that fail
come last, so that they hold up no other when the breaker opens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tidegate.core.calendar import milliseconds, shifted, zone_named
from tidegate.core.units.plan import WorkUnit
from tidegate.sources.units.work import UnitFailure, UnitWritten
from tidegate.specs.units import NotFound, Span, UnitSource

FIRST = 8
GROWTH = 8


class Waves:
    """Gives the next wave; :meth:`took` tells it how long one took. ``failing`` are units, and more may be added."""

    def __init__(
        self,
        works: Iterable[WorkUnit],
        most: int,
        seconds: float,
        first: int = FIRST,
        failing: Collection[str] = (),
    ) -> None:
        self._works = _failing_last(works, failing)
        self._most = most
        self._seconds = seconds
        self._size = min(first, most)
        self._waiting: dict[bool, deque[WorkUnit]] = {False: deque(), True: deque()}

    def next(self, at_most: int | None = None) -> tuple[WorkUnit, ...]:
        """The next work units; none at the end."""
        size = max(1, min(self._size, at_most or self._size))
        fuller = self._fuller(size)
        return tuple(fuller.popleft() for _ in range(min(size, len(fuller))))

    def took(self, units: int, seconds: float) -> None:
        """The next wave is as large as fits into the time, and not much larger than this one."""
        fits = self._most if seconds <= 0 else int(units * self._seconds / seconds)
        self._size = max(1, min(self._most, fits, units * GROWTH))

    def left(self) -> int:
        """How many were not given; none can be given afterwards."""
        waiting = sum(map(len, self._waiting.values()))
        return waiting + sum(1 for _ in self._works)

    def _fuller(self, size: int) -> deque[WorkUnit]:
        for work in self._works:
            waiting = self._waiting[work.replaces]
            waiting.append(work)
            if len(waiting) >= size:
                return waiting
        return max(self._waiting.values(), key=len)


def _failing_last(works: Iterable[WorkUnit], failing: Collection[str]) -> Iterator[WorkUnit]:
    """Work units in their order, but those of failing units behind all others, who failed less first."""
    put_off = []
    for work in works:
        if work.unit in failing:
            put_off.append(work)
        else:
            yield work
    yield from sorted(put_off, key=lambda work: work.failures)


class Breaker:
    """Opens after so many failures in a row: then nothing more is asked of that server in this run."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._streak = 0

    @property
    def is_open(self) -> bool:
        """Whether the rest is left for the next run."""
        return bool(self._limit) and self._streak >= self._limit

    @property
    def left(self) -> int | None:
        """How many more may fail before it opens; None while nothing fails."""
        return self._limit - self._streak if self._limit and self._streak else None

    def begin(self) -> None:
        """Another source begins: where it is open, one more failure is enough, and a success closes it."""
        if self.is_open:
            self._streak = self._limit - 1

    def note(self, *, failed: bool) -> None:
        """Count one work unit."""
        self._streak = self._streak + 1 if failed else 0


@dataclass(slots=True)
class Outcomes:
    """``done`` with what was written, ``failed`` and ``thin`` with the reason, ``retired`` units with theirs."""

    done: list[tuple[WorkUnit, UnitWritten]] = field(default_factory=list)
    failed: list[tuple[WorkUnit, str]] = field(default_factory=list)
    thin: list[tuple[WorkUnit, str]] = field(default_factory=list)
    retired: dict[str, str] = field(default_factory=dict)
    retired_works: list[tuple[WorkUnit, str]] = field(default_factory=list)


def sorted_out(
    source: UnitSource, works: Sequence[WorkUnit], results: Sequence[UnitWritten | UnitFailure], now: datetime
) -> Outcomes:
    """Each work unit to where it belongs."""
    found = Outcomes()
    for work, result in zip(works, results, strict=True):
        if isinstance(result, UnitFailure):
            _refused(source, work, result, found)
        elif result.rows < source.work.min_records:
            _thin(source, work, result.rows, now, found)
        else:
            found.done.append((work, result))
    return found


def _refused(source: UnitSource, work: WorkUnit, result: UnitFailure, found: Outcomes) -> None:
    reason = f"{result.problem}; {result.remedy}" if result.remedy else result.problem
    if not result.not_found or source.work.not_found is NotFound.FAIL:
        found.failed.append((work, reason))
    elif source.work.not_found is NotFound.EMPTY:
        found.done.append((work, UnitWritten()))
    else:
        found.retired[work.unit] = reason
        found.retired_works.append((work, reason))


def _thin(source: UnitSource, work: WorkUnit, rows: int, now: datetime, found: Outcomes) -> None:
    """Fewer rows than there must be: a failure, unless the partition may still be incomplete."""
    reason = f"{rows:,} rows, and min_records is {source.work.min_records:,}"
    after = source.work.min_records_after
    if after is None:
        found.failed.append((work, reason))
    elif work.nominal_end is None or _deadline(work.nominal_end, after, source) > milliseconds(now):
        found.thin.append((work, f"{reason}; it may still be incomplete (min_records_after)"))
    else:
        found.failed.append((work, f"{reason}, and its time is over (min_records_after)"))


def _deadline(end: int, after: Span, source: UnitSource) -> int:
    return shifted(end, zone_named(source.timezone), later=after)
