"""What ``doctor`` looks at: this machine, then the sources and tables of a configuration. Changes nothing."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version

from tidegate.errors import TidegateError
from tidegate.observe.wording import count
from tidegate.reports import Check
from tidegate.runs.looking import status_of
from tidegate.runs.place import Place, utc_now
from tidegate.schema.avro_library import reading_library
from tidegate.sources.files.discovery import scope_of
from tidegate.sources.files.naming import Order, Verdict, names_sort_in_time, sample
from tidegate.spark.jars import S3, fetched
from tidegate.spark.java import find_java, java_version
from tidegate.specs import Format, ProjectSpec, every_source
from tidegate.state.opened import Opened
from tidegate.storage.options import split_uri

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
        found += _source(place)
        found += _table(place)
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


def _source(place: Place) -> list[Check]:
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


def _table(place: Place) -> list[Check]:
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


def _columns(name: str, place: Place, opened: Opened) -> Iterator[Check]:
    """The declared schema against the table's columns; one that does not fit is raised as it would be by a run.

    The columns behind a transform are those of its result, which only a run knows.
    """
    from tidegate.runs.columns import declared_columns

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
