"""Replay of a column source: a range in chunks, the progress through them, and the return to production.

Minutes and hours count from midnight, days from ``start``, weeks from Monday, months from January; years and numbers
lie at multiples. Only the first and the last chunk may be shorter. Times with a zone are cut by the offset of
``start``, so no clock change moves a boundary. Times without one belong to a zone: when its clocks jump forward, the
boundaries in the jump and just after it become one, and the chunk there is longer.

``{"schema_version": 1, "kind": "replay", "watermark": text with start and end, "column": …, "interval": …, "finished":
[[first, last], …], "begun": position, "update_ts": seconds}``: numbers of chunks, as ranges that include both ends.
``"timezone"`` is there only for bounds without a zone: its clocks decide where chunks end.

Production continues with the value at which the finished chunks end, that value included. A replay never lowers a
watermark, and never sets it above rows that nobody has read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from datetime import timezone as timezone_of
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from itertools import count, groupby

from tidegate.core.calendar import check_zone, jump_around
from tidegate.core.columns.look_back import EXACT, moment_like
from tidegate.core.columns.state import (
    NUMBERS,
    TEMPORAL,
    ColumnState,
    are_comparable,
    describe,
    is_above,
    kind_of,
)
from tidegate.core.json_shape import SCHEMA_VERSION, Node, check_version, seconds_of
from tidegate.core.watermark_text import WatermarkSerializer
from tidegate.errors import ConfigError, StateError, WatermarkError
from tidegate.specs.columns import ColumnSource, Load, LoadType, Value, Watermark, WatermarkMode

STEP = "step"
UNITS = ("minutes", "hours", "days", "weeks", "months", "years", STEP)
MAX_CHUNKS = 100_000
"""A step that is too small for its range would list chunks without end before anything is read."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Values ``v`` with ``low <= v < high``."""

    low: Value
    high: Value


@dataclass(frozen=True, slots=True)
class ChunkInterval:
    """The length of a chunk: a number of one unit; ``step`` is for numbers."""

    unit: str
    size: int | Decimal

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise _refusal(f"unknown unit {self.unit!r}; there are {', '.join(UNITS)}")
        allowed = (int, Decimal) if self.unit == STEP else (int,)
        if isinstance(self.size, bool) or not isinstance(self.size, allowed) or not self.size > 0:
            raise _refusal(
                f"{self.unit} must be a {'' if self.unit == STEP else 'whole '}number above 0: {self.size!r}"
            )

    @classmethod
    def of(cls, given: Mapping[str, object]) -> ChunkInterval:
        """Read an interval such as ``{"months": 1}``; exactly one unit."""
        if len(given) != 1:
            raise _refusal(f"exactly one unit is needed, found {', '.join(map(str, given)) or 'none'}")
        ((unit, size),) = given.items()
        exact = Decimal(str(size)) if isinstance(size, float) and math.isfinite(size) and unit == STEP else size
        return cls(unit, exact)  # type: ignore[arg-type]  # the class itself refuses other types


@dataclass(frozen=True, slots=True)
class ReplayConfig:
    """Which part of a source to read again, and how.

    ``[start, end)`` in chunks of ``chunk_interval``, such as ``{"months": 1}``; without it in one piece. With
    ``save_watermark`` production continues where the replay ended. ``chunk_column`` is the column of the bounds, if it
    is not the watermark column.
    """

    start: Value
    end: Value
    chunk_interval: Mapping[str, object] | ChunkInterval | None = None
    save_watermark: bool = False
    chunk_column: str | None = None

    def __post_init__(self) -> None:
        self.chunks()

    def chunks(self, timezone: str | None = None) -> tuple[Chunk, ...]:
        """Return the chunks, in order; ``timezone`` is that of bounds without one."""
        given = self.chunk_interval
        interval = ChunkInterval.of(given) if isinstance(given, Mapping) else given
        return chunks(self.start, self.end, interval, timezone)


def chunks(start: Value, end: Value, interval: ChunkInterval | None, timezone: str | None = None) -> tuple[Chunk, ...]:
    """Cut ``[start, end)`` into chunks without gap or overlap; ``ConfigError`` if that is impossible.

    ``timezone`` is that of times without a zone; None if it does not matter.
    """
    start, end = _reduce_to_offset(start), _reduce_to_offset(end)
    for bound in (start, end):
        _check_bound(bound, timezone)
    if not are_comparable(start, end):
        raise _refusal(f"start {describe(start)} and end {describe(end)} are of different kinds")
    if not is_above(end, start):
        raise _refusal(f"start {start} must lie before end {end}")
    if interval is None:
        return (Chunk(start, end),)
    edges = [start]
    for planned in _edges(start, interval):
        jump = jump_around(planned, timezone)
        edge = planned if jump is None else jump.until
        if not is_above(end, edge):
            break
        # Edges inside a clock jump all move to its end and would make empty chunks.
        if is_above(edge, edges[-1]):
            edges.append(edge)
        if len(edges) > MAX_CHUNKS:
            raise _refusal(f"{interval.unit}: {interval.size} makes more than {MAX_CHUNKS:,} chunks; use longer ones")
    return tuple(Chunk(low, high) for low, high in zip(edges, [*edges[1:], end], strict=True))


