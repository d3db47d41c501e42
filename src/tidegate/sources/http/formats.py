"""Watermarks as texts in requests.

A text may be coarser than the value: a lower bound is then rounded down and an upper one up, so that the server is
asked for too much and never for too little; what is too much is left out afterwards by the value itself.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from tidegate.column_specs import ParamFormat, Value
from tidegate.errors import SourceError

TINY = timedelta(microseconds=1)
_SECOND = timedelta(seconds=1)
_PATTERNS = {ParamFormat.DATE: "%Y-%m-%d", ParamFormat.DATETIME: "%Y-%m-%d %H:%M:%S"}
_STEPS = (timedelta(milliseconds=1), _SECOND, timedelta(minutes=1), timedelta(hours=1))
_LONGEST_DAYS = 367


def written(value: Value, format: str, zone: str = "UTC") -> str | int:
    """``value`` as a request carries it; moments are told in ``zone``, where times without one belong too.

    >>> written(datetime(2026, 4, 3, 9, 15, tzinfo=UTC), "timestamp")
    1775207700
    """
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return value
        case float() | Decimal():
            return str(value)
        case str():
            return value if format == ParamFormat.ISO else _moment_text(_parsed(value), format, zone)
        case time():
            return value.isoformat()
        case _:
            return _moment_text(value, format, zone)


def rounded_up(value: Value, format: str, zone: str = "UTC") -> str | int:
    """The first text that is not below ``value``."""
    if not isinstance(value, date):
        return written(value, format, zone)
    moment = instant(value, zone)
    text = written(value, format, zone)
    if _begins(moment, format, zone):
        return text
    days = (timedelta(days=count) for count in range(1, _LONGEST_DAYS))
    later = (written(moment + step, format, zone) for step in (*_STEPS, *days))
    return next((each for each in later if each != text), text)


def rounded_down(now: datetime, format: str, zone: str = "UTC") -> datetime:
    """The last whole second, not after ``now``, at which the text of ``now`` begins."""
    local = now.astimezone(ZoneInfo(zone)).replace(microsecond=0)
    text = written(local, format, zone)
    minute = local.replace(second=0)
    hour = minute.replace(minute=0)
    day = hour.replace(hour=0)
    candidates = (local, minute, hour, day, day.replace(day=1), day.replace(month=1, day=1))
    fitting = (each for each in candidates if written(each, format, zone) == text and _begins(each, format, zone))
    return next(fitting, local).astimezone(UTC)


def instant(value: date, zone: str) -> datetime:
    """A date or a time, with or without a zone of its own, as a moment."""
    if not isinstance(value, datetime):
        value = datetime.combine(value, time())
    return value if value.tzinfo is not None else value.replace(tzinfo=ZoneInfo(zone))


def _begins(moment: datetime, format: str, zone: str) -> bool:
    """Whether ``moment`` is the first with its text."""
    before = moment.astimezone(UTC) - TINY
    return written(before, format, zone) != written(moment.astimezone(UTC), format, zone)


def _moment_text(value: date, format: str, zone: str) -> str | int:
    if format == ParamFormat.ISO:
        return value.isoformat()
    if format == ParamFormat.DATE and not isinstance(value, datetime):
        return value.isoformat()
    moment = instant(value, zone).astimezone(ZoneInfo(zone))
    if format == ParamFormat.TIMESTAMP:
        return (moment - datetime.fromtimestamp(0, UTC)) // _SECOND
    if format == ParamFormat.TIMESTAMP_MS:
        return (moment - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)
    if format == ParamFormat.DATETIME_MS:
        return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}"
    return moment.strftime(_PATTERNS.get(ParamFormat(format), format) if format in set(ParamFormat) else format)


def _parsed(text: str) -> date:
    for parse in (datetime.fromisoformat, date.fromisoformat):
        try:
            return parse(text)
        except ValueError:
            continue
    raise SourceError(
        f"the watermark {text!r} is text that is no ISO 8601 moment, so it cannot be written in another format",
        "set watermark_param_format: iso, which sends it as it is",
    )
