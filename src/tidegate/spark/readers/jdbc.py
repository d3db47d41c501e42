"""Tables and queries of a database over JDBC: the condition is in the statement, and connections share the read.

The database itself counts rows to find the range of each connection, so that a skewed key still gives equal shares.
Every row, nulls included, belongs to exactly one of them.

No value changes on its way through driver and JVM. A driver shifts times by the JVM's zone, gives decimals a scale of
its own, and turns ``infinity`` into a year. So the database writes such values as text, and Spark parses the text:
exactly, or the row is refused with its column and value. Types that Delta lacks stay the database's text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tidegate.core.columns.predicates import Bound, RowFilter, SqlDialect, dialect_of
from tidegate.core.columns.values import is_finite
from tidegate.errors import EnvironmentProblem, SourceError, TidegateError
from tidegate.sources.jdbc import REFUSED, FetchedColumns, JdbcStatements, Refusal, innermost_cause, refusal
from tidegate.sources.reader import GreatestValues
from tidegate.spark.filters import collected, column_named, count_in, fitted, kinds_of_times, named
from tidegate.spark.jars import driver_of
from tidegate.spark.readers.reader import declared, given, task_count, utc_session
from tidegate.spark.session import quote
from tidegate.spark.tasks import telling_line
from tidegate.specs.columns import ColumnSource, JdbcRead, Value, WatermarkMode
from tidegate.specs.masking import Mask
from tidegate.specs.project import SchemaSpec

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, DecimalType, StructField, StructType

_ZONE = {
    SqlDialect.POSTGRESQL: "SET TIME ZONE 'UTC'",
    SqlDialect.MYSQL: "SET time_zone = '+00:00'",
    SqlDialect.ORACLE: "ALTER SESSION SET TIME_ZONE = 'UTC'",
}
"""So that times of MySQL, and conditions of the configuration, mean the same wherever they are asked."""

_START = "sessionInitStatement"
_OF_MYSQL = {
    "tinyInt1isBit": "false",  # a tinyint(1) holds numbers
    "useCursorFetch": "true",  # or all rows are held at once
}
_MARIADB = re.compile("jdbc:mariadb:", re.IGNORECASE)

_NO_DRIVER = re.compile(r"No suitable driver|ClassNotFoundException|CLASS_NOT_FOUND")


class JdbcConnection:
    """How to reach one database; every statement opens connections of its own."""

    def __init__(self, session: SparkSession, read: JdbcRead, source: str) -> None:
        self._session = session
        self._read = read
        self._source = source
        self._url = _as_spark_knows_it(read.url)
        self.dialect = dialect_of(read.url)

    def frame(
        self, statement: str, types: Mapping[str, str] | None = None, conditions: Sequence[str] = ()
    ) -> DataFrame:
        """The rows of ``statement``, one connection per condition; ``types`` override those that Spark chooses."""
        table = f"({statement}) tidegate_read"
        options = self._options()
        if types:
            options["customSchema"] = ", ".join(f"{quote(name)} {kind}" for name, kind in types.items())
        try:
            if len(conditions) > 1:
                return self._session.read.jdbc(self._url, table, predicates=list(conditions), properties=options)
            return self._session.read.format("jdbc").options(**options, url=self._url, dbtable=table).load()
        except Exception as error:
            raise self.problem(error) from None

    def asked(self, statement: str, types: Mapping[str, str] | None = None) -> list[dict[str, Value | None]]:
        """The answer to a ``statement`` that returns a few rows."""
        frame = self.frame(statement, types)
        try:
            return collected(frame)
        except Exception as error:
            raise self.problem(error) from None

    def _options(self) -> dict[str, str]:
        read = self._read
        known = driver_of(read.url)
        driver = read.driver or (known.name if known else None)
        options = {"fetchsize": str(read.fetch_size), "preferTimestampNTZ": "true"}
        options |= {"driver": driver} if driver else {}
        options |= {"user": read.user} if read.user is not None else {}
        options |= {"password": read.password.value} if read.password is not None else {}
        if self.dialect is SqlDialect.MYSQL:
            named_there = {each.partition("=")[0].lower() for each in re.split("[?&]", read.url)[1:]}
            options |= {name: value for name, value in _OF_MYSQL.items() if name.lower() not in named_there}
        given = {name: value for name, value in read.properties.items() if name.lower() != _START.lower()}
        return options | given | self._session_start(read.properties)

    def _session_start(self, properties: Mapping[str, str]) -> dict[str, str]:
        """The statement that fixes the session's zone, after the configuration's own where both can be combined."""
        own = next((value for name, value in properties.items() if name.lower() == _START.lower()), None)
        zone = _ZONE.get(self.dialect)
        if zone is None:
            return {} if own is None else {_START: own}
        if own is None:
            return {_START: zone}
        if self.dialect is not SqlDialect.POSTGRESQL:
            raise SourceError(
                f"{self._source}: properties.{_START} is reserved: Tidegate sets the time zone of the session to UTC "
                "with it",
                "use another property of the driver, such as sessionVariables",
            )
        return {_START: f"{own.rstrip().rstrip(';')}\n;{zone}"}

    def problem(self, error: Exception) -> TidegateError:
        """What database or Spark reported, without address and secrets; the original error, which has both, is not
        chained.
        """
        if isinstance(error, TidegateError):
            return error
        refused = database_refusal(error, self._mask)
        told = refused.problem
        if _NO_DRIVER.search(str(error)):
            return EnvironmentProblem(
                f"{self._source}: Spark has no JDBC driver for this database: {told}",
                "name 'packages' or 'jars' of the connection; in a session of your own, put the driver on spark.jars",
            )
        return SourceError(f"{self._source}: {told}", refused.remedy)

    @cached_property
    def _mask(self) -> Mask:
        """Masks the password, property values, the whole address, and its parameters."""
        parameters = re.split(r"[?;&]", self._read.url)[1:]
        values = [each.partition("=")[2] for each in parameters]
        return Mask.around(self._read) | Mask.of(self._read.url, self._url, *parameters, *values)


def _as_spark_knows_it(url: str) -> str:
    """The address in a form whose quoting Spark knows: Spark knows MySQL but not MariaDB.

    MariaDB's driver accepts a MySQL address with ``permitMysqlScheme``.
    """
    if not _MARIADB.match(url):
        return url
    return f"{_MARIADB.sub('jdbc:mysql:', url, count=1)}{'&' if '?' in url else '?'}permitMysqlScheme"


def database_refusal(error: Exception, mask: Mask) -> Refusal:
    """The driver's own message inside a Spark error, which by itself only says that something failed."""
    trace = mask(str(getattr(error, "_stackTrace", None) or ""))
    text = f"{mask(str(error))}\n{trace}"
    causes = re.findall(r"^Caused by: (.+)$", trace, re.MULTILINE)
    return refusal(text, innermost_cause(text) or (causes[-1] if causes else telling_line(error, mask)))


