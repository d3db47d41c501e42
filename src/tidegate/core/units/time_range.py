"""Time ranges of work units: their bounds as people write them, and the partitions they are cut into.

Absolute bounds: an ISO date, or date and time (``T`` or one space between them), with or without ``Z``, ``UTC``, an
offset or the name of a zone. Relative bounds: ``PnD``, ``PnDTmH``, ``PnDTmHkM`` before now; ``-`` is now. Other text is
refused; nothing is guessed.

Partitions count from the start of the range; only its bounds cut them. Their starts identify work units, so a partition
that still grows stays the same one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count, pairwise
from typing import NoReturn
from zoneinfo import ZoneInfo

from tidegate.core.calendar import (
    DAY,
    HOUR,
    beyond_calendar,
    check_zone,
    floor_to,
    iso,
    local_time,
    milliseconds,
    moment_at,
    months_later,
    next_after,
    round_down,
    shift,
    zone_named,
)
from tidegate.core.units.plan import TimePartition
from tidegate.errors import WatermarkError
from tidegate.specs.units import NOW, PartialPartition, PartitionKind, Rounding, Span, SubRange, TimeRange, UnitSource

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


# Abbreviations are refused although zoneinfo knows some of them: CST is both Chicago and Shanghai, IST three zones.
_IDS = {abbreviation: name for name, abbreviations in _ZONES.items() for abbreviation in abbreviations.split()}


@dataclass(frozen=True, slots=True)
class TimeBound:
    """A bound as written: either ``before`` now, or ``local`` in its ``zone``, by default the source's.

    ``default`` is the rounding of a relative bound in partitions of several days.
    """

    before: Span | None = None
    local: datetime | None = None
    zone: str | None = None
    offset: timedelta | None = None
    default: Rounding = Rounding.NONE

    @property
    def is_relative(self) -> bool:
        """True if it moves with the clock."""
        return self.before is not None

    def at(self, now: int, zone: ZoneInfo, rounding: Rounding = Rounding.NONE) -> int:
        """The moment of the bound, rounded down."""
        return round_down(self._exactly(now, zone), rounding, zone)

    def _exactly(self, now: int, zone: ZoneInfo) -> int:
        if self.before is not None:
            return shift(now, zone, earlier=self.before)
        assert self.local is not None
        if self.offset is not None:
            return moment_at(self.local, zone_named("UTC")) - self.offset // timedelta(milliseconds=1)
        return moment_at(self.local, zone if self.zone is None else zone_named(self.zone))


def parse_span(text: str) -> Span:
    """Parse ``P3D``, ``P3DT6H`` or ``P3DT6H30M`` as a length of time."""
    span = _parse_relative(text)
    if span is None:
        _refuse(text, "is not a length of time", "write P3D, P3DT6H or P3DT6H30M")
    return span


def parse_bound(text: str, *, is_end: bool) -> TimeBound:
    """Parse a bound of a range; ``WatermarkError`` if ``text`` is none."""
    if text == NOW:
        if not is_end:
            _refuse(text, "is no beginning of a time range", "give a date, or P30D for thirty days before now")
        return TimeBound(before=Span(), default=Rounding.DAY)
    span = _parse_relative(text)
    if span is not None:
        written = Rounding.MINUTE if text.endswith("M") else Rounding.HOUR if text.endswith("H") else Rounding.DAY
        return TimeBound(before=span, default=written)
    return _parse_absolute(text)


def rounding_of(
    bound: TimeBound, kind: PartitionKind, written: Rounding | None, *, abstinent: bool = False
) -> Rounding:
    """Choose the rounding of a bound: the configured one wins.

    Otherwise relative bounds are rounded by their finest part in partitions of several days, and whole days to the day
    with an abstinent period.
    """
    if written is not None:
        return written
    return bound.default if kind.is_multi_day or (abstinent and bound.default is Rounding.DAY) else Rounding.NONE


def first_above(bound: TimeBound, rounding: Rounding, moment: int, zone: ZoneInfo) -> int | None:
    """Return when the bound will pass ``moment``; None if the bound is absolute."""
    if bound.before is None:
        return None
    return shift(next_after(moment, rounding, zone), zone, later=bound.before)


def resolve(
    time_range: TimeRange, kind: PartitionKind, zone: str, now: datetime, *, abstinent: bool = False
) -> tuple[int, int]:
    """Resolve a range to ``[start, end)`` in milliseconds; a relative start lies on the calendar grid of ``kind``.

    ``WatermarkError`` if the end lies in the future and must not.
    """
    where, moment = zone_named(zone), milliseconds(now)
    first, last = parse_bound(time_range.start, is_end=False), parse_bound(time_range.end, is_end=True)
    start = first.at(moment, where, rounding_of(first, kind, time_range.start_round, abstinent=abstinent))
    # A start that moves with the clock would give every run other partitions, and read everything again.
    if first.is_relative:
        start = floor_to(start, kind, where)
    end = last.at(moment, where, rounding_of(last, kind, time_range.end_round, abstinent=abstinent))
    if end > moment and not time_range.allow_future:
        raise WatermarkError(
            f"the range ends in the future: to is {time_range.end!r}, and it is {iso(moment, where)} ({zone})",
            "what is read up to there would hold up every later run; write - for now, or allow it with allow_future",
        )
    return start, end


def _parse_relative(text: str) -> Span | None:
    match = _RELATIVE.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes = (int(match[name] or 0) for name in ("days", "hours", "minutes"))
    if hours > 23 or minutes > 59:
        _refuse(text, "has more hours or minutes than there are", "hours are 0 to 23 and minutes 0 to 59; use days")
    return Span(days, timedelta(hours=hours, minutes=minutes))


def _parse_absolute(text: str) -> TimeBound:
    match = _ABSOLUTE.fullmatch(text)
    if match is None:
        _refuse(text, "is no time", "write 2020-01-31, 2020-01-31T10:00:00Z, 2020-01-31 10:00 Europe/Paris or P3DT6H")
    try:
        local = datetime.fromisoformat(f"{match['date']}T{match['time'] or '00:00'}")
        offset = _parse_offset(match["offset"])
    except ValueError as error:
        _refuse(text, f"is no time ({error})", "correct it")
    # Cut, not rounded: a bound must not lie above the moment that was written.
    local += timedelta(milliseconds=int((match["fraction"] or "0")[:3].ljust(3, "0")))
    if match["utc"]:
        return TimeBound(local=local, zone="UTC")
    zone = match["zone"]
    if zone is not None:
        _check_zone(zone, text)
    return TimeBound(local=local, zone=zone, offset=offset)


def _parse_offset(text: str | None) -> timedelta | None:
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
        # Without a slash zoneinfo knows EST or Cuba, too; only names of an area and a city are unambiguous.
        exists = "/" in name and bool(check_zone(name))
    except ValueError:
        exists = False
    if not exists:
        _refuse(text, f"has the unknown zone {name!r}", "write Z, UTC, an offset such as +01:00, or Europe/Paris")


def _refuse(text: str, problem: str, remedy: str) -> NoReturn:
    raise WatermarkError(f"{text!r} {problem}", remedy)


_COARSE_FIRST = tuple(PartitionKind)[::-1]
_CLOCK = TimeBound(before=Span())


@dataclass(frozen=True, slots=True)
class Cut:
    """``[start, end)`` and its partitions, oldest first; ``grid`` is what their identities depend on.

    ``dropped`` is the last partition if it is left out because it is not full. ``bound`` and ``rounding`` make the end.
    """

    start: int
    end: int
    partitions: tuple[TimePartition, ...]
    grid: str
    dropped: TimePartition | None = None
    bound: TimeBound = _CLOCK
    rounding: Rounding = Rounding.NONE


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of the range with partitions of one kind; ``limit`` is its own end, above ``end`` if it is clipped."""

    start: int
    end: int
    limit: int | None
    kind: PartitionKind


