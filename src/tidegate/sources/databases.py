"""Tables and queries of PostgreSQL, MySQL and MariaDB, read in this process by Python drivers, without Java.

The statements, bounds, types, values and refusals are those of Spark's reader, so that either continues where the other
ended. The database describes the types of its columns; Spark's type for each is listed here, and any other type is
refused. One connection reads the rows: at most ``fetch_size`` at a time, and fewer if they are wide. It changes
nothing, and its session is in UTC.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from itertools import chain
from sys import getsizeof
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from tidegate.core.columns.predicates import RowFilter, dialect_of
from tidegate.core.columns.predicates import quote as quote_name
from tidegate.core.databases import DatabaseAddress, Unsupported, scheme_of
from tidegate.core.engines import IGNORED_SETTINGS, ITS_DATABASES
from tidegate.errors import EnvironmentProblem, SourceError, TidegateError
from tidegate.schema.types import TIMESTAMP, arrow_schema, type_name
from tidegate.sources.adbc import SESSION, AdbcShare, ExactColumn, connection_of, exact, share_rows
from tidegate.sources.database_columns import ColumnTransfer, DatabaseColumns, DatabaseField, is_decimal
from tidegate.sources.jdbc import (
    LIKE_JDBC,
    MYSQL_SESSION,
    OPTIONS_REFUSED,
    VALUE,
    JdbcStatements,
    check_environment,
    refusal,
)
from tidegate.sources.reader import GreatestValues, StreamedRows, column_named, fit_bounds, kinds_of_times, needs_spark
from tidegate.specs.columns import ColumnSource, JdbcRead, RowReader, WatermarkMode
from tidegate.specs.masking import Mask
from tidegate.specs.project import SchemaSpec

CONNECT_SECONDS = 10
EXTRAS = {"postgresql": "tidegate[postgres]", "mysql": "tidegate[mysql]", "mariadb": "tidegate[mysql]"}
"""The extra to install for a database, by its name in a JDBC address."""


def _connect_postgres(address: DatabaseAddress, read: JdbcRead) -> Any:
    """Begin a transaction with its settings: a pooler may give the next transaction to another session of the server.

    The environment supplies nothing that the JDBC driver would not know.
    """
    import psycopg

    given: dict[str, Any] = {
        "host": address.host,
        "port": address.port or 5432,
        "dbname": address.database,
        "user": read.user,
        "password": None if read.password is None else read.password.value,
        "connect_timeout": CONNECT_SECONDS,
        "autocommit": True,
        "gssencmode": "disable",
        "client_encoding": "utf-8",
        "sslmode": "prefer",
        **address.settings,
    }
    try:
        connection = psycopg.connect(options=LIKE_JDBC, **given)
    except psycopg.OperationalError as error:
        if not OPTIONS_REFUSED.search(str(error)):
            raise
        connection = psycopg.connect(options="", **given)
    settings = (f"SET LOCAL {name} = '{value}'" for name, value in _SESSION.items())
    connection.execute("; ".join(("BEGIN", *settings)).encode())
    return connection


def _connect_mysql(address: DatabaseAddress, read: JdbcRead) -> Any:
    """Connect like the JDBC driver without settings: MySQL's encrypts if the server can, MariaDB's does not.

    Neither checks the certificate then.
    """
    import pymysql
    from pymysql.cursors import SSCursor

    return pymysql.connect(
        host=address.host,
        port=address.port or 3306,
        database=address.database,
        user=read.user,
        password="" if read.password is None else read.password.value,
        connect_timeout=CONNECT_SECONDS,
        charset="utf8mb4",
        autocommit=True,
        init_command=MYSQL_SESSION,
        ssl_disabled=address.scheme == "mariadb",
        auth_plugin_map=dict.fromkeys(("mysql_clear_password", "dialog"), _PlainSecret),
        conv=_AS_TEXT,
        cursorclass=SSCursor,
    )


class _PlainSecret:
    """Logs in by the password itself if a server asks for it: like JDBC drivers, over an encrypted connection only."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def authenticate(self, _: Any) -> Any:
        if not self._connection._secure:
            from pymysql.err import OperationalError

            raise OperationalError("the server asks for the password in cleartext, and the connection has no TLS")
        self._connection.write_packet(self._connection.password + b"\0")
        answer = self._connection._read_packet()
        answer.check_error()
        return answer


_ARROW = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp_ntz": TIMESTAMP,
    "timestamp": TIMESTAMP,
}
_KINDS = {kind: word for word, kind in _ARROW.items()}
"""Spark's names of types; times without a zone become instants."""

Block = Sequence[Sequence[Any]]
"""Rows as a driver returns them."""

