"""The columns of a database: how each is fetched, and the type of its values in the rows.

No value changes on its way through a driver. A driver shifts times by the JVM's zone, gives decimals another scale, and
turns ``infinity`` into a year. So the database writes such values as text, and the text is parsed: exactly, or the row
is refused with its column and value. Types that Delta lacks stay the database's text.

Types have Spark's names (``bigint``, ``timestamp_ntz``, ``decimal(12,2)``), whoever reads: Spark's JDBC gives them, and
:mod:`tidegate.sources.databases` gives the same without Spark.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal

from tidegate.core.columns.predicates import SqlDialect
from tidegate.errors import SourceError
from tidegate.sources.jdbc import FetchedColumns
from tidegate.specs.columns import Value

TEXT = "STRING"
_TEXT = {SqlDialect.POSTGRESQL: "CAST({} AS text)", SqlDialect.MYSQL: "CAST({} AS CHAR)"}
_IN_UTC = "CAST({} AT TIME ZONE 'UTC' AS text)"
_BITS = "CAST(CAST({} AS UNSIGNED) AS CHAR)"
_TEMPLATES = {
    SqlDialect.POSTGRESQL: {
        "timestamptz": _IN_UTC,
        **dict.fromkeys(("timestamp", "date", "time", "timetz", "interval", "money"), _TEXT[SqlDialect.POSTGRESQL]),
    },
    SqlDialect.MYSQL: dict.fromkeys(("timestamp", "datetime", "date", "time", "char"), _TEXT[SqlDialect.MYSQL]),
}
"""Expressions for what the database writes as text, by the driver's name of the type. MySQL's sessions are in UTC."""

_UNSORTED = {SqlDialect.POSTGRESQL: ("timetz", "interval", "money"), SqlDialect.MYSQL: ("time",)}
"""Those whose text sorts differently; a ``time`` of MySQL may be negative, and have hundreds of hours."""

_NUMBERS: dict[SqlDialect, dict[str, str]] = {
    SqlDialect.POSTGRESQL: {},
    SqlDialect.MYSQL: {
        **dict.fromkeys(("float", "float unsigned"), "({} + 0E0)"),
        **dict.fromkeys(("double", "double unsigned"), "({} * 1E0)"),
        "bit": "({} + 0)",
    },
}
"""MySQL shows at most six digits of a ``float``, and of a sum over ``float(7,3)`` those that one value has.

A ``bit(1)`` comes as a byte, or in an expression as text; other bits are :data:`_BITS`.
"""

_ARRAYS_AS_THEY_ARE = frozenset(
    ("_int2", "_int4", "_int8", "_oid", "_float4", "_float8", "_bool", "_bytea", "_text", "_varchar", "_bpchar")
) | {"_name", "_uuid", "_json", "_jsonb"}
_UNBOUNDED = "decimal(38,18)"
"""Spark's type for a ``numeric`` without a size; no other has this size and a scale of 0."""

_AS_ADBC_GIVES_THEM = {
    "smallint": ("int2", "smallserial"),
    "int": ("int4", "serial"),
    "bigint": ("int8", "bigserial"),
    "float": ("float4",),
    "double": ("float8",),
    "boolean": ("bool",),
    "binary": ("bytea",),
}
_TEXT_OF_ADBC = ("text", "varchar", "bpchar")
_WRITTEN = "CASE WHEN {} IS DISTINCT FROM NULL THEN format('%s', {}) END"
"""PostgreSQL's text of a value, as its JDBC driver returns it; for some types a cast gives another.

A row with a null inside is neither null nor ``NOT NULL`` there.
"""
_PADDED = "CASE WHEN {} = '' THEN ' ' WHEN {} IS NOT NULL THEN format('%s', {}) END"
"""A ``"char"`` of PostgreSQL, which Spark takes for a text of one character and fills with a blank."""


@dataclass(frozen=True, slots=True)
class DatabaseField:
    """A column as a driver describes it: its Spark type, and its name in the database, ``called``.

    ``scale`` is the database's own, if given. ``is_clock``: it has times of day, which Spark would turn into times on
    1970-01-01.
    """

    name: str
    kind: str
    called: str = ""
    scale: int | None = None
    is_clock: bool = False
    is_row_id: bool = False


@dataclass(frozen=True, slots=True)
class ColumnTransfer:
    """How one column is fetched: the expression to select, and the type of its values in the rows.

    ``is_text``: the database sends text, which is parsed as ``kind``. ``sorts``: database and Spark sort its values
    alike.
    """

    field: DatabaseField
    template: str
    kind: str
    is_text: bool = False
    sorts: bool = True

    @property
    def compared(self) -> str:
        """The type of its bounds; a decimal stays a decimal even if its rows are text."""
        return self.field.kind if is_decimal(self.field.kind) else self.kind

    @property
    def template_of_adbc(self) -> str:
        """The expression to select by ADBC, which is as careful about the text of a value."""
        if self.kind != "string" or self.is_text or self.field.called in _TEXT_OF_ADBC:
            return self.template
        return _PADDED if self.field.called == "char" else _WRITTEN

    def parsed(self, kind: str, timezone: str = "UTC") -> str | None:
        """The type to parse its text as, so that rows have the type ``kind``; empty if it comes as that.

        None if Spark would convert more than that.
        """
        if kind == "string" and self.is_text:
            return ""
        if is_decimal(kind) and self.is_text and is_decimal(self.field.kind):
            return kind
        if kind == "timestamp" and self.is_text and self.kind == "timestamp_ntz" and timezone == "UTC":
            return self.kind
        if self.kind != kind:
            return None
        return kind if self.is_text else ""

    def parsed_by_adbc(self, kind: str, timezone: str = "UTC") -> str | None:
        """The same for PostgreSQL's C drivers, which return few types as Java has them."""
        called = self.field.called
        is_given = kind == "string" or called in _AS_ADBC_GIVES_THEM.get(kind, ())
        return self.parsed(kind, timezone) if self.is_text or is_given else None


