"""What the command line does, as functions that take values and return values.

``config`` is the path of a YAML file, YAML text with a line break in it, or a :class:`ProjectSpec`. Imports that cost
time happen inside the functions: ``plan``, ``status`` and ``show_watermarks`` never load pyspark.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tidegate.errors import ConfigError
from tidegate.ledger_reports import FilesReport, LedgerCompaction, LedgerExport, WatermarkHistory
from tidegate.observe.events import Emit, Notice, ignore
from tidegate.reports import Check, DemoReport, DemoStep, RunReport, SourcePlan, SourceStatus, WatermarkView
from tidegate.specs import PipelineSpec, ProjectSpec, SparkSpec

if TYPE_CHECKING:
    from tidegate.comparisons import ReconcileReport
    from tidegate.runs.lanes import Lane
    from tidegate.runs.place import Place

Config = str | Path | ProjectSpec
Mode = Literal["once", "continuous"]


def load(config: Config, *, pipeline: str | None = None) -> ProjectSpec:
    """The checked configuration; :class:`ConfigError` holds every problem of the file."""
    if isinstance(config, ProjectSpec):
        return config
    from tidegate.config import load as load_file

    return load_file(config, env=os.environ, pipelines=() if pipeline is None else (pipeline,))


def plan(config: Config, pipeline: str | None = None, *, now: datetime | None = None) -> tuple[SourcePlan, ...]:
    """What a run would read, per source, and why everything else is skipped. Touches nothing."""
    from tidegate.runs.looking import planned

    moment = now or datetime.now(UTC)
    return tuple(planned(place, moment) for place in _places(load(config, pipeline=pipeline), pipeline))


def run(
    config: Config,
    pipeline: str | None = None,
    *,
    mode: Mode = "once",
    emit: Emit = ignore,
    stop: threading.Event | None = None,
) -> RunReport:
    """Read what is new into the tables; ``mode="continuous"`` polls until ``stop`` is set or a signal comes.

    Failures of one source are in its report and keep no other source from running; a configuration that is
    wrong raises. Uses the Spark session that is active in this process, or starts one when the first file is
    to be read and stops it at the end.
    """
    flag = stop or threading.Event()
    project = load(config, pipeline=pipeline)
    with _lane(project.spark, emit, flag) as lane:
        return _run(project, pipeline, mode, emit, flag, lane)


def status(config: Config, pipeline: str | None = None) -> tuple[SourceStatus, ...]:
    """Where every source stands: state, watermark, lag and backlog; from mirror or documents, without Spark."""
    from tidegate.runs.looking import status_of

    now = datetime.now(UTC)
    return tuple(status_of(place, now) for place in _places(load(config, pipeline=pipeline), pipeline))


def show_watermarks(config: Config, pipeline: str, source: str | None = None) -> tuple[WatermarkView, ...]:
    """The recorded state of a pipeline's sources, in full."""
    from tidegate.runs.looking import places_named, watermark_of

    places = _places(load(config, pipeline=pipeline), pipeline)
    return tuple(watermark_of(place) for place in places_named(places, source))


def watermark_history(
    config: Config, pipeline: str, source: str | None = None, *, limit: int = 20
) -> tuple[WatermarkHistory, ...]:
    """The positions of a pipeline's sources, newest first, with the watermark that each left; ``limit`` 0: all."""
    from tidegate.runs.ledger import history_of

    return tuple(history_of(place, limit) for place in _places_of(config, pipeline, source))


def files(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    match: str | None = None,
    since: datetime | None = None,
    position: int | None = None,
    limit: int = 50,
) -> FilesReport:
    """Which files were ingested when and by which commit, newest first; ``limit`` 0: all."""
    from tidegate.runs.file_lines import Wanted
    from tidegate.runs.ledger import files_of

    return files_of(_places_of(config, pipeline, source), Wanted(match, since, position), limit)


def export_ledger(config: Config, pipeline: str, source: str | None = None, *, to: Path) -> LedgerExport:
    """The complete ledger of a pipeline's sources as one local Parquet file, for SQL."""
    from tidegate.runs.ledger import export

    return export(_places_of(config, pipeline, source), to)


def compact_ledger(config: Config, pipeline: str, source: str | None = None) -> tuple[LedgerCompaction, ...]:
    """Gathers old documents of a pipeline's sources into blocks of the ledger; runs do the same bit by bit."""
    from tidegate.runs.ledger import compact_place

    return tuple(compact_place(place) for place in _places_of(config, pipeline, source))