BLOCK_BYTES = 16 * 1024 * 1024
_FIRST_ROWS = 16
"""The rows of the first block from PostgreSQL; later blocks grow as long as their size in bytes allows."""

_STRIDE = 13
"""One row in so many is measured: measuring all of them takes a quarter of the time of the read."""


def _size(values: Iterable[Any]) -> int:
    return sum(map(getsizeof, values))


class Database(ABC):
    """One database; each statement has its own connection, which only reads."""

    def __init__(self, read: JdbcRead, address: DatabaseAddress, source: str) -> None:
        self.read = read
        self.dialect = dialect_of(read.url)
        self.source = source
        self._address = address
        values = [part.partition("=")[2] for part in re.split(r"[?;&]", read.url)[1:]]
        self._mask = Mask.around(read) | Mask.of(read.url, *values)

    @abstractmethod
    def _session(self) -> AbstractContextManager[Any]:
        """A cursor of a connection that only reads; errors of the driver become those of this source."""

    @abstractmethod
    def _described(self, cursor: Any) -> list[DatabaseField]:
        """The columns of the cursor's last statement, with Spark's types; drops the rows of that statement."""

    @abstractmethod
    def blocks(self, statement: str) -> Iterator[Block]:
        """The rows of a statement, at most ``fetch_size`` and about :data:`BLOCK_BYTES` at a time."""

    @abstractmethod
    def selected(self, columns: DatabaseColumns) -> JdbcStatements:
        """The statements over the table or query, as the driver can take them."""

    @abstractmethod
    def parsed(self, way: ColumnTransfer, kind: str) -> str | None:
        """The type to parse the incoming text as; see :meth:`ColumnTransfer.parsed`."""

    @abstractmethod
    def array(self, values: Sequence[Any], column: ExactColumn) -> pa.Array:
        """The driver's values as a column."""

    def columns(self, read: JdbcRead) -> DatabaseColumns:
        """The columns of a table or a query; no two may differ in case alone."""
        with self._session() as cursor:
            cursor.execute(f"SELECT * FROM ({JdbcStatements(read).rows(RowFilter())}) tidegate_read WHERE 1 = 0")
            fields = self._described(cursor)
        if not fields:
            raise SourceError(f"{self.source} has no column", "name a table or a query with columns")
        names = [each.name.lower() for each in fields]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise SourceError(f"{self.source} gives the column {twice[0]!r} twice", "give each column another name")
        return DatabaseColumns(fields, self.dialect)

    def field(self, way: ColumnTransfer) -> pa.Field:
        """A column of the rows, if none is declared."""
        if is_decimal(way.kind):
            return pa.field(way.field.name, pa.decimal128(*map(int, way.kind[8:-1].split(","))))
        if way.kind not in _ARROW:
            raise self.no_type(way.field.name, way.field.called)
        return pa.field(way.field.name, _ARROW[way.kind])

    def arrays(self, statement: str, columns: Sequence[ExactColumn]) -> Iterator[list[pa.Array]]:
        """The rows of a statement by columns, a block at a time."""
        for block in self.blocks(statement):
            # Not around the `yield`: an error of whoever takes the batch is not one of this source.
            with self._named():
                pairs = zip(zip(*block, strict=True), columns, strict=True)
                found = [self.array(values, each) for values, each in pairs]
            yield found

    def nulls_if_idle(self, rows: RowFilter, timezone: str) -> int | None:
        """The number of rows with null instead of a watermark, if no row matches; None if one does.

        All on one connection: a poll that finds nothing is mostly the time to connect. Only the watermark columns are
        described, since a poll must not fail for a column that Spark would read well.
        """
        statements = JdbcStatements(self.read)
        names = ", ".join(quote_name(name, self.dialect) for name in rows.columns)
        with self._session() as cursor:
            cursor.execute(f"SELECT {names} FROM ({statements.rows(RowFilter())}) tidegate_read WHERE 1 = 0")
            wanted = fit_rows(rows, DatabaseColumns(self._described(cursor), self.dialect), timezone, self.source)
            cursor.execute(statements.one_row(wanted))
            if cursor.fetchall():
                return None
            cursor.execute(statements.nulls(wanted))
            return int(cursor.fetchall()[0][0])

    def answer(self, statement: str) -> list[Sequence[Any]]:
        """The answer to a statement that returns a few rows."""
        return [row for block in self.blocks(statement) for row in block]

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Give an error about a value the name of this source, and take secrets out."""
        try:
            yield
        except SourceError as error:
            raise SourceError(f"{self.source}: {self._mask(error.problem)}", error.remedy) from None

    @contextmanager
    def _map_errors(self, kind: type[Exception]) -> Iterator[None]:
        """Turn errors of the driver into one of this source, without secrets."""
        try:
            yield
        except UnicodeDecodeError as error:
            raise SourceError(f"{self.source}: a text of the database is no Unicode: {error.reason}", VALUE) from None
        except TidegateError:
            raise
        except Exception as error:  # drivers raise what is no error of theirs, such as struct.error for a cut greeting
            told = getattr(getattr(error, "diag", None), "message_primary", None) or (error.args or (error,))[-1]
            if not isinstance(error, (kind, OSError)):
                told = f"{type(error).__name__} in its driver: {told}"
            refused = refusal(str(told), str(told).strip().partition("\n")[0])
            raise SourceError(f"{self.source}: {self._mask(refused.problem)}", refused.remedy) from None

    def _unknown_to_spark(self, name: str, called: str, text: str) -> SourceError:
        problem = f"{self.source}: the column {name!r} is of type {called}, for which Spark has no type"
        return SourceError(problem, f"use a query that casts it, such as cast({name} as {text})")

    def no_type(self, name: str, called: str) -> EnvironmentProblem:
        """The error for a column whose type only Spark may know."""
        problem = f"the column {name!r} is of type {called}, which is read by Spark alone"
        return needs_spark(self.source, problem, "cast it in a query, leave it out, or ")


_POSTGRES_KINDS = {
    "int2": "smallint",
    "int4": "int",
    "int8": "bigint",
    "float4": "float",
    "float8": "double",
    "bool": "boolean",
    "bytea": "binary",
    "date": "date",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
}
_TYPES = "SELECT oid, typname, typcategory, typtype FROM pg_catalog.pg_type WHERE oid IN ({})"
_ONLY_JAVA = frozenset(("oid", "refcursor"))
_MOST_DIGITS = 38
_SESSION = {**SESSION, "cursor_tuple_fraction": "1"}
"""The database plans for all rows of a cursor, not for the first."""


class _Postgres(Database):
    def _described(self, cursor: Any) -> list[DatabaseField]:
        told = [(each.name, each.type_code, cursor.pgresult.fmod(n)) for n, each in enumerate(cursor.description)]
        cursor.execute(_TYPES.format(", ".join(str(oid) for _, oid, _ in told) or "NULL"))
        types = {row[0]: row[1:] for row in cursor.fetchall()}
        return [self._field(name, modifier, *types[oid]) for name, oid, modifier in told]

    def _field(self, name: str, modifier: int, called: str, category: str, type_: str) -> DatabaseField:
        if called == "numeric":
            # PostgreSQL packs digits and scale into the modifier, plus 4; the scale has 11 bits and may be negative.
            digits, scale = (modifier - 4) >> 16 & 0xFFFF, ((modifier - 4 & 0x7FF) ^ 0x400) - 0x400
            if modifier >= 0 and scale > digits:
                raise self.no_type(name, f"numeric({digits},{scale})")
            kind, scale = (_decimal(digits, scale), scale) if modifier >= 0 else ("decimal(38,18)", 0)
            return DatabaseField(name, kind, called, scale)
        if called == "_money":
            raise self._unknown_to_spark(name, "money[]", "text")
        if called in _ONLY_JAVA or type_ == "p" or (called == "bit" and modifier == 1):
            raise self.no_type(name, called)
        return DatabaseField(
            name, "array<string>" if category == "A" else _POSTGRES_KINDS.get(called, "string"), called
        )

    def blocks(self, statement: str) -> Iterator[Block]:
        with self._session() as cursor:
            # Without a cursor the driver receives all rows at once.
            cursor.execute(f"DECLARE tidegate NO SCROLL CURSOR FOR {statement}")
            wanted = _FIRST_ROWS
            while True:
                wanted = min(wanted, self.read.fetch_size)
                cursor.execute(f"FETCH FORWARD {wanted} FROM tidegate", binary=True, prepare=False)
                block = cursor.fetchall()
                if not block:
                    return
                sample = block[::_STRIDE]
                wanted = min(4 * wanted, max(1, BLOCK_BYTES * len(sample) // _size(chain.from_iterable(sample))))
                yield block

    @contextmanager
    def _session(self) -> Iterator[Any]:
        import psycopg

        with self._map_errors(psycopg.Error), closing(_connect_postgres(self._address, self.read)) as connection:
            cursor = connection.cursor()
            cursor.execute("SET TRANSACTION READ ONLY")
            yield cursor

    def selected(self, columns: DatabaseColumns) -> JdbcStatements:
        return JdbcStatements(self.read, columns.selected(by_adbc=True))

    def parsed(self, way: ColumnTransfer, kind: str) -> str | None:
        return way.parsed_by_adbc(kind)

    def arrays(self, statement: str, columns: Sequence[ExactColumn]) -> Iterator[list[pa.Array]]:
        if self.read.reader is not RowReader.ADBC:
            yield from super().arrays(statement, columns)
            return
        with self._named():
            for batch in share_rows(AdbcShare(connection_of(self.read), statement, tuple(columns))):
                yield batch.columns

    def array(self, values: Sequence[Any], column: ExactColumn) -> pa.Array:
        return exact(pa.array(values, column.comes_as), column)


def _decimal(digits: int, scale: int) -> str:
    """Spark's decimal for so many digits: those before the point take precedence."""
    if scale < 0:
        digits, scale = digits - scale, 0
    return f"decimal({min(digits, _MOST_DIGITS)},{max(0, scale - max(0, digits - _MOST_DIGITS))})"


