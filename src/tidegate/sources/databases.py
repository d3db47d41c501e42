"""Tables and queries of databases, read in this process by drivers of Python, without Java.

The statements, bounds, types, values and refusals are those of Spark's reader, so that either continues where the other
ended. One connection reads the rows: at most ``fetch_size`` at a time, and fewer if they are wide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from zoneinfo import ZoneInfo

import pyarrow as pa

from tidegate.core.columns.predicates import RowFilter
from tidegate.core.database_tables import DatabaseTable
from tidegate.core.dialects.address import HARMLESS_FOR_POLLS, HARMLESS_FOR_ROWS, DatabaseAddress, Unsupported
from tidegate.core.dialects.registry import READ_WITHOUT_JAVA, dialect_of
from tidegate.errors import EnvironmentProblem, SourceError
from tidegate.schema.types import TIMESTAMP, arrow_schema, type_name
from tidegate.sources.connection_slots import connection_slots
from tidegate.sources.database_columns import DatabaseColumns
from tidegate.sources.database_driver import ARROW_TYPES, DatabaseDriver, fit_rows
from tidegate.sources.exact import ExactColumn
from tidegate.sources.psycopg_driver import PsycopgDriver
from tidegate.sources.pymysql_driver import PymysqlDriver
from tidegate.sources.reader import GreatestValues, StreamedRows, column_named, kinds_of_times, needs_spark
from tidegate.specs.columns import ColumnSource, JdbcRead, WatermarkMode
from tidegate.specs.table import SchemaSpec

DRIVERS: dict[str, type[DatabaseDriver]] = {"psycopg": PsycopgDriver, "PyMySQL": PymysqlDriver}
"""By the name that a dialect gives its driver of Python."""

_KINDS = {kind: word for word, kind in ARROW_TYPES.items()}


class DatabaseReader:
    """Reads one table or query of a database."""

    fixed_first = True

    def __init__(self, source: ColumnSource, read: JdbcRead, schema: SchemaSpec) -> None:
        self._source = source
        self._schema = schema
        self._database = open_database(read, source.name)

    def greatest(self, rows: RowFilter) -> GreatestValues:
        """The greatest values in the database now, and how many rows have null in every watermark column."""
        wanted = self._fit(rows)
        if not wanted.ranges:
            return GreatestValues()
        ask, statements = self._database.fetch_rows, self._database.statements(self._columns)
        if wanted.mode is WatermarkMode.TUPLE:
            found, nulls = ask(statements.greatest_tuple(wanted)), ask(statements.nulls(wanted))[0][0]
        else:
            found = ask(statements.greatest(wanted))
            nulls = found[0][len(wanted.columns)]
        row = found[0] if found else [None] * len(wanted.columns)
        seen = zip(rows.columns, wanted.columns, row, strict=False)
        values = {column: self._columns.greatest(name, value) for column, name, value in seen}
        return GreatestValues(values, int(nulls or 0))

    def kinds(self, columns: Sequence[str]) -> dict[str, str]:
        """The columns with times, according to the database."""
        return kinds_of_times(columns, self._columns.kinds, self._source.name)

    def read(self, rows: RowFilter) -> StreamedRows:
        """The matching rows."""
        wanted, database = self._fit(rows), self._database
        # One connection reads all rows; a wrong name is the same error as with Spark.
        if database.read.partition_column is not None:
            column_named(database.read.partition_column, list(self._columns.ways), self._source.name)
        statements = database.statements(self._columns)
        found = read_columns(database, self._columns, self._schema)
        return StreamedRows(
            pa.schema([each.field for each in found]),
            lambda: stream(database, statements.rows(wanted), found, self._source.source_timezone),
            lambda: int(database.fetch_rows(statements.count(wanted))[0][0]),
        )

    @cached_property
    def _columns(self) -> DatabaseColumns:
        return self._database.columns(self._database.read)

    def _fit(self, rows: RowFilter) -> RowFilter:
        return fit_rows(rows, self._columns, self._source.source_timezone, self._source.name)


@dataclass(frozen=True, slots=True)
class ReadColumn:
    """A column of the rows, and its column in the database; ``is_local``: its times have no zone."""

    field: pa.Field
    name: str
    exact: ExactColumn
    is_local: bool


def read_columns(database: DatabaseDriver, columns: DatabaseColumns, schema: SchemaSpec) -> list[ReadColumn]:
    """The declared columns, or those of the database; :class:`EnvironmentProblem` if values must be converted."""
    found = []
    for field in arrow_schema(schema.fields) if schema.fields else map(database.field, columns.ways.values()):
        name = column_named(field.name, list(columns.ways), database.source)
        way, kind = columns.ways[name], _KINDS.get(field.type, type_name(field.type))
        called = way.type_to_parse_in_python(kind)
        if called is None:
            problem = f"the column {name!r} is of type {way.field.called} and becomes {kind}"
            raise needs_spark(database.source, problem, "declare another type, cast it in a query, or ")
        found.append(ReadColumn(field, name, ExactColumn(field.name, field.type, called), called == "timestamp_ntz"))
    return found


def stream(
    database: DatabaseDriver, statement: str, columns: Sequence[ReadColumn], timezone: str
) -> Iterator[pa.RecordBatch]:
    """The rows of a statement in these columns, a block at a time; times without a zone are in ``timezone``."""
    names = ", ".join(database.dialect.quote(each.name) for each in columns)
    schema = pa.schema([each.field for each in columns])
    for arrays in database.arrays(f"SELECT {names} FROM ({statement}) tidegate_read", [each.exact for each in columns]):
        pairs = zip(arrays, columns, strict=True)
        moved = [instants(array, timezone) if each.is_local else array for array, each in pairs]
        yield pa.record_batch(moved, schema)


_START = datetime(1970, 1, 1)
_FIRST, _LAST = ((each - _START) // timedelta(microseconds=1) for each in (datetime.min, datetime.max))
_CYCLE = 146_097 * 86_400_000_000
"""Microseconds after which the calendar, weekdays included, repeats: Python's years end at 9999."""


