"""The columns of a database: how each is fetched by JDBC and by ADBC, and the type that its values have in the rows.

No value changes on its way through a driver. A driver shifts times by the JVM's zone, gives decimals a scale of its
own, and turns ``infinity`` into a year. So the database writes such values as text, and the text is parsed: exactly, or
the row is refused with its column and value. Types that Delta lacks stay the database's text.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from tidegate.core.columns.predicates import SqlDialect
from tidegate.errors import SourceError
from tidegate.sources.adbc import ExactColumn, impossible
from tidegate.sources.jdbc import REFUSED, FetchedColumns
from tidegate.spark.filters import column_named, named
from tidegate.specs.columns import Value

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, DecimalType, StructField, StructType

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
"""What the database writes as text, by the driver's name of the type. MySQL's sessions are in UTC."""

_UNSORTED = {SqlDialect.POSTGRESQL: ("timetz", "interval", "money"), SqlDialect.MYSQL: ("time",)}
"""Of these, those whose text sorts otherwise; a ``time`` of MySQL may be negative, and have hundreds of hours."""

_NUMBERS: dict[SqlDialect, dict[str, str]] = {
    SqlDialect.POSTGRESQL: {},
    SqlDialect.MYSQL: {"float": "({} + 0E0)", "float unsigned": "({} + 0E0)"},
}
"""MySQL shows no more than six digits of a ``float``."""

_ARRAYS_AS_THEY_ARE = frozenset(
    ("_int2", "_int4", "_int8", "_oid", "_float4", "_float8", "_bool", "_bytea", "_text", "_varchar", "_bpchar")
) | {"_name", "_uuid", "_json", "_jsonb"}
_UNBOUNDED = (38, 18)
"""What Spark takes a ``numeric`` without a size for; no other has this size and a scale of 0."""

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
"""The text that PostgreSQL writes of a value, as its JDBC driver gives it; of some types a cast gives another.

A row that has a null in it is neither null nor ``NOT NULL`` there.
"""


@dataclass(frozen=True, slots=True)
class _ColumnTransfer:
    """How one column is fetched: the expression to select, and the type of its values in the rows.

    ``is_text``: the database sends text, which Spark parses as ``kind``. ``sorts``: database and Spark order its values
    alike.
    """

    field: StructField
    template: str
    kind: DataType
    is_text: bool = False
    sorts: bool = True

    @property
    def compared(self) -> DataType:
        """The type of its bounds; a decimal stays a decimal even where its rows are text."""
        from pyspark.sql.types import DecimalType

        return self.field.dataType if isinstance(self.field.dataType, DecimalType) else self.kind

    @property
    def called(self) -> str:
        """The database's name of the type."""
        return str(self.field.metadata.get("jdbcClientType", "")).lower()

    @property
    def template_of_adbc(self) -> str:
        """The expression to select by ADBC, which is as careful about the text of a value."""
        is_written = self.kind.simpleString() == "string" and not self.is_text and self.called not in _TEXT_OF_ADBC
        return _WRITTEN if is_written else self.template

    def parsed_by_adbc(self, kind: DataType, timezone: str) -> str:
        """What the text that ADBC gives is to be parsed as, so that rows have the type ``kind``; empty: nothing else.

        :class:`SourceError` where Java does more than that.
        """
        from pyspark.sql.types import DateType, DecimalType, StringType, TimestampNTZType, TimestampType

        match kind:
            case StringType() if self.called != "char" and (self.is_text or self.kind == kind):
                return ""
            case DecimalType() if self.is_text and isinstance(self.field.dataType, DecimalType):
                return str(kind.simpleString())
            case TimestampType() if self.is_text and isinstance(self.kind, TimestampNTZType) and timezone == "UTC":
                return "timestamp_ntz"
            case TimestampType() | DateType() if self.is_text and self.kind == kind:
                return str(kind.simpleString())
            case _ if self.kind == kind and self.called in _AS_ADBC_GIVES_THEM.get(kind.simpleString(), ()):
                return ""
        raise impossible(f"the column {self.field.name!r} is of type {self.called} and becomes {kind.simpleString()}")


