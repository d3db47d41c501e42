"""Plans a column source: where the read begins and, once the source has answered, where it ends.

The end is fixed before anything is read. So the rows written are those that the watermark covers, even if the source
changes meanwhile.

Times up to the horizon (now plus ``future_tolerance``) are trusted. Rows above it are left out and counted; they are
read once, when their time has come.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property

from tidegate.core.calendar import check_zone, jump_around
from tidegate.core.columns.look_back import lower, moment_like
from tidegate.core.columns.predicates import INCLUSIVE, Bound, ColumnRange, RowFilter, operator_of
from tidegate.core.columns.replay import Chunk, chunk_columns
from tidegate.core.columns.state import (
    TEMPORAL,
    ColumnState,
    are_comparable,
    describe,
    errors_of,
    is_above,
    is_finite,
    kind_of,
)
from tidegate.core.dialects.registry import dialect_of
from tidegate.core.watermark_text import is_watermark_empty
from tidegate.errors import WatermarkError
from tidegate.specs.columns import (
    ColumnSource,
    JdbcRead,
    Load,
    LoadType,
    NullWatermark,
    ReadFacts,
    Value,
    Watermark,
    WatermarkMode,
)


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """What to read of one source at ``position``: a pure value, equal arguments give equal plans.

    ``stored`` is the watermark of the source's columns, ``effective`` where the read begins after look-back. ``reads``
    has no caps yet except those of ``safety_lag``. ``full``: everything is read. ``window``: rows of the table in the
    range are replaced. ``lag_until`` is the moment that ``safety_lag`` allows, for columns whose kind is unknown until
    the source is asked; ``horizon`` is the last trusted time (``future_tolerance``), None if nothing limits times or
    ``lag_until`` does.
    """

    pipeline: str
    source: str
    position: int
    now: datetime
    stored: Watermark = field(default_factory=dict)
    effective: Watermark = field(default_factory=dict)
    reads: RowFilter = field(default_factory=RowFilter)
    full: bool = False
    window: bool = False
    chunk: Chunk | None = None
    notes: tuple[str, ...] = ()
    lag_until: datetime | None = None
    source_timezone: str = "UTC"
    horizon: datetime | None = None

    @property
    def reads_again(self) -> bool:
        """Whether rows may come that an earlier read has brought: unless every lower bound lies right behind it."""
        lowers = [interval.lower for interval in self.reads.ranges]
        is_behind = bool(lowers) and all(lower is not None and not lower.inclusive for lower in lowers)
        return not is_behind or self.chunk is not None or self.reads.nulls is NullWatermark.INCLUDE


@dataclass(frozen=True, slots=True)
class ReadBounds:
    """A read with a fixed end: the rows, and the state that covers exactly them.

    ``window`` selects the rows of the table to replace, by the source's column names. ``nothing``: there can be no row,
    so there is nothing to read or commit.
    """

    rows: RowFilter
    state: ColumnState
    window: RowFilter | None = None
    nothing: bool = False


AHEAD_REMEDY = (
    "set it to the last value that is right: `tidegate watermark set`; if times ahead are right here, set "
    "future_tolerance: none, or a longer one"
)
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]|$)", re.ASCII)


def horizon_of(source: ColumnSource, now: datetime) -> datetime | None:
    """Return the last trusted time; None if every time is."""
    return None if source.future_tolerance is None else now.astimezone(UTC) + source.future_tolerance


def find_stored_ahead(source: ColumnSource, stored: Watermark, now: datetime) -> Iterator[str]:
    """Yield a sentence for each column whose stored value lies beyond the horizon."""
    horizon = horizon_of(source, now)
    for column in source.watermark_columns if horizon is not None else ():
        value = stored.get(column)
        if value is not None and _is_ahead(value, horizon, source.source_timezone):
            yield (
                f"the watermark of {column} is {value}, which is further ahead than future_tolerance allows: whatever "
                "comes before it is passed over"
            )


def caps_ahead(plan: ColumnPlan, seen: Watermark) -> dict[str, Value]:
    """Return the cap of each column whose greatest value lies beyond the horizon."""
    caps = {column: _cap(seen.get(column), plan.horizon, plan.source_timezone) for column in plan.reads.leading}
    return {column: cap for column, cap in caps.items() if cap is not None}


def rows_ahead(plan: ColumnPlan, caps: Mapping[str, Value]) -> RowFilter:
    """Select the rows above these caps. They lie above every watermark too, so the plan would read all of them."""
    ranges = tuple(ColumnRange(column, Bound(cap)) for column, cap in caps.items())
    return RowFilter(ranges, extra=plan.reads.extra, strict=True)


def cap_plan(plan: ColumnPlan, caps: Mapping[str, Value]) -> ColumnPlan:
    """Leave rows above these caps out of the plan."""
    upper = {column: Bound(cap, inclusive=True) for column, cap in caps.items()}
    return replace(plan, reads=plan.reads.capped(upper))


def check_text(plan: ColumnPlan, column: str, value: str) -> None:
    """``WatermarkError`` for a text that is a time beyond the horizon: a read by text cannot end at a time."""
    if plan.horizon is None or not _is_ahead(value, plan.horizon, plan.source_timezone):
        return
    raise WatermarkError(
        f"{plan.pipeline}/{plan.source}: the greatest value of watermark column {column!r} is the text {value!r}, a"
        f" time further ahead than future_tolerance allows ({plan.horizon.isoformat()}): as the watermark it would hide"
        " every row before it",
        "declare the column as a timestamp or a date, so that such rows wait; or leave them out with"
        " filter_expression; or set future_tolerance: none",
    )


def _is_ahead(value: Value, horizon: datetime | None, zone: str) -> bool:
    return _cap(_read_as_time(value, zone) if isinstance(value, str) else value, horizon, zone) is not None


def _cap(value: Value | None, until: datetime | None, zone: str) -> Value | None:
    """The latest value that ``until`` allows if ``value`` lies above it; None if it does not, or is no time."""
    latest = None if value is None or until is None else moment_like(value, until, zone)
    return latest if value is not None and latest is not None and is_above(value, latest) else None


def _read_as_time(text: str, zone: str) -> datetime | None:
    """The time that a text is in ISO 8601; None for other texts."""
    if not _ISO.match(text):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=check_zone(zone))


LAG_REMEDY = (
    "follow a column of dates or times; or read numbers again from some way below: `backward: {value: …}`, with a load "
    "that merges; or leave safety_lag out"
)


def plan_columns(
    pipeline: str,
    source: ColumnSource,
    load: Load,
    state: ColumnState | None,
    position: int,
    now: datetime,
    *,
    chunk: Chunk | None = None,
    chunk_column: str | None = None,
) -> ColumnPlan:
    """Plan which rows to read; without a state, all of them. ``WatermarkError`` if rows would be lost or doubled."""
    if source.watermark_filter is not None and source.request is not None:
        raise WatermarkError(
            f"{pipeline}/{source.name}: watermark_filter is for tables, files and functions, which Spark filters",
            "use filter_expression, a query, or parameters of the request",
        )
    planning = _Planning(pipeline, source, load, state or ColumnState(), now)
    plan = ColumnPlan(
        pipeline,
        source.name,
        position,
        now,
        stored=planning.stored,
        reads=planning.select_all(),
        source_timezone=source.source_timezone,
    )
    if chunk is not None:
        reads = planning.chunk(chunk, chunk_column)
        return replace(plan, reads=reads, chunk=chunk, effective=dict.fromkeys(reads.columns, chunk.low))
    notes = (*first_notes(source.read, position), *planning.notes())
    if planning.is_full:
        return replace(plan, full=True, notes=notes)
    planning.check_lag()
    planning.check_stored()
    caps = planning.lag_caps()
    return replace(
        plan,
        effective=planning.effective(),
        reads=planning.reads().capped({column: Bound(value, inclusive=True) for column, value in caps.items()}),
        lag_until=planning.lag_until,
        # The lag ends the read before any time that lies ahead.
        horizon=planning.horizon if planning.lag_until is None else None,
        window=planning.is_window,
        notes=notes,
    )


def first_notes(read: ReadFacts, position: int) -> Iterator[str]:
    """Yield a note before the first run on a database that we do not test."""
    if isinstance(read, JdbcRead) and not position and (note := dialect_of(read.url).untested):
        yield note


def one_response_note(read: ReadFacts) -> Iterator[str]:
    """Yield a note if the configuration says that one response is everything, whatever the response says."""
    if read.ignores_more:
        yield "pagination: {type: none} is set: one response is read, even if it says that there is more"


def fix_bounds(plan: ColumnPlan, state: ColumnState | None, seen: Watermark) -> ReadBounds:
    """Cap the read at the greatest values ``seen`` among its rows, and return the state after it."""
    before = state or ColumnState()
    if plan.chunk is not None:
        return ReadBounds(plan.reads, before, replace(plan.reads, extra=None))
    columns = plan.reads.columns
    # Values of columns that are no longer followed would come back to life if somebody listed them again.
    before = before.respell(columns).only(columns)
    is_cursor = plan.reads.mode is WatermarkMode.TUPLE and bool(columns)
    reached = {column: _check_seen(plan, column, seen.get(column)) for column in columns}
    if plan.lag_until is not None:
        check_lag(f"{plan.pipeline}/{plan.source}", {column: reached[column] for column in plan.reads.leading})
    for column in plan.reads.leading:
        cap = _cap(reached[column], plan.lag_until, plan.source_timezone)
        reached[column] = reached[column] if cap is None else cap
    with errors_of(f"{plan.pipeline}/{plan.source}, "):
        after = before.advance_cursor(columns, reached, plan.now) if is_cursor else before.advance(reached, plan.now)
    rows = _cap_rows(plan.reads, after)
    is_empty = bool(columns) and all(value is None for value in reached.values())
    return ReadBounds(
        rows,
        after,
        replace(rows, extra=None) if plan.window else None,
        # A window without rows still removes those that the source has dropped, and rows with nulls have no value to be
        # seen.
        nothing=is_empty and not plan.window and plan.reads.nulls is not NullWatermark.INCLUDE,
    )


def check_lag(name: str, values: Watermark) -> None:
    """``WatermarkError`` if none of these columns has times: their age is unknown."""
    if not values or any(value is None or kind_of(value) in TEMPORAL for value in values.values()):
        return
    values_shown = ", ".join(
        f"{column}, such as {describe(value)}" for column, value in values.items() if value is not None
    )
    raise WatermarkError(f"{name}: safety_lag has no effect on {values_shown}", LAG_REMEDY)


class _Planning:
    """The decisions about one source."""

    def __init__(self, pipeline: str, source: ColumnSource, load: Load, state: ColumnState, now: datetime) -> None:
        self._name = f"{pipeline}/{source.name}"
        self._source, self._load, self._now = source, load, now
        self._state = state = state.respell(source.watermark_columns)
        self._columns = source.watermark_columns
        self._is_cursor = source.mode is WatermarkMode.TUPLE
        self._leading = chunk_columns(source, None)
        self.stored: dict[str, Value | None] = {
            column: state.values[column] for column in self._columns if column in state.values
        }
        self.is_full = not self._columns or load.type.reads_everything
        self._is_first = is_watermark_empty(self.stored)
        self.lag_until = None if source.safety_lag is None else now.astimezone(UTC) - source.safety_lag
        self.horizon = horizon_of(source, now)

    @property
    def _is_plain_append(self) -> bool:
        """Whether reading rows again would write them twice."""
        return self._load.type is LoadType.APPEND and not self._load.deduplicate

    @cached_property
    def _is_inclusive(self) -> bool:
        """Whether every read includes rows at the watermark itself."""
        return operator_of(self._source) == INCLUSIVE

    @property
    def is_window(self) -> bool:
        """Whether both ends of the range are known, so that its rows can be replaced."""
        bounded = not self._is_first and all(column in self.stored for column in self._columns)
        return self._load.replace_by_watermark and bounded and not self._is_cursor

    def select_all(self) -> RowFilter:
        """Every row, as in the first read."""
        source = self._source
        nulls = source.null_watermark
        # The table is replaced by what is read: a row without a watermark would vanish from it.
        if self.is_full and nulls is NullWatermark.EXCLUDE:
            nulls = NullWatermark.INCLUDE
        ranges = tuple(map(ColumnRange, self._columns))
        return RowFilter(ranges, source.mode, nulls, source.filter_expression, self._is_plain_append)

    def chunk(self, chunk: Chunk, column: str | None) -> RowFilter:
        """The rows of a chunk: by the named column, the first of a cursor, or the greatest of all columns."""
        if self._load.type.reads_everything:
            raise WatermarkError(
                f"{self._name}: {self._load.type} replaces the whole table, also by a chunk",
                "run the pipeline instead: it reads everything",
            )
        columns = chunk_columns(self._source, column)
        if not columns:
            raise WatermarkError(
                f"{self._name}: a replay needs a column that its bounds belong to", "name chunk_column"
            )
        for each in columns:
            value = self._state.values.get(each)
            if value is not None and not are_comparable(value, chunk.low):
                raise WatermarkError(
                    f"{self._name}: the replay's bounds {describe(chunk.low)} do not fit column {each!r}, whose"
                    f" watermark is {describe(value)}",
                    "give bounds of that kind, or name the column they belong to with chunk_column",
                )
        is_inclusive = operator_of(self._source, replay=True) == INCLUSIVE
        low, high = Bound(chunk.low, inclusive=is_inclusive), Bound(chunk.high)
        ranges = tuple(ColumnRange(each, low, high) for each in columns)
        return RowFilter(ranges, extra=self._source.filter_expression, strict=True)

    def reads(self) -> RowFilter:
        """The rows that are new to the state."""
        rows = self.select_all()
        if self._is_first:
            return rows
        self._check_later_columns()
        if self._is_inclusive and self._is_plain_append:
            raise WatermarkError(
                f"{self._name}: watermark_operator is '>=', which reads rows at the watermark again, and append would"
                " write them twice",
                "use a load_type that merges, or set deduplicate: [keys]",
            )
        ranges = self._cursor_ranges() if self._is_cursor else tuple(map(self._range, self._columns))
        return replace(rows, ranges=ranges)

    def effective(self) -> dict[str, Value | None]:
        """Where the read begins, by column."""
        if not self._is_cursor:
            return {column: self._look_back_from(column, value) for column, value in self.stored.items()}
        bounds = {cursor_range.column: cursor_range.lower for cursor_range in self._cursor_ranges()}
        return {column: bound.value for column, bound in bounds.items() if bound is not None}

    def check_lag(self) -> None:
        """Refuse a safety lag if no stored column has times."""
        if self.lag_until is not None:
            check_lag(self._name, {column: self.stored.get(column) for column in self._leading})

    def check_stored(self) -> None:
        """Refuse a watermark in the future: every run until then would skip new rows."""
        for problem in find_stored_ahead(self._source, self.stored, self._now):
            raise WatermarkError(f"{self._name}: {problem}", AHEAD_REMEDY)

    def lag_caps(self) -> dict[str, Value]:
        """The latest value to read, for columns known to have times; never below what was read already."""
        if self.lag_until is None:
            return {}
        caps = {}
        for column in self._leading:
            value = self.stored.get(column)
            cap = None if value is None else moment_like(value, self.lag_until, self._source.source_timezone)
            if value is not None and cap is not None:
                # A longer safety_lag must not let the next read end below the watermark.
                caps[column] = cap if is_above(cap, value) else value
        return caps

    def notes(self) -> Iterator[str]:
        """Notes about this read, for people."""
        look_back = self._source.look_back
        if self.is_full:
            if self._columns:
                yield f"{self._load.type} reads everything each time; the watermark is kept for show"
            if self.lag_until is not None:
                yield "safety_lag has no effect where every run reads everything"
            return
        if self._source.watermark_filter is not None:
            strict = ", as far as they lie above the watermark" if self._is_plain_append else ""
            yield f"rows are chosen by watermark_filter{strict}"
        if look_back.closing_day and (look_back.days or look_back.hours):
            yield "days and hours of the look-back have no effect beside closing_day"
        if not self._is_first:
            for column in self._later_columns():
                yield f"{column} is new among the watermark columns: every row with a value in it is read again"
        gone = sorted(set(self._state.values) - set(self._columns))
        if gone:
            yield f"the watermark of {', '.join(gone)} is forgotten with the next rows: not among watermark_columns"
        if self.lag_until is not None:
            yield self._lag_note(self.lag_until)

    def _lag_note(self, until: datetime) -> str:
        """Describe the safety lag, as far as the kinds of columns are known."""
        held = [column for column in self._leading if column in self.lag_caps()]
        if held:
            return f"rows whose {' or '.join(held)} is later than {until.isoformat()} wait for a later run (safety_lag)"
        named = " or ".join(self._leading)
        return (
            f"rows later than {until.isoformat()} wait for a later run (safety_lag), if {named} holds dates or times; "
            "the run stops where it does not"
        )

    def _cursor_ranges(self) -> tuple[ColumnRange, ...]:
        """The stored cursor; with look-back its first column alone."""
        cursor = self._state.cursor(self._columns)
        ranges = {column: ColumnRange(column) for column in self._columns}
        first = self._columns[0]
        if not self._source.look_back.is_off and cursor:
            low = self._look_back_from(first, cursor[0])
            # The other columns only order rows that share the first value; below that value they say nothing.
            ranges[first] = ColumnRange(first, None if low is None else Bound(low, inclusive=True))
            return tuple(ranges.values())
        for number, (column, value) in enumerate(zip(self._columns, cursor, strict=False), start=1):
            is_open = number < len(self._columns) or column in self._state.inclusive or self._is_inclusive
            ranges[column] = ColumnRange(column, Bound(value, inclusive=number == len(cursor) and is_open))
        return tuple(ranges.values())

    def _range(self, column: str) -> ColumnRange:
        low = self._look_back_from(column, self.stored.get(column))
        if low is None:
            return ColumnRange(column, any_value=True)
        # With look-back the bound is computed, and no row at it is known to have been read.
        inclusive = column in self._state.inclusive or not self._source.look_back.is_off or self._is_inclusive
        return ColumnRange(column, Bound(low, inclusive))

    def _look_back_from(self, column: str, value: Value | None) -> Value | None:
        if value is None:
            return None
        zone = self._source.source_timezone
        with errors_of(f"{self._name}, watermark column {column!r}: "):
            low = lower(value, self._source.look_back, self._now, zone)
        if self._source.look_back.is_off:
            return low
        # A computed bound must not lie inside a clock jump, where local times and moments differ in order.
        jump = jump_around(low, zone)
        return low if jump is None else jump.low

    def _later_columns(self) -> list[str]:
        return [column for column in self._columns if column not in self.stored]

    def _check_later_columns(self) -> None:
        later = self._later_columns()
        # Merges may read rows again; an append would double every row that has a value in the new column.
        if later and self._load.type is LoadType.APPEND:
            raise WatermarkError(
                f"{self._name}: {', '.join(later)} was added to watermark_columns after rows had been read by"
                f" {', '.join(self.stored)}; whatever has a value in it would be appended again",
                f"say from which value on rows are new: `tidegate watermark set` with a value for {', '.join(later)}",
            )


def _cap_rows(rows: RowFilter, after: ColumnState) -> RowFilter:
    """Cap the rows at the new watermark, without those that the next read begins with.

    If the next read is inclusive, this one ends before the value; a column without a value must be null. Otherwise rows
    that appeared since would be read twice.
    """
    upper = {
        column: Bound(value, inclusive=column not in after.inclusive)
        for column in rows.columns
        if (value := after.values.get(column)) is not None
    }
    capped = rows.capped(upper)
    ranges = tuple(
        interval if interval.column in upper else replace(interval, only_null=True) for interval in capped.ranges
    )
    return replace(capped, ranges=ranges)


def _check_seen(plan: ColumnPlan, column: str, value: Value | None) -> Value | None:
    """Return the seen value; ``WatermarkError`` if its order is unreliable."""
    if value is not None and not is_finite(value):
        raise WatermarkError(
            f"{plan.pipeline}/{plan.source}: the greatest value of watermark column {column!r} is {value}",
            "leave such rows out with filter_expression",
        )
    if isinstance(value, str):
        check_text(plan, column, value)
    # As text 9 sorts above 10: the watermark would stay at 9 while rows go on.
    if isinstance(value, str) and not plan.full and value.strip().lstrip("+-").replace(".", "", 1).isdigit():
        raise WatermarkError(
            f"{plan.pipeline}/{plan.source}: watermark column {column!r} holds numbers as text, such as {value!r},"
            " which do not sort as numbers",
            "make it a number: declare its type in the schema, or cast it in a query",
        )
    return value