def instants(times: pa.Array, timezone: str) -> pa.Array:
    """Local times of ``timezone`` as instants.

    A time that clocks skip is shifted forward, and one that they show twice is the first of the two.
    """
    if timezone == "UTC":
        return times.view(TIMESTAMP)
    zone = ZoneInfo(timezone)

    def instant(micros: int | None) -> int | None:
        if micros is None:
            return None
        near = _LAST - (_LAST - micros) % _CYCLE if micros > _LAST else micros
        near = _FIRST + (micros - _FIRST) % _CYCLE if micros < _FIRST else near
        offset = (_START + timedelta(microseconds=near)).replace(tzinfo=zone).utcoffset() or timedelta(0)
        return micros - (offset.days * 86_400 + offset.seconds) * 1_000_000

    return pa.array([instant(each) for each in times.view(pa.int64()).to_pylist()], pa.int64()).view(TIMESTAMP)


def open_database(read: JdbcRead, source: str) -> DatabaseDriver:
    """The database of ``read``; :class:`EnvironmentProblem` if only Spark can read it as configured."""
    dialect = dialect_of(read.url)
    if dialect.python is None:
        problem = f"there is no driver of Python for jdbc:{dialect.scheme} here, only for {READ_WITHOUT_JAVA}"
        raise needs_spark(source, problem)
    try:
        return connectable(read, source)
    except Unsupported as unsupported:
        raise needs_spark(source, unsupported.reason) from None
    except SourceError as error:
        raise SourceError(f"{source}: {error.problem}", error.remedy) from None
    except ImportError:
        problem = "the database cannot be read in this process: its driver is not installed"
        raise needs_spark(source, problem, f"install '{dialect.python.extra}', or ") from None


def list_tables(read: JdbcRead, connection: str) -> list[DatabaseTable]:
    """The tables of a database by one or two statements; an error names the ``connection``."""
    source = f"connection {connection!r}"
    try:
        database = connectable(read, source, HARMLESS_FOR_POLLS)
        with connection_slots(read):
            return database.list_tables()
    except Unsupported as unsupported:
        raise SourceError(
            f"{source}: its tables cannot be listed: {unsupported.reason}",
            "change that, or give each table a pipeline of its own",
        ) from None
    except ImportError:
        driver = dialect_of(read.url).python
        raise EnvironmentProblem(
            f"{source}: its tables cannot be listed: the driver of Python for the database is not installed",
            f"install '{driver.extra if driver is not None else 'tidegate'}'",
        ) from None


def connectable(read: JdbcRead, source: str, harmless: frozenset[str] = HARMLESS_FOR_ROWS) -> DatabaseDriver:
    """The database of ``read``, whose settings may be among those ``harmless``; sends nothing.

    :class:`Unsupported` if its JDBC driver would connect differently, ImportError without a driver.
    """
    address = DatabaseAddress.of(read, harmless)
    driver = DRIVERS[address.driver.name](read, address, source)
    __import__(address.driver.module)
    return driver
