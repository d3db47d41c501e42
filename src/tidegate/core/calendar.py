"""Calendar arithmetic: zones, periods, and local times that a change of clocks skips or repeats.

A local time that a clock change skips means the moment as much later; one that it repeats means the first.

In Berlin clocks jump from 02:00 to 03:00 on 29 March 2026. A row that says 02:30 all the same is taken as 03:30: both
are 01:30 in UTC. So no boundary may lie between the two: rows below it in local time might lie above it as moments.
"""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tidegate.errors import WatermarkError
from tidegate.specs.units import PartitionKind, Rounding, Span

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
HOUR = 3_600_000
DAY = 24 * HOUR


def zone_named(name: str) -> ZoneInfo:
    """Return the time zone with that name; ``WatermarkError`` if it does not exist."""
    try:
        return check_zone(name)
    except ValueError as error:
        raise WatermarkError(str(error), "correct timezone") from None


def milliseconds(moment: datetime) -> int:
    """Convert an aware moment to whole milliseconds since 1970."""
    return (moment - EPOCH) // MILLISECOND


def moment_at(local: datetime, zone: ZoneInfo) -> int:
    """The moment at which clocks of ``zone`` show ``local``."""
    # fold=0: a repeated hour means its first occurrence, whatever the caller's datetime carries.
    return milliseconds(local.replace(tzinfo=zone, fold=0))


def local_time(moment: int, zone: ZoneInfo) -> datetime:
    """What clocks of ``zone`` show at ``moment``."""
    try:
        return (EPOCH + timedelta(milliseconds=moment)).astimezone(zone).replace(tzinfo=None)
    except OverflowError:
        raise beyond_calendar() from None


def iso(moment: int, zone: ZoneInfo) -> str:
    """Format ``moment`` for people: a midnight as its date alone, seconds only if there are any."""
    local = local_time(moment, zone)
    if not (local.hour or local.minute or local.second or local.microsecond):
        return local.date().isoformat()
    if not (local.second or local.microsecond):
        return local.isoformat(" ", "minutes")
    return local.isoformat(" ", "milliseconds" if local.microsecond else "seconds")


def shift(moment: int, zone: ZoneInfo, *, later: Span | None = None, earlier: Span | None = None) -> int:
    """Move ``moment`` by the difference of both spans: whole days at the same local time, then elapsed time.

    A longer ``later`` never gives an earlier moment, a longer ``earlier`` never a later one.
    """
    plus, minus = later or Span(), earlier or Span()
    days = plus.days - minus.days
    if days:
        try:
            moment = moment_at(local_time(moment, zone) + timedelta(days=days), zone)
        except OverflowError:
            raise beyond_calendar() from None
    return moment + (plus.elapsed - minus.elapsed) // MILLISECOND


def round_down(moment: int, rounding: Rounding, zone: ZoneInfo) -> int:
    """Return the last moment that is not after ``moment`` and begins a day, an hour or a minute in ``zone``."""
    if rounding is Rounding.NONE:
        return moment
    local = local_time(moment, zone)
    match rounding:
        case Rounding.DAY:
            return moment_at(_midnight(local), zone)
        case Rounding.HOUR:
            begin = local.replace(minute=0, second=0, microsecond=0)
        case Rounding.MINUTE:
            begin = local.replace(second=0, microsecond=0)
    # In local time a repeated hour would round to its first occurrence; elapsed time stays inside the second.
    return moment - (local - begin) // MILLISECOND


def next_after(moment: int, rounding: Rounding, zone: ZoneInfo) -> int:
    """Return the first rounded moment after ``moment``."""
    match rounding:
        case Rounding.NONE:
            return moment + 1
        case Rounding.DAY:
            return moment_at(_midnight(local_time(moment, zone)) + timedelta(days=1), zone)
        case Rounding.HOUR:
            return round_down(moment, rounding, zone) + HOUR
        case Rounding.MINUTE:
            return round_down(moment, rounding, zone) + HOUR // 60


def floor_to(moment: int, kind: PartitionKind, zone: ZoneInfo) -> int:
    """Return the start of the calendar hour, day, week (Monday), month or year that contains ``moment``."""
    if kind is PartitionKind.NONE:
        return moment
    if kind is PartitionKind.HOURLY:
        return round_down(moment, Rounding.HOUR, zone)
    day = _midnight(local_time(moment, zone))
    match kind:
        case PartitionKind.WEEKLY:
            day -= timedelta(days=day.weekday())
        case PartitionKind.MONTHLY:
            day = day.replace(day=1)
        case PartitionKind.YEARLY:
            day = day.replace(month=1, day=1)
    return moment_at(day, zone)


