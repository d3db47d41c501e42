"""What ``doctor`` looks at of column sources: who listens, the driver, the provider's copy, the table. Changes nothing.

No credentials are sent and no row is read: whether a database lets us in is told by the run.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

from tidegate.column_specs import ColumnSource, JdbcRead, TableRead
from tidegate.planning.future import AHEAD_REMEDY, stored_ahead
from tidegate.reports import Check
from tidegate.runs.column_looking import kind_of
from tidegate.runs.column_place import ColumnPlace
from tidegate.runs.examining import guarded, writable
from tidegate.runs.place import utc_now
from tidegate.sources.addresses import address_of
from tidegate.spark.jars import fetched
from tidegate.spark.packages import driver_of, packages_of
from tidegate.storage.opening import open_store
from tidegate.storage.options import split_uri
from tidegate.storage.scope import Scope
from tidegate.watermarks.column_state import watermark_text
from tidegate.watermarks.dialects import untested

ANSWER_SECS = 3.0
_MOVES = re.compile("upd|modif|chang", re.IGNORECASE)
"""What the name of a column has in it whose value moves when a row changes."""


def examine_columns(places: Sequence[ColumnPlace]) -> tuple[Check, ...]:
    """Each column source and its destination."""
    return tuple(check for place in places for check in (*_source(place), *_destination(place)))


def _source(place: ColumnPlace) -> list[Check]:
    name = f"source {place.key}"

    def look() -> Iterator[Check]:
        yield _reached(name, place)
        if isinstance(place.source.read, JdbcRead):
            yield driver_check(name, place.source.read, packages_of([place.source]))
            yield from tested_check(name, place.source.read)
        yield from _window(name, place)

    return guarded(name, look)


def _reached(name: str, place: ColumnPlace) -> Check:
    """Whether somebody listens at the source, or its folder can be listed."""
    read, kind = place.source.read, kind_of(place)
    if isinstance(read, TableRead):
        empty = next(iter(open_store(read.location).list(scope=Scope())), None) is None
        if empty:
            return Check(name, "warn", f"{kind}: there is nothing at {read.location.uri}", "correct source_uri")
        return Check(name, "ok", f"{kind}: {read.location.uri} answers")
    return answers(name, kind, place.source)


def answers(name: str, kind: str, source: ColumnSource) -> Check:
    """Whether somebody listens at the address of a source."""
    address = address_of(source)
    if address is None:
        return Check(name, "ok", f"{kind}: {source.uri} has no address to try; the run tells whether it answers")
    told = f"{address[0]}:{address[1]}"
    try:
        socket.create_connection(address, timeout=ANSWER_SECS).close()
    except OSError as error:
        remedy = "correct the connection's url, or let this machine reach it (firewall, VPN, proxy)"
        return Check(name, "fail", f"{kind}: nobody answers at {told} ({error})", remedy)
    return Check(name, "ok", f"{kind}: {told} answers; whether it lets us in is told by the run")


def driver_check(name: str, read: JdbcRead, needed: Sequence[str]) -> Check:
    """Whether the JDBC driver is known, and there."""
    known = driver_of(read.url)
    missing = [each for each in needed if each.endswith(".jar") and _is_missing(each)]
    if missing:
        return Check(name, "fail", f"the driver's jar {missing[0]} is not there", "correct jars of the connection")
    if not needed:
        which = "no driver is known for this database" if known is None else f"driver {read.driver} is not ours"
        remedy = "name driver and packages (Maven) or jars of the connection"
        return Check(name, "warn", f"{which}, and the connection names no packages or jars", remedy)
    later = [each for each in needed if not each.endswith(".jar") and not fetched(each)]
    if later:
        return Check(name, "ok", f"the first run fetches the driver: {', '.join(later)}")
    return Check(name, "ok", f"the driver is there: {', '.join(needed)}")


def tested_check(name: str, read: JdbcRead) -> Iterator[Check]:
    """That no test of ours runs against such a database."""
    told = untested(read.url)
    if told is not None:
        yield Check(name, "ok", told)


def _is_missing(jar: str) -> bool:
    """Whether a jar of this machine is not there; what lies elsewhere is left to Spark."""
    scheme, _, path = split_uri(jar)
    return scheme == "file" and not Path(f"/{path}").exists()


def _window(name: str, place: ColumnPlace) -> Iterator[Check]:
    """A window that is replaced does not see a row whose value moves below it."""
    if not place.pipeline.sink.load.replace_by_watermark:
        return
    for column in place.source.watermark_columns:
        if _MOVES.search(column):
            yield Check(
                name,
                "warn",
                f"replace_by_watermark: {column!r} looks like the time of an update; a row whose value moves below the "
                "window is not seen until a replay",
                "follow a column whose values stay, or replay such ranges: tidegate replay",
            )


def _destination(place: ColumnPlace) -> list[Check]:
    name = f"table of {place.key}"
    uri = place.pipeline.sink.table.uri

    def look() -> Iterator[Check]:
        opened = place.open(read_only=True)
        at = f"at version {opened.table_version}" if opened.table_version >= 0 else "not made yet"
        stored = watermark_text(place.state_of(opened))
        yield Check(name, "ok", f"{uri} {at}; this source is at position {opened.version} ({stored or 'no watermark'})")
        for warning in opened.warnings:
            yield Check(name, "warn", warning)
        if not place.pipeline.sink.load.type.reads_everything:
            state = place.state_of(opened)
            for told in stored_ahead(place.source, {} if state is None else state.values, utc_now()):
                yield Check(name, "fail", told, AHEAD_REMEDY)
        yield from writable(name, uri)

    return [*guarded(name, look), *_provider(place)]


def _provider(place: ColumnPlace) -> list[Check]:
    """Whether the provider answers; whether it says the same as the destination is looked at with the table."""
    name, provider = f"state of {place.key}", place.provider
    if provider is None:
        return []

    def look() -> Iterator[Check]:
        found = provider.get_watermark(str(place.key))
        yield Check(name, "ok", f"the provider answers: {found or 'nothing saved'}")

    return guarded(name, look)
