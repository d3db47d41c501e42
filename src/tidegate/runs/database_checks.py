"""Checks of ``doctor`` at a database: login, table or query, the columns that the configuration names, its filter.

The drivers of Python that the local engine reads by are asked, whichever engine is chosen: they log in as the JDBC
driver does, and need no Java. No row is read. A database without such a driver is asked through Spark, on request.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path

from tidegate.core.dialects.address import HARMLESS_FOR_POLLS, Unsupported
from tidegate.core.dialects.registry import READ_WITHOUT_JAVA, dialect_of
from tidegate.core.dialects.remedies import CONNECTION, DATABASE, LOGIN, PASSWORD, SYNTAX, TABLE
from tidegate.errors import SourceError, TidegateError
from tidegate.reports.checks import Check, not_tried
from tidegate.reports.page import names
from tidegate.reports.wording import count
from tidegate.runs.checks import CheckSettings, collect_checks
from tidegate.runs.tracker import ColumnBound, UnitBound
from tidegate.schema.names import spell
from tidegate.sources.adbc import connection_of
from tidegate.sources.connection_slots import connection_slots
from tidegate.sources.database_driver import DatabaseDriver
from tidegate.sources.databases import connectable, open_database, read_columns
from tidegate.sources.reader import address_of
from tidegate.spark.jars import fetched_jars, packages_of
from tidegate.specs.columns import ColumnSource, HttpRead, JdbcRead, RowReader
from tidegate.specs.project import EngineKind
from tidegate.specs.units import UnitSource
from tidegate.storage.options import split_uri

ANSWER_SECONDS = 3.0
"""A firewall that drops packets would otherwise hold the check for the system's two minutes."""

COLUMNS_SHOWN = 20
ONLY_RUN = "run the pipeline: only a run reads it"
DEEP = "run `tidegate doctor CONFIG --deep`, which asks through Spark"
_SERVER_REMEDIES = frozenset((LOGIN, PASSWORD, DATABASE, CONNECTION))


def is_refused_login(check: Check) -> bool:
    """Whether a check failed at the server itself: another table would fail alike, and count as one more login."""
    return check.verdict == "fail" and check.remedy in _SERVER_REMEDIES


@dataclass(frozen=True, slots=True)
class NamedColumn:
    """A column that the configuration names, and the key that names it."""

    key: str
    name: str


def compare_columns(name: str, wanted: Sequence[NamedColumn], found: Sequence[str], where: str) -> Iterator[Check]:
    """Whether the columns are there, in any case of letters; one that is not is told with what there is."""
    there = []
    for each in wanted:
        try:
            has = spell(each.name, found) in found
        except TidegateError as error:
            yield Check(name, "fail", f"{each.key}: {error.problem}", error.remedy)
            continue
        if has:
            there.append(each.name)
            continue
        near = get_close_matches(each.name.lower(), [column.lower() for column in found], 1)
        meant = [column for column in found if column.lower() in near]
        hint = f"did you mean {meant[0]!r}? " if meant else ""
        remedy = f"{hint}correct {each.key}; the columns are {names(found, COLUMNS_SHOWN)}"
        yield Check(name, "fail", f"{each.key}: {where} has no column {each.name!r}", remedy)
    if there:
        yield Check(name, "ok", f"the columns are there: {', '.join(dict.fromkeys(there))}")


@dataclass(frozen=True, slots=True)
class _NoDriver:
    """Why a database cannot be asked without Spark, and how to have it asked."""

    why: str
    remedy: str = DEEP