def cut(source: UnitSource, now: datetime) -> Cut:
    """Cut the range of a source at ``now`` into partitions; none if the range is empty."""
    if source.time is None:
        end = milliseconds(now)
        return Cut(0, end, (TimePartition(0, end, None),), "none")
    zone, time_range = zone_named(source.timezone), source.time.range
    last_kind = source.work.sub_ranges[-1].kind if source.work.sub_ranges else source.work.partition
    abstinent, bound = not source.abstinent.is_zero, parse_bound(time_range.end, is_end=True)
    start, end = resolve(time_range, last_kind, source.timezone, now, abstinent=abstinent)
    if source.work.sub_ranges:
        pieces, grid = _cut_sub_ranges(source, end, zone, milliseconds(now))
        start = pieces[0].start if pieces else start
    else:
        pieces = [_Piece(start, end, None, last_kind)]
        text = time_range.start if parse_bound(time_range.start, is_end=False).is_relative else None
        grid = _describe_grid(last_kind, start, text, zone)
    partitions = [partition for piece in pieces for partition in _partitions(piece, zone)]
    dropped = (
        partitions.pop() if partitions and _is_left_out(partitions[-1], pieces[-1].kind, source.work.partial) else None
    )
    rounding = rounding_of(bound, last_kind, time_range.end_round, abstinent=abstinent)
    return Cut(start, end, tuple(partitions), f"{source.time.name}: {grid}", dropped, bound, rounding)


def _is_left_out(last: TimePartition, kind: PartitionKind, partial: PartialPartition) -> bool:
    if last.nominal_end is None or last.end >= last.nominal_end or partial is PartialPartition.ALWAYS:
        return False
    return partial is PartialPartition.NEVER or not kind.is_multi_day


def _partitions(piece: _Piece, zone: ZoneInfo) -> Iterator[TimePartition]:
    """Yield the partitions of a piece; those that end at its limit are full there."""
    if piece.start >= piece.end:
        return
    if piece.kind is PartitionKind.NONE:
        yield TimePartition(piece.start, piece.end, piece.limit)
        return
    end, limit = piece.end, piece.limit
    for low, high in pairwise(_starts(piece.start, piece.kind, zone)):
        nominal = high if limit is None or high < limit else limit
        if nominal >= end:
            yield TimePartition(low, end, nominal)
            return
        if low < nominal:
            yield TimePartition(low, nominal, nominal)


