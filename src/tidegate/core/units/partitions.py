"""A time range cut into partitions, counted from its beginning and cut by nothing but its bounds.

The beginnings of partitions are the identities of work units, so that one that still grows stays the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count, pairwise
from zoneinfo import ZoneInfo

from tidegate.core.calendar import (
    DAY,
    HOUR,
    floored,
    iso,
    local_time,
    milliseconds,
    moment_at,
    months_later,
    zone_named,
)
from tidegate.core.units.plan import TimePartition
from tidegate.core.units.time_bounds import TimeBound, parse_bound, resolve, rounding_of
from tidegate.errors import WatermarkError
from tidegate.specs.units import PartialPartition, PartitionKind, Rounding, Span, SubRange, UnitSource

_COARSE_FIRST = tuple(PartitionKind)[::-1]
_CLOCK = TimeBound(before=Span())


@dataclass(frozen=True, slots=True)
class Cut:
    """``[start, end)`` and its partitions, oldest first; ``grid`` says what their identities depend on.

    ``dropped`` is the last one, where it is left out because it is not full. ``bound`` and ``rounding`` make the end.
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
    """A part of the range with partitions of one kind; ``limit`` is its own end, above ``end`` where it is clipped."""

    start: int
    end: int
    limit: int | None
    kind: PartitionKind


def cut(source: UnitSource, now: datetime) -> Cut:
    """The partitions of a source at ``now``; none where the range is empty."""
    if source.time is None:
        end = milliseconds(now)
        return Cut(0, end, (TimePartition(0, end, None),), "none")
    zone, time_range = zone_named(source.timezone), source.time.range
    last_kind = source.work.sub_ranges[-1].kind if source.work.sub_ranges else source.work.partition
    abstinent, bound = not source.abstinent.is_zero, parse_bound(time_range.end, is_end=True)
    start, end = resolve(time_range, last_kind, source.timezone, now, abstinent=abstinent)
    if source.work.sub_ranges:
        pieces, grid = _composite(source, end, zone, milliseconds(now))
        start = pieces[0].start if pieces else start
    else:
        pieces = [_Piece(start, end, None, last_kind)]
        text = time_range.start if parse_bound(time_range.start, is_end=False).is_relative else None
        grid = _phase(last_kind, start, text, zone)
    found = [partition for piece in pieces for partition in _partitions(piece, zone)]
    dropped = found.pop() if found and _is_left_out(found[-1], pieces[-1].kind, source.work.partial) else None
    rounding = rounding_of(bound, last_kind, time_range.end_round, abstinent=abstinent)
    return Cut(start, end, tuple(found), f"{source.time.name}: {grid}", dropped, bound, rounding)


def _is_left_out(last: TimePartition, kind: PartitionKind, partial: PartialPartition) -> bool:
    if last.nominal_end is None or last.end >= last.nominal_end or partial is PartialPartition.ALWAYS:
        return False
    return partial is PartialPartition.NEVER or not kind.is_multi_day


def _partitions(piece: _Piece, zone: ZoneInfo) -> Iterator[TimePartition]:
    """The partitions of a piece; those that end at its limit are full there."""
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
    """Where partitions begin, without end."""
    days = 7 if kind is PartitionKind.WEEKLY else 1
    if kind is PartitionKind.HOURLY:
        yield from count(anchor, HOUR)
    elif not (kind is PartitionKind.MONTHLY or kind is PartitionKind.YEARLY) and zone.key == "UTC":
        yield from count(anchor, days * DAY)
    local = local_time(anchor, zone)
    yield anchor
    if kind in (PartitionKind.MONTHLY, PartitionKind.YEARLY):
        months = 12 if kind is PartitionKind.YEARLY else 1
        yield from (moment_at(months_later(local, months * number), zone) for number in count(1))
    step = timedelta(days=days)
    while True:
        local += step
        yield moment_at(local, zone)


def _phase(kind: PartitionKind, start: int, text: str | None, zone: ZoneInfo) -> str:
    """What the beginnings of partitions have in common, whichever of them is the first."""
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


def _composite(source: UnitSource, end: int, zone: ZoneInfo, now: int) -> tuple[list[_Piece], str]:
    """The sub-ranges, clipped to the end of the range, and what identities depend on."""
    assert source.time is not None
    subs, time_range = source.work.sub_ranges, source.time.range
    kinds = [each.kind for each in subs]
    first = _edge(time_range.start, kinds[0], kinds[-1], zone, now)
    edges = [_edge(subs[0].start, kinds[0], kinds[-1], zone, now)]
    for (one, other), grid in zip(pairwise(subs), (_coarser(pair) for pair in pairwise(kinds)), strict=True):
        left, right = (_edge(text, grid, kinds[-1], zone, now) for text in (one.end, other.start))
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
    return pieces, ", ".join(_phase_of(each, low, zone) for each, low in zip(subs, edges, strict=False))


def _phase_of(sub: SubRange, start: int, zone: ZoneInfo) -> str:
    relative = parse_bound(sub.start, is_end=False).is_relative
    since = sub.start if relative else iso(start, zone)
    return f"{_phase(sub.kind, start, sub.start if relative else None, zone)} since {since}"


def _edge(text: str, grid: PartitionKind, rounds_by: PartitionKind, zone: ZoneInfo, now: int) -> int:
    bound = parse_bound(text, is_end=False)
    moment = bound.at(now, zone, rounding_of(bound, rounds_by, None))
    return floored(moment, grid, zone) if bound.is_relative else moment


def _coarser(kinds: Sequence[PartitionKind]) -> PartitionKind:
    return min(kinds, key=_COARSE_FIRST.index)


def _check_follows(end: int, start: int, between: str) -> None:
    if end != start:
        raise WatermarkError(
            f"there is {'a gap between' if end < start else 'an overlap of'} {between}",
            "let each sub-range begin where the one before it ends, the first one where the range begins",
        )