def recover(
    config: Config, pipeline: str, source: str | None = None, *, accept: Collection[str] = ()
) -> tuple[Check, ...]:
    """What stops the sources of a pipeline; ``accept`` (``identity``, ``restore``) goes on past it.

    Accepting records the position anew by an empty commit; it reads, writes and removes no rows.
    """
    from tidegate.runs.looking import places_named
    from tidegate.runs.recovering import recover as recover_place

    places = _places(load(config, pipeline=pipeline), pipeline)
    return tuple(recover_place(place, accept) for place in places_named(places, source))


def reconcile(
    config: Config,
    pipeline: str | None = None,
    source: str | None = None,
    *,
    ingest: bool = False,
    clean: bool = False,
    older_than: timedelta = timedelta(hours=24),
    force: bool = False,
    emit: Emit = ignore,
    stop: threading.Event | None = None,
) -> ReconcileReport:
    """Lists sources and tables completely and compares them with what was committed.

    ``ingest`` reads the late files, with Spark; ``clean`` removes orphans older than ``older_than``, which must be a
    day or more unless ``force``. Without either nothing is written.
    """
    from tidegate.runs.looking import places_named
    from tidegate.runs.reconciling import Reconciling, Wanted, checked_age
    from tidegate.runs.stopping import stops_on_signals

    flag = stop or threading.Event()
    age = checked_age(older_than, force=force) if clean else older_than
    project = load(config)
    names = {each.name for each in _pipelines(project, pipeline)}
    every = _places(project, None, emit)
    places = places_named(tuple(each for each in every if each.pipeline.name in names), source)
    with _lane(project.spark, emit, flag) if ingest else contextlib.nullcontext() as lane, stops_on_signals(flag):
        return Reconciling(places, every, Wanted(lane, clean, age), emit, flag).all()


def doctor(config: Config | None = None) -> tuple[Check, ...]:
    """Looks at this machine and, with a configuration, at its sources and tables; changes nothing."""
    from tidegate.runs.examining import examine_machine, examine_project

    checks = examine_machine()
    if config is None:
        return checks
    try:
        project = load(config)
    except ConfigError as error:
        problems = tuple(Check("configuration", "fail", problem) for problem in error.problems)
        return (*checks, *problems)
    return (*checks, *examine_project(project, _places(project, None)))


def demo(
    folder: Path | None = None, emit: Emit = ignore, show: Callable[[DemoStep], None] = lambda step: None
) -> DemoReport:
    """A first run that needs nothing: makes data, ingests it twice, and shows table, watermarks and status."""
    from tidegate.runs.demo import Demo

    flag = threading.Event()
    with _lane(SparkSpec(), emit, flag) as lane:

        def run_again(config: Path) -> RunReport:
            return _run(load(config), None, "once", emit, flag, lane)

        return Demo(folder or Path("tidegate-demo"), run_again, status, show).play()


@contextlib.contextmanager
def _lane(spec: SparkSpec, emit: Emit, stop: threading.Event) -> Iterator[Lane]:
    """Spark, started when it is first needed."""
    from tidegate.observe.events import SessionStarting
    from tidegate.spark.arrow_lane import SparkArrowLane

    lane = SparkArrowLane(spec, stop=stop, starting=lambda where: emit(SessionStarting("", "", where)))
    try:
        yield lane
    finally:
        lane.close()


def _run(
    project: ProjectSpec, pipeline: str | None, mode: Mode, emit: Emit, stop: threading.Event, lane: Lane
) -> RunReport:
    from tidegate.runs.running import Running
    from tidegate.runs.stopping import stops_on_signals

    for notice in project.notices:
        emit(Notice("", "", notice))
    running = Running(project, lane, parallelism_of(project.spark), emit, stop)
    chosen = _pipelines(project, pipeline)
    with stops_on_signals(stop):
        if mode == "continuous":
            return running.continuously([each.continuous() for each in chosen])
        return running.once(chosen)


def parallelism_of(spec: SparkSpec) -> int:
    """How many tasks would run at once; read off the configuration."""
    from tidegate.spark.session import parallelism

    return parallelism(spec)


def _pipelines(project: ProjectSpec, name: str | None) -> tuple[PipelineSpec, ...]:
    chosen = tuple(each for each in project.pipelines if name in (None, each.name))
    if not chosen:
        known = ", ".join(each.name for each in project.pipelines)
        raise ConfigError((f"{project.origin}: there is no pipeline {name!r}; it has: {known}",))
    return chosen


def _places_of(config: Config, pipeline: str, source: str | None) -> tuple[Place, ...]:
    from tidegate.runs.looking import places_named

    return places_named(_places(load(config, pipeline=pipeline), pipeline), source)


def _places(project: ProjectSpec, name: str | None, emit: Emit = ignore) -> tuple[Place, ...]:
    from tidegate.runs.place import open_place

    width = parallelism_of(project.spark)
    return tuple(
        open_place(project, pipeline, source, width, emit)
        for pipeline in _pipelines(project, name)
        for source in pipeline.sources
    )
