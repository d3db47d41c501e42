"""The columns of a database in Spark: the types of its JDBC, and text converted back to values of those types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.core.dialects.dialect import Dialect
from tidegate.core.dialects.transfer import ColumnTransfer, DatabaseField, is_decimal
from tidegate.sources.adbc import impossible
from tidegate.sources.database_columns import TEXT, DatabaseColumns
from tidegate.sources.exact import ExactColumn
from tidegate.sources.jdbc import REFUSED
from tidegate.sources.reader import column_named
from tidegate.spark.arrow_types import to_arrow_columns
from tidegate.spark.filters import exact_column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructField, StructType

TYPE_NAME = "jdbcClientType"
"""Where Spark notes the database's own name for the type of a column."""


class JdbcColumns(DatabaseColumns):
    """The columns of one table or query and how ``dialect`` fetches them; ``schema`` gives the types of bounds."""

    def __init__(self, schema: StructType, dialect: Dialect) -> None:
        from pyspark.sql.types import StructField, StructType

        super().__init__(map(_database_field, schema), dialect)
        self._types = {field.name: field.dataType for field in schema}
        self.schema = StructType(
            [
                StructField(field.name, self._type(field.name, self.kinds[field.name]), field.nullable)
                for field in schema
            ]
        )

    def exact(self, rows: StructType, timezone: str, source: str) -> dict[str, tuple[str, ExactColumn]]:
        """By column of the resulting ``rows``: the column here, and how ADBC's values become those.

        :class:`SourceError` if they cannot.
        """
        kinds = to_arrow_columns(rows)
        found = {}
        for field in rows:
            name = column_named(field.name, list(self.ways), source)
            way, kind = self.ways[name], field.dataType.simpleString()
            called = way.type_to_parse_in_python(kind, timezone)
            if called is None:
                raise impossible(f"the column {name!r} is of type {way.field.called} and becomes {kind}")
            found[field.name] = name, ExactColumn(field.name, kinds.field(field.name).type, called)
        return found

    def fetched_schema(self) -> dict[str, str]:
        """Types that override Spark's choice, for columns that the database does not send as text."""
        return {name: TEXT for name, way in self.ways.items() if way.field.is_clock and way.template == "{}"}

    def restore_columns(self, frame: DataFrame, declared: StructType | None = None) -> DataFrame:
        """``frame``, fetched this way, with the columns' real types.

        A column ``declared`` as text keeps the database's text; one declared as a decimal is parsed into it.
        """
        wanted = {} if declared is None else {field.name.lower(): field.dataType for field in declared}
        columns = [
            _restore_values(way, self._type(name, way.kind), wanted.get(name.lower()))
            for name, way in self.ways.items()
        ]
        return frame.select(*columns)

    def _type(self, column: str, kind: str) -> DataType:
        """A type of ``column`` in Spark: its own, or one that replaces it."""
        from pyspark.sql.types import IntegerType, LongType, StringType

        others: dict[str, DataType] = {"string": StringType(), "bigint": LongType(), "int": IntegerType()}
        own = self._types[column]
        return own if own.simpleString() == kind else others[kind]


def _database_field(field: StructField) -> DatabaseField:
    """Spark's description of a column."""
    told = field.metadata
    return DatabaseField(
        field.name,
        field.dataType.simpleString(),
        str(told.get(TYPE_NAME, "")).lower(),
        told.get("scale"),
        bool(told.get("logical_time_type")),
        bool(told.get("rowid")),
    )


def _restore_values(way: ColumnTransfer, kind: DataType, declared: DataType | None) -> Column:
    from pyspark.sql.types import DecimalType, StringType

    name = way.field.name
    column = exact_column(name)
    if way.is_text and is_decimal(way.field.kind) and isinstance(declared, DecimalType):
        kind = declared
    if way.is_text and isinstance(declared, StringType):
        kind = declared
    is_parsed = way.is_text and not isinstance(kind, StringType)
    # Cast even to the same type: that drops the driver's metadata, for which Spark 4.0 ignores `metadata={}`.
    return (_exact(column, kind, name) if is_parsed else column.cast(kind)).alias(name)


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
            # The database writes these in UTC, without an offset.
            ways = [f.concat(text, f.lit("Z")).try_cast(kind)]
        case _:
            ways = [parsed]
    told = f.concat(
        f.lit(f"{REFUSED}column {name!r} holds "),
        f.substring(text, 1, 80),
        f.lit(f", which is no {kind.simpleString()}"),
    )
    # A text that is no such value becomes null by `try_cast`, and must not pass for a null of the database.
    return f.coalesce(*ways, f.when(text.isNotNull(), f.raise_error(told)))
