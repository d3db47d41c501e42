"""Rows of PostgreSQL as Arrow columns, through its ADBC driver, without Java.

Statements and types are decided elsewhere, the same for JDBC. The database writes times and decimals as text here, too,
and the text is parsed exactly, or refused with the same words as in Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.core.databases import SETTINGS_WITHOUT_MEANING, DatabaseAddress, Unsupported
from tidegate.errors import SourceError
from tidegate.sources.jdbc import LIKE_JDBC, OPTIONS_REFUSED, VALUE, check_environment, refusal
from tidegate.specs.columns import JdbcRead
from tidegate.specs.locations import Secret

CONNECT_SECONDS = 30
# A time limit that somebody set must hold, and this driver would not keep it: refused instead of ignored.
_IGNORED = SETTINGS_WITHOUT_MEANING - {"sockettimeout", "querytimeout"}
SESSION = {
    "TimeZone": "UTC",
    "DateStyle": "ISO",
    "extra_float_digits": "3",
    "max_parallel_workers_per_gather": "0",  # the connections of a read are its only parallelism
}
"""Set by a statement in the transaction of the read: a pooler may drop settings of the connection, the environment may
override them, and between two transactions the pooler may give the session to somebody else.
"""

_PLAIN = (pa.bool_(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string())
WITHOUT = "leave out reader: adbc"


def impossible(reason: str, remedy: str = "change that") -> SourceError:
    """The error that ADBC cannot read the rows, and that JDBC can."""
    return SourceError(f"rows cannot be read by ADBC: {reason}", f"{remedy}, or {WITHOUT}")


@dataclass(frozen=True, slots=True)
class ExactColumn:
    """A column of the rows and its type; ``called`` is the name of its text form, empty if it is not text."""

    name: str
    kind: pa.DataType
    called: str = ""

    @property
    def comes_as(self) -> pa.DataType:
        """The type in which the driver returns it."""
        return pa.string() if self.called else self.kind


@dataclass(frozen=True, slots=True)
class AdbcShare:
    """The read of one connection; picklable. The statement selects the ``columns`` in order."""

    connection: Secret
    statement: str
    columns: tuple[ExactColumn, ...]


def connection_of(read: JdbcRead) -> Secret:
    """The connection settings of the driver; :class:`SourceError` if it is missing or would connect differently."""
    try:
        address = DatabaseAddress.of(read, _IGNORED)
    except Unsupported as told:
        raise impossible(told.reason) from None
    if address.scheme != "postgresql":
        raise impossible("the database is not PostgreSQL")
    _driver()
    given = {
        "host": address.host,
        "port": str(address.port or 5432),
        "dbname": address.database,
        "user": read.user or "",
        **({} if read.password is None else {"password": read.password.value}),
        "connect_timeout": str(CONNECT_SECONDS),
        "client_encoding": "utf-8",
        "gssencmode": "disable",
        "options": LIKE_JDBC,
        # What the JDBC driver does without a setting; libpq would also take it from the environment.
        "sslmode": "prefer",
        **address.settings,
    }
    return Secret(" ".join(f"{name}={_quoted(value)}" for name, value in given.items()))


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
    return manager.AdbcDatabase(driver=driver, uri=uri.replace(f" options={_quoted(LIKE_JDBC)} ", " options='' "))


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


def exact(found: pa.Array, column: ExactColumn) -> pa.Array:
    """``found`` as exact values of the column's type."""
    kind = column.kind
    if not column.called:
        return _as_it_is(found, column)
    quick, parse = _parsers(kind)
    try:
        return quick(found, kind)
    except pa.ArrowInvalid:
        return _one_by_one(found, column, parse)


def _as_it_is(found: pa.Array, column: ExactColumn) -> pa.Array:
    """The values; a database without an encoding accepts any bytes as text, and no table does."""
    try:
        found.validate(full=True)
    except pa.ArrowInvalid as error:
        raise SourceError(f"column {column.name!r} holds what is no {column.kind}: {error}", VALUE) from None
    return found