class DatabaseColumns:
    """The columns of one table or query and how ``dialect`` fetches them; ``kinds`` are the types of bounds."""

    def __init__(self, fields: Iterable[DatabaseField], dialect: SqlDialect) -> None:
        self.ways = {field.name: _way(field, dialect) for field in fields}
        self.kinds = {name: way.compared for name, way in self.ways.items()}

    def selected(self, *, by_adbc: bool = False) -> tuple[FetchedColumns, ...]:
        """The select expression of every column."""
        return tuple(
            FetchedColumns(
                name,
                way.template_of_adbc if by_adbc else way.template,
                way.compared == "string" and not way.field.is_row_id,
            )
            for name, way in self.ways.items()
        )

    def check_followed(self, column: str, source: str) -> None:
        """Refuse a watermark column whose text sorts differently from its values."""
        way = self.ways[column]
        if not way.sorts:
            raise SourceError(
                f"{source}: column {column!r} is of type {way.field.called}, whose text sorts differently from its "
                "values",
                "use another watermark column, or a query that casts it to a number, a time or a date",
            )

    def greatest_type(self, column: str) -> str:
        """The type in which an aggregate of ``column`` is fetched."""
        way = self.ways[column]
        return TEXT if way.is_text or way.field.is_clock or is_decimal(way.kind) else way.kind

    def greatest(self, column: str, value: Value | None) -> Value | None:
        """The value of an aggregate fetched with :meth:`greatest_type`."""
        if not isinstance(value, str):
            return value
        try:
            return _value_of(value, self.ways[column].compared)
        except (ValueError, ArithmeticError):
            raise SourceError(
                f"the greatest value of {column!r} is {value!r}, and nothing can be greater",
                "leave such rows out with filter_expression",
            ) from None


def is_decimal(kind: str) -> bool:
    """Whether a type in Spark's words is a decimal."""
    return kind.startswith("decimal(")


def _way(field: DatabaseField, dialect: SqlDialect) -> ColumnTransfer:
    kind, called = "string" if field.is_clock else field.kind, field.called
    if dialect not in _TEMPLATES:
        return ColumnTransfer(field, "{}", kind)
    in_words = ColumnTransfer(field, _TEXT[dialect], "string", is_text=True)
    if kind.startswith("array<"):
        return ColumnTransfer(field, "{}", kind) if called in _ARRAYS_AS_THEY_ARE else replace(in_words, sorts=False)
    if is_decimal(kind) and called in ("numeric", "decimal", "decimal unsigned"):
        return replace(in_words, kind=kind if _fits(field, dialect) else "string")
    if called in ("bit", "varbit") and kind != "boolean":
        return ColumnTransfer(field, _BITS, "bigint", is_text=True) if dialect is SqlDialect.MYSQL else in_words
    if called == "year":
        # MySQL's driver would make a date of it.
        return ColumnTransfer(field, "CAST({} AS SIGNED)", "int")
    if called in _NUMBERS[dialect]:
        return ColumnTransfer(field, _NUMBERS[dialect][called], kind)
    if called in _TEMPLATES[dialect]:
        return ColumnTransfer(
            field, _TEMPLATES[dialect][called], kind, is_text=True, sorts=called not in _UNSORTED[dialect]
        )
    return ColumnTransfer(field, "{}", kind)


def _fits(field: DatabaseField, dialect: SqlDialect) -> bool:
    """Whether Delta has a decimal that wide; otherwise the rows have its text."""
    unbounded = dialect is SqlDialect.POSTGRESQL and field.scale == 0 and field.kind == _UNBOUNDED
    # Beyond 38 digits Spark gives up decimal places, which shows by another scale than the database's.
    return unbounded or field.scale is None or f",{field.scale})" in field.kind


def _value_of(text: str, kind: str) -> Value:
    if is_decimal(kind):
        return Decimal(text)
    match kind:
        case "timestamp":
            return datetime.fromisoformat(text).replace(tzinfo=UTC)
        case "timestamp_ntz":
            return datetime.fromisoformat(text)
        case "date":
            return date.fromisoformat(text)
        case "tinyint" | "smallint" | "int" | "bigint":
            return int(text)
        case "float" | "double":
            return float(text)
        case "boolean":
            return text != "0"
        case _:
            return text
