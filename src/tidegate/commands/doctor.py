"""``doctor``: checks this machine, then the sources and tables of a configuration. Changes nothing."""

from __future__ import annotations

import platform
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version

from tidegate.commands.project import Config, load_asking, on_engine, sources_of
from tidegate.errors import ConfigError, TidegateError
from tidegate.reports.checks import Check
from tidegate.reports.wording import count
from tidegate.runs.checks import check_local_driver, check_space, check_writable, collect_checks
from tidegate.runs.tracker import Examinable, TrackedSource
from tidegate.schema.literals import describe_reader, find_native
from tidegate.spark.jars import NO_SPARK, S3, fetched_jars, find_java, java_version, read_spark_version
from tidegate.spark.session import active_session
from tidegate.specs.masking import Mask
from tidegate.specs.project import EngineKind, ProjectSpec

PACKAGES = ("deltalake", "obstore", "pyarrow")
SPARK_PACKAGES = ("pyspark", "pandas")


def doctor(config: Config | None = None, *, engine: str | None = None) -> tuple[Check, ...]:
    """Check this machine and, with a configuration, its sources and tables; changes nothing.

    ``engine`` replaces the configuration's. With the local engine nothing of Spark is looked for.
    """
    kind = EngineKind(engine or EngineKind.SPARK)
    try:
        project = None if config is None else load_asking(config, remember=False)
    except ConfigError as error:
        return (*_machine(kind), *(Check("configuration", "fail", problem) for problem in error.problems))
    if project is None:
        return tuple(_machine(kind))
    kind = kind if engine else project.engine
    managed = project.spark.managed
    try:
        project = on_engine(project, kind)
    except ConfigError as error:
        return (*_machine(kind, managed), *(Check("engine", "fail", problem) for problem in error.problems))
    located = [
        each.name for each in project.pipelines if each.is_located and each.refused is None and not each.vanished
    ]
    sources = tuple(bound for name in located for bound in sources_of(project, name))
    unknown = (
        Check(
            f"table of {each.name}",
            "warn",
            f"it is not known yet where {each.sink.shown} lies; not tried",
            "run the pipeline once, or give its location",
        )
        for each in project.pipelines
        if not each.is_located and each.refused is None
    )
    refused = (
        Check(f"source {each.name}/{source.name}", "fail", each.refused.problem, each.refused.remedy)
        for each in project.pipelines
        if each.refused is not None
        for source in each.sources
    )
    return (*_machine(kind, managed), *examine_project(project, sources), *unknown, *refused)


def _machine(engine: EngineKind, managed: bool = False) -> Iterator[Check]:
    yield Check("python", "ok", f"{platform.python_version()} at {sys.executable}")
    yield from (_packages(engine), _json_reader())
    session = active_session()
    if engine is EngineKind.SPARK:
        yield Check("engine", "ok", "spark: for everything")
        if session is not None:
            yield Check("spark", "ok", f"Spark {session.version}, in the session that is running here")
        elif managed:
            yield Check(
                "spark",
                "warn",
                "spark.managed is true, and no session is running here: not tried",
                "run `tidegate doctor` where the pipeline runs",
            )
        else:
            yield from (_java(), _jars())
    else:
        yield Check("engine", "ok", "local: this process appends rows, without Java")
    yield check_space(tempfile.gettempdir(), "temporary files")


def examine_project(project: ProjectSpec, sources: Sequence[TrackedSource]) -> tuple[Check, ...]:
    """Notices of the configuration, then each source and its table; without secrets."""
    found = [Check("configuration", "ok", f"{project.origin}: {count(len(sources), 'source')}")]
    found += [Check("configuration", "warn", notice) for notice in project.notices]
    for bound in sources:
        found += bound.tracker.source_checks(bound) if isinstance(bound.tracker, Examinable) else []
        if project.engine is EngineKind.LOCAL:
            name = f"source {bound.key}"
            found += collect_checks(name, partial(check_local_driver, name, bound.source.read))
        found += _table(bound, project.engine)
        found += _provider(bound)
    # Drivers and servers quote what they were sent.
    return Mask.around(project).deep(tuple(found))


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


def _table(bound: TrackedSource, engine: EngineKind) -> list[Check]:
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
        yield from check_writable(name, bound.table_uri)

    return collect_checks(name, look)


def _provider(bound: TrackedSource) -> list[Check]:
    """Whether the state provider, if any, answers."""
    name, kept = f"state of {bound.key}", bound.positions.copy
    if kept is None or kept.watermarks is None:
        return []
    provider = kept.watermarks.provider

    def look() -> Iterator[Check]:
        found = provider.get_watermark(str(bound.key))
        yield Check(name, "ok", f"the provider answers: {found or 'nothing saved'}")

    return collect_checks(name, look)
