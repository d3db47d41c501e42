"""``doctor``: looks at this machine, then at the sources and tables of a configuration. Changes nothing.

No credentials are sent and no row of the source is read: whether a server lets us in is told by the run.

No credentials are sent and no row is read: whether a database lets us in is told by the run.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tidegate.commands.status import kind_of as kind_of_status
from tidegate.commands.status import status_of
from tidegate.commands.unit_status import kind_of
from tidegate.core.columns.planner import AHEAD_REMEDY, stored_ahead
from tidegate.core.columns.predicates import untested
from tidegate.core.columns.state import column_watermark_text
from tidegate.core.units.planner import plan_units
from tidegate.core.units.state import unit_watermark_text
from tidegate.errors import TidegateError
from tidegate.observe.wording import count
from tidegate.protocol.position import Position
from tidegate.reports.run import Check
from tidegate.runs.bound_source import ColumnPlace, Place, UnitPlace, utc_now
from tidegate.schema.names import reading_library
from tidegate.sources.file_discovery import scope_of
from tidegate.sources.file_names import Order, Verdict, names_sort_in_time, sample
from tidegate.sources.reader import address_of
from tidegate.sources.units.inputs import read_units
from tidegate.spark.jars import S3, driver_of, fetched, packages_of
from tidegate.spark.java import find_java, java_version
from tidegate.specs.columns import ColumnSource, HttpRead, JdbcRead, TableRead
from tidegate.specs.project import Format, ProjectSpec, every_source
from tidegate.specs.units import FileRead
from tidegate.storage.listing_scope import Scope
from tidegate.storage.options import split_uri
from tidegate.storage.stores import open_store


def examine_units(places: Sequence[UnitPlace]) -> tuple[Check, ...]:
    """Each source of work units, its inputs and its table."""
    return tuple(check for place in places for check in (*_source(place), *_inputs(place), *_table(place)))


def _source(place: UnitPlace) -> list[Check]:
    name, source = f"source {place.key}", place.source

    def look() -> Iterator[Check]:
        read = source.read.http if isinstance(source.read, FileRead) else source.read
        if isinstance(read, HttpRead | JdbcRead):
            yield answers(name, kind_of(place), ColumnSource(source.name, read))
        else:
            yield Check(name, "ok", f"{kind_of(place)}: {source.uri}; the run tells whether it can be read")
        if isinstance(read, JdbcRead):
            yield driver_check(name, read, packages_of([source]))
            yield from tested_check(name, read)

    return guarded(name, look)


def _inputs(place: UnitPlace) -> list[Check]:
    """Whether the units can be read, and how many there are."""
    name, source = f"units of {place.key}", place.source
    if source.unit is None and not source.inputs:
        return []

    def look() -> Iterator[Check]:
        units = read_units(source)
        version = f" ({units.version})" if units.version else ""
        left = f"; {count(units.filtered, 'row')} filtered" if units.filtered else ""
        told = f"{count(len(units.values), 'unit')}{version}{left}"
        yield Check(name, "ok" if units.values else "warn", told, "" if units.values else "nothing runs without units")

    return guarded(name, look)


def _table(place: UnitPlace) -> list[Check]:
    name, uri = f"table of {place.key}", place.pipeline.sink.table.uri

    def look() -> Iterator[Check]:
        opened = place.open(read_only=True)
        at = f"at version {opened.table_version}" if opened.table_version >= 0 else "not made yet"
        state = place.state_of(opened)
        stored = unit_watermark_text(state) or "nothing read"
        yield Check(name, "ok", f"{uri} {at}; this source is at position {opened.version} ({stored})")
        for warning in opened.warnings:
            yield Check(name, "warn", warning)
        if state is not None and state.failures:
            failed = count(len(state.failures), "work unit")
            remedy = f"tidegate units list CONFIG -p {place.pipeline.name} --failed"
            yield Check(name, "warn", f"{failed} failed when tried last", remedy)
        units = read_units(place.source)
        plan = plan_units(place.pipeline.name, place.source, state, units, opened.version, utc_now())
        yield Check(name, "ok", f"{count(plan.count, 'work unit')} would run now")
        yield from writable(name, uri)

    return guarded(name, look)


ANSWER_SECS = 3.0
_MOVES = re.compile("upd|modif|chang", re.IGNORECASE)
"""What the name of a column has in it whose value moves when a row changes."""


def examine_columns(places: Sequence[ColumnPlace]) -> tuple[Check, ...]:
    """Each column source and its destination."""
    return tuple(check for place in places for check in (*_source_column_examining(place), *_destination(place)))


def _source_column_examining(place: ColumnPlace) -> list[Check]:
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
    read, kind = place.source.read, kind_of_status(place)
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
        stored = column_watermark_text(place.state_of(opened))
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


FREE_BYTES = 2 * 1024**3
PACKAGES = ("pyspark", "deltalake", "obstore", "pyarrow", "arro3-io", "pandas")


def examine_machine() -> tuple[Check, ...]:
    """Python, packages, Java, jars, space for temporary files."""
    return (_python(), _packages(), _java(), _jars(), _space(tempfile.gettempdir(), "temporary files"))


def examine_project(project: ProjectSpec, places: Sequence[Place]) -> tuple[Check, ...]:
    """Notices of the configuration, then each source of files and its table."""
    sources = sum(len(every_source(pipeline)) for pipeline in project.pipelines)
    found = [Check("configuration", "ok", f"{project.origin}: {count(sources, 'source')}")]
    found += [Check("configuration", "warn", notice) for notice in project.notices]
    for place in places:
        found += _source_examining(place)
        found += _table_examining(place)
    return tuple(found)


def _python() -> Check:
    return Check("python", "ok", f"{platform.python_version()} at {sys.executable}")


def _packages() -> Check:
    versions, missing = [], []
    for name in PACKAGES:
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        return Check("packages", "fail", f"missing: {', '.join(missing)}", "install tidegate again")
    return Check("packages", "ok", ", ".join(versions))


def _java() -> Check:
    try:
        home = find_java()
    except TidegateError as error:
        return Check("java", "fail", error.problem, error.remedy)
    return Check("java", "ok", f"Java {java_version(home)} at {home}")


def _jars() -> Check:
    jars = fetched()
    if jars:
        for_s3 = "" if fetched(S3) else "; those for tables on S3 that Spark writes are fetched when they are needed"
        return Check("delta jars", "ok", f"{len(jars)} jars in {jars[0].parent}{for_s3}")
    return Check(
        "delta jars",
        "ok",
        "not fetched; ingesting files needs none",
        "python -m tidegate.spark.jars fetches them, for reading Delta tables with Spark",
    )


def _space(folder: str, what: str) -> Check:
    free = shutil.disk_usage(folder).free
    told = f"{free / 1024**3:.1f} GiB free for {what} in {folder}"
    if free < FREE_BYTES:
        return Check("disk space", "warn", told, "free some space, or set TMPDIR to a larger disk")
    return Check("disk space", "ok", told)


def guarded(name: str, look: Callable[[], Iterator[Check]]) -> list[Check]:
    """What a look finds; an error is a check that failed."""
    try:
        return list(look())
    except TidegateError as error:
        return [Check(name, "fail", error.problem, error.remedy)]


def _source_examining(place: Place) -> list[Check]:
    name = f"source {place.key}"

    def look() -> Iterator[Check]:
        status = status_of(place, utc_now())
        if status.error:
            yield Check(name, "fail", status.error)
            return
        more = "" if status.backlog_complete else " or more"
        yield Check(name, "ok", f"{place.source.location.uri} answers; {status.backlog_files}{more} new files")
        if place.source.format is Format.AVRO:
            reading_library()
        verdict = names_sort_in_time(sample(place.source_store, scope=scope_of(place.source)))
        if status.tracking == "set":
            yield _set_cost(name, status.remembered, verdict)
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


def _set_cost(name: str, remembered: int, verdict: Verdict) -> Check:
    """What remembering every path costs, and whether it is needed."""
    told = f"every poll lists all files and remembers their paths ({remembered:,} so far); {verdict.describe()}"
    if verdict.order is Order.IN_TIME:
        return Check(name, "warn", told, "use_watermark: true, for a new table, lists only what is new")
    return Check(name, "ok", told)


def _table_examining(place: Place) -> list[Check]:
    name = f"table of {place.key}"
    uri = place.pipeline.sink.table.uri

    def look() -> Iterator[Check]:
        opened = place.positions.open(read_only=True)
        at = f"at version {opened.table_version}" if opened.table_version >= 0 else "not made yet"
        yield Check(name, "ok", f"{uri} {at}; this source is at position {opened.version}")
        for warning in opened.warnings:
            yield Check(name, "warn", warning)
        yield from _columns(name, place, opened)
        yield from writable(name, uri)

    return guarded(name, look)


def _columns(name: str, place: Place, opened: Position) -> Iterator[Check]:
    """The declared schema against the table's columns; one that does not fit is raised as it would be by a run.

    The columns behind a transform are those of its result, which only a run knows.
    """
    from tidegate.runs.table_columns import declared_columns

    if place.pipeline.transform is not None:
        return
    declared = declared_columns(place, opened)
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
    yield _space(folder, "the table")
