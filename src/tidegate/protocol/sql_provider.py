"""Watermarks in a database, through SQLAlchemy: SQLite, PostgreSQL, and others that it supports.

``tidegate_watermarks`` has one row per dataflow: the text, the one before, who saved it and when, and the number of the
save; ``tidegate_watermark_history`` has every save. A save changes the row of the number it follows, so of two runs one
changes nothing and is refused. The first save creates the tables. Nothing stays open between calls.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError, SQLAlchemyError

from tidegate.errors import AccessDenied, ConfigError, EnvironmentProblem, StateError, StorageUnavailable, TidegateError
from tidegate.protocol.providers import NumberedMetadataProvider, Saved, check_id, saved_by_another
from tidegate.specs.locations import Secret
from tidegate.specs.masking import Mask

WATERMARKS = "tidegate_watermarks"
HISTORY = "tidegate_watermark_history"
SECONDS = 30
"""How long to wait for a connection, or for SQLite's only writer."""

_DENIED = ("28000", "28P01", "42501")
_DENIED_TEXTS = ("authentication failed", "permission denied", "readonly database", "unable to open database file")
_DAMAGED_TEXTS = ("not a database", "malformed", "disk image", "no such table", "no such column", "has no column")
_CREATE_TRIES = 5
_CREATE_PAUSE_SECONDS = 0.05


def _columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("watermark", sa.Text, nullable=False),
        sa.Column("previous", sa.Text),
        sa.Column("job_id", sa.Text),
        sa.Column("dataflow_run_id", sa.Text),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
    ]


