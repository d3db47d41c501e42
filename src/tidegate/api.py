"""What the command line does, as functions that take values and return values.

``config`` is the path of a YAML file, YAML text with a line break in it, or a :class:`ProjectSpec`. Imports that cost
time happen inside the functions: ``plan``, ``status`` and ``show_watermarks`` never load pyspark.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tidegate.chaos_report import ChaosLimits, ChaosProgress, ChaosReport
from tidegate.errors import ConfigError
from tidegate.observe.events import Emit, Notice, ignore
from tidegate.reports import Check, DemoReport, DemoStep, RunReport, SourcePlan, SourceStatus, WatermarkView
from tidegate.specs import PipelineSpec, ProjectSpec, SparkSpec

if TYPE_CHECKING:
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


def chaos(
    uri: str,
    *,
    failures: int = 1000,
    kills: int = 10,
    spark_kills: int = 0,
    seed: int | None = None,
    minutes: float = 10.0,
    keep: bool = False,
    options: Mapping[str, str] | None = None,
    show: Callable[[ChaosProgress], None] = lambda progress: None,
) -> ChaosReport:
    """Try to make Tidegate lose or double a row, in tables of its own below ``uri``, which must be empty.

    Ends when that many failures were injected and that many processes killed, or after ``minutes``. ``options`` are
    the storage options of ``uri``, ``keep`` leaves everything there. Not for use beside other runs in this process.
    """
    from tidegate.runs.chaos import Chaos, any_seed
    from tidegate.specs import Location, Options
    from tidegate.storage.opening import absolute

    place = Location(absolute(uri, Path.cwd()), Options(options or {}))
    limits = ChaosLimits(failures, kills, spark_kills, minutes)
    return Chaos(place, limits, any_seed() if seed is None else seed, keep, show).play()


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


def _places(project: ProjectSpec, name: str | None) -> tuple[Place, ...]:
    from tidegate.runs.place import open_place

    width = parallelism_of(project.spark)
    return tuple(
        open_place(project, pipeline, source, width)
        for pipeline in _pipelines(project, name)
        for source in pipeline.sources
    )
