"""The rows to read as bounds per column, and as a condition in the SQL of each database.

Lower bounds decide what is new. In mode ``any`` they are OR-ed: a row is new if one of its columns is. In mode
``tuple`` the whole cursor must lie above. Upper bounds are AND-ed over all columns, or the next watermark would read a
row again by the column above its cap; null is below every cap.

Values are always encoded: text is escaped, times have their type and are in UTC. So a literal means the same in every
time zone of the machine or session.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import StrEnum
from itertools import takewhile

from tidegate.core.columns.state import is_above, is_finite
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


class SqlDialect(StrEnum):
    """The SQL dialect of a predicate."""

    SPARK = "spark"
    POSTGRESQL = "postgresql"
    MYSQL = "mysql"
    SQLSERVER = "sqlserver"
    ORACLE = "oracle"
    SQLITE = "sqlite"
    ANSI = "ansi"


_DRIVERS = {
    "postgresql": SqlDialect.POSTGRESQL,
    "redshift": SqlDialect.POSTGRESQL,
    "mysql": SqlDialect.MYSQL,
    "mariadb": SqlDialect.MYSQL,
    "sqlserver": SqlDialect.SQLSERVER,
    "oracle": SqlDialect.ORACLE,
    "sqlite": SqlDialect.SQLITE,
}
_NAMES = {"redshift": "Redshift", "sqlserver": "SQL Server", "oracle": "Oracle", "sqlite": "SQLite by JDBC"}
_QUOTES = {SqlDialect.SPARK: ("`", "`"), SqlDialect.MYSQL: ("`", "`"), SqlDialect.SQLSERVER: ("[", "]")}
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Text that sorts like the UUID that it is; UUIDs have no collation."""

_WITHOUT_BOOLEANS = (SqlDialect.SQLSERVER, SqlDialect.ORACLE, SqlDialect.SQLITE)


def dialect_of(jdbc_url: str) -> SqlDialect:
    """Return the dialect of the database behind a JDBC address; standard SQL if unknown."""
    scheme, _, rest = jdbc_url.partition(":")
    return (
        _DRIVERS.get(rest.partition(":")[0].lower(), SqlDialect.ANSI) if scheme.lower() == "jdbc" else SqlDialect.ANSI
    )


def note_untested(jdbc_url: str) -> str | None:
    """Say that we do not test this database; None if we do."""
    scheme = jdbc_url.partition(":")[2].partition(":")[0].lower()
    if scheme in ("postgresql", "mariadb"):
        return None
    if scheme == "mysql":
        return "no test of Tidegate runs against MySQL; its driver and its statements are tested against MariaDB"
    called = _NAMES.get(scheme, f"a database of jdbc:{scheme}")
    follow = "standard SQL" if scheme not in _DRIVERS else "its documentation"
    return f"no test of Tidegate runs against {called}; statements follow {follow}"


def quote(identifier: str, dialect: SqlDialect) -> str:
    if not identifier or "\0" in identifier:
        raise WatermarkError(f"{identifier!r} cannot be the name of a column", "correct watermark_columns")
    opening, closing = _QUOTES.get(dialect, ('"', '"'))
    return f"{opening}{identifier.replace(closing, closing * 2)}{closing}"


def order_key(identifier: str, value: Value, dialect: SqlDialect) -> str:
    """Return the column as compared with ``value``: text sorts by characters, whatever the database's language.

    In the order of a language ``a`` may lie below ``B``, and a row would be neither covered by a watermark nor above
    it.
    """
    if not isinstance(value, str) or (dialect is SqlDialect.POSTGRESQL and _UUID.fullmatch(value)):
        return quote(identifier, dialect)
    return text_key(quote(identifier, dialect), dialect)


def text_key(expression: str, dialect: SqlDialect) -> str:
    """Return an expression to compare and sort text by code points; not for reading, since it may lose characters.

    PostgreSQL's loses the blanks at the end of ``char(n)``. MySQL's is bytes: all but its newest collations treat ``a``
    with and without a blank as equal.
    """
    match dialect:
        case SqlDialect.POSTGRESQL:
            return f'CAST({expression} AS TEXT) COLLATE "C"'
        case SqlDialect.MYSQL:
            return f"CAST(CONVERT({expression} USING utf8mb4) AS BINARY)"
        case SqlDialect.SQLSERVER:
            return f"CAST({expression} AS NVARCHAR(MAX)) COLLATE Latin1_General_100_BIN2"
        case SqlDialect.SQLITE:
            return f"{expression} COLLATE BINARY"
        case _:
            return expression


def has_text_key(dialect: SqlDialect) -> bool:
    """True if text sorts by code points there, as here; otherwise ranges of text overlap."""
    return dialect in (SqlDialect.POSTGRESQL, SqlDialect.MYSQL, SqlDialect.SQLSERVER, SqlDialect.SQLITE)


def text_of_key(key: str, dialect: SqlDialect) -> str:
    """Convert the result of :func:`text_key` back to text."""
    return f"CONVERT({key} USING utf8mb4)" if dialect is SqlDialect.MYSQL else key


def literal(value: Value, dialect: SqlDialect) -> str:
    """Write the value as a typed literal of the dialect; ``WatermarkError`` if it has no such value."""
    match value:
        case bool():
            return str(int(value)) if dialect in _WITHOUT_BOOLEANS else str(value).upper()
        case int():
            return str(value)
        case Decimal() | float() if not is_finite(value):
            raise _refuse_value(value, dialect)
        # Never with an exponent: 1E+2 is a floating-point literal in SQL, and would be compared as one.
        case Decimal():
            return format(value, "f")
        case float():
            text = repr(value).upper()
            # Without an exponent the literal is a decimal, and a float column would be compared after a cast.
            return text if "E" in text else f"{text}E0"
        case str():
            return _text_literal(value, dialect)
        case datetime():
            return _moment_literal(value, dialect)
        case date():
            return _typed_literal("DATE", value.isoformat(), dialect)
        case time():
            return _time_literal(value, dialect)