class JdbcColumns:
    """The columns of one table or query and how ``dialect`` fetches them; ``schema`` gives the types of bounds."""

    def __init__(self, schema: StructType, dialect: SqlDialect) -> None:
        from pyspark.sql.types import StructField, StructType

        self._ways = {field.name: _way(field, dialect) for field in schema}
        self.schema = StructType(
            [StructField(each.field.name, each.compared, each.field.nullable) for each in self._ways.values()]
        )

    def selected(self, *, by_adbc: bool = False) -> tuple[FetchedColumns, ...]:
        """The select expression of every column."""
        from pyspark.sql.types import StringType

        return tuple(
            FetchedColumns(
                name,
                way.template_of_adbc if by_adbc else way.template,
                isinstance(way.compared, StringType) and not way.field.metadata.get("rowid"),
            )
            for name, way in self._ways.items()
        )

    def exact(self, rows: StructType, timezone: str, source: str) -> dict[str, tuple[str, ExactColumn]]:
        """By column of the ``rows`` that are to come of it: the column here, and how ADBC's values become those.

        :class:`SourceError` where they cannot.
        """
        from pyspark.sql.pandas.types import to_arrow_schema

        kinds = to_arrow_schema(rows, timezone="UTC")
        found = {}
        for field in rows:
            name = column_named(field.name, list(self._ways), source)
            called = self._ways[name].parsed_by_adbc(field.dataType, timezone)
            found[field.name] = name, ExactColumn(field.name, kinds.field(field.name).type, called)
        return found

    def check_followed(self, column: str, source: str) -> None:
        """Refuse a watermark column that arrives as text which sorts differently from its values."""
        way = self._ways[column]
        if not way.sorts:
            raise SourceError(
                f"{source}: column {column!r} is of type {way.called}, whose text sorts differently from its values",
                "use another watermark column, or a query that casts it to a number, a time or a date",
            )

    def fetched(self) -> dict[str, str]:
        """Types that override Spark's choice, for columns that the database does not send as text."""
        return {name: TEXT for name, way in self._ways.items() if _is_clock(way.field) and way.template == "{}"}

    def restored(self, frame: DataFrame, declared: StructType | None = None) -> DataFrame:
        """``frame``, fetched this way, with the columns' real types.

        A column ``declared`` as text keeps the database's text; one declared as a decimal is parsed into it.
        """
        wanted = {} if declared is None else {field.name.lower(): field.dataType for field in declared}
        came = {field.name: field.dataType for field in frame.schema}
        columns = [_restored(way, came[name], wanted.get(name.lower())) for name, way in self._ways.items()]
        return frame.select(*columns)

    def greatest_type(self, column: str) -> str:
        """The type in which an aggregate of ``column`` is fetched."""
        from pyspark.sql.types import DecimalType

        way = self._ways[column]
        as_text = way.is_text or _is_clock(way.field) or isinstance(way.kind, DecimalType)
        return TEXT if as_text else str(way.kind.simpleString())

    def greatest(self, column: str, value: Value | None) -> Value | None:
        """The value of an aggregate that was fetched with :meth:`greatest_type`."""
        if not isinstance(value, str):
            return value
        try:
            return _value_of(value, self._ways[column].compared)
        except (ValueError, ArithmeticError):
            raise SourceError(
                f"the greatest value of {column!r} is {value!r}, and nothing can be greater",
                "leave such rows out with filter_expression",
            ) from None


