"""The rows to read as bounds per column, and as a condition in the SQL of each database.

Lower bounds decide what is new. In mode ``any`` they are OR-ed: a row is new if one of its columns is. In mode
``tuple`` the whole cursor must lie above. Upper bounds are AND-ed over all columns, or the next watermark would read a
row again by the column above its cap; null is below every cap.

How names and values are written is for the :mod:`dialect <tidegate.core.dialects.dialect>` of the database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from tidegate.core.columns.state import is_above
from tidegate.core.dialects.dialect import Dialect
from tidegate.errors import WatermarkError
from tidegate.specs.columns import ColumnSource, NullWatermark, Value, Watermark, WatermarkMode
from tidegate.specs.user_code import call

EXCLUSIVE = ">"
INCLUSIVE = ">="


def watermark_operator(*, replay: bool = False) -> str:
    """Return the operator between a row's value and the watermark: ``>``, in replays ``>=``."""
    return INCLUSIVE if replay else EXCLUSIVE


def operator_of(source: ColumnSource, *, replay: bool = False) -> str:
    """Return the operator of a source: the default, the configured one, or what the user's function returns."""
    given = source.watermark_operator
    if given == EXCLUSIVE:
        return watermark_operator(replay=replay)
    key, remedy = f"source {source.name}: watermark_operator", "return '>' or '>='"
    operator = INCLUSIVE if given == INCLUSIVE else call(given, key, remedy, replay=replay)
    if operator not in (EXCLUSIVE, INCLUSIVE):
        raise WatermarkError(f"{key} gave {operator!r}", remedy)
    if replay and operator == EXCLUSIVE:
        raise WatermarkError(
            f"{key} gave '>' for a replay: rows at the beginning of each chunk would be left out",
            "return '>=' where replay is true",
        )
    return str(operator)


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound and whether it is included."""

    value: Value
    inclusive: bool = False


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """The wanted values of one column.

    ``any_value``: no value was ever seen, so everything that is not null is new. Without that and without bounds, the
    column wants every row. ``only_null`` is the cap of a column without a value when the read was fixed: a value that
    appears since belongs to the next read.
    """

    column: str
    lower: Bound | None = None
    upper: Bound | None = None
    any_value: bool = False
    only_null: bool = False


@dataclass(frozen=True, slots=True)
class RowFilter:
    """The rows of one read. ``extra`` is a condition in the language of the source, used as it is.

    ``nulls`` decides about rows with null in every watermark column (in a cursor: in any). ``strict``: the lower bounds
    hold whatever the user's own filter selects, or rows would be in the table twice.
    """

    ranges: tuple[ColumnRange, ...] = ()
    mode: WatermarkMode = WatermarkMode.ANY
    nulls: NullWatermark = NullWatermark.EXCLUDE
    extra: str | None = None
    # Not compared: it says how a filter of the user's own is treated, not which rows these are.
    strict: bool = field(default=False, compare=False, repr=False)

    @property
    def columns(self) -> tuple[str, ...]:
        """The watermark columns, in order."""
        return tuple(interval.column for interval in self.ranges)

    @property
    def leading(self) -> tuple[str, ...]:
        """The columns that date a row: in a cursor only the first."""
        return self.columns[:1] if self.mode is WatermarkMode.TUPLE else self.columns

    @property
    def watermark(self) -> dict[str, Value | None]:
        """The lower bounds by column: None if a column was never filled, no entry if everything is new."""
        bounded = [interval for interval in self.ranges if interval.lower is not None or interval.any_value]
        return {interval.column: None if interval.lower is None else interval.lower.value for interval in bounded}

    @property
    def operator(self) -> str:
        """The operator between a row's value and these bounds."""
        lowers = [interval.lower for interval in self.ranges if interval.lower is not None]
        return INCLUSIVE if any(lower.inclusive for lower in lowers) else EXCLUSIVE

    def without_lower(self) -> RowFilter:
        """Drop the lower bounds: only caps, nulls and the extra condition are left."""
        ranges = tuple(replace(interval, lower=None, any_value=False) for interval in self.ranges)
        return replace(self, ranges=ranges)

    def capped(self, upper: dict[str, Bound]) -> RowFilter:
        """Set upper bounds, by column."""
        ranges = tuple(replace(interval, upper=upper.get(interval.column, interval.upper)) for interval in self.ranges)
        return replace(self, ranges=ranges)