def _reduce_to_offset(value: Value) -> Value:
    """Reduce a time with a zone to its offset, as a replay records it."""
    if not isinstance(value, datetime) or (offset := value.utcoffset()) is None:
        return value
    # A record in another process must cut the same chunks, and only the offset survives in its text.
    return value.replace(tzinfo=UTC if not offset else timezone_of(offset), fold=0)


def _check_bound(value: Value, timezone: str | None) -> None:
    """Refuse a bound without a zone inside a clock jump: as a moment it would cut off rows that belong to it."""
    jump = jump_around(value, timezone)
    if jump is not None:
        raise _refusal(
            f"clocks in {timezone} jump from {jump.low} to {jump.high}, so {value} cannot be a boundary: rows in the"
            f" jump count as later ones; use {jump.low} or {jump.until}"
        )


def _edges(start: Value, interval: ChunkInterval) -> Iterator[Value]:
    """Yield the boundaries above ``start``, endlessly."""
    kind, unit = kind_of(start), interval.unit
    if unit == STEP and kind in NUMBERS and isinstance(start, int | float | Decimal):
        return _multiples(start, interval.size)
    if unit == STEP or kind not in TEMPORAL or not isinstance(start, date):
        raise _refusal(f"chunks of {unit} do not fit {describe(start)}")
    if unit in ("minutes", "hours") and not isinstance(start, datetime):
        raise _refusal(f"chunks of {unit} need times, and {start} is a date")
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
    """The boundary number ``number`` above ``start``."""
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


def _refusal(problem: str) -> ConfigError:
    return ConfigError((f"replay: {problem}",))


KIND = "replay"


@dataclass(frozen=True, slots=True)
class ReplayState:
    """A range of one column in chunks, and the numbers of the finished ones.

    ``begun`` is the position of the record when this replay began: of two records with the same chunks, the later one
    counts.
    """

    column: str
    start: Value
    end: Value
    interval: ChunkInterval | None = None
    finished: frozenset[int] = frozenset()
    begun: int = 0
    updated: datetime | None = None
    timezone: str | None = None

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        return chunks(self.start, self.end, self.interval, self.timezone)

    @property
    def is_finished(self) -> bool:
        return len(self.finished) == len(self.chunks)

    @property
    def reached(self) -> Value | None:
        """The end of the contiguous finished chunks; None if the first is not finished."""
        reached = None
        for number, chunk in enumerate(self.chunks):
            if number not in self.finished:
                break
            reached = chunk.high
        return reached

    def is_same(self, other: ReplayState) -> bool:
        """Whether both have the same chunks; the same moment in another zone may give others."""
        return _identity(self) == _identity(other)

    def with_finished(self, number: int, now: datetime) -> ReplayState:
        """The state once that chunk is committed."""
        return replace(self, finished=self.finished | {number}, updated=now)


def encode(state: ReplayState) -> dict[str, object]:
    bounds, column, interval, timezone = _identity(state)
    return {
        **({} if timezone is None else {"timezone": timezone}),
        "schema_version": SCHEMA_VERSION,
        "kind": KIND,
        "watermark": bounds,
        "column": column,
        "interval": interval,
        "finished": [[first, last] for first, last in _group_consecutive(sorted(state.finished))],
        "begun": state.begun,
        "update_ts": seconds_of(state.updated),
    }


def decode(data: Mapping[str, object]) -> ReplayState:
    """Decode the recorded state; ``StateError`` if it is not that of a replay."""
    root = Node(data, "state")
    check_version(root)
    try:
        return _decode_root(root)
    # A damaged record only costs the progress of a replay, which may always start anew.
    except (StateError, ConfigError, WatermarkError, KeyError, ValueError, InvalidOperation) as error:
        problem = getattr(error, "problem", repr(error))
        raise StateError(
            f"the record of the replay is damaged ({problem})", "start it anew with `tidegate replay … --fresh`"
        ) from error


