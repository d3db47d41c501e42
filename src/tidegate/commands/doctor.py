"""``doctor``: checks this machine, then the sources and tables of a configuration.

It connects: sources are asked, and tables written to, as a run would. A probe is deleted at once; nothing else changes.
"""

from __future__ import annotations

import platform
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tidegate.commands.block_tables import ask_database
from tidegate.commands.project import Config, load_asking, on_engine, open_engine, pipelines_of, sources_of
from tidegate.core.columns.predicates import RowFilter
from tidegate.core.database_tables import DatabaseTable
from tidegate.errors import ConfigError, SourceError, TidegateError
from tidegate.observe.events import ignore
from tidegate.protocol.providers import FileMetadataProvider
from tidegate.reports.checks import Check, CheckProgress, not_tried
from tidegate.reports.wording import count
from tidegate.runs.check_jobs import LIMIT_SECONDS, LONG_SECONDS, CheckJob, carry_out
from tidegate.runs.checks import CheckSettings, DescribeQuery, check_space, check_spaces, check_writable, collect_checks
from tidegate.runs.database_checks import is_refused_login
from tidegate.runs.source_checks import describe_place, location_of, pause_of, server_of, store_of
from tidegate.runs.tracker import Examinable, HasDeadLetters, TrackedSource
from tidegate.schema.literals import describe_reader, find_native
from tidegate.sources.jdbc import JdbcStatements
from tidegate.spark.engine import SparkEngine
from tidegate.spark.jars import NO_SPARK, S3, fetched_jars, find_java, java_version, read_spark_version
from tidegate.spark.readers.jdbc import JdbcConnection
from tidegate.spark.session import active_session
from tidegate.specs.columns import HttpRead, JdbcRead
from tidegate.specs.locations import Location
from tidegate.specs.masking import Mask
from tidegate.specs.project import EngineKind, OnBadRecord, PipelineSpec, ProjectSpec, TableBlock
from tidegate.storage.port import Scope
from tidegate.storage.stores import open_store

PACKAGES = ("deltalake", "obstore", "pyarrow")
SPARK_PACKAGES = ("pyspark", "pandas")
DEEP_SECONDS = 120.0
Show = Callable[[CheckProgress], None]


def doctor(
    config: Config | None = None,
    pipeline: str | None = None,
    *,
    engine: str | None = None,
    deep: bool = False,
    show: Show = lambda progress: None,
) -> tuple[Check, ...]:
    """Check this machine and, with a configuration, its sources and tables, or those of one ``pipeline``.

    Connects to databases, APIs and stores. A table gets a probe, which is deleted at once; nothing else is changed.
    ``engine`` replaces the configuration's: with the local engine nothing of Spark is looked for. ``deep`` asks
    databases that have no driver of Python through Spark. ``show`` hears how far it is.
    """
    kind = EngineKind(engine or EngineKind.SPARK)
    show(CheckProgress(0, 0))
    if config is None:
        return tuple(_machine(kind))
    try:
        project = load_asking(config, pipeline=pipeline, remember=False, list_tables=partial(_ask_tables, show))
        pipelines_of(project, pipeline)
    except ConfigError as error:
        return (*_machine(kind), *(Check("configuration", "fail", problem) for problem in error.problems))
    kind = kind if engine else project.engine
    machine = tuple(_machine(kind, project.spark.managed))
    try:
        project = on_engine(project, kind, pipeline=pipeline)
    except ConfigError as error:
        return (*machine, *(Check("engine", "fail", problem) for problem in error.problems))
    chosen = pipelines_of(project, pipeline)
    bound, broken = _bind(project, chosen)
    with ExitStack() as stack:
        by = CheckSettings(kind)
        if deep and kind is EngineKind.SPARK:
            by = replace(by, by_spark=_spark_reader(stack, project, chosen))
        found = examine_project(project, bound, by, show)
    return (*machine, *found, *Mask.around(project).deep((*broken, *_tell_left_out(chosen))))


def _ask_tables(show: Show, block: TableBlock) -> Sequence[DatabaseTable]:
    """Ask the database of a block, which must answer in time, for its tables."""
    told: list[Sequence[DatabaseTable]] = []
    refused: list[TidegateError] = []

    def ask() -> Sequence[Check]:
        try:
            told.append(ask_database(block))
        except TidegateError as error:
            refused.append(error)
        return ()

    carry_out((CheckJob(f"tables of {block.name}", ask, "the database"),), show)
    if refused:
        raise refused[0]
    if not told:
        problem = f"connection {block.read.connection!r}: no answer within {LIMIT_SECONDS:g} s"
        raise SourceError(problem, "check host and port of the connection's url, and that the server runs")
    return told[0]


