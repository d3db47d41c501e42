"""Calendar arithmetic in a zone, on milliseconds since 1970: days are calendar days, hours are elapsed ones.

A local time that a clock change leaves out means the moment as much later; one that it repeats means the first.
"""

from __future__ import annotations

from calendar import monthrange
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tidegate.errors import WatermarkError
from tidegate.unit_specs import PartitionKind, Rounding, Span

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
HOUR = 3_600_000
DAY = 24 * HOUR


def zone_named(name: str) -> ZoneInfo:
    """The time zone of that name; ``WatermarkError`` where there is none."""
    try:
        return check_zone(name)
    except ValueError as error:
        raise WatermarkError(str(error), "correct timezone") from None


def milliseconds(moment: datetime) -> int:
    """A moment with its zone as milliseconds since 1970; what is finer is cut off."""
    return (moment - EPOCH) // MILLISECOND


def moment_at(local: datetime, zone: ZoneInfo) -> int:
    """The moment at which clocks of ``zone`` show ``local``."""
    return milliseconds(local.replace(tzinfo=zone, fold=0))


def local_time(moment: int, zone: ZoneInfo) -> datetime:
    """What clocks of ``zone`` show at ``moment``."""
    try:
        return (EPOCH + timedelta(milliseconds=moment)).astimezone(zone).replace(tzinfo=None)
    except OverflowError:
        raise _beyond() from None


def iso(moment: int, zone: ZoneInfo) -> str:
    """``moment`` as people read it: the date alone where it is a midnight, without seconds where there are none."""
    local = local_time(moment, zone)
    if not (local.hour or local.minute or local.second or local.microsecond):
        return local.date().isoformat()
    if not (local.second or local.microsecond):
        return local.isoformat(" ", "minutes")
    return local.isoformat(" ", "milliseconds" if local.microsecond else "seconds")


def shifted(moment: int, zone: ZoneInfo, *, later: Span | None = None, earlier: Span | None = None) -> int:
    """``moment`` moved by the difference of both: so many days at the same local time, then so much elapsed time.

    More to add never gives an earlier moment, more to take away never a later one.
    """
    plus, minus = later or Span(), earlier or Span()
    days = plus.days - minus.days
    if days:
        try:
            moment = moment_at(local_time(moment, zone) + timedelta(days=days), zone)
        except OverflowError:
            raise _beyond() from None
    return moment + (plus.elapsed - minus.elapsed) // MILLISECOND


def rounded(moment: int, rounding: Rounding, zone: ZoneInfo) -> int:
    """The last moment that is not after ``moment`` and begins a day, an hour or a minute in ``zone``."""
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
    return moment - (local - begin) // MILLISECOND


def next_after(moment: int, rounding: Rounding, zone: ZoneInfo) -> int:
    """The first rounded moment after ``moment``."""
    match rounding:
        case Rounding.NONE:
            return moment + 1
        case Rounding.DAY:
            return moment_at(_midnight(local_time(moment, zone)) + timedelta(days=1), zone)
        case Rounding.HOUR:
            return rounded(moment, rounding, zone) + HOUR
        case Rounding.MINUTE:
            return rounded(moment, rounding, zone) + HOUR // 60


def floored(moment: int, kind: PartitionKind, zone: ZoneInfo) -> int:
    """The beginning of the calendar's own hour, day, week (Monday), month or year that has ``moment`` in it."""
    if kind is PartitionKind.NONE:
        return moment
    if kind is PartitionKind.HOURLY:
        return rounded(moment, Rounding.HOUR, zone)
    day = _midnight(local_time(moment, zone))
    match kind:
        case PartitionKind.WEEKLY:
            day -= timedelta(days=day.weekday())
        case PartitionKind.MONTHLY:
            day = day.replace(day=1)
        case PartitionKind.YEARLY:
            day = day.replace(month=1, day=1)
    return moment_at(day, zone)


def months_later(anchor: datetime, months: int) -> datetime:
    """``anchor`` so many months later, on its day or, in shorter months, on their last: 01-31, 02-28, 03-31."""
    year, month = divmod(anchor.year * 12 + anchor.month - 1 + months, 12)
    if year > 9999:
        raise _beyond()
    return anchor.replace(year=year, month=month + 1, day=min(anchor.day, monthrange(year, month + 1)[1]))


def _midnight(local: datetime) -> datetime:
    return local.replace(hour=0, minute=0, second=0, microsecond=0)


def _beyond() -> WatermarkError:
    return WatermarkError(
        "a time lies beyond what a calendar holds (years 1 to 9999)", "correct the range or the period"
    )


def check_zone(name: str) -> ZoneInfo:
    """The time zone of that name; ``ValueError`` where there is none."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"unknown time zone {name!r}; use a name such as Europe/Berlin or UTC") from None
