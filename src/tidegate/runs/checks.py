"""What ``doctor`` looks at of each kind of source. Changes nothing.

No credentials are sent and no row is read: whether a server lets us in is told by the run.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tidegate.core.columns.planner import AHEAD_REMEDY, stored_ahead
from tidegate.core.columns.predicates import untested
from tidegate.core.columns.state import ColumnState
from tidegate.core.units.planner import plan_units
from tidegate.core.units.state import UnitState
from tidegate.errors import TidegateError
from tidegate.observe.wording import count
from tidegate.protocol.position import Position, utc_now
from tidegate.reports.run import Check
from tidegate.runs.bound_source import AnySource, UnitBound
from tidegate.runs.file_source import FileSource
from tidegate.runs.unit_reports import type_of
from tidegate.schema.names import reading_library
from tidegate.sources.file_discovery import scope_of
from tidegate.sources.file_names import NameOrder, Order, names_sort_in_time, sample
from tidegate.sources.reader import address_of
from tidegate.sources.units.inputs import read_units
from tidegate.spark.jars import driver_of, fetched, packages_of
from tidegate.specs.columns import ColumnSource, HttpRead, JdbcRead, TableRead
from tidegate.specs.project import Format
from tidegate.specs.units import FileRead
from tidegate.storage.listing_scope import Scope
from tidegate.storage.options import split_uri
from tidegate.storage.stores import open_store

FREE_BYTES = 2 * 1024**3
ANSWER_SECS = 3.0
_MOVES = re.compile("upd|modif|chang", re.IGNORECASE)
"""What the name of a column has in it whose value moves when a row changes."""


def file_checks(bound: FileSource) -> list[Check]:
    name = f"source {bound.key}"

    def look() -> Iterator[Check]:
        recorded = bound.recorded()
        state = bound.tracker.known_state(bound, recorded)
        backlog = bound.tracker.backlog(bound, state, 0 if recorded is None else recorded.version, utc_now())
        more = "" if backlog.complete else " or more"
        yield Check(name, "ok", f"{bound.source.location.uri} answers; {backlog.files}{more} new files")
        if bound.source.format is Format.AVRO:
            reading_library()
        verdict = names_sort_in_time(sample(bound.tracker.store, scope=scope_of(bound.source)))
        summary = bound.tracker.summary(state)
        if summary.tracking == "set":
            yield _set_cost(name, summary.remembered, verdict)
        elif verdict.order is Order.NOT_IN_TIME:
            yield Check(
                name,
                "warn",
                verdict.describe(),
                "files that sort below the watermark are found only inside the late window; name files by time "
                "(Unix time, ISO 8601 or UUIDv7 first)",
            )
        else:
            yield Check(name, "ok", verdict.describe())

    return guarded(name, look)


def _set_cost(name: str, remembered: int, verdict: NameOrder) -> Check:
    """What remembering every path costs, and whether it is needed."""
    told = f"every poll lists all files and remembers their paths ({remembered:,} so far); {verdict.describe()}"
    if verdict.order is Order.IN_TIME:
        return Check(name, "warn", told, "use_watermark: true, for a new table, lists only what is new")
    return Check(name, "ok", told)


def file_table_checks(bound: FileSource, name: str, opened: Position) -> Iterator[Check]:
    """The declared schema against the table's columns; one that does not fit is raised as it would be by a run.

    The columns behind a transform are those of its result, which only a run knows.
    """
    from tidegate.runs.table_columns import declared_columns

    if bound.pipeline.transform is not None:
        return
    declared = declared_columns(bound, opened)
    if declared is None or declared.existing is None:
        return
    new = [each for each in declared.table.names if each not in declared.existing.names]
    left = [each for each in declared.existing.names if each not in declared.table.names]
    if new:
        yield Check(name, "ok", f"the schema declares columns that the table does not have yet: {', '.join(new)}")
    if left:
        yield Check(
            name,
            "warn",
            f"the table has columns that the schema does not declare: {', '.join(left)}",
            "rows that are read from now on have no value there; declare them under schema.fields if files have them",
        )
    if not new and not left:
        yield Check(name, "ok", "the declared schema and the table have the same columns")


def column_checks(bound: AnySource) -> list[Check]:
    name = f"source {bound.key}"

    def look() -> Iterator[Check]:
        yield _reached(name, bound)
        if isinstance(bound.source.read, JdbcRead):
            yield driver_check(name, bound.source.read, packages_of([bound.source]))
            yield from tested_check(name, bound.source.read)
        yield from _window(name, bound)

    return guarded(name, look)


def _reached(name: str, bound: AnySource) -> Check:
    """Whether somebody listens at the source, or its folder can be listed."""
    read, kind = bound.source.read, bound.tracker.type_name
    if isinstance(read, TableRead):
        empty = next(iter(open_store(read.location).list(scope=Scope())), None) is None
        if empty:
            return Check(name, "warn", f"{kind}: there is nothing at {read.location.uri}", "correct source_uri")
        return Check(name, "ok", f"{kind}: {read.location.uri} answers")
    return answers(name, kind, bound.source)


def _window(name: str, bound: AnySource) -> Iterator[Check]:
    """A window that is replaced does not see a row whose value moves below it."""
    if not bound.pipeline.sink.load.replace_by_watermark:
        return
    for column in bound.source.watermark_columns:
        if _MOVES.search(column):
            yield Check(
                name,
                "warn",
                f"replace_by_watermark: {column!r} looks like the time of an update; a row whose value moves below the "
                "window is not seen until a replay",
                "follow a column whose values stay, or replay such ranges: tidegate replay",
            )


def column_table_checks(bound: AnySource, name: str, opened: Position, state: ColumnState | None) -> Iterator[Check]:
    """A watermark that lies ahead; whether the provider says the same was looked at when the position was opened."""
    if not bound.pipeline.sink.load.type.reads_everything:
        for told in stored_ahead(bound.source, {} if state is None else state.values, utc_now()):
            yield Check(name, "fail", told, AHEAD_REMEDY)


def provider_checks(bound: AnySource) -> list[Check]:
    """Whether the provider answers; whether it says the same as the destination is looked at with the table."""
    name, provider = f"state of {bound.key}", bound.tracker.provider
    if provider is None:
        return []

    def look() -> Iterator[Check]:
        found = provider.get_watermark(str(bound.key))
        yield Check(name, "ok", f"the provider answers: {found or 'nothing saved'}")

    return guarded(name, look)


def unit_checks(bound: UnitBound) -> list[Check]:
    name, source = f"source {bound.key}", bound.source

    def look() -> Iterator[Check]:
        read = source.read.http if isinstance(source.read, FileRead) else source.read
        if isinstance(read, HttpRead | JdbcRead):
            yield answers(name, type_of(bound), ColumnSource(source.name, read))
        else:
            yield Check(name, "ok", f"{type_of(bound)}: {source.uri}; the run tells whether it can be read")
        if isinstance(read, JdbcRead):
            yield driver_check(name, read, packages_of([source]))
            yield from tested_check(name, read)

    return [*guarded(name, look), *_inputs(bound)]


def _inputs(bound: UnitBound) -> list[Check]:
    """Whether the units can be read, and how many there are."""
    name, source = f"units of {bound.key}", bound.source
    if source.unit is None and not source.inputs:
        return []

    def look() -> Iterator[Check]:
        units = read_units(source)
        version = f" ({units.version})" if units.version else ""
        left = f"; {count(units.filtered, 'row')} filtered" if units.filtered else ""
        told = f"{count(len(units.values), 'unit')}{version}{left}"
        yield Check(name, "ok" if units.values else "warn", told, "" if units.values else "nothing runs without units")

    return guarded(name, look)


def unit_table_checks(bound: UnitBound, name: str, opened: Position, state: UnitState | None) -> Iterator[Check]:
    """What failed, and how much would run."""
    if state is not None and state.failures:
        failed = count(len(state.failures), "work unit")
        remedy = f"tidegate units list CONFIG -p {bound.pipeline.name} --failed"
        yield Check(name, "warn", f"{failed} failed when tried last", remedy)
    units = read_units(bound.source)
    plan = plan_units(bound.pipeline.name, bound.source, state, units, opened.version, utc_now())
    yield Check(name, "ok", f"{count(plan.count, 'work unit')} would run now")


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


def guarded(name: str, look: Callable[[], Iterator[Check]]) -> list[Check]:
    """What a look finds; an error is a check that failed."""
    try:
        return list(look())
    except TidegateError as error:
        return [Check(name, "fail", error.problem, error.remedy)]


def writable(name: str, uri: str) -> Iterator[Check]:
    """Whether a local table's folder, or the nearest one above it, can be written to."""
    scheme, _, path = split_uri(uri)
    if scheme != "file":
        return
    folder = f"/{path}"
    while not os.path.exists(folder):
        folder = os.path.dirname(folder)
    if not os.access(folder, os.W_OK):
        yield Check(name, "fail", f"{folder} cannot be written to", "change its permissions, or the table_uri")
    yield space(folder, "the table")


def space(folder: str, what: str) -> Check:
    free = shutil.disk_usage(folder).free
    told = f"{free / 1024**3:.1f} GiB free for {what} in {folder}"
    if free < FREE_BYTES:
        return Check("disk space", "warn", told, "free some space, or set TMPDIR to a larger disk")
    return Check("disk space", "ok", told)