def months_later(moment: datetime, months: int) -> datetime | None:
    """Move ``moment`` by months, to the same day or the last of a shorter month: 01-31, 02-28, 03-31.

    None outside the calendar.
    """
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    if not MINYEAR <= year <= MAXYEAR:
        return None
    return moment.replace(year=year, month=month + 1, day=min(moment.day, monthrange(year, month + 1)[1]))


def _midnight(local: datetime) -> datetime:
    return local.replace(hour=0, minute=0, second=0, microsecond=0)


def beyond_calendar() -> WatermarkError:
    """Build the error for a time before year 1 or after 9999."""
    return WatermarkError(
        "a time lies beyond what a calendar holds (years 1 to 9999)", "correct the range or the period"
    )


def check_zone(name: str) -> ZoneInfo:
    """Return the time zone with that name; ``ValueError`` if it does not exist."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"unknown time zone {name!r}; use a name such as Europe/Berlin or UTC") from None


EARLIEST = datetime.min.replace(tzinfo=UTC)
LATEST = datetime.max.replace(tzinfo=UTC)


class Period(StrEnum):
    """A calendar unit, coarsest first."""

    YEAR = "year"
    MONTH = "month"
    DAY = "day"
    HOUR = "hour"

    def floor(self, moment: datetime) -> datetime:
        """The start of the period that contains ``moment``, in UTC."""
        start = moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        match self:
            case Period.YEAR:
                return start.replace(month=1, day=1, hour=0)
            case Period.MONTH:
                return start.replace(day=1, hour=0)
            case Period.DAY:
                return start.replace(hour=0)
            case Period.HOUR:
                return start

    def shift(self, start: datetime, count: int) -> datetime:
        """The start of the period ``count`` periods after the one that begins at ``start``."""
        if self in (Period.YEAR, Period.MONTH):
            months = 12 * count if self is Period.YEAR else count
            return months_later(start, months) or (EARLIEST if months < 0 else LATEST)
        return subtract(start, -count * timedelta(**{f"{self}s": 1}))


def subtract(moment: datetime, duration: timedelta) -> datetime:
    """Return ``moment - duration``, or the first or last moment of the calendar."""
    try:
        return moment - duration
    except OverflowError:
        return EARLIEST if duration > timedelta() else LATEST


# No zone changes its clocks twice within half a day.
_STEP = timedelta(hours=12)
# Outside of it, a step of half a day or an offset would leave the calendar.
_YEARS = range(2, 9998)


@dataclass(frozen=True, slots=True)
class Jump:
    """Clocks jump from ``low`` to ``high``; local times up to ``until`` share their moments with those in the jump."""

    low: datetime
    high: datetime

    @property
    def until(self) -> datetime:
        """The first local time after the jump that is a moment of its own."""
        # A time in the jump is taken as much later, so that it shares its moment with one after the jump.
        return self.high + (self.high - self.low)


def jump_around(value: object, zone: str | None) -> Jump | None:
    """Return the jump in which ``value``, a local time of ``zone``, cannot be a boundary; None if it can.

    Only times without a zone of their own lie in a jump.
    """
    if zone is None or not isinstance(value, datetime) or value.tzinfo is not None:
        return None
    for year in sorted({value.year, (value - timedelta(days=3)).year} if value.year in _YEARS else ()):
        for jump in jumps(zone, year):
            if jump.low < value < jump.until:
                return jump
    return None


# A year takes 730 offsets to search, and every edge of a replay asks.
@lru_cache(maxsize=1024)
def jumps(zone: str, year: int) -> tuple[Jump, ...]:
    """Return the jumps of a year, in order; none for a zone without clock changes."""
    rules = ZoneInfo(zone)
    changes = []
    moment, end = datetime(year, 1, 1, tzinfo=UTC) - _STEP, datetime(year + 1, 1, 1, tzinfo=UTC)
    while moment < end:
        before, after = _offset(moment, rules), _offset(moment + _STEP, rules)
        if after > before:
            at = _moment_of_change(moment, moment + _STEP, rules).replace(tzinfo=None)
            changes.append(Jump(at + before, at + after))
        moment += _STEP
    return tuple(changes)


def _moment_of_change(low: datetime, high: datetime, zone: ZoneInfo) -> datetime:
    """Find the first moment after ``low`` with the offset of ``high``, by bisection to the second."""
    wanted = _offset(high, zone)
    while high - low > timedelta(seconds=1):
        middle = low + timedelta(seconds=(high - low) // timedelta(seconds=2))
        low, high = (low, middle) if _offset(middle, zone) == wanted else (middle, high)
    return high


def _offset(moment: datetime, zone: ZoneInfo) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta()