_MYSQL_KINDS = {
    1: ("tinyint", "tinyint", "smallint"),
    2: ("smallint", "smallint", "int"),
    9: ("mediumint", "int", "int"),
    3: ("int", "int", "bigint"),
    8: ("bigint", "bigint", "decimal(20,0)"),
    4: ("float", "float", "double"),
    5: ("double", "double", "double"),
    13: ("year", "int", "int"),
    7: ("timestamp", "timestamp", "timestamp"),
    12: ("datetime", "timestamp_ntz", "timestamp_ntz"),
    10: ("date", "date", "date"),
    11: ("time", "string", "string"),
    245: ("json", "string", "string"),
}
"""By the protocol's number of a type: its name, and Spark's types with a sign and without."""

_TEXTS = {15: "varchar", 253: "varchar", 254: "char", **dict.fromkeys((249, 250, 251, 252), "text")}
_UNSIGNED = 32
_UUID = 254, True, 36 * 4
"""What tells MariaDB's ``uuid`` from other text: 36 characters of up to four bytes, and no sign."""

_BYTES = 63
"""The character set of values that are not text."""

_AS_TEXT: dict[Any, Any] = {bool: lambda value, _: str(int(value))}
"""What the driver converts: its own setting of ``autocommit``, and no value of a row."""


