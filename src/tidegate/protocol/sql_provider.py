"""Watermarks in a database: the statements, and SQLite by the standard library.

``tidegate_watermarks`` has one row per dataflow: the text, the one before, who saved it and when, and the number of the
save; ``tidegate_watermark_history`` has every save. A save changes the row of the number it follows, so of two runs one
changes nothing and is refused. The first save creates the tables. Nothing stays open between calls.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from tidegate.errors import AccessDenied, StateError, StorageUnavailable, TidegateError
from tidegate.protocol.providers import NumberedMetadataProvider, Saved, another_saved_first, check_id

WATERMARKS = "tidegate_watermarks"
HISTORY = "tidegate_watermark_history"
SECONDS = 30
"""How long to wait for a connection, or for SQLite's only writer."""
COLUMNS = ("dataflow_id", "number", "watermark", "previous", "job_id", "dataflow_run_id", "updated_at")

_DENIED = ("28000", "28P01", "42501")
_DENIED_TEXTS = ("authentication failed", "permission denied", "readonly database", "unable to open database file")
_DAMAGED_TEXTS = ("not a database", "malformed", "disk image", "no such table", "no such column", "has no column")
_CREATE_TRIES = 5
_CREATE_PAUSE_SECONDS = 0.05

_VALUES = f"({', '.join(COLUMNS)}) VALUES ({', '.join(f':{name}' for name in COLUMNS)})"
_UPDATE = (
    f"UPDATE {WATERMARKS} SET {', '.join(f'{name} = :{name}' for name in COLUMNS)} "
    "WHERE dataflow_id = :dataflow_id AND number = :before"
)

Row = Mapping[str, Any]
Execute = Callable[[str, Mapping[str, Any]], tuple[list[Row], int]]
"""Runs a statement with ``:named`` parameters: its rows, and how many it changed."""


class StatementFailed(Exception):
    """The database, or its driver, refused a statement or a connection."""

    def __init__(self, said: str, code: str | None = None, *, is_unreachable: bool = False, is_taken: bool = False):
        super().__init__(said)
        self.said, self.code = said, code
        self.is_unreachable, self.is_taken = is_unreachable, is_taken


class DatabaseMetadataProvider(NumberedMetadataProvider):
    """The statements and what their failures mean; subclasses connect, and raise :class:`StatementFailed`."""

    uri: str
    """The address, for messages; without a password."""

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[Execute]:
        """A new connection and one transaction, committed unless an error leaves it."""

    @abstractmethod
    def _has_tables(self) -> bool:
        """Whether one of the tables exists."""

    @abstractmethod
    def _create(self) -> None:
        """Create the missing tables, all or none."""

    def last(self, dataflow_id: str) -> Saved | None:
        rows = self._rows(WATERMARKS, dataflow_id)
        return rows[0] if rows else None

    def history(self, dataflow_id: str) -> tuple[Saved, ...]:
        return tuple(self._rows(HISTORY, dataflow_id))

    def save(self, dataflow_id: str, saved: Saved) -> None:
        # Only a first save can meet a database without them; later ones need no right to create tables.
        if saved.number == 1:
            self._make_tables()
        values = saved.facts(check_id(dataflow_id))
        with self._map_errors():
            try:
                with self._transaction() as execute:
                    if saved.number == 1:
                        execute(f"INSERT INTO {WATERMARKS} {_VALUES}", values)
                    elif execute(_UPDATE, values | {"before": saved.number - 1})[1] != 1:
                        raise another_saved_first(dataflow_id)
                    execute(f"INSERT INTO {HISTORY} {_VALUES}", values)
            except StatementFailed as error:
                # Two first saves, or two of one number: the primary key lets one of them through.
                if error.is_taken:
                    raise another_saved_first(dataflow_id) from None
                raise

    def _rows(self, table: str, dataflow_id: str) -> list[Saved]:
        """The rows of a dataflow, oldest first; nothing if there is no table yet."""
        columns = ", ".join(f"{table}.{name}" for name in COLUMNS)
        query = f"SELECT {columns} FROM {table} WHERE dataflow_id = :dataflow_id ORDER BY number"
        wanted = {"dataflow_id": check_id(dataflow_id)}
        with self._map_errors():
            try:
                return self._select(query, wanted)
            except StatementFailed:
                if not self._has_tables():
                    return []
            # Another process may have created the tables in between; any other problem is still there.
            return self._select(query, wanted)

    def _select(self, query: str, wanted: Mapping[str, Any]) -> list[Saved]:
        with self._transaction() as execute:
            rows, _ = execute(query, wanted)
        try:
            return [_decode(row) for row in rows]
        except (AttributeError, TypeError, ValueError):
            raise StateError(
                f"{self.uri}: a row of {WATERMARKS} or {HISTORY} is not a saved watermark: changed outside Tidegate",
                "restore it from a backup; the history has what was saved before",
            ) from None

    def _make_tables(self) -> None:
        """Create missing tables; another process may do so at the same time, which is an error in some databases."""
        with self._map_errors():
            for _ in range(_CREATE_TRIES):
                with suppress(StatementFailed):
                    return self._create()
                time.sleep(_CREATE_PAUSE_SECONDS)
            return self._create()

    @contextmanager
    def _map_errors(self) -> Iterator[None]:
        try:
            yield
        except StatementFailed as error:
            raise self._failure(error) from None

    def _failure(self, error: StatementFailed) -> TidegateError:
        problem = f"the state database {self.uri} does not work: {error.said}"
        text = error.said.lower()
        if error.code in _DENIED or any(denied in text for denied in _DENIED_TEXTS):
            return AccessDenied(
                problem, "check the user, the password, the user's permissions, and the folder of a SQLite file"
            )
        if any(damaged in text for damaged in _DAMAGED_TEXTS):
            return StateError(problem, "restore the database from a backup; Tidegate did not start over")
        if error.is_unreachable:
            return StorageUnavailable(problem, "check that it runs and can be reached, then retry")
        return StateError(problem, f"check that nobody changed the tables {WATERMARKS} and {HISTORY}")


