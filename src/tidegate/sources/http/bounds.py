"""The bounds of a read as parameters of requests, and the parts of a range for tasks.

A text may be coarser than the value: a lower bound is then rounded down and an upper one up, so that the server returns
too much and never too little; the surplus is removed afterwards by the value itself.

The server is trusted to leave rows out, never to be exact: records above and below are removed again by their values.
So a record exactly on a sent bound belongs to one read only, however the server treats its bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from tidegate.core.columns.predicates import Bound, ColumnRange, RowFilter
from tidegate.core.columns.state import is_above
from tidegate.errors import SourceError
from tidegate.specs.columns import ColumnSource, HttpRead, ParamFormat, Value, WatermarkMode, WatermarkParams
from tidegate.specs.table import SchemaSpec

TINY = timedelta(microseconds=1)
_SECOND = timedelta(seconds=1)
_PATTERNS: dict[str, str] = {ParamFormat.DATE: "%Y-%m-%d", ParamFormat.DATETIME: "%Y-%m-%d %H:%M:%S"}
_STEPS = (timedelta(milliseconds=1), _SECOND, timedelta(minutes=1), timedelta(hours=1))
# A format may have nothing but the year, whose text changes after at most 366 days.
_LONGEST_DAYS = 367


def format_value(value: Value, format: str, zone: str = "UTC") -> str | int:
    """Format ``value`` as a request parameter; moments are in ``zone``, and so are times without one.

    >>> format_value(datetime(2026, 4, 3, 9, 15, tzinfo=UTC), "timestamp")
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
            return value if format == ParamFormat.ISO else _format_moment(_parse_moment(value), format, zone)
        case time():
            return value.isoformat()
        case _:
            return _format_moment(value, format, zone)


def round_up(value: Value, format: str, zone: str = "UTC") -> str | int:
    """Return the first text that is not below ``value``."""
    if not isinstance(value, date):
        return format_value(value, format, zone)
    moment = to_instant(value, zone)
    text = format_value(value, format, zone)
    if _begins(moment, format, zone):
        return text
    days = (timedelta(days=count) for count in range(1, _LONGEST_DAYS))
    later = (format_value(moment + step, format, zone) for step in (*_STEPS, *days))
    return next((candidate for candidate in later if candidate != text), text)


def round_down(now: datetime, format: str, zone: str = "UTC") -> datetime:
    """The last whole second, not after ``now``, at which the text of ``now`` begins."""
    local = now.astimezone(ZoneInfo(zone)).replace(microsecond=0)
    text = format_value(local, format, zone)
    minute = local.replace(second=0)
    hour = minute.replace(minute=0)
    day = hour.replace(hour=0)
    candidates = (local, minute, hour, day, day.replace(day=1), day.replace(month=1, day=1))
    fitting = (
        candidate
        for candidate in candidates
        if format_value(candidate, format, zone) == text and _begins(candidate, format, zone)
    )
    return next(fitting, local).astimezone(UTC)


def to_instant(value: date, zone: str) -> datetime:
    """A date or a time, with or without its own zone, as a moment."""
    if not isinstance(value, datetime):
        value = datetime.combine(value, time())
    return value if value.tzinfo is not None else value.replace(tzinfo=ZoneInfo(zone))


def _begins(moment: datetime, format: str, zone: str) -> bool:
    """Whether ``moment`` is the first moment with its text."""
    # In UTC: in a local zone, Python subtracts from the time on the clock, which jumps.
    before = moment.astimezone(UTC) - TINY
    return format_value(before, format, zone) != format_value(moment.astimezone(UTC), format, zone)


def _format_moment(value: date, format: str, zone: str) -> str | int:
    if format == ParamFormat.ISO:
        return value.isoformat()
    if format == ParamFormat.DATE and not isinstance(value, datetime):
        return value.isoformat()
    moment = to_instant(value, zone).astimezone(ZoneInfo(zone))
    if format == ParamFormat.TIMESTAMP:
        return (moment - datetime.fromtimestamp(0, UTC)) // _SECOND
    if format == ParamFormat.TIMESTAMP_MS:
        return (moment - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)
    if format == ParamFormat.DATETIME_MS:
        return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}"
    return moment.strftime(_PATTERNS.get(format, format))