@dataclass(frozen=True, slots=True)
class DatabaseCheck:
    """Logs in to a database, and asks it for the columns of a table or query."""

    name: str
    read: JdbcRead
    bound: ColumnBound | UnitBound
    by: CheckSettings
    condition: str | None = None

    def look(self, wanted: Sequence[NamedColumn]) -> Iterator[Check]:
        """Look at the database, and at the drivers of the engine; neither hides what is wrong with the other."""
        yield from collect_checks(self.name, lambda: self._look_inside(wanted))
        if self.by.engine is EngineKind.SPARK:
            yield from _check_jars(self.name, self.read, self.bound.source)
        if self.read.reader is RowReader.ADBC:
            connection_of(self.read)
            yield Check(self.name, "ok", "rows come by ADBC (reader: adbc)")

    def _look_inside(self, wanted: Sequence[NamedColumn]) -> Iterator[Check]:
        """Log in, then look at the table, the columns and the condition."""
        database = self._connect()
        if isinstance(database, DatabaseDriver):
            yield from self._ask(database, wanted)
        elif self.by.by_spark is not None:
            ask = partial(self.by.by_spark, self.read, tell_address(self.read))
            yield from self._look_at(ask(None), wanted, "through Spark")
            yield from self._try_condition(ask)
        else:
            yield check_answer(self.name, self.read)
            yield not_tried(self.name, f"login, table and columns: {database.why}", database.remedy)

    def _connect(self) -> DatabaseDriver | _NoDriver:
        """The driver of Python, which sends nothing yet; or why there is none."""
        if self.by.engine is EngineKind.LOCAL:
            return open_database(self.read, tell_address(self.read))
        try:
            return connectable(self.read, tell_address(self.read), HARMLESS_FOR_POLLS)
        except Unsupported as unsupported:
            dialect = dialect_of(self.read.url)
            only = f"{dialect} is reached by JDBC alone; drivers of Python are for {READ_WITHOUT_JAVA}"
            return _NoDriver(only if dialect.python is None else unsupported.reason)
        except ImportError:
            driver = dialect_of(self.read.url).python
            extra = "" if driver is None else f"install '{driver.extra}', or "
            return _NoDriver("the driver of Python is not installed", f"{extra}{DEEP}")

    def _ask(self, database: DatabaseDriver, wanted: Sequence[NamedColumn]) -> Iterator[Check]:
        with connection_slots(self.read):
            try:
                found = database.column_names(self.read)
            except SourceError as error:
                raise SourceError(error.problem, self._with_near_table(database, error.remedy)) from None
            yield from self._look_at(found, wanted, f"by {database.driver.name}")
            yield from self._try_condition(partial(database.column_names, self.read))
            if self.by.engine is EngineKind.LOCAL:
                # What the types of columns forbid in this process, a run would find out after its start.
                columns = database.columns(self.read)
                read_columns(database, columns, self.bound.pipeline.schema)

    def _look_at(self, found: Sequence[str], wanted: Sequence[NamedColumn], how: str) -> Iterator[Check]:
        where = self.read.table or "the query"
        yield Check(
            self.name, "ok", f"logged in to {tell_address(self.read)} {how}; {where} has {count(len(found), 'column')}"
        )
        yield from compare_columns(self.name, wanted, found, where)

    def _try_condition(self, ask: Callable[[str], Sequence[str]]) -> Iterator[Check]:
        if self.condition is None:
            return
        try:
            ask(self.condition)
        except SourceError as error:
            raise SourceError(f"filter_expression: {error.problem}", error.remedy) from None
        yield Check(self.name, "ok", "filter_expression: the database accepts it")

    def _with_near_table(self, database: DatabaseDriver, remedy: str) -> str:
        """The remedy of a missing table with the table that was probably meant."""
        if remedy not in (TABLE, SYNTAX) or self.read.table is None:
            return remedy
        if remedy == SYNTAX:
            remedy = "correct the table; a name that is a word of SQL, or has odd letters, needs quotes"
        with suppress(TidegateError):
            tables = [f"{each.schema}.{each.name}" for each in database.list_tables()]
            wanted = self.read.table.replace('"', "").replace("`", "")
            by_name = {each if "." in wanted else each.rpartition(".")[2]: each for each in reversed(tables)}
            near = get_close_matches(wanted, list(by_name), 1)
            seen = f"this user sees {names(tables, COLUMNS_SHOWN)}" if tables else "this user sees no table"
            return f"did you mean {by_name[near[0]]!r}? {remedy}" if near else f"{remedy}; {seen}"
        return remedy


def tell_address(read: JdbcRead) -> str:
    """Where a database listens, for messages."""
    address = address_of(read)
    return dialect_of(read.url).title or "the database" if address is None else f"{address[0]}:{address[1]}"


def check_answer(name: str, read: JdbcRead | HttpRead) -> Check:
    """Whether anything listens at the address; sends nothing."""
    kind, address = read.type_name, address_of(read)
    if address is None:
        return not_tried(name, f"{kind}: {read.uri} has no host and port to try", ONLY_RUN)
    told = f"{address[0]}:{address[1]}"
    try:
        socket.create_connection(address, timeout=ANSWER_SECONDS).close()
    except OSError as error:
        return Check(name, "fail", f"{kind}: nobody answers at {told} ({error})", CONNECTION)
    return Check(name, "ok", f"{kind}: {told} answers")


def _check_jars(name: str, read: JdbcRead, source: ColumnSource | UnitSource) -> Iterator[Check]:
    """Whether the JDBC driver is known and there; and a note if no test of ours runs against this database."""
    yield _jar_check(name, read, packages_of([source]))
    told = dialect_of(read.url).untested
    if told is not None:
        yield Check(name, "ok", told)


def _jar_check(name: str, read: JdbcRead, needed: Sequence[str]) -> Check:
    known = dialect_of(read.url).driver
    missing = [each for each in needed if each.endswith(".jar") and _is_missing(each)]
    if missing:
        return Check(name, "fail", f"the driver's jar {missing[0]} is not there", "correct 'jars' of the connection")
    if not needed:
        which = (
            "no driver is known for this database"
            if known is None
            else f"driver {read.driver} is not one that Tidegate brings"
        )
        remedy = "set 'driver', and 'packages' (Maven) or 'jars', of the connection"
        return Check(name, "warn", f"{which}, and the connection names no packages or jars", remedy)
    later = [each for each in needed if not each.endswith(".jar") and not fetched_jars(each)]
    if later:
        return Check(name, "ok", f"the first run fetches the driver: {', '.join(later)}")
    return Check(name, "ok", f"the driver is there: {', '.join(needed)}")


def _is_missing(jar: str) -> bool:
    """Whether a local jar is missing; Spark finds the others."""
    scheme, _, path = split_uri(jar)
    return scheme == "file" and not Path(f"/{path}").exists()