def _way(field: StructField, dialect: SqlDialect) -> _ColumnTransfer:
    from pyspark.sql.types import ArrayType, BooleanType, DecimalType, IntegerType, LongType, StringType

    kind = StringType() if _is_clock(field) else field.dataType
    called = str(field.metadata.get("jdbcClientType", "")).lower()
    if dialect not in _TEMPLATES:
        return _ColumnTransfer(field, "{}", kind)
    in_words = _ColumnTransfer(field, _TEXT[dialect], StringType(), is_text=True)
    if isinstance(kind, ArrayType):
        return _ColumnTransfer(field, "{}", kind) if called in _ARRAYS_AS_THEY_ARE else replace(in_words, sorts=False)
    if isinstance(kind, DecimalType) and called in ("numeric", "decimal", "decimal unsigned"):
        return _decimal(field, kind, dialect)
    if called in ("bit", "varbit") and not isinstance(kind, BooleanType):
        return _ColumnTransfer(field, _BITS, LongType(), is_text=True) if dialect is SqlDialect.MYSQL else in_words
    if called == "year":
        return _ColumnTransfer(field, "CAST({} AS SIGNED)", IntegerType())
    if called in _NUMBERS[dialect]:
        return _ColumnTransfer(field, _NUMBERS[dialect][called], kind)
    if called in _TEMPLATES[dialect]:
        return _ColumnTransfer(
            field, _TEMPLATES[dialect][called], kind, is_text=True, sorts=called not in _UNSORTED[dialect]
        )
    return _ColumnTransfer(field, "{}", kind)


def _decimal(field: StructField, kind: DecimalType, dialect: SqlDialect) -> _ColumnTransfer:
    """A decimal where Delta has one that wide, else text."""
    from pyspark.sql.types import StringType

    scale = field.metadata.get("scale", kind.scale)
    unbounded = dialect is SqlDialect.POSTGRESQL and scale == 0 and (kind.precision, kind.scale) == _UNBOUNDED
    fits = scale == kind.scale or unbounded
    return _ColumnTransfer(field, _TEXT[dialect], kind if fits else StringType(), is_text=True)


def _restored(way: _ColumnTransfer, came: DataType, declared: DataType | None) -> Column:
    from pyspark.sql.types import DecimalType, StringType

    name = way.field.name
    column, kind = named(name), way.kind
    if way.is_text and isinstance(way.field.dataType, DecimalType) and isinstance(declared, DecimalType):
        kind = declared
    if way.is_text and isinstance(declared, StringType):
        kind = declared
    if way.is_text and not isinstance(kind, StringType):
        column = _exact(column, kind, name)
    elif kind != came:
        column = column.cast(kind)
    return column.alias(name, metadata={})


def _exact(text: Column, kind: DataType, name: str) -> Column:
    """``text`` as a value of ``kind``; refuses a row whose text is no such value or has more digits.

    A regular expression costs more than the parsing, so it looks only at text that is not of the usual form.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import DateType, DecimalType, LongType, TimestampType

    parsed = text.try_cast(kind)
    match kind:
        case DecimalType():
            point = f.instr(text, ".")
            few_digits = (point == 0) | (f.length(text) - point <= kind.scale)
            usual = few_digits & ~text.contains("e") & ~text.contains("E")
            ways = [f.when(usual, parsed), f.when(text.rlike(f"^-?[0-9]*([.][0-9]{{0,{kind.scale}}}0*)?$"), parsed)]
        case LongType():
            ways = [f.when(text.rlike("^-?[0-9]+$"), parsed)]
        case DateType():
            usual = (f.length(text) == 10) & (f.substring(text, 8, 1) == "-")
            ways = [f.when(usual, parsed), f.when(text.rlike("^[0-9]{4,6}-[0-9]{2}-[0-9]{2}$"), parsed)]
        case TimestampType():
            ways = [f.concat(text, f.lit("Z")).try_cast(kind)]
        case _:
            ways = [parsed]
    told = f.concat(
        f.lit(f"{REFUSED}column {name!r} holds "),
        f.substring(text, 1, 80),
        f.lit(f", which is no {kind.simpleString()}"),
    )
    return f.coalesce(*ways, f.when(text.isNotNull(), f.raise_error(told)))


def _value_of(text: str, kind: DataType) -> Value:
    from pyspark.sql.types import DateType, DecimalType, LongType, TimestampNTZType, TimestampType

    match kind:
        case DecimalType():
            return Decimal(text)
        case TimestampType():
            return datetime.fromisoformat(text).replace(tzinfo=UTC)
        case TimestampNTZType():
            return datetime.fromisoformat(text)
        case DateType():
            return date.fromisoformat(text)
        case LongType():
            return int(text)
        case _:
            return text


def _is_clock(field: StructField) -> bool:
    """Whether a column holds times of day, which Spark would turn into times on 1970-01-01."""
    return bool(field.metadata.get("logical_time_type"))
