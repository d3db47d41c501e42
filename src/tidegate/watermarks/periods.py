"""Calendar periods in UTC: hour, day, month, year, and counting in them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum

EARLIEST = datetime.min.replace(tzinfo=UTC)
LATEST = datetime.max.replace(tzinfo=UTC)


class Period(StrEnum):
    """A calendar unit, coarsest first."""

    YEAR = "year"
    MONTH = "month"
    DAY = "day"
    HOUR = "hour"

    def floor(self, moment: datetime) -> datetime:
        """The start of the period that holds ``moment``, in UTC."""
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

    def shifted(self, start: datetime, count: int) -> datetime:
        """The start of the period ``count`` periods after the one that begins at ``start``."""
        match self:
            case Period.YEAR:
                return _month(start, 12 * count)
            case Period.MONTH:
                return _month(start, count)
            case Period.DAY:
                return earlier(start, timedelta(days=-count))
            case Period.HOUR:
                return earlier(start, timedelta(hours=-count))


def earlier(moment: datetime, duration: timedelta) -> datetime:
    """``moment - duration``, or the end of the calendar that lies in that direction."""
    try:
        return moment - duration
    except OverflowError:
        return EARLIEST if duration > timedelta() else LATEST


def _month(start: datetime, count: int) -> datetime:
    year, month = divmod(start.year * 12 + start.month - 1 + count, 12)
    if year < 1:
        return EARLIEST
    return LATEST if year > 9999 else start.replace(year=year, month=month + 1)