def _starts(anchor: int, kind: PartitionKind, zone: ZoneInfo) -> Iterator[int]:
    """Yield the starts of partitions, endlessly."""
    days = 7 if kind is PartitionKind.WEEKLY else 1
    if kind is PartitionKind.HOURLY:
        yield from count(anchor, HOUR)
    # Without clock changes days are equally long: plain addition saves a conversion per partition.
    elif not (kind is PartitionKind.MONTHLY or kind is PartitionKind.YEARLY) and zone.key == "UTC":
        yield from count(anchor, days * DAY)
    local = local_time(anchor, zone)
    yield anchor
    if kind in (PartitionKind.MONTHLY, PartitionKind.YEARLY):
        months = 12 if kind is PartitionKind.YEARLY else 1
        for number in count(1):
            later = months_later(local, months * number)
            if later is None:
                raise beyond_calendar()
            yield moment_at(later, zone)
    while True:
        local += timedelta(days=days)
        yield moment_at(local, zone)


def _describe_grid(kind: PartitionKind, start: int, text: str | None, zone: ZoneInfo) -> str:
    """Describe what the starts of partitions have in common, whichever is the first."""
    local = local_time(start, zone)
    clock = local.time().isoformat("auto")
    match kind:
        case PartitionKind.NONE:
            return f"none from {text or iso(start, zone_named('UTC'))}"
        case PartitionKind.HOURLY:
            return f"hourly at {clock[2:]}"
        case PartitionKind.DAILY:
            return f"daily at {clock}"
        case PartitionKind.WEEKLY:
            return f"weekly on {local:%A} at {clock}"
        case PartitionKind.MONTHLY:
            return f"monthly on day {local.day} at {clock}"
        case PartitionKind.YEARLY:
            return f"yearly on {local:%m-%d} at {clock}"


def _cut_sub_ranges(source: UnitSource, end: int, zone: ZoneInfo, now: int) -> tuple[list[_Piece], str]:
    """The sub-ranges, clipped to the end of the range, and what identities depend on."""
    assert source.time is not None
    subs, time_range = source.work.sub_ranges, source.time.range
    kinds = [sub.kind for sub in subs]
    first = _resolve_edge(time_range.start, kinds[0], kinds[-1], zone, now)
    edges = [_resolve_edge(subs[0].start, kinds[0], kinds[-1], zone, now)]
    for (one, other), both in zip(pairwise(subs), pairwise(kinds), strict=True):
        grid = min(both, key=_COARSE_FIRST.index)
        left, right = (_resolve_edge(text, grid, kinds[-1], zone, now) for text in (one.end, other.start))
        _check_follows(left, right, f"the sub-ranges that end at {one.end!r} and begin at {other.start!r}")
        edges.append(right)
    bound, written = parse_bound(subs[-1].end, is_end=True), time_range.end_round
    rounding = rounding_of(bound, kinds[-1], written, abstinent=not source.abstinent.is_zero)
    edges.append(bound.at(now, zone, rounding))
    _check_follows(
        first, edges[0], f"the range from {time_range.start!r} and its first sub-range from {subs[0].start!r}"
    )
    if edges[-1] < end:
        _check_follows(edges[-1], end, f"the last sub-range, which ends at {subs[-1].end!r}, and to {time_range.end!r}")
    for low, high in pairwise(edges):
        if low > high:
            raise WatermarkError(
                f"a sub-range begins at {iso(low, zone)} and ends before that, at {iso(high, zone)}", "correct it"
            )
    pieces = [
        _Piece(low, min(high, end), None if number == len(subs) - 1 else high, kind)
        for number, ((low, high), kind) in enumerate(zip(pairwise(edges), kinds, strict=True))
        if low < end
    ]
    return pieces, ", ".join(_describe_sub_range(sub, low, zone) for sub, low in zip(subs, edges, strict=False))


def _describe_sub_range(sub: SubRange, start: int, zone: ZoneInfo) -> str:
    relative = parse_bound(sub.start, is_end=False).is_relative
    since = sub.start if relative else iso(start, zone)
    return f"{_describe_grid(sub.kind, start, sub.start if relative else None, zone)} since {since}"


def _resolve_edge(text: str, grid: PartitionKind, rounds_by: PartitionKind, zone: ZoneInfo, now: int) -> int:
    bound = parse_bound(text, is_end=False)
    moment = bound.at(now, zone, rounding_of(bound, rounds_by, None))
    return floor_to(moment, grid, zone) if bound.is_relative else moment


def _check_follows(end: int, start: int, between: str) -> None:
    if end != start:
        raise WatermarkError(
            f"there is {'a gap between' if end < start else 'an overlap of'} {between}",
            "let each sub-range begin where the one before it ends, the first one where the range begins",
        )
