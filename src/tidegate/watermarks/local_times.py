"""Times without a zone where clocks jump forward: local times that never were share their moments with later ones.

In Berlin clocks jump from 02:00 to 03:00 on 29 March 2026. A row that says 02:30 all the same is taken as 03:30: both
are 01:30 in UTC. So no boundary may lie between the two: what lies below it in local time would not as a moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

_STEP = timedelta(hours=12)
_YEARS = range(2, 9998)


@dataclass(frozen=True, slots=True)
class Jump:
    """Clocks jump from ``low`` to ``high``; up to ``until`` local times share their moments with those between both."""

    low: datetime
    high: datetime

    @property
    def until(self) -> datetime:
        """The first local time behind the jump that is one moment alone."""
        return self.high + (self.high - self.low)


def jump_around(value: datetime, zone: str) -> Jump | None:
    """The jump in which ``value``, a time of ``zone`` without one, is no boundary; None where it is one."""
    for year in sorted({value.year, (value - timedelta(days=3)).year} if value.year in _YEARS else ()):
        for jump in jumps(zone, year):
            if jump.low < value < jump.until:
                return jump
    return None


@lru_cache(maxsize=1024)
def jumps(zone: str, year: int) -> tuple[Jump, ...]:
    """The jumps of a year, in order; a zone that never changes its clocks has none."""
    known = ZoneInfo(zone)
    found = []
    moment, end = datetime(year, 1, 1, tzinfo=UTC) - _STEP, datetime(year + 1, 1, 1, tzinfo=UTC)
    while moment < end:
        before, after = (_offset(each, known) for each in (moment, moment + _STEP))
        if after > before:
            at = _moment_of_change(moment, moment + _STEP, known).replace(tzinfo=None)
            found.append(Jump(at + before, at + after))
        moment += _STEP
    return tuple(found)


def _moment_of_change(low: datetime, high: datetime, zone: ZoneInfo) -> datetime:
    """The first moment after ``low`` that has the offset of ``high``, by bisection to the second."""
    wanted = _offset(high, zone)
    while high - low > timedelta(seconds=1):
        middle = low + timedelta(seconds=(high - low) // timedelta(seconds=2))
        low, high = (low, middle) if _offset(middle, zone) == wanted else (middle, high)
    return high


def _offset(moment: datetime, zone: ZoneInfo) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta()