def _text_literal(value: str, dialect: SqlDialect) -> str:
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise _refuse_value(value, dialect)
    # Where it is unknown whether a backslash escapes, neither spelling is safe.
    if ("\0" in value and dialect is not SqlDialect.SPARK) or ("\\" in value and dialect is SqlDialect.ANSI):
        raise _refuse_value(value, dialect)
    if dialect is SqlDialect.SPARK:
        # Spark substitutes ${env:…} and ${system:…} in statements, so a value could read the driver's secrets.
        escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024")
        return f"'{escaped}'"
    doubled = value.replace("'", "''")
    if dialect is SqlDialect.SQLSERVER:
        return f"N'{doubled}'"
    if "\\" in value and dialect is SqlDialect.POSTGRESQL:
        # E'…' means the same whatever standard_conforming_strings says.
        escaped = doubled.replace("\\", "\\\\")
        return f"E'{escaped}'"
    # Whether a backslash escapes depends on sql_mode, and the meaning of other bytes on the connection's character set.
    if dialect is SqlDialect.MYSQL and ("\\" in value or not value.isascii()):
        return f"_utf8mb4 X'{value.encode().hex().upper()}'"
    return f"'{doubled}'"


def _moment_literal(value: datetime, dialect: SqlDialect) -> str:
    if value.utcoffset() is None:
        text = value.replace(fold=0).isoformat(sep=" ")
        types = {SqlDialect.SPARK: "TIMESTAMP_NTZ", SqlDialect.SQLSERVER: "DATETIME2"}
    else:
        text = value.astimezone(UTC).isoformat(sep=" ")
        if dialect is SqlDialect.MYSQL:  # MariaDB has no zones in literals; the sessions of both are in UTC
            text = text.removesuffix("+00:00")
        types = {
            SqlDialect.SPARK: "TIMESTAMP_LTZ",
            SqlDialect.SQLSERVER: "DATETIMEOFFSET",
            SqlDialect.POSTGRESQL: "TIMESTAMP WITH TIME ZONE",
        }
        if dialect is SqlDialect.ORACLE:
            text = text.replace("+", " +")
    return _typed_literal(types.get(dialect, "TIMESTAMP"), text, dialect)


def _time_literal(value: time, dialect: SqlDialect) -> str:
    if dialect is SqlDialect.ORACLE or (value.tzinfo is not None and dialect is not SqlDialect.POSTGRESQL):
        raise _refuse_value(value, dialect)
    return _typed_literal("TIME" if value.tzinfo is None else "TIME WITH TIME ZONE", value.isoformat(), dialect)


def _typed_literal(kind: str, text: str, dialect: SqlDialect) -> str:
    if dialect is SqlDialect.SQLITE:
        return f"'{text}'"
    if dialect is SqlDialect.SQLSERVER:
        # The form with T is the one that no session setting of SQL Server reads differently.
        iso = text.replace(" ", "T")
        return f"CAST('{iso}' AS {kind})"
    return f"{kind} '{text}'"


def _refuse_value(value: Value, dialect: SqlDialect) -> WatermarkError:
    return WatermarkError(f"{value!r} cannot be written in the language of {dialect}", "leave such rows out")


Row = Mapping[str, Value | None]


def predicate(rows: RowFilter, dialect: SqlDialect) -> str | None:
    """Write the condition of the rows, without WHERE; None for all rows. Equal rows give equal text."""
    writer = _Tuple(rows, dialect) if rows.mode is WatermarkMode.TUPLE else _Any(rows, dialect)
    parts = [*writer.lower(), *writer.caps()]
    alone = len(parts) == 1 and rows.extra is None
    texts = [" OR ".join(part) if alone or len(part) == 1 else f"({' OR '.join(part)})" for part in parts]
    return " AND ".join([*texts, *_extra(rows)]) or None


def null_predicate(rows: RowFilter, dialect: SqlDialect) -> str | None:
    """Write the condition of rows with null instead of a watermark; None without watermark columns."""
    columns = [quote(column, dialect) for column in rows.columns]
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


def _compare(column: str, sign: str, bound: Bound, dialect: SqlDialect) -> str:
    equal = "=" if bound.inclusive else ""
    return f"{order_key(column, bound.value, dialect)} {sign}{equal} {literal(bound.value, dialect)}"


class _Any:
    """Columns of which each can make a row new."""

    def __init__(self, rows: RowFilter, dialect: SqlDialect) -> None:
        self._ranges = rows.ranges
        self._dialect = dialect
        self._includes = rows.nulls is NullWatermark.INCLUDE
        self._is_single = len(rows.ranges) == 1
        self._is_unbounded = any(_wants_all(interval) for interval in rows.ranges)
        self._names = [quote(interval.column, dialect) for interval in rows.ranges]

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

    def __init__(self, rows: RowFilter, dialect: SqlDialect) -> None:
        self._rows = rows
        self._dialect = dialect
        self._names = [quote(interval.column, dialect) for interval in rows.ranges]
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
        name, value = order_key(column, bound.value, self._dialect), literal(bound.value, self._dialect)
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
