"""How the columns of a database are brought over so that no value is bent on its way through driver and Java.

A driver turns times by the zone of its Java machine, gives decimals a scale of its own and takes ``infinity`` for a
year. So the database itself writes such values as text, and Spark reads the text: exactly, or the row is refused with
the name of the column and the value. What a Delta table has no type for stays the text of the database.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from tidegate.core.columns.predicates import SqlDialect
from tidegate.errors import SourceError
from tidegate.sources.jdbc import REFUSED, FetchedColumns
from tidegate.spark.filters import named
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


@dataclass(frozen=True, slots=True)
class _ColumnTransfer:
    """How one column is brought over: what the database is asked for, and the type that its values have in the rows.

    ``is_text``: what it is asked for is text, of which Spark makes a value of ``kind``. ``sorts``: its values have one
    order there and here.
    """

    field: StructField
    template: str
    kind: DataType
    is_text: bool = False
    sorts: bool = True

    @property
    def compared(self) -> DataType:
        """The type of its bounds: a decimal is one also where its rows are text."""
        from pyspark.sql.types import DecimalType

        return self.field.dataType if isinstance(self.field.dataType, DecimalType) else self.kind


class JdbcColumns:
    """The columns of one table or query, as ``dialect`` is best asked for them; ``schema`` is for their bounds."""

    def __init__(self, schema: StructType, dialect: SqlDialect) -> None:
        from pyspark.sql.types import StructField, StructType

        self._ways = {field.name: _way(field, dialect) for field in schema}
        self.schema = StructType(
            [StructField(each.field.name, each.compared, each.field.nullable) for each in self._ways.values()]
        )

    def selected(self) -> tuple[FetchedColumns, ...]:
        """Every column as it is to be selected."""
        from pyspark.sql.types import StringType

        return tuple(
            FetchedColumns(
                name, way.template, isinstance(way.compared, StringType) and not way.field.metadata.get("rowid")
            )
            for name, way in self._ways.items()
        )

    def check_followed(self, column: str, source: str) -> None:
        """Refuse a watermark column whose values come as text that does not sort as they do."""
        way = self._ways[column]
        if not way.sorts:
            called = way.field.metadata.get("jdbcClientType")
            raise SourceError(
                f"{source}: the column {column!r} is of type {called}, whose text does not sort as its values do",
                "follow another column, or read by a query that casts it to a number, a time or a day",
            )

    def fetched(self) -> dict[str, str]:
        """The types of columns that are fetched otherwise than Spark would, where the database does not write text."""
        return {name: TEXT for name, way in self._ways.items() if _is_clock(way.field) and way.template == "{}"}

    def restored(self, frame: DataFrame, declared: StructType | None = None) -> DataFrame:
        """``frame``, fetched so, with the types that the columns have.

        A column that is ``declared`` as text is the text of the database; as a decimal, it is read into that.
        """
        wanted = {} if declared is None else {field.name.lower(): field.dataType for field in declared}
        came = {field.name: field.dataType for field in frame.schema}
        columns = [_restored(way, came[name], wanted.get(name.lower())) for name, way in self._ways.items()]
        return frame.select(*columns)

    def greatest_type(self, column: str) -> str:
        """The type by which a computed value of ``column`` is fetched."""
        from pyspark.sql.types import DecimalType

        way = self._ways[column]
        as_text = way.is_text or _is_clock(way.field) or isinstance(way.kind, DecimalType)
        return TEXT if as_text else str(way.kind.simpleString())

    def greatest(self, column: str, value: Value | None) -> Value | None:
        """What was fetched by :meth:`greatest_type`, as the value it is."""
        if not isinstance(value, str):
            return value
        try:
            return _value_of(value, self._ways[column].compared)
        except (ValueError, ArithmeticError):
            raise SourceError(
                f"the greatest value of {column!r} is {value!r}, above which nothing can be",
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
    """As a decimal where Delta has one so wide; else as text."""
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
    """``text`` as a value of ``kind``; a row whose text stands for none, or for one with more digits, is refused."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import DateType, DecimalType, LongType, TimestampType

    match kind:
        case DecimalType():
            parsed = f.when(text.rlike(f"^-?[0-9]*([.][0-9]{{0,{kind.scale}}}0*)?$"), text.try_cast(kind))
        case LongType():
            parsed = f.when(text.rlike("^-?[0-9]+$"), text.try_cast(kind))
        case DateType():
            parsed = f.when(text.rlike("^[0-9]{4,6}-[0-9]{2}-[0-9]{2}$"), text.try_cast(kind))
        case TimestampType():
            parsed = f.concat(text, f.lit("Z")).try_cast(kind)
        case _:
            parsed = text.try_cast(kind)
    told = f.concat(
        f.lit(f"{REFUSED}column {name!r} holds "),
        f.substring(text, 1, 80),
        f.lit(f", which is no {kind.simpleString()}"),
    )
    return f.when(text.isNotNull() & parsed.isNull(), f.raise_error(told)).otherwise(parsed)


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
    """Whether a column holds times of day, which Spark takes for times of the first day of 1970."""
    return bool(field.metadata.get("logical_time_type"))