EXACT_UP_TO, ALL_EXACT_UP_TO = 1_000_000, 200_000
SAMPLED_ROWS = 100_000
"""Of more rows than the first, so many tell where to divide: PostgreSQL takes them from pages at random.

The second holds without a lower bound: an increment of few rows has an index to find them, a sample reads all pages.
"""


class JdbcReader:
    """Reads one table or query of a database."""

    fixed_first = True

    def __init__(self, session: SparkSession, source: ColumnSource, read: JdbcRead, schema: SchemaSpec) -> None:
        own = utc_session(session)
        self._connection = JdbcConnection(own, read, source.name)
        self._parallelism = read.parallelism or task_count(own)
        self._source = source
        self._read = read
        self._schema = schema
        self._counted: dict[RowFilter, int] = {}

    def greatest(self, rows: RowFilter) -> GreatestValues:
        """The greatest values in the database now; the answer also counts the rows up to those."""
        wanted = self._fitted(rows)
        if not wanted.ranges:
            return GreatestValues()
        statements = self._statements
        if wanted.mode is WatermarkMode.TUPLE:
            found = self._asked(statements.greatest_tuple(wanted), wanted)
            counted = self._connection.asked(statements.nulls(wanted))
        else:
            found = counted = self._asked(statements.greatest(wanted), wanted)
        row = found[0] if found else {}
        seen = {
            name: self._columns.greatest(name, row.get(f"greatest_{index}"))
            for index, name in enumerate(wanted.columns)
        }
        if "found" in row:
            caps = {name: Bound(value, inclusive=True) for name, value in seen.items() if value is not None}
            self._counted = {wanted.capped(caps): count_in(row["found"])}
        return GreatestValues(dict(zip(rows.columns, seen.values(), strict=True)), count_in(counted[0]["nulls"]))

    def kinds(self, columns: Sequence[str]) -> dict[str, str]:
        """Which columns hold times, according to the database."""
        return kinds_of_times(columns, self._columns.schema, self._source.name)

    def read(self, rows: RowFilter) -> DataFrame:
        """The matching rows, over as many connections as pay off."""
        wanted = self._fitted(rows)
        conditions = self._conditions(wanted)
        divided_by = self._partition_column(wanted) if len(conditions) > 1 else None
        statement = self._statements.rows(wanted, divided_by=divided_by)
        frame = self._connection.frame(statement, self._columns.fetched(), conditions)
        restored = self._columns.restored(frame, declared(self._schema))
        return given(restored, self._schema, self._source.source_timezone, self._source.name)

    def problem(self, error: Exception) -> TidegateError:
        """The error for a failure while the rows of :meth:`read` were computed."""
        return self._connection.problem(error)

    @cached_property
    def _columns(self) -> JdbcColumns:
        """The columns, according to the database."""
        everything = JdbcStatements(self._read).rows(RowFilter())
        return JdbcColumns(self._connection.frame(everything).schema, self._connection.dialect)

    def _fitted(self, rows: RowFilter) -> RowFilter:
        wanted = fitted(rows, self._columns.schema, self._source.source_timezone, self._source.name)
        for column in wanted.columns:
            self._columns.check_followed(column, self._source.name)
        return wanted

    @property
    def _statements(self) -> JdbcStatements:
        return JdbcStatements(self._read, self._columns.selected())

    def _asked(self, statement: str, rows: RowFilter) -> list[dict[str, Value | None]]:
        types = {f"greatest_{index}": self._columns.greatest_type(name) for index, name in enumerate(rows.columns)}
        return self._connection.asked(statement, types)

    def _conditions(self, rows: RowFilter) -> tuple[str, ...]:
        """One condition per connection: equal shares of at least ``fetch_size`` rows."""
        column = self._partition_column(rows)
        statements = self._statements
        if column is None or self._parallelism < 2 or not statements.sorts_as_we_do(column):
            return ()
        found = self._counted.get(rows)
        if found is None:
            found = count_in(self._connection.asked(statements.count(rows))[0]["found"])
        parts = min(self._parallelism, found // self._read.fetch_size)
        if parts < 2:
            return ()
        bounds = sorted(self._bounds(statements, rows, column, parts, found))[1:]
        return statements.part_conditions(bounds)

    def _partition_column(self, rows: RowFilter) -> str | None:
        if self._read.partition_column is not None:
            return column_named(self._read.partition_column, self._columns.schema.names, self._source.name)
        return rows.columns[0] if rows.columns else None

    def _bounds(self, statements: JdbcStatements, rows: RowFilter, column: str, parts: int, found: int) -> set[Any]:
        """The least value of each share, from a sample where the table is large and can be sampled."""
        can_sample = self._read.table is not None and self._connection.dialect is SqlDialect.POSTGRESQL
        if can_sample and found > (EXACT_UP_TO if rows.watermark else ALL_EXACT_UP_TO):
            percent = 100 * SAMPLED_ROWS / found
            try:
                bounds = self._least(statements.parts(rows, column, parts, percent=percent), column)
            except SourceError:  # a view has no pages
                bounds = set()
            if len(bounds) > 1:
                return bounds
        return self._least(statements.parts(rows, column, parts), column)

    def _least(self, statement: str, column: str) -> set[Any]:
        rows = self._connection.asked(statement, {"bound": self._columns.greatest_type(column)})
        values = (self._columns.greatest(column, row["bound"]) for row in rows)
        return {value for value in values if value is not None and is_finite(value)}


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


class JdbcColumns:
    """The columns of one table or query and how ``dialect`` fetches them; ``schema`` gives the types of bounds."""

    def __init__(self, schema: StructType, dialect: SqlDialect) -> None:
        from pyspark.sql.types import StructField, StructType

        self._ways = {field.name: _way(field, dialect) for field in schema}
        self.schema = StructType(
            [StructField(each.field.name, each.compared, each.field.nullable) for each in self._ways.values()]
        )

    def selected(self) -> tuple[FetchedColumns, ...]:
        """The select expression of every column."""
        from pyspark.sql.types import StringType

        return tuple(
            FetchedColumns(
                name, way.template, isinstance(way.compared, StringType) and not way.field.metadata.get("rowid")
            )
            for name, way in self._ways.items()
        )

    def check_followed(self, column: str, source: str) -> None:
        """Refuse a watermark column that arrives as text which sorts differently from its values."""
        way = self._ways[column]
        if not way.sorts:
            called = way.field.metadata.get("jdbcClientType")
            raise SourceError(
                f"{source}: the column {column!r} is of type {called}, whose text sorts differently from its values",
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