class _Mysql(Database):
    def _described(self, cursor: Any) -> list[DatabaseField]:
        fields = [self._field(each) for each in cursor._result.fields]
        cursor.fetchall()  # an unbuffered cursor takes no other statement before
        return fields

    def _field(self, told: Any) -> DatabaseField:
        number, unsigned = told.type_code, bool(told.flags & _UNSIGNED)
        if number in (0, 246):
            # The length includes a sign and the point.
            digits = told.length - (not unsigned) - bool(told.scale)
            return DatabaseField(told.name, _decimal(digits, told.scale), "decimal", told.scale)
        if number in _MYSQL_KINDS:
            called, signed, other = _MYSQL_KINDS[number]
            return DatabaseField(told.name, other if unsigned else signed, called)
        if number == 16:
            return DatabaseField(told.name, "boolean" if told.length == 1 else "bigint", "bit")
        if (number, unsigned, told.length) == _UUID and self._address.scheme == "mariadb":
            raise self._unknown_to_spark(told.name, "uuid", "char")
        if number in _TEXTS:
            is_bytes = told.charsetnr == _BYTES
            return DatabaseField(told.name, *(("binary", "blob") if is_bytes else ("string", _TEXTS[number])))
        raise self.no_type(told.name, f"number {number} of MySQL's protocol")

    def blocks(self, statement: str) -> Iterator[Block]:
        with self._session() as cursor:
            cursor.execute(statement)
            block: list[Sequence[Any]] = []
            size = 0
            while rows := cursor.fetchmany(min(_STRIDE, self.read.fetch_size - len(block))):
                block += rows
                size += len(rows) * _size(rows[0])
                if size >= BLOCK_BYTES or len(block) == self.read.fetch_size:
                    yield block
                    block, size = [], 0
            if block:
                yield block

    @contextmanager
    def _session(self) -> Iterator[Any]:
        """The cursor buffers only what is fetched; values are the text of the server."""
        import pymysql

        with self._map_errors(pymysql.MySQLError), closing(_connect_mysql(self._address, self.read)) as connection:
            connection.query("SET SESSION TRANSACTION READ ONLY")
            with closing(connection.cursor()) as cursor:
                try:
                    yield cursor
                finally:
                    if cursor._result is not None:  # else closing it would read all remaining rows
                        cursor._result.unbuffered_active = False

    def selected(self, columns: DatabaseColumns) -> JdbcStatements:
        return JdbcStatements(self.read, columns.selected())

    def parsed(self, way: ColumnTransfer, kind: str) -> str | None:
        return way.parsed(kind)

    def array(self, values: Sequence[Any], column: ExactColumn) -> pa.Array:
        kind = column.kind
        if pa.types.is_boolean(kind):
            return pa.array([None if each is None else each != "0" for each in values], kind)
        if pa.types.is_binary(kind) or pa.types.is_string(kind):
            return pa.array(values, kind)
        texts = pa.array(values, pa.string())
        if column.called or pa.types.is_decimal(kind):
            return exact(texts, column if column.called else ExactColumn(column.name, kind, "decimal"))
        return texts.cast(pa.float64()).cast(kind) if pa.types.is_floating(kind) else texts.cast(kind)


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
        ask, statements = self._database.answer, self._database.selected(self._columns)
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
        statements = database.selected(self._columns)
        found = read_columns(database, self._columns, self._schema)
        return StreamedRows(
            pa.schema([each.field for each in found]),
            lambda: stream(database, statements.rows(wanted), found, self._source.source_timezone),
            lambda: int(database.answer(statements.count(wanted))[0][0]),
        )

    @cached_property
    def _columns(self) -> DatabaseColumns:
        return self._database.columns(self._database.read)

    def _fit(self, rows: RowFilter) -> RowFilter:
        return fit_rows(rows, self._columns, self._source.source_timezone, self._source.name)


