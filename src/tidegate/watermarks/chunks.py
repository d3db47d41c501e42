"""Replay in chunks: ``[start, end)`` cut at the boundaries of a calendar or a grid of numbers.

Minutes and hours count from midnight, days from ``start``, weeks from Monday, months from January, years and numbers
stand at multiples. Only the first and the last chunk may be shorter than the others. Times with a zone are cut by the
offset of ``start``, so that clocks that change move no boundary. Times without one are those of a zone: where its
clocks jump forward, the boundaries in the jump and as long behind it are one, so that a chunk there is longer.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from datetime import timezone as timezone_of
from decimal import Decimal
from fractions import Fraction
from itertools import count

from tidegate.column_specs import Value
from tidegate.errors import ConfigError
from tidegate.watermarks.column_values import NUMBERS, TEMPORAL, are_comparable, described, is_above, kind_of
from tidegate.watermarks.local_times import Jump, jump_around
from tidegate.watermarks.look_back import EXACT

STEP = "step"
UNITS = ("minutes", "hours", "days", "weeks", "months", "years", STEP)
MAX_CHUNKS = 100_000


@dataclass(frozen=True, slots=True)
class Chunk:
    """Values ``v`` with ``low <= v < high``."""

    low: Value
    high: Value


@dataclass(frozen=True, slots=True)
class ChunkInterval:
    """How long a chunk is: so many of one unit; ``step`` is for numbers."""

    unit: str
    size: int | Decimal

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise _wrong(f"unknown unit {self.unit!r}; there are {', '.join(UNITS)}")
        allowed = (int, Decimal) if self.unit == STEP else (int,)
        if isinstance(self.size, bool) or not isinstance(self.size, allowed) or not self.size > 0:
            raise _wrong(f"{self.unit} must be a {'' if self.unit == STEP else 'whole '}number above 0: {self.size!r}")

    @classmethod
    def of(cls, given: Mapping[str, object]) -> ChunkInterval:
        """The interval of ``{"months": 1}``; exactly one unit."""
        if len(given) != 1:
            raise _wrong(f"exactly one unit is needed, found {', '.join(map(str, given)) or 'none'}")
        ((unit, size),) = given.items()
        exact = Decimal(str(size)) if isinstance(size, float) and math.isfinite(size) and unit == STEP else size
        return cls(unit, exact)  # type: ignore[arg-type]  # the class itself refuses what is no number


@dataclass(frozen=True, slots=True)
class ReplayConfig:
    """Which part of a source is read again, and how.

    ``[start, end)`` in chunks of ``chunk_interval``, such as ``{"months": 1}``; without it in one piece. With
    ``save_watermark`` production goes on where the replay ended. ``chunk_column`` is the column that the bounds belong
    to, where it is not the watermark column.
    """

    start: Value
    end: Value
    chunk_interval: Mapping[str, object] | ChunkInterval | None = None
    save_watermark: bool = False
    chunk_column: str | None = None

    def __post_init__(self) -> None:
        self.chunks()

    def chunks(self, timezone: str | None = None) -> tuple[Chunk, ...]:
        """The chunks, in order; ``timezone`` is that of bounds without one."""
        given = self.chunk_interval
        interval = ChunkInterval.of(given) if isinstance(given, Mapping) else given
        return chunks(self.start, self.end, interval, timezone)


def chunks(start: Value, end: Value, interval: ChunkInterval | None, timezone: str | None = None) -> tuple[Chunk, ...]:
    """Chunks that cover ``[start, end)`` without gap or overlap; ``ConfigError`` where that cannot be done.

    ``timezone`` is where times without a zone belong; None where that does not matter.
    """
    start, end = _by_offset(start), _by_offset(end)
    for bound in (start, end) if timezone is not None else ():
        _check_bound(bound, timezone)
    if not are_comparable(start, end):
        raise _wrong(f"start {described(start)} and end {described(end)} are of different kinds")
    if not is_above(end, start):
        raise _wrong(f"start {start} must lie before end {end}")
    if interval is None:
        return (Chunk(start, end),)
    edges = [start]
    for planned in _edges(start, interval):
        edge = _behind_jump(planned, timezone)
        if not is_above(end, edge):
            break
        if is_above(edge, edges[-1]):
            edges.append(edge)
        if len(edges) > MAX_CHUNKS:
            raise _wrong(f"{interval.unit}: {interval.size} makes more than {MAX_CHUNKS:,} chunks; use longer ones")
    return tuple(Chunk(low, high) for low, high in zip(edges, [*edges[1:], end], strict=True))


def _by_offset(value: Value) -> Value:
    """A time with a zone by its offset alone, as the record of a replay has it."""
    if not isinstance(value, datetime) or (offset := value.utcoffset()) is None:
        return value
    return value.replace(tzinfo=UTC if not offset else timezone_of(offset), fold=0)


def _check_bound(value: Value, timezone: str | None) -> None:
    """Refuse a bound without a zone that lies where clocks jump: as a moment it cuts rows off that belong to it."""
    jump = _jump(value, timezone)
    if jump is not None:
        raise _wrong(
            f"clocks in {timezone} jump from {jump.low} to {jump.high}, so that {value} is no boundary: rows in the"
            f" jump are taken as later ones; use {jump.low} or {jump.until}"
        )


def _behind_jump(edge: Value, timezone: str | None) -> Value:
    jump = _jump(edge, timezone)
    return edge if jump is None else jump.until


def _jump(value: Value, timezone: str | None) -> Jump | None:
    is_local = timezone is not None and isinstance(value, datetime) and value.tzinfo is None
    return jump_around(value, timezone) if is_local else None  # type: ignore[arg-type]  # a time and its zone


def contiguous_end(chunks: Sequence[Chunk], finished: Collection[Chunk]) -> Value | None:
    """Up to where everything is finished from the first chunk on; None if that one is not."""
    reached = None
    for chunk in chunks:
        if chunk not in finished:
            break
        reached = chunk.high
    return reached


def _edges(start: Value, interval: ChunkInterval) -> Iterator[Value]:
    """The boundaries above ``start``, without end."""
    kind, unit = kind_of(start), interval.unit
    if unit == STEP and kind in NUMBERS and isinstance(start, int | float | Decimal):
        return _multiples(start, interval.size)
    if unit == STEP or kind not in TEMPORAL or not isinstance(start, date):
        raise _wrong(f"chunks of {unit} do not fit {described(start)}")
    if unit in ("minutes", "hours") and not isinstance(start, datetime):
        raise _wrong(f"chunks of {unit} need times, and {start} is a date")
    return _calendar(start, unit, int(interval.size))


def _multiples(start: int | float | Decimal, step: int | Decimal) -> Iterator[Value]:
    for number in count(math.floor(Fraction(start) / Fraction(step)) + 1):
        if isinstance(start, float):
            yield float(number * Fraction(step))
        elif isinstance(start, Decimal) or isinstance(step, Decimal):
            yield EXACT.multiply(Decimal(number), Decimal(step))
        else:
            yield number * step


def _calendar(start: date, unit: str, size: int) -> Iterator[Value]:
    moment = start if isinstance(start, datetime) else datetime.combine(start, time())
    try:
        for number in count(1):
            edge = _edge(moment, unit, size, number)
            yield edge if isinstance(start, datetime) else edge.date()
    except (OverflowError, ValueError):
        return  # the calendar ends here


def _edge(start: datetime, unit: str, size: int, number: int) -> datetime:
    """The boundary of that number above ``start``."""
    midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
    january = midnight.replace(month=1, day=1)
    match unit:
        case "days":
            return start + number * timedelta(days=size)
        case "weeks":
            return midnight - timedelta(days=start.weekday()) + number * timedelta(weeks=size)
        case "months":
            months = ((start.month - 1) // size + number) * size
            return january.replace(year=january.year + months // 12, month=1 + months % 12)
        case "years":
            return january.replace(year=(start.year // size + number) * size)
        case _:
            length = timedelta(**{unit: size})
            return midnight + ((start - midnight) // length + number) * length


def _wrong(problem: str) -> ConfigError:
    return ConfigError((f"replay: {problem}",))
