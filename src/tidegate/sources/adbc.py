"""Rows of PostgreSQL as Arrow columns, through its ADBC driver, without Java.

Statements and types are decided elsewhere, the same for JDBC. The database writes times and decimals as text here, too,
and the text is parsed exactly, or refused with the same words as in Spark.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidegate.core.dialects.address import DatabaseAddress, Unsupported
from tidegate.errors import SourceError
from tidegate.sources.exact import ExactColumn, exact
from tidegate.sources.jdbc import refusal
from tidegate.specs.columns import JdbcRead
from tidegate.specs.locations import Secret

CONNECT_SECONDS = 30
SESSION = {
    "TimeZone": "UTC",
    "DateStyle": "ISO",
    "extra_float_digits": "3",
    "max_parallel_workers_per_gather": "0",  # the connections of a read are its only parallelism
}
"""Set by a statement in the transaction of the read: a pooler may drop settings of the connection, the environment may
override them, and between two transactions the pooler may give the session to somebody else.
"""

LIKE_JDBC = "-c DateStyle=ISO"
"""The start of PostgreSQL's JDBC driver: months before days, whatever the role has set."""

OPTIONS_REFUSED = re.compile(r"startup parameter|command.line options", re.IGNORECASE)
"""How PgBouncer and the proxy of Amazon RDS refuse :data:`LIKE_JDBC`.

Such a pooler accepts it from the JDBC driver, and sends it to the server as a statement. A session that begins without
it and runs ``SET DateStyle = 'ISO'`` is the same there.
"""

_ENVIRONMENT = re.compile(
    r"PG(HOSTADDR|SERVICE|SSL(?!MODE$).+|REQUIRE(AUTH|PEER)|CHANNELBINDING|TARGETSESSIONATTRS|LOADBALANCEHOSTS|"
    r"MINPROTOCOLVERSION|MAXPROTOCOLVERSION|DATESTYLE)"
)


def check_environment() -> None:
    """:class:`Unsupported` if a variable would lead PostgreSQL's C drivers to another server, trust or meaning.

    The JDBC driver does not know it. Settings override all variables not named here.
    """
    for name in sorted(os.environ):
        if _ENVIRONMENT.fullmatch(name) and os.environ[name]:
            raise Unsupported(f"the environment variable {name} would change the connection")


def libpq_settings(address: DatabaseAddress, read: JdbcRead, connect_seconds: int) -> dict[str, str]:
    """What PostgreSQL's C driver connects with, whether ADBC or psycopg uses it."""
    return {
        "host": address.host,
        "port": str(address.port),
        "dbname": address.database,
        "user": read.user or "",
        **({} if read.password is None else {"password": read.password.value}),
        "connect_timeout": str(connect_seconds),
        "client_encoding": "utf-8",
        "gssencmode": "disable",
        # What the JDBC driver does without a setting; the C driver would also take it from the environment.
        "sslmode": "prefer",
        **address.settings,
    }