def _parse_moment(text: str) -> date:
    for parse in (datetime.fromisoformat, date.fromisoformat):
        try:
            return parse(text)
        except ValueError:
            continue
    raise SourceError(
        f"the watermark {text!r} is text but not an ISO 8601 time, so it cannot be sent in another format",
        "set watermark_param_format: iso, which sends it as it is",
    )


_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Part:
    """One request for a part of the range: its parameters, and which records belong to it.

    Those with ``after`` < value <= ``upto`` in ``column`` do; a missing bound leaves that side open. Records with null
    belong to the first part.
    """

    values: tuple[tuple[str, str | int], ...] = ()
    column: str | None = None
    after: Value | None = None
    upto: Value | None = None


def parts(source: ColumnSource, rows: RowFilter, now: datetime) -> tuple[Part, ...]:
    """Plan the requests of one read, before pagination: one, unless the range is divided; none if nothing can match."""
    read = http_read(source)
    params, zone = read.watermark, source.source_timezone
    if _is_void(rows):
        return ()
    ranges = [interval for interval in rows.ranges if interval.column in params.mapping]
    lower = tuple(
        (params.mapping[interval.column], format_value(interval.lower.value, params.format, zone))
        for interval in ranges
        if interval.lower is not None and _can_send_lower(rows)
    )
    upper = next((interval.upper for interval in ranges if interval.upper is not None), None)
    if params.to_param is None and params.split > 1:
        raise SourceError(
            f"watermark_split: {params.split} needs watermark_to_param: without it every part would reach to the end",
            "name the server's parameter for the upper bound, or leave out watermark_split",
        )
    if params.to_param is None:
        return (Part(lower),)
    last = _choose_upper(upper, params, zone, now, ranges)
    whole = Part((*lower, *(() if last is None else ((params.to_param, last),))))
    cuts = _cut_range(params, ranges, upper, zone, now) if lower else ()
    if not cuts:
        return (whole,)
    column = ranges[0].column
    name, first = lower[0]
    begins = [first, *(format_value(cut, params.format, zone) for cut in cuts)]
    ends = [*(_round_above(cut, params, zone) for cut in cuts), last]
    inner = [None, *cuts, None]
    return tuple(
        Part(((name, begin), (params.to_param, end)), column, after, upto)
        for begin, end, after, upto in zip(begins, ends, inner, inner[1:], strict=False)
        if end is not None
    )


def upper(source: ColumnSource, schema: SchemaSpec, now: datetime) -> dict[str, Value]:
    """The greatest values of a read at ``now``, for columns declared as times; empty without ``to_param``.

    The request ends at a moment that its format can express; the cap is the last value before that moment, since
    records of that very moment may still come, and the server may or may not include them.
    """
    read = http_read(source)
    if read.watermark.to_param is None:
        return {}
    sent = round_down(now, read.watermark.format, source.source_timezone)
    declared = {field.name: field.type for field in schema.fields}
    caps: dict[str, Value] = {}
    for column in read.watermark.mapping:
        if declared.get(column) == "timestamp":
            caps[column] = sent.astimezone(UTC) - TINY
        elif declared.get(column) == "date":
            caps[column] = sent.astimezone(ZoneInfo(source.source_timezone)).date() - _DAY
    return caps


def describe(source: ColumnSource, rows: RowFilter) -> str:
    """The request in words, for plans, without secrets."""
    read = http_read(source)
    requests = parts(source, rows, datetime.now(UTC))
    has_cap = any(interval.upper is not None for interval in rows.ranges)
    shown = [
        " ".join(
            f"{name}=<now>"
            if name == read.watermark.to_param and not has_cap and part is requests[-1]
            else f"{name}={value}"
            for name, value in part.values
        )
        for part in requests
    ]
    asked = " | ".join(filter(None, shown))
    if not asked:
        return f"{read.method} {source.uri}: everything" if requests else "no request: nothing can be new"
    return f"{read.method} {source.uri}: {asked} in the {'body' if read.watermark.location == 'body' else 'query'}"


