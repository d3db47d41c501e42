"""Watermarks in a database through SQLAlchemy: PostgreSQL, and others that it supports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, IntegrityError, NoSuchModuleError, SQLAlchemyError

from tidegate.errors import ConfigError, EnvironmentProblem
from tidegate.protocol.sql_provider import (
    HISTORY,
    SECONDS,
    WATERMARKS,
    DatabaseMetadataProvider,
    Execute,
    Row,
    StatementFailed,
)
from tidegate.specs.locations import Secret
from tidegate.specs.masking import Mask


def _columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("watermark", sa.Text, nullable=False),
        sa.Column("previous", sa.Text),
        sa.Column("job_id", sa.Text),
        sa.Column("dataflow_run_id", sa.Text),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
    ]


_tables = sa.MetaData()
sa.Table(
    WATERMARKS,
    _tables,
    sa.Column("dataflow_id", sa.String(500), primary_key=True),
    sa.Column("number", sa.BigInteger, nullable=False),
    *_columns(),
)
sa.Table(
    HISTORY,
    _tables,
    sa.Column("dataflow_id", sa.String(500), primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    *_columns(),
)


class SqlAlchemyMetadataProvider(DatabaseMetadataProvider):
    """Keeps watermarks in the database at ``url``, an SQLAlchemy address; its password is never shown."""

    def __init__(self, url: Secret) -> None:
        self._address = _parse_address(url)
        self.uri = self._address.render_as_string(hide_password=True)
        waiting = {"postgresql": {"connect_timeout": SECONDS}}
        try:
            self._engine = sa.create_engine(
                # Our extra installs psycopg; SQLAlchemy 2.0 would look for psycopg2.
                self._address.set(drivername="postgresql+psycopg")
                if self._address.drivername == "postgresql"
                else self._address,
                # A continuous run would keep a connection open for hours, to use it for moments.
                poolclass=sa.NullPool,
                # SQLAlchemy prints the values of a failed statement, and a watermark may be anybody's data.
                hide_parameters=True,
                connect_args=waiting.get(self._address.get_backend_name(), {}),
            )
        except ImportError as error:
            raise EnvironmentProblem(
                f"{self.uri}: Python has no module {error.name!r}, which this database needs",
                "install it with pip; for PostgreSQL: pip install 'tidegate[sql]'",
            ) from None

    @contextmanager
    def _transaction(self) -> Iterator[Execute]:
        with self._connection() as connection:

            def execute(statement: str, values: Mapping[str, Any]) -> tuple[list[Row], int]:
                found = connection.execute(sa.text(statement), values)
                return [*found.mappings()] if found.returns_rows else [], found.rowcount

            yield execute

    def _has_tables(self) -> bool:
        with self._connection() as connection:
            known = sa.inspect(connection)
            return any(known.has_table(name) for name in (WATERMARKS, HISTORY))

    def _create(self) -> None:
        with self._connection() as connection:
            _tables.create_all(connection)

    @contextmanager
    def _connection(self) -> Iterator[sa.Connection]:
        try:
            with self._engine.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            cause = getattr(error, "orig", None)
            # Raised without the cause: a driver's text may show the password.
            raise StatementFailed(
                self._without_password(str(cause or error)).strip(),
                getattr(cause, "sqlstate", None),
                is_unreachable=isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError),
                is_taken=isinstance(error, IntegrityError),
            ) from None

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