def _decode(row: Row) -> Saved:
    when = row["updated_at"]
    if not isinstance(row["watermark"], str):
        raise TypeError("not a text")
    # SQLite has no type for times: there they are texts, in UTC and without a zone.
    moment: datetime = datetime.fromisoformat(when) if isinstance(when, str) else when
    return Saved(
        row["watermark"],
        row["previous"],
        row["job_id"],
        row["dataflow_run_id"],
        moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC),
        int(row["number"]),
    )


_FACTS = """
	watermark TEXT NOT NULL,
	previous TEXT,
	job_id TEXT,
	dataflow_run_id TEXT,
	updated_at DATETIME NOT NULL,
"""
_CREATE = (
    f"CREATE TABLE IF NOT EXISTS {WATERMARKS} (\n\tdataflow_id VARCHAR(500) NOT NULL,\n\tnumber BIGINT NOT NULL,"
    f"{_FACTS}\tPRIMARY KEY (dataflow_id)\n)",
    f"CREATE TABLE IF NOT EXISTS {HISTORY} (\n\tdataflow_id VARCHAR(500) NOT NULL,\n\tnumber BIGINT NOT NULL,"
    f"{_FACTS}\tPRIMARY KEY (dataflow_id, number)\n)",
)


class SqliteMetadataProvider(DatabaseMetadataProvider):
    """Keeps watermarks in the SQLite file at ``path``."""

    def __init__(self, path: str, uri: str) -> None:
        self._path = os.path.abspath(path)
        self.uri = uri

    @contextmanager
    def _transaction(self) -> Iterator[Execute]:
        with self._connection() as connection:
            yield lambda statement, values: self._run(connection, statement, values)

    def _run(self, connection: sqlite3.Connection, statement: str, values: Mapping[str, Any]) -> tuple[list[Row], int]:
        if not statement.startswith("SELECT") and not connection.in_transaction:
            # Not deferred: two writers that both read first could never both go on.
            connection.execute("BEGIN IMMEDIATE")
        found = connection.execute(statement, {name: _encode(value) for name, value in values.items()})
        return [dict(row) for row in found.fetchall()], found.rowcount

    def _has_tables(self) -> bool:
        with self._connection() as connection:
            names = {str(row["name"]) for row in connection.execute("SELECT name FROM sqlite_master")}
        return not names.isdisjoint((WATERMARKS, HISTORY))

    def _create(self) -> None:
        with self._connection() as connection:
            # Python's driver begins no transaction before DDL, so that another process could see one table of the two.
            connection.execute("BEGIN IMMEDIATE")
            for statement in _CREATE:
                connection.execute(statement)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self._path, timeout=SECONDS, isolation_level=None)) as connection:
                connection.row_factory = sqlite3.Row
                yield connection
                if connection.in_transaction:
                    connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise StatementFailed(
                str(error),
                is_unreachable=isinstance(error, sqlite3.OperationalError | sqlite3.InterfaceError),
                is_taken=isinstance(error, sqlite3.IntegrityError),
            ) from None


def _encode(value: object) -> object:
    if not isinstance(value, datetime):
        return value
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")


def sqlite_path(url: str) -> str | None:
    """The file of a SQLite address; None for any other address, and for one with parameters or a driver of its own.

    >>> sqlite_path("sqlite:////var/lib/state.db"), sqlite_path("postgresql://db/state")
    ('/var/lib/state.db', None)
    """
    found = re.fullmatch(r"sqlite(?:\+pysqlite)?:///(?!file:|:memory:)([^?]+)", url)
    return found[1] if found else None