Row = Mapping[str, Value | None]


def predicate(rows: RowFilter, dialect: Dialect) -> str | None:
    """Write the condition of the rows, without WHERE; None for all rows. Equal rows give equal text."""
    writer = _Tuple(rows, dialect) if rows.mode is WatermarkMode.TUPLE else _Any(rows, dialect)
    parts = [*writer.lower(), *writer.caps()]
    alone = len(parts) == 1 and rows.extra is None
    texts = [" OR ".join(part) if alone or len(part) == 1 else f"({' OR '.join(part)})" for part in parts]
    return " AND ".join([*texts, *_extra(rows)]) or None


def null_predicate(rows: RowFilter, dialect: Dialect) -> str | None:
    """Write the condition of rows with null instead of a watermark; None without watermark columns."""
    columns = [dialect.quote(column) for column in rows.columns]
    if not columns:
        return None
    word = " OR " if rows.mode is WatermarkMode.TUPLE else " AND "
    nulls = word.join(f"{column} IS NULL" for column in columns)
    return " AND ".join([f"({nulls})" if len(columns) > 1 and rows.extra is not None else nulls, *_extra(rows)])


def matches(rows: RowFilter, row: Row) -> bool:
    """True if a row meets the condition, ``extra`` aside."""
    return _matches_tuple(rows, row) if rows.mode is WatermarkMode.TUPLE else _matches_any(rows, row)


Part = list[str]
"""Alternatives; one must hold."""


def _extra(rows: RowFilter) -> list[str]:
    """Return the configured condition in brackets."""
    if rows.extra is None:
        return []
    # A condition that ends in a comment must not swallow the closing bracket.
    ending = "\n" if "--" in rows.extra else ""
    return [f"({rows.extra}{ending})"]


def _wants_all(interval: ColumnRange) -> bool:
    return interval.lower is None and not interval.any_value


def _is_capped(interval: ColumnRange) -> bool:
    return interval.upper is not None or interval.only_null


def _compare(column: str, sign: str, bound: Bound, dialect: Dialect) -> str:
    equal = "=" if bound.inclusive else ""
    return f"{dialect.order_key(column, bound.value)} {sign}{equal} {dialect.literal(bound.value)}"


class _Any:
    """Columns of which each can make a row new."""

    def __init__(self, rows: RowFilter, dialect: Dialect) -> None:
        self._ranges = rows.ranges
        self._dialect = dialect
        self._includes = rows.nulls is NullWatermark.INCLUDE
        self._is_single = len(rows.ranges) == 1
        self._is_unbounded = any(_wants_all(interval) for interval in rows.ranges)
        self._names = [dialect.quote(interval.column) for interval in rows.ranges]

    def lower(self) -> list[Part]:
        if not self._ranges:
            return []
        if self._is_unbounded:
            needed = not self._includes and any(_is_capped(interval) for interval in self._ranges)
            if not needed or (self._is_single and not self._ranges[0].only_null):
                return []
            return [[f"{name} IS NOT NULL" for name in self._names]]
        part = [self._wanted(name, interval) for name, interval in zip(self._names, self._ranges, strict=True)]
        if self._includes:
            nulls = " AND ".join(f"{name} IS NULL" for name in self._names)
            part.append(nulls if self._is_single else f"({nulls})")
        return [part]

    def caps(self) -> list[Part]:
        parts = []
        for name, interval in zip(self._names, self._ranges, strict=True):
            if interval.only_null:
                parts.append([f"{name} IS NULL"])
            elif interval.upper is not None:
                cap = _compare(interval.column, "<", interval.upper, self._dialect)
                parts.append([cap] if self._is_single and not self._includes else [cap, f"{name} IS NULL"])
        return parts

    def _wanted(self, name: str, each: ColumnRange) -> str:
        return f"{name} IS NOT NULL" if each.lower is None else _compare(each.column, ">", each.lower, self._dialect)