def _decode_root(root: Node) -> ReplayState:
    if root.get("kind").text() != KIND:
        raise root.get("kind").refusal(repr(KIND))
    bounds = WatermarkSerializer.deserialize(root.get("watermark").text()) or {}
    state = ReplayState(
        root.get("column").text(),
        bounds["start"],
        bounds["end"],
        _decode_interval(root.get("interval")),
        frozenset(
            number
            for first, last in (item.items() for item in root.get("finished").items())
            for number in range(first.integer(), last.integer() + 1)
        ),
        root.get("begun").integer(),
        root.get("update_ts").seconds(),
        root.get("timezone").optional_text(),
    )
    if state.finished and max(state.finished) >= len(state.chunks):
        raise root.get("finished").refusal(f"numbers below {len(state.chunks)}")
    return state


def _identity(state: ReplayState) -> tuple[str, str, dict[str, str] | None, str | None]:
    """Return bounds, column, interval and zone of the replay, as recorded."""
    bounds = WatermarkSerializer.serialize({"end": state.end, "start": state.start})
    interval = None if state.interval is None else {state.interval.unit: str(state.interval.size)}
    return bounds, state.column, interval, state.timezone


def _decode_interval(node: Node) -> ChunkInterval | None:
    if node.is_null:
        return None
    ((unit, size),) = node.entries()
    text = size.text()
    return ChunkInterval(unit, int(text) if text.isdigit() else Decimal(text))