_tables = sa.MetaData()
_watermarks = sa.Table(
    WATERMARKS,
    _tables,
    sa.Column("dataflow_id", sa.String(500), primary_key=True),
    sa.Column("number", sa.BigInteger, nullable=False),
    *_columns(),
)
_history = sa.Table(
    HISTORY,
    _tables,
    sa.Column("dataflow_id", sa.String(500), primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    *_columns(),
)


class SqlMetadataProvider(NumberedMetadataProvider):
    """Keeps watermarks in the database at ``url``, an SQLAlchemy address; its password is never shown."""

    def __init__(self, url: Secret) -> None:
        self._address = _parse_address(url)
        waiting = {"sqlite": {"timeout": SECONDS}, "postgresql": {"connect_timeout": SECONDS}}
        try:
            self._engine = sa.create_engine(
                self._address,
                # A continuous run would keep a connection open for hours, to use it for moments.
                poolclass=sa.NullPool,
                # SQLAlchemy prints the values of a failed statement, and a watermark may be anybody's data.
                hide_parameters=True,
                connect_args=waiting.get(self._address.get_backend_name(), {}),
            )
        except ImportError as error:
            raise EnvironmentProblem(
                f"{self.uri}: Python has no module {error.name!r}, which this database needs",
                "install it with pip; for PostgreSQL: pip install 'psycopg[binary]'",
            ) from None

    @property
    def uri(self) -> str:
        """The address without its password."""
        return self._address.render_as_string(hide_password=True)

    def last(self, dataflow_id: str) -> Saved | None:
        rows = self._rows(sa.select(_watermarks).where(_watermarks.c.dataflow_id == check_id(dataflow_id)))
        return rows[0] if rows else None

    def history(self, dataflow_id: str) -> tuple[Saved, ...]:
        wanted = sa.select(_history).where(_history.c.dataflow_id == check_id(dataflow_id))
        return tuple(self._rows(wanted.order_by(_history.c.number)))

    def save(self, dataflow_id: str, saved: Saved) -> None:
        # Only a first save can meet a database without them; later ones need no right to create tables.
        if saved.number == 1:
            self._make_tables()
        values = saved.facts(check_id(dataflow_id))
        with self._mapped():
            try:
                with self._engine.begin() as connection:
                    if not _replace_row(connection, values):
                        raise saved_by_another(dataflow_id)
                    connection.execute(sa.insert(_history), values)
            # Two first saves, or two of one number: the primary key lets one of them through.
            except IntegrityError:
                raise saved_by_another(dataflow_id) from None

    def _rows(self, query: sa.Select[Any]) -> list[Saved]:
        """The result of the query; nothing if there is no table yet."""
        with self._mapped():
            try:
                return self._answer(query)
            except DBAPIError:
                if not self._has_tables():
                    return []
            # Another process may have created the tables in between; any other problem is still there.
            return self._answer(query)

    def _answer(self, query: sa.Select[Any]) -> list[Saved]:
        with self._engine.connect() as connection:
            rows = connection.execute(query).mappings()
            try:
                return [_decode(row) for row in rows]
            except (AttributeError, TypeError, ValueError):
                raise StateError(
                    f"{self.uri}: a row of {WATERMARKS} or {HISTORY} is not a saved watermark: somebody changed it",
                    "put it back from a backup; the history has what was saved before",
                ) from None

    def _has_tables(self) -> bool:
        with self._engine.connect() as connection:
            found = sa.inspect(connection)
            return any(found.has_table(name) for name in (WATERMARKS, HISTORY))

    def _make_tables(self) -> None:
        """Create missing tables; another process may do so at the same time, which is an error in some databases."""
        with self._mapped():
            for _ in range(_CREATE_TRIES):
                with suppress(DBAPIError):
                    return self._create()
                time.sleep(_CREATE_PAUSE_SECONDS)
            return self._create()

    def _create(self) -> None:
        """Create the missing tables, all or none; SQLite needs an explicit transaction."""
        with self._engine.begin() as connection:
            # Python's driver begins no transaction before DDL, so that another process could see one table of the two.
            if self._engine.name == "sqlite":
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            _tables.create_all(connection)

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            # Without the cause: a driver's text may show the password.
            raise self._failure(error) from None

    def _failure(self, error: SQLAlchemyError) -> TidegateError:
        """The error for what the database, or the connection, refused."""
        said = self._without_password(str(getattr(error, "orig", None) or error)).strip()
        problem = f"the state database {self.uri} does not work: {said}"
        text, code = said.lower(), getattr(getattr(error, "orig", None), "sqlstate", None)
        if code in _DENIED or any(each in text for each in _DENIED_TEXTS):
            return AccessDenied(
                problem, "check the user, the password, the user's permissions, and the folder of a SQLite file"
            )
        if any(each in text for each in _DAMAGED_TEXTS):
            return StateError(problem, "put the database back from a backup; Tidegate did not start over")
        if isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError):
            return StorageUnavailable(problem, "check that it runs and can be reached, then try again")
        return StateError(problem, f"check that nobody changed the tables {WATERMARKS} and {HISTORY}")

    def _without_password(self, text: str) -> str:
        password = self._address.password
        if not password:
            return text
        return Mask.of(str(password), self._address.render_as_string(hide_password=False).split("@")[0])(text)


def _parse_address(url: Secret) -> sa.URL:
    try:
        address = sa.make_url(url.value)
        address.get_dialect()
    except (ArgumentError, NoSuchModuleError, ValueError):
        raise ConfigError(
            (
                "state.url is not the address of a database: write DIALECT[+DRIVER]://USER:PASSWORD@HOST:PORT/DATABASE,"
                " for instance sqlite:////var/lib/tidegate/state.db or postgresql://tidegate:…@db:5432/state",
            )
        ) from None
    if address.get_backend_name() == "sqlite" and address.database in (None, "", ":memory:"):
        raise ConfigError(("state.url is a SQLite database in memory, which forgets every watermark: name a file",))
    return address


def _replace_row(connection: sa.Connection, values: dict[str, Any]) -> bool:
    """Replace the row that this one follows; False if that one is gone."""
    if values["number"] == 1:
        connection.execute(sa.insert(_watermarks), values)
        return True
    same, before = _watermarks.c.dataflow_id == values["dataflow_id"], _watermarks.c.number == values["number"] - 1
    return connection.execute(sa.update(_watermarks).where(same, before).values(values)).rowcount == 1


def _decode(row: sa.RowMapping) -> Saved:
    when: datetime = row["updated_at"]
    if not isinstance(row["watermark"], str):
        raise TypeError("not a text")
    return Saved(
        row["watermark"],
        row["previous"],
        row["job_id"],
        row["dataflow_run_id"],
        when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC),
        int(row["number"]),
    )