def http_read(source: ColumnSource) -> HttpRead:
    """The read of a source that is an API."""
    if not isinstance(source.read, HttpRead):
        raise SourceError(f"source {source.name!r} is not an HTTP API", "give it `type: http`")
    return source.read


def _is_void(rows: RowFilter) -> bool:
    """True if every range is empty, as when two runs follow within the same second."""
    return rows.mode is WatermarkMode.ANY and bool(rows.ranges) and all(map(_is_crossed, rows.ranges))


def _is_crossed(interval: ColumnRange) -> bool:
    low, high = interval.lower, interval.upper
    if low is None or high is None or type(low.value) is not type(high.value):
        return False
    if low.value == high.value:
        return not (low.inclusive and high.inclusive)
    return is_above(low.value, high.value)


def _can_send_lower(rows: RowFilter) -> bool:
    """True if lower bounds exclude only unwanted rows: not if another column wants every value."""
    return rows.mode is WatermarkMode.TUPLE or all(interval.lower is not None for interval in rows.ranges)


def _choose_upper(
    bound: Bound | None, params: WatermarkParams, zone: str, now: datetime, ranges: list[ColumnRange]
) -> str | int | None:
    if bound is not None and bound.inclusive:
        return _round_above(bound.value, params, zone)
    if bound is not None:
        return round_up(bound.value, params.format, zone)
    counted = any(
        interval.lower is not None and isinstance(interval.lower.value, int | float | Decimal) for interval in ranges
    )
    # A column of numbers has no "now" to end at.
    if counted and not params.format.startswith("timestamp"):
        return None
    return format_value(round_down(now, params.format, zone), params.format, zone)


def _round_above(value: Value, params: WatermarkParams, zone: str) -> str | int:
    """A text above ``value``, so that a record exactly there comes even if the server excludes the bound."""
    match value:
        case bool() | str():
            return format_value(value, params.format, zone)
        case datetime():
            next_second = value + TINY
            if next_second.microsecond:
                next_second = next_second.replace(microsecond=0) + timedelta(seconds=1)
            return round_up(next_second, params.format, zone)
        case date():
            return round_up(value + _DAY, params.format, zone)
        case int() | float() | Decimal():
            return format_value(value + 1, params.format, zone)
        case _:
            return format_value(value, params.format, zone)


def _cut_range(
    params: WatermarkParams, ranges: list[ColumnRange], upper: Bound | None, zone: str, now: datetime
) -> tuple[Value, ...]:
    """The values that divide the range; none if it cannot be divided."""
    if params.split < 2:
        return ()
    if len(ranges) != 1:
        raise SourceError(
            f"watermark_split: {params.split} needs exactly one column in watermark_param_mapping, not {len(ranges)}",
            "map the one column that the server filters by, or leave out watermark_split",
        )
    low = ranges[0].lower
    if low is None:
        return ()
    begin, end = low.value, now if upper is None else upper.value
    if isinstance(begin, datetime) and isinstance(end, datetime):
        return _cut_moments(begin, end, params.split, zone)
    if isinstance(begin, date) and isinstance(end, date) and not isinstance(begin, datetime):
        last = end.date() if isinstance(end, datetime) else end
        return tuple(begin + timedelta(days=days) for days in _cut_evenly((last - begin).days, params.split))
    if isinstance(begin, int) and isinstance(end, int):
        return tuple(begin + step for step in _cut_evenly(end - begin, params.split))
    return ()


def _cut_moments(begin: datetime, end: datetime, count: int, zone: str) -> tuple[Value, ...]:
    """Whole seconds between two moments, with the awareness of the first."""
    seconds = int((to_instant(end, zone) - to_instant(begin, zone)).total_seconds())
    first = begin.replace(microsecond=0)
    return tuple(first + timedelta(seconds=step) for step in _cut_evenly(seconds, count))


def _cut_evenly(length: int, count: int) -> tuple[int, ...]:
    """The cuts of a length into ``count`` pieces of at least one."""
    return tuple(sorted({length * number // count for number in range(1, count)} - {0, length}) if length > 1 else ())