def _bind(project: ProjectSpec, pipelines: Iterable[PipelineSpec]) -> tuple[list[TrackedSource], list[Check]]:
    """The sources of pipelines, and a check for each pipeline that cannot be bound."""
    bound: list[TrackedSource] = []
    broken: list[Check] = []
    for each in pipelines:
        if each.is_located and each.refused is None and not each.vanished:
            broken += collect_checks(f"pipeline {each.name}", partial(_bind_one, project, each, bound))
    return bound, broken


def _bind_one(project: ProjectSpec, pipeline: PipelineSpec, bound: list[TrackedSource]) -> Iterable[Check]:
    bound += sources_of(project, pipeline.name)
    return ()


def _tell_left_out(pipelines: Iterable[PipelineSpec]) -> Iterator[Check]:
    """What cannot be examined: tables whose place is not known, and tables of a block that a run refuses."""
    for each in pipelines:
        if each.refused is not None:
            for source in each.sources:
                name = f"source {each.name}/{source.name}"
                refused = Check(name, "fail", each.refused.problem, each.refused.remedy)
                yield replace(refused, block=each.block, pipeline=each.name)
        elif not each.is_located:
            why = f"it is not known yet where {each.sink.shown} lies"
            yield not_tried(f"table of {each.name}", why, "run the pipeline once, or give its location")


def _spark_reader(stack: ExitStack, project: ProjectSpec, pipelines: Sequence[PipelineSpec]) -> DescribeQuery:
    """Describes tables and queries through Spark, which starts when the first is asked for."""
    engine = stack.enter_context(open_engine(project, ignore, threading.Event(), columns=pipelines))

    def describe(read: JdbcRead, source: str, condition: str | None) -> Sequence[str]:
        assert isinstance(engine, SparkEngine)
        rows = JdbcStatements(read).rows(RowFilter(extra=condition))
        return list(JdbcConnection(engine.session(), read, source).frame(rows).columns)

    return describe


def examine_project(
    project: ProjectSpec,
    sources: Sequence[TrackedSource],
    by: CheckSettings | None = None,
    show: Show = lambda progress: None,
) -> tuple[Check, ...]:
    """Notices of the configuration, then each source and its table; without secrets."""
    found = [Check("configuration", "ok", f"{project.origin}: {count(len(sources), 'source')}")]
    found += [Check("configuration", "warn", notice) for notice in project.notices]
    by, probed = by or CheckSettings(project.engine), set[Location]()
    jobs = [(bound, job) for bound in sources for job in _plan_checks(bound, by, probed)]
    results = carry_out([job for _, job in jobs], show)
    for (bound, _), (_, checks) in zip(jobs, results, strict=True):
        own = bound.pipeline
        found += (replace(each, block=own.block, pipeline=own.name) for each in checks)
    found += check_spaces(bound.pipeline.sink.table for bound in sources)
    # Drivers and servers quote what they were sent.
    return Mask.around(project).deep(tuple(found))


def _plan_checks(bound: TrackedSource, by: CheckSettings, probed: set[Location]) -> Iterator[CheckJob]:
    """The jobs of one source, its table, its dead letters and its state provider."""
    pipeline, name, table = bound.pipeline, f"source {bound.key}", f"table of {bound.key}"
    if isinstance(bound.tracker, Examinable):
        yield from _plan_source(bound, name, by)
    yield from _plan_probe(table, pipeline.sink.table, probed)
    slow = not_tried(table, f"it takes more than {LONG_SECONDS:g} s to open", "tidegate status shows how it stands")
    look, server = partial(_check_table, bound, by.engine), store_of(pipeline.sink.table)
    yield CheckJob(table, look, bound.table_uri, server, seconds=LONG_SECONDS, overdue=slow)
    if isinstance(bound.tracker, HasDeadLetters) and pipeline.error_handling.on_bad_record is OnBadRecord.DEAD_LETTER:
        yield from _plan_probe(f"dead letters of {bound.key}", pipeline.dead_letters, probed)
    kept = bound.positions.copy
    if kept is not None and kept.watermarks is not None:
        provider = kept.watermarks.provider
        if isinstance(provider, FileMetadataProvider):
            yield from _plan_probe(f"state of {bound.key}", provider.location, probed)
        yield CheckJob(f"state of {bound.key}", partial(_check_provider, bound, provider), "the state provider")


def _plan_probe(name: str, place: Location, probed: set[Location]) -> Iterator[CheckJob]:
    """A job that writes to a place, unless one is planned already: sources of one pipeline share a table."""
    if place not in probed:
        probed.add(place)
        look = partial(collect_checks, name, partial(check_writable, name, place))
        yield CheckJob(name, look, place.uri, store_of(place))