Parse = Callable[[str, pa.DataType], Any]


def _parsers(kind: pa.DataType) -> tuple[Callable[[pa.Array, pa.DataType], pa.Array], Parse]:
    """How to parse a column of texts at once, and one text if that does not know them all."""
    if pa.types.is_decimal(kind):
        return _decimals, _decimal
    if pa.types.is_integer(kind):
        return pc.cast, _whole
    return (_moments, _moment) if pa.types.is_timestamp(kind) else (pc.cast, _day)


def _one_by_one(texts: pa.Array, column: ExactColumn, parse: Parse) -> pa.Array:
    values = []
    for text in texts.to_pylist():
        value = None if text is None else parse(text, column.kind)
        if value is None and text is not None:
            problem = f"column {column.name!r} holds {text[:80]}, which is no {column.called}"
            raise SourceError(problem, VALUE)
        values.append(value)
    if pa.types.is_decimal(column.kind):
        return pa.array(values, column.kind)
    return pa.array(values, pa.int64()).cast(pa.int32() if column.kind == pa.date32() else pa.int64()).view(column.kind)


_DIGITS = 38


def _decimals(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Parse at once only if the digits fit, also at the new scale: Arrow does not notice an overflow."""
    lengths = pc.binary_length(texts)
    longest = pc.max(lengths).as_py() or 0
    if longest > _DIGITS - kind.scale:
        points = pc.find_substring(texts, ".")
        whole = pc.max(pc.if_else(pc.less(points, 0), lengths, points)).as_py() or 0
        if longest > _DIGITS or whole > _DIGITS - kind.scale:
            raise pa.ArrowInvalid("a text may have more digits than a decimal")
    return texts.cast(kind)


def _moments(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    return texts.cast(pa.timestamp("us")).view(kind)


_NUMBER = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?")
_DAY = re.compile(r"([0-9]{4,6})-([0-9]{2})-([0-9]{2})")
_TIME = re.compile(r"(\S+) ([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6}))?")
# Python's own context would round to 28 digits.
_WIDE = Context(prec=60)
_CYCLE, _CYCLE_DAYS = 400, 146_097
"""The calendar repeats after so many years, or days."""


def _decimal(text: str, kind: pa.DataType) -> Decimal | None:
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    rest = found[3] or ""
    digits = f"{found[2]}{rest[: kind.scale].ljust(kind.scale, '0')}".lstrip("0") or "0"
    if rest[kind.scale :].strip("0") or len(digits) > kind.precision:
        return None
    return Decimal(f"{found[1]}{digits}").scaleb(-kind.scale, _WIDE)


def _whole(text: str, kind: pa.DataType) -> int | None:
    """A whole number within ``bigint``."""
    found = int(text) if re.fullmatch("-?[0-9]+", text) else 2**63
    return found if -(2**63) <= found < 2**63 else None


def _day(text: str, kind: pa.DataType | None = None) -> int | None:
    """Days since 1970, also for years outside Python's calendar."""
    found = _DAY.fullmatch(text)
    if found is None:
        return None
    year, month, day = (int(each) for each in found.groups())
    cycles = max(0, year - 2000) // _CYCLE
    try:
        ordinal = date(year - cycles * _CYCLE, month, day).toordinal()
    except ValueError:
        return None
    return ordinal + cycles * _CYCLE_DAYS - date(1970, 1, 1).toordinal()


def _moment(text: str, kind: pa.DataType | None = None) -> int | None:
    """Microseconds since 1970, within a timestamp."""
    found = _TIME.fullmatch(text)
    days = None if found is None else _day(found[1])
    if found is None or days is None:
        return None
    hours, minutes, seconds = (int(each) for each in found.groups()[1:4])
    if hours > 23 or minutes > 59 or seconds > 59:
        return None
    micros = int((found[5] or "").ljust(6, "0"))
    total = (days * 86_400 + hours * 3600 + minutes * 60 + seconds) * 1_000_000 + micros
    return total if total < 2**63 else None