_PLAIN = (pa.bool_(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string())
WITHOUT = "leave out reader: adbc"


def impossible(reason: str, remedy: str = "change that") -> SourceError:
    """The error that ADBC cannot read the rows, and that JDBC can."""
    return SourceError(f"rows cannot be read by ADBC: {reason}", f"{remedy}, or {WITHOUT}")


@dataclass(frozen=True, slots=True)
class AdbcShare:
    """The read of one connection; picklable. The statement selects the ``columns`` in order."""

    connection: Secret
    statement: str
    columns: tuple[ExactColumn, ...]


def connection_of(read: JdbcRead) -> Secret:
    """The connection settings of the driver; :class:`SourceError` if it is missing or would connect differently."""
    try:
        address = DatabaseAddress.of(read)
    except Unsupported as told:
        raise impossible(told.reason) from None
    if address.dialect.scheme != "postgresql":
        raise impossible("the database is not PostgreSQL")
    _driver()
    settings = {**libpq_settings(address, read, CONNECT_SECONDS), "options": LIKE_JDBC}
    return Secret(" ".join(f"{name}={_quoted(value)}" for name, value in settings.items()))


def _quoted(value: str) -> str:
    escaped = value.replace("\\", r"\\").replace("'", r"\'")
    return f"'{escaped}'"


def _driver() -> Any:
    """The driver of this machine; the environment must not redirect it."""
    try:
        check_environment()
        import adbc_driver_manager
        import adbc_driver_postgresql
    except Unsupported as told:
        raise impossible(told.reason) from None
    except ImportError:
        where = "here and on the machines of Spark's workers"
        raise impossible("its driver is not installed", f"install 'tidegate[adbc]' {where}") from None
    return adbc_driver_manager, adbc_driver_postgresql._driver_path()


@contextmanager
def _map_errors(manager: Any) -> Iterator[None]:
    """Turn errors of the driver into :class:`SourceError`; no error of our own may happen inside."""
    try:
        yield
    except (manager.Error, OSError, pa.ArrowException) as error:
        raise _problem(str(error)) from None


@contextmanager
def _open_answer(connection: Secret, statement: str) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """The columns and batches of the answer; :class:`SourceError` in the words of the database, whenever it refuses."""
    manager, driver = _driver()
    with ExitStack() as opened:
        with _map_errors(manager):
            database = opened.enter_context(_database(manager, driver, connection.value))
            session = opened.enter_context(manager.AdbcConnection(database))
            asked = opened.enter_context(manager.AdbcStatement(session))
            session.set_autocommit(False)
            asked.set_sql_query("SELECT " + ", ".join(f"set_config('{n}', '{v}', true)" for n, v in SESSION.items()))
            asked.execute_update()
            asked.set_sql_query(statement)
            stream, _ = _interruptible(asked, asked.execute_query)
            reader = opened.enter_context(pa.RecordBatchReader._import_from_c(stream.address))
        yield reader.schema, _batches(manager, asked, reader)
        with suppress(manager.Error):  # where rows are left, or the connection is gone: there is nothing to keep
            session.commit()


def _database(manager: Any, driver: str, uri: str) -> Any:
    try:
        return manager.AdbcDatabase(driver=driver, uri=uri)
    except manager.Error as error:
        if not OPTIONS_REFUSED.search(str(error)):
            raise
    return manager.AdbcDatabase(driver=driver, uri=uri.removesuffix(f" options={_quoted(LIKE_JDBC)}") + " options=''")


def _batches(manager: Any, asked: Any, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    while True:
        with _map_errors(manager):
            try:
                batch = _interruptible(asked, reader.read_next_batch)
            except StopIteration:
                return
        yield batch


def _interruptible(asked: Any, call: Callable[[], Any]) -> Any:
    """The result of ``call``, which waits in C and ignores signals: a thread calls it, and a signal cancels it."""
    with ThreadPoolExecutor(1) as pool:
        calling = pool.submit(call)
        try:
            return calling.result()
        finally:
            if not calling.done():
                asked.cancel()


def _problem(text: str) -> SourceError:
    """The driver's error: the server's own words if any, never the statement after them."""
    told = re.search(r"\b(ERROR|FATAL|PANIC): +([^\n]+)", text)
    refused = refusal(text, f"{told[1]}: {told[2]}" if told else text.strip().partition("\n")[0])
    return SourceError(refused.problem, refused.remedy)


def answer(connection: Secret, statement: str) -> list[dict[str, Any]]:
    """The answer to a statement of a few rows; :class:`SourceError` if a value may differ from JDBC's."""
    with _open_answer(connection, statement) as (schema, batches):
        for each in schema:
            if each.type not in _PLAIN:
                raise impossible(f"the answer {each.name!r} comes as {each.type}")
        return [row for batch in batches for row in batch.to_pylist()]


def check_share(share: AdbcShare) -> None:
    """Read no row of the share; :class:`SourceError` if a column has an unexpected type."""
    with _open_answer(share.connection, f"{share.statement} LIMIT 0") as (schema, _):
        for found, column in _others(schema, share):
            raise impossible(f"the column {column.name!r} comes as {found}")


def _others(schema: pa.Schema, share: AdbcShare) -> Iterator[tuple[pa.DataType, ExactColumn]]:
    """The columns with an unexpected type."""
    pairs = zip(schema.types, share.columns, strict=True)
    return ((found, column) for found, column in pairs if found != column.comes_as)


def share_rows(share: AdbcShare) -> Iterator[pa.RecordBatch]:
    """The rows of a share; :class:`SourceError` names the column and the value that fits no type."""
    names = [each.name for each in share.columns]
    with _open_answer(share.connection, share.statement) as (schema, batches):
        for found, column in _others(schema, share):
            problem = f"the column {column.name!r} changed while it was read: it comes as {found}"
            raise SourceError(problem, "nothing was committed; run again")
        for batch in batches:
            columns = [exact(found, each) for found, each in zip(batch.columns, share.columns, strict=True)]
            yield pa.record_batch(columns, names)