def _plan_source(bound: TrackedSource, name: str, by: CheckSettings) -> Iterator[CheckJob]:
    tracker, place, server = bound.tracker, describe_place(bound.source), server_of(bound.source)
    assert isinstance(tracker, Examinable)
    look = partial(tracker.source_checks, bound, by)
    match bound.source.request:
        case JdbcRead() as read:
            seconds = LIMIT_SECONDS if by.by_spark is None else DEEP_SECONDS
            yield CheckJob(name, look, place, server, read.max_connections or 4, seconds, is_refused_login)
        case HttpRead() as read:
            width = 4 if read.rate_limit is None else 1
            yield CheckJob(name, look, place, server, width, LIMIT_SECONDS + pause_of(read))
        case _:
            if server is not None:
                yield CheckJob(name, partial(_list_once, bound.source), place, server)
            slow = not_tried(name, f"to list it takes more than {LONG_SECONDS:g} s", "tidegate status lists it all")
            yield CheckJob(name, look, place, server, seconds=LONG_SECONDS, overdue=slow)


def _list_once(source: Any) -> Sequence[Check]:
    """Ask a store for one page, which finds out soon if it hangs; the checks that follow tell everything else."""
    if (location := location_of(source)) is not None:
        with suppress(TidegateError):
            next(iter(open_store(location).list(scope=Scope())), None)
    return ()


def _machine(engine: EngineKind, managed: bool = False) -> Iterator[Check]:
    yield Check("python", "ok", f"{platform.python_version()} at {sys.executable}")
    yield from (_packages(engine), _json_reader())
    session = active_session()
    if engine is EngineKind.SPARK:
        yield Check("engine", "ok", "spark: for everything")
        if session is not None:
            yield Check("spark", "ok", f"Spark {session.version}, in the session that is running here")
        elif managed:
            yield not_tried(
                "spark",
                "spark.managed is true, and no session is running here",
                "run `tidegate doctor` where the pipeline runs",
            )
        else:
            yield from (_java(), _jars())
    else:
        yield Check("engine", "ok", "local: this process appends rows, without Java")
    yield check_space(tempfile.gettempdir(), "temporary files")


def _packages(engine: EngineKind) -> Check:
    found = {name: _version(name) for name in (*PACKAGES, *(SPARK_PACKAGES if engine is EngineKind.SPARK else ()))}
    missing = [name for name, known in found.items() if known is None]
    if missing:
        remedy = NO_SPARK if set(missing) <= set(SPARK_PACKAGES) else "install tidegate again"
        return Check("packages", "fail", f"missing: {', '.join(missing)}", remedy)
    return Check("packages", "ok", ", ".join(f"{name} {known}" for name, known in found.items()))


def _version(package: str) -> str | None:
    # The PySpark in a distribution of Spark is a folder, and no package to pip.
    if package == "pyspark":
        return read_spark_version()
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _json_reader() -> Check:
    if find_native() is not None:
        return Check("json reader", "ok", describe_reader())
    return Check(
        "json reader",
        "warn",
        describe_reader(),
        "pip install 'tidegate[native]'",
    )


def _java() -> Check:
    try:
        home = find_java()
    except TidegateError as error:
        return Check("java", "fail", error.problem, error.remedy)
    return Check("java", "ok", f"Java {java_version(home)} at {home}")


def _jars() -> Check:
    try:
        jars = fetched_jars()
    except TidegateError as error:  # no Spark, or one that we do not support
        return Check("delta jars", "fail", error.problem, error.remedy)
    if jars:
        for_s3 = (
            "" if fetched_jars(S3) else "; those for tables on S3 that Spark writes are fetched when they are needed"
        )
        return Check("delta jars", "ok", f"{count(len(jars), 'jar')} in {jars[0].parent}{for_s3}")
    return Check(
        "delta jars",
        "ok",
        "not fetched; files need none",
        "`tidegate setup` fetches them, for tables and sources that only Spark can write or read",
    )


def _check_table(bound: TrackedSource, engine: EngineKind) -> list[Check]:
    name = f"table of {bound.key}"

    def look() -> Iterator[Check]:
        opened = bound.open(read_only=True)
        state = bound.state_of(opened)
        at = f"at version {opened.table_version}" if opened.table_version >= 0 else "not made yet"
        brief = bound.tracker.summary(state).brief
        stored = f" ({brief})" if brief else ""
        yield Check(name, "ok", f"{bound.table_uri} {at}; {count(opened.version, 'commit')} of this source{stored}")
        for warning in opened.warnings:
            yield Check(name, "warn", warning)
        if engine is EngineKind.LOCAL and opened.needs_frames:
            yield Check(name, "fail", f"only Spark writes it: {'; '.join(opened.needs_frames)}", "set engine: spark")
        if isinstance(bound.tracker, Examinable):
            yield from bound.tracker.table_checks(bound, name, opened, state)

    return collect_checks(name, look)


def _check_provider(bound: TrackedSource, provider: Any) -> list[Check]:
    """Whether the state provider answers."""
    name = f"state of {bound.key}"

    def look() -> Iterator[Check]:
        found = provider.get_watermark(str(bound.key))
        yield Check(name, "ok", f"the provider answers: {found or 'nothing saved'}")

    return collect_checks(name, look)
