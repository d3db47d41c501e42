"""The port of the drivers of Python by which databases are read in this process, without Java.

The database describes the types of its columns; each driver gives Spark's type for them, and refuses any other. A
connection changes nothing, and its session is in UTC.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from sys import getsizeof
from typing import Any

import pyarrow as pa

from tidegate.core.columns.predicates import RowFilter
from tidegate.core.database_tables import DatabaseTable
from tidegate.core.dialects.address import DatabaseAddress
from tidegate.core.dialects.remedies import VALUE
from tidegate.core.dialects.transfer import ColumnTransfer, DatabaseField, is_decimal
from tidegate.errors import EnvironmentProblem, SourceError, TidegateError
from tidegate.schema.types import TIMESTAMP
from tidegate.sources.database_columns import DatabaseColumns
from tidegate.sources.exact import ExactColumn
from tidegate.sources.jdbc import JdbcStatements, refusal
from tidegate.sources.reader import fit_bounds, needs_spark
from tidegate.specs.columns import JdbcRead
from tidegate.specs.masking import Mask

CONNECT_SECONDS = 10

ARROW_TYPES = {
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
"""By Spark's names of types; times without a zone become instants."""

Block = Sequence[Sequence[Any]]
"""Rows as a driver returns them."""

BLOCK_BYTES = 16 * 1024 * 1024
STRIDE = 13
"""One row in so many is measured: measuring all of them takes a quarter of the time of the read."""


def measure(values: Iterable[Any]) -> int:
    return sum(map(getsizeof, values))


class DatabaseDriver(ABC):
    """One database, through its driver of Python; each statement has its own connection, which only reads."""

    def __init__(self, read: JdbcRead, address: DatabaseAddress, source: str) -> None:
        self.read = read
        self.dialect = address.dialect
        self.driver = address.driver
        self.source = source
        self._address = address
        values = [part.partition("=")[2] for part in re.split(r"[?;&]", read.url)[1:]]
        self._mask = Mask.around(read) | Mask.of(read.url, *values)

    @abstractmethod
    def _session(self) -> AbstractContextManager[Any]:
        """A cursor of a connection that only reads; errors of the driver become those of this source."""

    @abstractmethod
    def _describe(self, cursor: Any) -> list[DatabaseField]:
        """The columns of the cursor's last statement, with Spark's types; drops the rows of that statement."""

    @abstractmethod
    def blocks(self, statement: str) -> Iterator[Block]:
        """The rows of a statement, at most ``fetch_size`` and about :data:`BLOCK_BYTES` at a time."""

    @abstractmethod
    def build_array(self, values: Sequence[Any], column: ExactColumn) -> pa.Array:
        """The driver's values as a column."""

    @abstractmethod
    def list_tables(self) -> list[DatabaseTable]:
        """Every table and view outside the schemas of the system; partitions are part of their table."""

    def statements(self, columns: DatabaseColumns) -> JdbcStatements:
        """The statements over the table or query, as the driver can take them."""
        return JdbcStatements(self.read, columns.select_columns(in_python=True))

    def columns(self, read: JdbcRead) -> DatabaseColumns:
        """The columns of a table or a query; no two may differ in case alone."""
        with self._session() as cursor:
            cursor.execute(f"SELECT * FROM ({JdbcStatements(read).rows(RowFilter())}) tidegate_read WHERE 1 = 0")
            fields = self._describe(cursor)
        if not fields:
            raise SourceError(f"{self.source} has no column", "name a table or a query with columns")
        names = [each.name.lower() for each in fields]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise SourceError(f"{self.source} gives the column {twice[0]!r} twice", "give each column another name")
        return DatabaseColumns(fields, self.dialect)

    def column_names(self, read: JdbcRead, condition: str | None = None) -> list[str]:
        """The names of the columns of a table or a query, whatever their types; reads no row.

        With a ``condition`` the database also checks that.
        """
        rows = JdbcStatements(read).rows(RowFilter(extra=condition))
        with self._session() as cursor:
            cursor.execute(f"SELECT * FROM ({rows}) tidegate_read WHERE 1 = 0")
            return [each[0] for each in cursor.description or ()]

    def field(self, way: ColumnTransfer) -> pa.Field:
        """A column of the rows, if none is declared."""
        if is_decimal(way.kind):
            return pa.field(way.field.name, pa.decimal128(*map(int, way.kind[8:-1].split(","))))
        if way.kind not in ARROW_TYPES:
            raise self.no_type(way.field.name, way.field.called)
        return pa.field(way.field.name, ARROW_TYPES[way.kind])

    def arrays(self, statement: str, columns: Sequence[ExactColumn]) -> Iterator[list[pa.Array]]:
        """The rows of a statement by columns, a block at a time."""
        for block in self.blocks(statement):
            # Not around the `yield`: an error of whoever takes the batch is not one of this source.
            with self._named():
                pairs = zip(zip(*block, strict=True), columns, strict=True)
                found = [self.build_array(values, each) for values, each in pairs]
            yield found

    def nulls_if_idle(self, rows: RowFilter, timezone: str) -> int | None:
        """The number of rows with null instead of a watermark, if no row matches; None if one does.

        All on one connection: a poll that finds nothing is mostly the time to connect. Only the watermark columns are
        described, since a poll must not fail for a column that Spark would read well.
        """
        statements = JdbcStatements(self.read)
        names = ", ".join(self.dialect.quote(name) for name in rows.columns)
        with self._session() as cursor:
            cursor.execute(f"SELECT {names} FROM ({statements.rows(RowFilter())}) tidegate_read WHERE 1 = 0")
            wanted = fit_rows(rows, DatabaseColumns(self._describe(cursor), self.dialect), timezone, self.source)
            cursor.execute(statements.one_row(wanted))
            if cursor.fetchall():
                return None
            cursor.execute(statements.nulls(wanted))
            return int(cursor.fetchall()[0][0])

    def fetch_rows(self, statement: str) -> list[Sequence[Any]]:
        """All rows of a statement that returns a few."""
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


def fit_rows(rows: RowFilter, columns: DatabaseColumns, timezone: str, source: str) -> RowFilter:
    """``rows`` with the names and types of the columns; refuses a watermark column whose text sorts differently."""
    wanted = fit_bounds(rows, columns.kinds, timezone, source)
    for column in wanted.columns:
        columns.check_followed(column, source)
    return wanted