def fit_rows(rows: RowFilter, columns: DatabaseColumns, timezone: str, source: str) -> RowFilter:
    """``rows`` with the names and types of the columns; refuses a watermark column whose text sorts differently."""
    wanted = fit_bounds(rows, columns.kinds, timezone, source)
    for column in wanted.columns:
        columns.check_followed(column, source)
    return wanted


@dataclass(frozen=True, slots=True)
class ReadColumn:
    """A column of the rows, and its column in the database; ``is_local``: its times have no zone."""

    field: pa.Field
    name: str
    exact: ExactColumn
    is_local: bool


def read_columns(database: Database, columns: DatabaseColumns, schema: SchemaSpec) -> list[ReadColumn]:
    """The declared columns, or those of the database; :class:`EnvironmentProblem` if values must be converted."""
    found = []
    for field in arrow_schema(schema.fields) if schema.fields else map(database.field, columns.ways.values()):
        name = column_named(field.name, list(columns.ways), database.source)
        way, kind = columns.ways[name], _KINDS.get(field.type, type_name(field.type))
        called = database.parsed(way, kind)
        if called is None:
            problem = f"the column {name!r} is of type {way.field.called} and becomes {kind}"
            raise needs_spark(database.source, problem, "declare another type, cast it in a query, or ")
        found.append(ReadColumn(field, name, ExactColumn(field.name, field.type, called), called == "timestamp_ntz"))
    return found


def stream(
    database: Database, statement: str, columns: Sequence[ReadColumn], timezone: str
) -> Iterator[pa.RecordBatch]:
    """The rows of a statement in these columns, a block at a time; times without a zone are in ``timezone``."""
    names = ", ".join(quote_name(each.name, database.dialect) for each in columns)
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


def open_database(read: JdbcRead, source: str) -> Database:
    """The database of ``read``; :class:`EnvironmentProblem` if only Spark can read it as configured."""
    scheme = scheme_of(read.url)
    if scheme not in ITS_DATABASES:
        problem = f"there is no driver of Python for jdbc:{scheme} here, only for PostgreSQL, MySQL and MariaDB"
        raise needs_spark(source, problem)
    try:
        return connectable(read, source, IGNORED_SETTINGS)
    except Unsupported as unsupported:
        raise needs_spark(source, unsupported.reason) from None
    except SourceError as error:
        raise SourceError(f"{source}: {error.problem}", error.remedy) from None
    except ImportError:
        problem = "the database cannot be read in this process: its driver is not installed"
        raise needs_spark(source, problem, f"install '{EXTRAS[scheme]}', or ") from None


def connectable(read: JdbcRead, source: str, ignored: frozenset[str]) -> Database:
    """The database of ``read``, whose settings may be among those ``ignored``; sends nothing.

    :class:`Unsupported` if its JDBC driver would connect differently, ImportError without a driver.
    """
    address = DatabaseAddress.of(read, ignored)
    if address.scheme == "postgresql":
        check_environment()
    __import__("psycopg" if address.scheme == "postgresql" else "pymysql")
    return (_Postgres if address.scheme == "postgresql" else _Mysql)(read, address, source)