class _Tuple:
    """Columns that form one cursor: spelled out, since not every database compares tuples."""

    def __init__(self, rows: RowFilter, dialect: Dialect) -> None:
        self._rows = rows
        self._dialect = dialect
        self._names = [dialect.quote(interval.column) for interval in rows.ranges]
        self._nulls = [f"{name} IS NULL" for name in self._names] if rows.nulls is NullWatermark.INCLUDE else []
        self._lowers = _bounds([interval.lower for interval in rows.ranges])
        self._uppers = _bounds([interval.upper for interval in rows.ranges])
        self._only_null = any(interval.only_null for interval in rows.ranges)

    def lower(self) -> list[Part]:
        parts = [[self._cursor(">", self._lowers), *self._nulls]] if self._lowers else []
        if self._nulls or not (self._lowers or self._uppers or self._only_null):
            return parts
        implied = 1 if self._lowers or not self._only_null else 0
        return [*parts, *([f"{name} IS NOT NULL"] for name in self._names[implied:])]

    def caps(self) -> list[Part]:
        if self._only_null:
            return [[f"{name} IS NULL" for name in self._names]]
        return [[self._cursor("<", self._uppers), *self._nulls]] if self._uppers else []

    def _cursor(self, sign: str, bounds: Sequence[Bound], place: int = 0) -> str:
        column, bound = self._rows.columns[place], bounds[place]
        if place == len(bounds) - 1:
            return _compare(column, sign, bound, self._dialect)
        name, value = self._dialect.order_key(column, bound.value), self._dialect.literal(bound.value)
        rest = self._cursor(sign, bounds, place + 1)
        exact = f"({name} {sign} {value} OR ({name} = {value} AND {rest}))"
        # The redundant first condition lets a database use an index on the first column, in spite of the OR.
        return exact if place else f"({name} {sign}= {value} AND {exact})"


def _bounds(bounds: Sequence[Bound | None]) -> list[Bound]:
    """The bounds of the first columns; a column without one ends the cursor."""
    return [bound for bound in takewhile(lambda bound: bound is not None, bounds) if bound is not None]


def _matches_any(rows: RowFilter, row: Row) -> bool:
    values = [(interval, row.get(interval.column)) for interval in rows.ranges]
    if not values:
        return True
    capped = any(_is_capped(interval) for interval in rows.ranges)
    if all(value is None for _, value in values):
        unconditional = any(_wants_all(interval) for interval in rows.ranges) and not capped
        return rows.nulls is NullWatermark.INCLUDE or unconditional
    wanted = any(_wants_all(interval) or _is_new(interval, value) for interval, value in values)
    return wanted and all(_is_covered(interval, value) for interval, value in values)


def _is_new(interval: ColumnRange, value: Value | None) -> bool:
    if value is None:
        return False
    return interval.any_value if interval.lower is None else _reaches(value, interval.lower)


def _is_covered(interval: ColumnRange, value: Value | None) -> bool:
    if value is None:
        return True
    if interval.only_null:
        return False
    return interval.upper is None or _stays_below(value, interval.upper)


def _reaches(value: Value, lower: Bound) -> bool:
    return not is_above(lower.value, value) if lower.inclusive else is_above(value, lower.value)


def _stays_below(value: Value, upper: Bound) -> bool:
    return not is_above(value, upper.value) if upper.inclusive else is_above(upper.value, value)


