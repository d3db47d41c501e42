"""What every function of the interface begins with: the checked configuration, its sources and Spark."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tidegate.errors import ConfigError
from tidegate.observe.events import Emit, SessionStarting, ignore
from tidegate.specs.masking import Mask, remember
from tidegate.specs.project import PathSource, PipelineSpec, ProjectSpec, SparkSpec
from tidegate.specs.units import UnitSource

if TYPE_CHECKING:
    from tidegate.runs.bound_source import AnySource, UnitBound
    from tidegate.runs.engine import Engine
    from tidegate.runs.file_source import FileSource
    from tidegate.runs.tracker import TrackedSource

Config = str | Path | ProjectSpec
Mode = Literal["once", "continuous"]


def agreed(planned: object) -> bool:
    """Agrees to whatever is planned."""
    return True


def load(config: Config, *, pipeline: str | None = None) -> ProjectSpec:
    """The checked configuration; :class:`ConfigError` holds every problem of the file."""
    if isinstance(config, ProjectSpec):
        project = config
    else:
        from tidegate.config import load as load_file

        project = load_file(config, env=os.environ, pipelines=() if pipeline is None else (pipeline,))
    remember(Mask.around(project))
    return project


def parallelism_of(spec: SparkSpec) -> int:
    """How many tasks would run at once; read off the configuration."""
    from tidegate.spark.session import parallelism

    return parallelism(spec)


def pipelines_of(project: ProjectSpec, name: str | None) -> tuple[PipelineSpec, ...]:
    """The pipeline that is named, or all of them; :class:`ConfigError` when there is none of that name."""
    chosen = tuple(each for each in project.pipelines if name in (None, each.name))
    if not chosen:
        from tidegate.config.problems import nearest, sentence

        known = [each.name for each in project.pipelines]
        allowed = f"allowed: {', '.join(known)}"
        raise ConfigError((sentence(f"{project.origin}: no pipeline {name!r}", allowed, nearest(name or "", known)),))
    return chosen


def sources_of(
    project: ProjectSpec, name: str | None, source: str | None = None, emit: Emit = ignore
) -> tuple[TrackedSource, ...]:
    """The sources of the pipeline that is named, or of all, bound to their tables; an unknown name raises."""
    from tidegate.runs.bind import bind
    from tidegate.runs.bound_source import sources_named

    width = parallelism_of(project.spark)
    found = [
        bind(project, pipeline, each, width, emit)
        for pipeline in pipelines_of(project, name)
        for each in pipeline.sources
    ]
    return sources_named(found, source)


def bound_files(project: ProjectSpec, name: str | None, emit: Emit = ignore) -> tuple[FileSource, ...]:
    """The file sources alone: a source of another kind that cannot be bound is no matter of theirs."""
    from tidegate.runs.bind import bind, is_files

    width = parallelism_of(project.spark)
    chosen = [(pipeline, each) for pipeline in pipelines_of(project, name) for each in pipeline.of(PathSource)]
    return tuple(filter(is_files, [bind(project, pipeline, each, width, emit) for pipeline, each in chosen]))


def file_sources(config: Config, pipeline: str, source: str | None = None) -> tuple[FileSource, ...]:
    """The sources of one pipeline, or the one that is named, all of which must be files."""
    from tidegate.runs.bind import is_files

    found = sources_of(load(config, pipeline=pipeline), pipeline, source)
    _refuse_others(found, PathSource, "allowed here: a pipeline whose source is files")
    return tuple(filter(is_files, found))


def unit_sources(config: Config, pipeline: str, source: str | None = None) -> tuple[UnitBound, ...]:
    """The same, all of which must have work units."""
    found = sources_of(load(config, pipeline=pipeline), pipeline, source)
    _refuse_others(found, UnitSource, "allowed here: a source with a time or unit watermark")
    return found


def replayed_source(project: ProjectSpec, pipeline: str, source: str | None, kind: type) -> AnySource:
    """The source that is to be replayed, which must be of that kind; its tracker says how others are read again."""
    from tidegate.runs.bound_source import source_named

    found = source_named(sources_of(project, pipeline), source)
    _refuse_others((found,), kind, found.tracker.replay_hint)
    return found


def _refuse_others(sources: Sequence[TrackedSource], kind: type, instead: str) -> None:
    for each in sources:
        if not isinstance(each.source, kind):
            raise ConfigError((f"pipeline {each.pipeline.name!r} {each.tracker.reads}; {instead}",))


def pipelines_of_files(project: ProjectSpec, pipeline: str | None) -> tuple[PipelineSpec, ...]:
    """The pipelines whose tables can have staged files: runs over other sources commit by themselves."""
    chosen = pipelines_of(project, pipeline)
    tables = {each.sink.table.uri for each in project.pipelines if each.of(PathSource)}
    found = tuple(each for each in chosen if each.sink.table.uri in tables)
    if not found:
        named = ", ".join(each.name for each in chosen)
        raise ConfigError((f"nothing can be staged by {named}: runs over sources that are no files commit",))
    return found


@contextlib.contextmanager
def spark_engine(
    spec: SparkSpec,
    emit: Emit,
    stop: threading.Event,
    sources: Callable[[], Sequence[FileSource]] = tuple,
    columns: Sequence[PipelineSpec] = (),
) -> Iterator[Engine]:
    """Spark, started when it is first needed; with what it needs to write those of ``sources`` that only it can,
    and for the sources of the pipelines ``columns``, which are followed by columns or by work units.
    """
    from tidegate.runs.lanes import any_frames, frame_packages
    from tidegate.spark.engine import SparkEngine
    from tidegate.spark.jars import packages_for
    from tidegate.spark.session import py4j_is_silent

    engine = SparkEngine(
        spec,
        stop=stop,
        starting=lambda where: emit(SessionStarting("", "", where)),
        delta=lambda: bool(columns) or any_frames(sources()),
        packages=lambda: (*packages_for(columns), *frame_packages(sources())),
    )
    with py4j_is_silent(stop):
        try:
            yield engine
        finally:
            engine.close()