def _group_consecutive(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Group consecutive numbers into ranges: 1, 2, 3, 7 becomes 1 to 3 and 7 to 7."""
    for _, group in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        members = [number for _, number in group]
        yield members[0], members[-1]


def chunk_columns(source: ColumnSource, column: str | None) -> tuple[str, ...]:
    """Return the columns of the bounds: the named one, the first of a cursor, or all of them."""
    if column is not None:
        return (column,)
    return source.watermark_columns[:1] if source.mode is WatermarkMode.TUPLE else source.watermark_columns


def chunk_zone(source: ColumnSource, replay: ReplayConfig) -> str | None:
    """The zone whose clocks decide where chunks end; None for moments, days and values that are no times."""
    is_local = isinstance(replay.start, datetime) and replay.start.tzinfo is None
    return source.source_timezone if is_local and source.source_timezone != "UTC" else None


def fit_bounds(replay: ReplayConfig, kind: str, source_timezone: str) -> ReplayConfig:
    """Convert the bounds to the column's ``kind``.

    A date among times with a zone means its midnight in UTC, among times without one their own midnight. A time without
    a zone among moments is in ``source_timezone``, and vice versa if that is a unique time.
    """
    start, end = (_fit_bound(bound, kind, source_timezone) for bound in (replay.start, replay.end))
    return replay if (start, end) == (replay.start, replay.end) else replace(replay, start=start, end=end)


def _fit_bound(value: Value, kind: str, source_timezone: str) -> Value:
    if type(value) is date and kind in ("datetime", "datetime_naive"):
        return datetime.combine(value, time(), UTC if kind == "datetime" else None)
    if kind_of(value) == "datetime_naive" and kind == "datetime" and isinstance(value, datetime):
        return value.replace(tzinfo=check_zone(source_timezone)).astimezone(UTC)
    if kind_of(value) == "datetime" and kind == "datetime_naive" and isinstance(value, datetime):
        return _to_local_time(value, source_timezone)
    return value


def _to_local_time(moment: datetime, timezone: str) -> datetime:
    """The local time at that moment; ``WatermarkError`` if clocks show it twice, or it would cut a jump."""
    zone = check_zone(timezone)
    local = moment.astimezone(zone).replace(tzinfo=None, fold=0)
    if local.replace(tzinfo=zone).astimezone(UTC) != moment or jump_around(local, timezone) is not None:
        raise WatermarkError(
            f"the replay's bound {moment} is {local} in {timezone}, a time that clocks show twice or jump over, and the"
            " column has no zone",
            "give a bound without a zone, such as the full hour before or after",
        )
    return local


def check_handover(
    name: str,
    source: ColumnSource,
    load: Load,
    state: ColumnState | None,
    replay: ReplayConfig,
    *,
    skip_gap: bool = False,
) -> None:
    """Refuse a replay that production could not continue from: rows would be skipped or read by both."""
    stored = (state or ColumnState()).values
    columns = chunk_columns(source, replay.chunk_column)
    _check_columns(name, source, load, columns)
    below = [column for column in columns if (value := stored.get(column)) is None or is_above(replay.start, value)]
    if below and not skip_gap:
        raise WatermarkError(
            f"{name}: the replay starts at {replay.start}, above the watermark of {_describe(stored, below)}: the rows"
            " between were never read",
            "start at the watermark or below; or, if they are not wanted, use --skip-gap",
        )
    passed = [column for column in columns if _is_passed(stored.get(column), replay.end)]
    ahead = [column for column in columns if column not in passed]
    if passed and ahead:
        raise WatermarkError(
            f"{name}: the replay ends at {replay.end}, above the watermark of {_describe(stored, passed)} and not above"
            f" that of {_describe(stored, ahead)}: rows new by the one and old by the other would be left out",
            "end above both, or do not save the watermark",
        )


def check_past(name: str, source: ColumnSource, replay: ReplayConfig, now: datetime) -> None:
    """Refuse to save an end in the future: later rows below it would never be read."""
    until = now if source.safety_lag is None else now - source.safety_lag
    latest = moment_like(replay.end, until, source.source_timezone)
    if latest is not None and is_above(replay.end, latest):
        raise WatermarkError(
            f"{name}: the replay ends at {replay.end}, later than {latest}, and saves that as the watermark: rows that"
            " come before it would never be read",
            "end at a time that has passed, or do not save the watermark",
        )


def check_reached(name: str, replay: ReplayConfig, seen: Watermark) -> None:
    """Refuse to save a number that the source has not reached: later rows below it would never be read."""
    end = replay.end
    for column, value in seen.items():
        # The number after the greatest means "up to and including the greatest".
        if not _is_next(end, value) and (value is None or is_above(end, value)):
            raise WatermarkError(
                f"{name}: the replay ends at {end}, above the greatest value of {column} ({value}), and saves that as"
                " the watermark: rows that come below it would never be read",
                f"end at {value}, or do not save the watermark" if value is not None else "do not save the watermark",
            )


def is_number(value: Value) -> bool:
    """Whether a value is a number: then only the source knows how far it has come."""
    return kind_of(value) in NUMBERS


def columns_read_twice(
    source: ColumnSource, load: Load, state: ColumnState | None, replay: ReplayConfig
) -> tuple[str, ...]:
    """The columns by which the next run would append rows of the replay again, if the replay does not save its end.

    If nothing was read before, the next run reads everything.
    """
    if replay.save_watermark or load.type is not LoadType.APPEND:
        return ()
    if state is None:
        return source.watermark_columns
    used = [column for column in source.watermark_columns if column in chunk_columns(source, replay.chunk_column)]
    return tuple(
        column
        for column in used
        if not _is_next(replay.end, state.values.get(column)) and _is_passed(state.values.get(column), replay.end)
    )


def _is_next(end: Value, value: Value | None) -> bool:
    """Whether ``end`` is the whole number after ``value``: nothing can come between the two."""
    return isinstance(end, int) and isinstance(value, int) and end == value + 1


def is_covered(chunk: Chunk, stored: Sequence[Value | None]) -> bool:
    """Whether a chunk ends at or below each of these watermarks; false without one."""
    return bool(stored) and not any(_is_passed(value, chunk.high) for value in stored)


def hand_over(
    source: ColumnSource, state: ColumnState | None, column: str | None, end: Value, now: datetime
) -> ColumnState:
    """Return the state once everything up to ``end`` was read; unchanged if a watermark is already there or above."""
    before = state or ColumnState()
    columns = chunk_columns(source, column)
    if not all(_is_passed(before.values.get(bound_column), end) for bound_column in columns):
        return before
    cursor = source.watermark_columns if source.mode is WatermarkMode.TUPLE else ()
    # The rest of the cursor is unknown at the new value, so that all rows at it count as unread.
    values = {**before.values, **dict.fromkeys(cursor), **dict.fromkeys(columns, end)}
    # The end of a chunk is exclusive: rows at that very value are production's.
    return replace(before, values=values, inclusive=before.inclusive | set(columns), updated=now)


def _check_columns(name: str, source: ColumnSource, load: Load, columns: tuple[str, ...]) -> None:
    foreign = [column for column in columns if column not in source.watermark_columns]
    if foreign or not columns:
        raise WatermarkError(
            f"{name}: {', '.join(foreign) or 'no column'} is not a watermark column, so that the end of the replay says"
            " nothing about the watermark",
            "replay without saving the watermark, or by a watermark column",
        )
    is_cursor = source.mode is WatermarkMode.TUPLE
    if is_cursor and columns != source.watermark_columns[:1]:
        raise WatermarkError(
            f"{name}: {columns[0]} is not the first column of the cursor {', '.join(source.watermark_columns)}",
            "replay by the first column, or without saving the watermark",
        )
    if not is_cursor and len(columns) < len(source.watermark_columns) and not load.type.is_idempotent:
        raise WatermarkError(
            f"{name}: after a replay by {columns[0]} alone, rows that are new by another watermark column would be"
            " appended again",
            "replay by all watermark columns: leave chunk_column out; or do not save the watermark",
        )


def _is_passed(stored: Value | None, end: Value) -> bool:
    return stored is None or is_above(end, stored)


def _describe(stored: Watermark, columns: list[str]) -> str:
    return ", ".join(f"{column} ({stored.get(column, 'nothing stored')})" for column in columns)
