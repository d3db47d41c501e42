"""Rows to read as a condition in SQL, and the same by hand.

Across columns the lower bounds are OR-ed, for a row is new if one of its columns is; the caps are AND-ed, or a row
would be read again by the column that lies above its cap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile

from tidegate.column_specs import NullWatermark, Value, WatermarkMode
from tidegate.watermarks.column_values import is_above
from tidegate.watermarks.dialects import Dialect, literal, ordered, quoted
from tidegate.watermarks.row_filter import Bound, ColumnRange, RowFilter

Row = Mapping[str, Value | None]


def predicate(rows: RowFilter, dialect: Dialect) -> str | None:
    """The condition of the rows, without WHERE; None where every row is wanted. Equal rows give equal text."""
    writer = _Tuple(rows, dialect) if rows.mode is WatermarkMode.TUPLE else _Any(rows, dialect)
    parts = [*writer.lower(), *writer.caps()]
    alone = len(parts) == 1 and rows.extra is None
    texts = [" OR ".join(part) if alone or len(part) == 1 else f"({' OR '.join(part)})" for part in parts]
    return " AND ".join([*texts, *_extra(rows)]) or None


def null_predicate(rows: RowFilter, dialect: Dialect) -> str | None:
    """The condition of the rows that have null where a watermark should be; None where there are no such columns."""
    columns = [quoted(each, dialect) for each in rows.columns]
    if not columns:
        return None
    word = " OR " if rows.mode is WatermarkMode.TUPLE else " AND "
    nulls = word.join(f"{each} IS NULL" for each in columns)
    return " AND ".join([f"({nulls})" if len(columns) > 1 and rows.extra is not None else nulls, *_extra(rows)])


def matches(rows: RowFilter, row: Row) -> bool:
    """Whether the condition holds for a row, ``extra`` left aside."""
    return _matches_tuple(rows, row) if rows.mode is WatermarkMode.TUPLE else _matches_any(rows, row)


Part = list[str]
"""Alternatives, of which one must hold."""


def _extra(rows: RowFilter) -> list[str]:
    """The condition of the configuration; one that ends in a comment must not take the bracket with it."""
    if rows.extra is None:
        return []
    ending = "\n" if "--" in rows.extra else ""
    return [f"({rows.extra}{ending})"]


def _wants_all(each: ColumnRange) -> bool:
    return each.lower is None and not each.any_value


def _is_capped(each: ColumnRange) -> bool:
    return each.upper is not None or each.only_null


def _compared(column: str, sign: str, bound: Bound, dialect: Dialect) -> str:
    equal = "=" if bound.inclusive else ""
    return f"{ordered(column, bound.value, dialect)} {sign}{equal} {literal(bound.value, dialect)}"


class _Any:
    """Columns of which each by itself can make a row new."""

    def __init__(self, rows: RowFilter, dialect: Dialect) -> None:
        self._ranges = rows.ranges
        self._dialect = dialect
        self._includes = rows.nulls is NullWatermark.INCLUDE
        self._is_single = len(rows.ranges) == 1
        self._is_unbounded = any(_wants_all(each) for each in rows.ranges)
        self._names = [quoted(each.column, dialect) for each in rows.ranges]

    def lower(self) -> list[Part]:
        if not self._ranges:
            return []
        if self._is_unbounded:
            needed = not self._includes and any(_is_capped(each) for each in self._ranges)
            if not needed or (self._is_single and not self._ranges[0].only_null):
                return []
            return [[f"{name} IS NOT NULL" for name in self._names]]
        part = [self._wanted(name, each) for name, each in zip(self._names, self._ranges, strict=True)]
        if self._includes:
            nulls = " AND ".join(f"{name} IS NULL" for name in self._names)
            part.append(nulls if self._is_single else f"({nulls})")
        return [part]

    def caps(self) -> list[Part]:
        parts = []
        for name, each in zip(self._names, self._ranges, strict=True):
            if each.only_null:
                parts.append([f"{name} IS NULL"])
            elif each.upper is not None:
                cap = _compared(each.column, "<", each.upper, self._dialect)
                parts.append([cap] if self._is_single and not self._includes else [cap, f"{name} IS NULL"])
        return parts

    def _wanted(self, name: str, each: ColumnRange) -> str:
        return f"{name} IS NOT NULL" if each.lower is None else _compared(each.column, ">", each.lower, self._dialect)


class _Tuple:
    """Columns that together are one cursor: spelled out, since not every database compares rows of values."""

    def __init__(self, rows: RowFilter, dialect: Dialect) -> None:
        self._rows = rows
        self._dialect = dialect
        self._names = [quoted(each.column, dialect) for each in rows.ranges]
        self._nulls = [f"{name} IS NULL" for name in self._names] if rows.nulls is NullWatermark.INCLUDE else []
        self._lowers = _bounds([each.lower for each in rows.ranges])
        self._uppers = _bounds([each.upper for each in rows.ranges])
        self._only_null = any(each.only_null for each in rows.ranges)

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
            return _compared(column, sign, bound, self._dialect)
        name, value = ordered(column, bound.value, self._dialect), literal(bound.value, self._dialect)
        rest = self._cursor(sign, bounds, place + 1)
        exact = f"({name} {sign} {value} OR ({name} = {value} AND {rest}))"
        return exact if place else f"({name} {sign}= {value} AND {exact})"


def _bounds(bounds: Sequence[Bound | None]) -> list[Bound]:
    """The bounds of the first columns; a column without one ends the cursor."""
    return [each for each in takewhile(lambda bound: bound is not None, bounds) if each is not None]


def _matches_any(rows: RowFilter, row: Row) -> bool:
    values = [(each, row.get(each.column)) for each in rows.ranges]
    if not values:
        return True
    capped = any(_is_capped(each) for each in rows.ranges)
    if all(value is None for _, value in values):
        unconditional = any(_wants_all(each) for each in rows.ranges) and not capped
        return rows.nulls is NullWatermark.INCLUDE or unconditional
    wanted = any(_wants_all(each) or _is_new(each, value) for each, value in values)
    return wanted and all(_is_covered(each, value) for each, value in values)


def _is_new(each: ColumnRange, value: Value | None) -> bool:
    if value is None:
        return False
    return each.any_value if each.lower is None else _reaches(value, each.lower)


def _is_covered(each: ColumnRange, value: Value | None) -> bool:
    if value is None:
        return True
    if each.only_null:
        return False
    return each.upper is None or _stays_below(value, each.upper)


def _reaches(value: Value, lower: Bound) -> bool:
    return not is_above(lower.value, value) if lower.inclusive else is_above(value, lower.value)


def _stays_below(value: Value, upper: Bound) -> bool:
    return not is_above(value, upper.value) if upper.inclusive else is_above(upper.value, value)


def _matches_tuple(rows: RowFilter, row: Row) -> bool:
    values = [row.get(each.column) for each in rows.ranges]
    lowers, uppers = _bounds([each.lower for each in rows.ranges]), _bounds([each.upper for each in rows.ranges])
    only_null = any(each.only_null for each in rows.ranges)
    if any(value is None for value in values):
        return rows.nulls is NullWatermark.INCLUDE or not (lowers or uppers or only_null)
    known = [value for value in values if value is not None]
    is_new = not lowers or _side(known, lowers) > (-1 if lowers[-1].inclusive else 0)
    return is_new and not only_null and (not uppers or _side(known, uppers) < (1 if uppers[-1].inclusive else 0))


def _side(values: Sequence[Value], bounds: Sequence[Bound]) -> int:
    """1 for a cursor above the bounds, -1 for one below, 0 for one at them."""
    for value, bound in zip(values, bounds, strict=False):
        if is_above(value, bound.value):
            return 1
        if is_above(bound.value, value):
            return -1
    return 0