def _matches_tuple(rows: RowFilter, row: Row) -> bool:
    values = [row.get(interval.column) for interval in rows.ranges]
    lowers = _bounds([interval.lower for interval in rows.ranges])
    uppers = _bounds([interval.upper for interval in rows.ranges])
    only_null = any(interval.only_null for interval in rows.ranges)
    if any(value is None for value in values):
        return rows.nulls is NullWatermark.INCLUDE or not (lowers or uppers or only_null)
    cursor = [value for value in values if value is not None]
    is_new = not lowers or _side(cursor, lowers) > (-1 if lowers[-1].inclusive else 0)
    return is_new and not only_null and (not uppers or _side(cursor, uppers) < (1 if uppers[-1].inclusive else 0))


def _side(values: Sequence[Value], bounds: Sequence[Bound]) -> int:
    """1 for a cursor above the bounds, -1 below, 0 at them."""
    for value, bound in zip(values, bounds, strict=False):
        if is_above(value, bound.value):
            return 1
        if is_above(bound.value, value):
            return -1
    return 0


@dataclass(frozen=True, slots=True)
class SourceRuntime:
    """The watermarks of one read: as stored, after look-back, and after the read."""

    watermark_before: Watermark | None = None
    watermark_effective: Watermark | None = None
    watermark_after: Watermark | None = None


def window_of(runtime: SourceRuntime, *, replace_by_watermark: bool) -> dict[str, tuple[Value, Value]] | None:
    """Return lower and upper bound by column; None if nothing is replaced or a bound is unknown."""
    before, effective, after = runtime.watermark_before, runtime.watermark_effective, runtime.watermark_after
    if not replace_by_watermark or before is None or effective is None or after is None:
        return None
    window = {}
    for column, lower in effective.items():
        upper = after.get(column)
        if lower is not None and upper is not None:
            window[column] = (lower, upper)
    return window or None


def narrow_window(window: RowFilter | None, returned: object, default: object, name: str) -> RowFilter | None:
    """Apply the window that user code returned instead of ``default``: inside the rows read, or none.

    Rows outside were not read: deleting them would lose them.
    """
    if returned == default:
        return window
    key = f"{name}: watermark_window"
    if returned is None:
        return None
    if window is None:
        raise WatermarkError(f"{key} gave {returned!r}, and nothing is replaced here", "set replace_by_watermark: true")
    given = dict(returned) if isinstance(returned, Mapping) else {}
    pairs = [pair for pair in given.values() if isinstance(pair, tuple) and len(pair) == 2]
    if set(given) != set(window.columns) or len(pairs) < len(given):
        columns = ", ".join(window.columns)
        raise WatermarkError(
            f"{key} gave {returned!r}", f"return None, or a lower and an upper bound for each of {columns}"
        )
    return replace(
        window, ranges=tuple(_narrow_range(interval, given[interval.column], key) for interval in window.ranges)
    )


def _narrow_range(read: ColumnRange, given: tuple[Value, Value], key: str) -> ColumnRange:
    low, high = given
    below = read.lower is not None and is_above(read.lower.value, low)
    if below or (read.upper is not None and is_above(high, read.upper.value)):
        raise WatermarkError(
            f"{key} gave {read.column} from {low} to {high}, and only a smaller part was read: rows outside of it would"
            " be deleted and not come back",
            "return bounds inside watermark_effective and watermark_after",
        )
    # The same value keeps the bound of the read, exclusive or not: rows at it may not have been read.
    lower = read.lower if read.lower is not None and read.lower.value == low else Bound(low, inclusive=True)
    upper = read.upper if read.upper is not None and read.upper.value == high else Bound(high, inclusive=True)
    return replace(read, lower=lower, upper=upper)


def rename_columns(rows: RowFilter, names: Mapping[str, str]) -> RowFilter:
    """Select the same rows in a table with other column names."""
    return replace(
        rows,
        ranges=tuple(replace(interval, column=names.get(interval.column, interval.column)) for interval in rows.ranges),
    )
