"""Checks of ``doctor`` for every kind of source. Changes nothing.

They send no credentials and read no row: only a run finds out whether a server lets us in.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tidegate.core.dialects.registry import dialect_of
from tidegate.errors import SourceError, TidegateError
from tidegate.reports.checks import Check
from tidegate.sources.reader import address_of
from tidegate.spark.jars import fetched_jars, packages_of
from tidegate.specs.columns import ColumnSource, JdbcRead, RowReader, TableRead
from tidegate.specs.locations import Location
from tidegate.specs.units import UnitSource
from tidegate.storage.options import split_uri
from tidegate.storage.port import Scope
from tidegate.storage.stores import open_store

FREE_BYTES = 2 * 1024**3
# A firewall that drops packets would otherwise hold `doctor` for the system's two minutes per source.
ANSWER_SECS = 3.0


def check_source(name: str, source: ColumnSource | UnitSource) -> Iterator[Check]:
    """Whether anything listens at the source, or its folder can be listed; and whether its driver is there."""
    kind, read = source.read.type_name, source.request
    if isinstance(source.read, TableRead):
        yield _folder_check(name, kind, source.read.location)
        return
    if read is None:
        yield Check(name, "ok", f"{kind}: {source.uri}; a run shows whether it can be read")
        return
    yield _answer_check(name, kind, source.uri, address_of(read))
    if isinstance(read, JdbcRead):
        yield from _jdbc_checks(name, read, source)


def _folder_check(name: str, kind: str, location: Location) -> Check:
    if next(iter(open_store(location).list(scope=Scope())), None) is None:
        return Check(name, "warn", f"{kind}: there is nothing at {location.uri}", "correct source_uri")
    return Check(name, "ok", f"{kind}: {location.uri} answers")


def _answer_check(name: str, kind: str, uri: str, address: tuple[str, int] | None) -> Check:
    if address is None:
        return Check(name, "ok", f"{kind}: {uri} has no address to try; a run shows whether it answers")
    told = f"{address[0]}:{address[1]}"
    try:
        socket.create_connection(address, timeout=ANSWER_SECS).close()
    except OSError as error:
        remedy = "correct the connection's url, or let this machine reach it (firewall, VPN, proxy)"
        return Check(name, "fail", f"{kind}: nobody answers at {told} ({error})", remedy)
    return Check(name, "ok", f"{kind}: {told} answers; a run shows whether it accepts the credentials")


def _jdbc_checks(name: str, read: JdbcRead, source: ColumnSource | UnitSource) -> Iterator[Check]:
    """Whether the JDBC driver is known and installed; and a note if we do not test this database."""
    yield _driver_check(name, read, packages_of([source]))
    if read.reader is RowReader.ADBC:
        yield _adbc_check(name, read)
    told = dialect_of(read.url).untested
    if told is not None:
        yield Check(name, "ok", told)


def check_local_driver(name: str, read: object) -> Iterator[Check]:
    """Whether the local engine has the driver for what is read, if that is a database, and understands its address."""
    if not isinstance(read, JdbcRead):
        return
    from tidegate.sources.databases import open_database

    database = open_database(read, name)
    by = "ADBC" if read.reader is RowReader.ADBC else database.driver.name
    yield Check(name, "ok", f"the local engine reads it by {by}")


def _adbc_check(name: str, read: JdbcRead) -> Check:
    """Whether ADBC can connect, as far as machine and configuration show."""
    from tidegate.sources.adbc import connection_of

    try:
        connection_of(read)
    except SourceError as error:
        return Check(name, "fail", error.problem, error.remedy)
    return Check(name, "ok", "rows come by ADBC (reader: adbc)")


def _driver_check(name: str, read: JdbcRead, needed: Sequence[str]) -> Check:
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


def collect_checks(name: str, look: Callable[[], Iterator[Check]]) -> list[Check]:
    """The checks of a look; an error becomes a failed check."""
    try:
        return list(look())
    # One broken source must not hide what is wrong with the others.
    except TidegateError as error:
        return [Check(name, "fail", error.problem, error.remedy)]


def check_writable(name: str, uri: str) -> Iterator[Check]:
    """Whether a local table's folder, or the nearest one above it, is writable."""
    scheme, _, path = split_uri(uri)
    if scheme != "file":
        return
    folder = f"/{path}"
    while not os.path.exists(folder):
        folder = os.path.dirname(folder)
    if not os.access(folder, os.W_OK):
        yield Check(name, "fail", f"{folder} is not writable", "change its permissions, or the table_uri")
    yield check_space(folder, "the table")


def check_space(folder: str, what: str) -> Check:
    free = shutil.disk_usage(folder).free
    told = f"{free / 1024**3:.1f} GiB free for {what} in {folder}"
    if free < FREE_BYTES:
        return Check("disk space", "warn", told, "free some space, or set TMPDIR to a larger disk")
    return Check("disk space", "ok", told)
