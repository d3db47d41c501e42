"""The bounds of a time range as people write them, and what they mean at one moment.

Absolute: an ISO date, or date and time (``T`` or one space between them), with or without ``Z``, ``UTC``, an offset or
the name of a zone. Relative: ``PnD``, ``PnDTmH``, ``PnDTmHkM`` before now; ``-`` is now. Anything else is refused with
its text; nothing is guessed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NoReturn
from zoneinfo import ZoneInfo

from tidegate.core.calendar import (
    check_zone,
    floored,
    iso,
    milliseconds,
    moment_at,
    next_after,
    rounded,
    shifted,
    zone_named,
)
from tidegate.errors import WatermarkError
from tidegate.specs.units import NOW, PartitionKind, Rounding, Span, TimeRange

_RELATIVE = re.compile(r"P(?P<days>\d{1,7})D(?:T(?P<hours>\d{1,2})H(?:(?P<minutes>\d{1,2})M)?)?", re.ASCII)
_ABSOLUTE = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)(?:[T ](?P<time>\d\d:\d\d(?::\d\d)?)(?:(?<=:\d\d:\d\d)\.(?P<fraction>\d+))?)?"
    r"(?:(?P<offset>[+-]\d\d(?::?\d\d)?)|(?P<utc>Z| ?UTC)| ?(?P<zone>[A-Za-z][A-Za-z0-9_+\-/]*))?",
    re.ASCII,
)
_ZONES = {
    "America/Los_Angeles": "PST PDT PST8PDT",
    "America/Denver": "MST MDT MST7MDT",
    "America/Chicago": "CST CDT CST6CDT",
    "America/New_York": "EST EDT EST5EDT",
    "America/Anchorage": "AKST AKDT",
    "Pacific/Honolulu": "HST",
    "America/Sao_Paulo": "BRT BRST",
    "Europe/London": "BST",
    "Europe/Lisbon": "WET WEST",
    "Europe/Paris": "CET CEST MET MEST",
    "Europe/Athens": "EET EEST",
    "Europe/Moscow": "MSK",
    "Asia/Kolkata": "IST",
    "Asia/Singapore": "SGT",
    "Asia/Tokyo": "JST",
    "Australia/Sydney": "AEST AEDT",
    "UTC": "GMT UCT z utc",
}
_IDS = {abbreviation: name for name, abbreviations in _ZONES.items() for abbreviation in abbreviations.split()}


@dataclass(frozen=True, slots=True)
class TimeBound:
    """A bound as written: either ``before`` now, or ``local`` in its ``zone``, the source's where it names none.

    ``default`` is what a relative bound is rounded to in partitions of several days.
    """

    before: Span | None = None
    local: datetime | None = None
    zone: str | None = None
    offset: timedelta | None = None
    default: Rounding = Rounding.NONE

    @property
    def is_relative(self) -> bool:
        """Whether it moves with the clock."""
        return self.before is not None

    def at(self, now: int, zone: ZoneInfo, rounding: Rounding = Rounding.NONE) -> int:
        """The moment that is meant, rounded down."""
        return rounded(self._exactly(now, zone), rounding, zone)

    def _exactly(self, now: int, zone: ZoneInfo) -> int:
        if self.before is not None:
            return shifted(now, zone, earlier=self.before)
        assert self.local is not None
        if self.offset is not None:
            return moment_at(self.local, zone_named("UTC")) - self.offset // timedelta(milliseconds=1)
        return moment_at(self.local, zone if self.zone is None else zone_named(self.zone))


def parse_span(text: str) -> Span:
    """``P3D``, ``P3DT6H`` or ``P3DT6H30M`` as a length of time."""
    span = _relative(text)
    if span is None:
        _refuse(text, "is not a length of time", "write P3D, P3DT6H or P3DT6H30M")
    return span


def parse_bound(text: str, *, is_end: bool) -> TimeBound:
    """A bound of a range; ``WatermarkError`` shows a text that is none."""
    if text == NOW:
        if not is_end:
            _refuse(text, "is no beginning of a time range", "give a date, or P30D for thirty days before now")
        return TimeBound(before=Span(), default=Rounding.DAY)
    span = _relative(text)
    if span is not None:
        written = Rounding.MINUTE if text.endswith("M") else Rounding.HOUR if text.endswith("H") else Rounding.DAY
        return TimeBound(before=span, default=written)
    return _absolute(text)


def check_bound(text: str, *, is_end: bool) -> None:
    """``WatermarkError`` where ``text`` is no bound of a range."""
    parse_bound(text, is_end=is_end)


def rounding_of(
    bound: TimeBound, kind: PartitionKind, written: Rounding | None, *, abstinent: bool = False
) -> Rounding:
    """To what a bound is rounded: what is written wins.

    Else relative bounds are rounded by their finest part in partitions of several days, and whole days to the day where
    there is an abstinent period.
    """
    if written is not None:
        return written
    return bound.default if kind.is_multi_day or (abstinent and bound.default is Rounding.DAY) else Rounding.NONE


def first_above(bound: TimeBound, rounding: Rounding, moment: int, zone: ZoneInfo) -> int | None:
    """From when on the bound will lie above ``moment``; None where it does not move."""
    if bound.before is None:
        return None
    return shifted(next_after(moment, rounding, zone), zone, later=bound.before)


def resolve(
    time_range: TimeRange, kind: PartitionKind, zone: str, now: datetime, *, abstinent: bool = False
) -> tuple[int, int]:
    """``[start, end)`` in milliseconds; a relative start lies on the calendar's own grid of ``kind``.

    ``WatermarkError`` where the end lies in the future and may not.
    """
    where, moment = zone_named(zone), milliseconds(now)
    first, last = parse_bound(time_range.start, is_end=False), parse_bound(time_range.end, is_end=True)
    start = first.at(moment, where, rounding_of(first, kind, time_range.start_round, abstinent=abstinent))
    if first.is_relative:
        start = floored(start, kind, where)
    end = last.at(moment, where, rounding_of(last, kind, time_range.end_round, abstinent=abstinent))
    if end > moment and not time_range.allow_future:
        raise WatermarkError(
            f"the range ends in the future: to is {time_range.end!r}, and it is {iso(moment, where)} ({zone})",
            "what is read up to there would hold up every later run; write - for now, or allow it with allow_future",
        )
    return start, end


def _relative(text: str) -> Span | None:
    found = _RELATIVE.fullmatch(text)
    if found is None:
        return None
    days, hours, minutes = (int(found[name] or 0) for name in ("days", "hours", "minutes"))
    if hours > 23 or minutes > 59:
        _refuse(text, "has more hours or minutes than there are", "hours are 0 to 23 and minutes 0 to 59; use days")
    return Span(days, timedelta(hours=hours, minutes=minutes))


def _absolute(text: str) -> TimeBound:
    found = _ABSOLUTE.fullmatch(text)
    if found is None:
        _refuse(text, "is no time", "write 2020-01-31, 2020-01-31T10:00:00Z, 2020-01-31 10:00 Europe/Paris or P3DT6H")
    try:
        local = datetime.fromisoformat(f"{found['date']}T{found['time'] or '00:00'}")
        offset = _offset(found["offset"])
    except ValueError as error:
        _refuse(text, f"is no time ({error})", "correct it")
    local += timedelta(milliseconds=int((found["fraction"] or "0")[:3].ljust(3, "0")))
    if found["utc"]:
        return TimeBound(local=local, zone="UTC")
    zone = found["zone"]
    if zone is not None:
        _check_zone(zone, text)
    return TimeBound(local=local, zone=zone, offset=offset)


def _offset(text: str | None) -> timedelta | None:
    if text is None:
        return None
    minutes = 60 * int(text[1:3]) + int(text[3:].removeprefix(":") or 0)
    if minutes >= 24 * 60 or int(text[3:].removeprefix(":") or 0) > 59:
        raise ValueError(f"offset {text} is too large")
    return timedelta(minutes=-minutes if text[0] == "-" else minutes)


def _check_zone(name: str, text: str) -> None:
    if name in _IDS:
        _refuse(text, f"has the zone {name!r}, which is no unambiguous name", f"write {_IDS[name]}")
    try:
        known = "/" in name and bool(check_zone(name))
    except ValueError:
        known = False
    if not known:
        _refuse(text, f"has the unknown zone {name!r}", "write Z, UTC, an offset such as +01:00, or Europe/Paris")


def _refuse(text: str, problem: str, remedy: str) -> NoReturn:
    raise WatermarkError(f"{text!r} {problem}", remedy)
