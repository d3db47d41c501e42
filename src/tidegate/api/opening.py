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
from tidegate.specs.project import PipelineSpec, ProjectSpec, SparkSpec

if TYPE_CHECKING:
    from tidegate.runs.bound_source import ColumnPlace, Place, UnitPlace
    from tidegate.runs.engine import Lane

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


def open_column_places(
    project: ProjectSpec, name: str | None, source: str | None = None, emit: Emit = ignore
) -> tuple[ColumnPlace, ...]:
    """The sources that are followed by columns, of the pipeline that is named, or of all."""
    chosen = [
        (pipeline, each)
        for pipeline in pipelines_of(project, name)
        for each in pipeline.column_sources
        if source in (None, each.name)
    ]
    if not chosen:
        return ()
    from tidegate.runs.bound_source import open_column_place

    return tuple(open_column_place(project, pipeline, each, emit) for pipeline, each in chosen)


def column_place_named(project: ProjectSpec, name: str, source: str | None) -> ColumnPlace | None:
    """The column source that is meant; None where the pipeline reads files. Several want a name."""
    if not any(each.column_sources for each in pipelines_of(project, name)):
        return None
    found = open_column_places(project, name, source)
    if len(found) == 1:
        return found[0]
    known = ", ".join(each.name for pipeline in pipelines_of(project, name) for each in pipeline.column_sources)
    if found:
        raise ConfigError((f"pipeline {name!r} has several sources; name one of them: {known}",))
    raise ConfigError((f"no source {source!r} in {name!r}; allowed: {known}",))


def open_unit_places(
    project: ProjectSpec, name: str | None, source: str | None = None, emit: Emit = ignore
) -> tuple[UnitPlace, ...]:
    """The sources of work units of the pipeline that is named, or of all."""
    chosen = [
        (pipeline, each)
        for pipeline in pipelines_of(project, name)
        for each in pipeline.unit_sources
        if source in (None, each.name)
    ]
    if not chosen:
        return ()
    from tidegate.runs.bound_source import open_unit_place

    return tuple(open_unit_place(project, pipeline, each, emit) for pipeline, each in chosen)


def other_places(
    project: ProjectSpec, name: str | None, source: str | None = None, emit: Emit = ignore
) -> tuple[ColumnPlace | UnitPlace, ...]:
    """The sources that are no folders of files, of the pipeline that is named, or of all."""
    return (*open_column_places(project, name, source, emit), *open_unit_places(project, name, source, emit))


def unit_place_named(project: ProjectSpec, name: str, source: str | None) -> UnitPlace:
    """The source of work units that is meant; several want a name."""
    found = open_unit_places(project, name, source)
    if len(found) == 1:
        return found[0]
    known = ", ".join(each.name for pipeline in pipelines_of(project, name) for each in pipeline.unit_sources)
    if found:
        raise ConfigError((f"pipeline {name!r} has several sources; name one of them: {known}",))
    if not known:
        raise ConfigError(
            (f"pipeline {name!r} has no work units; allowed here: a source with a time or unit watermark",)
        )
    raise ConfigError((f"no source {source!r} in {name!r}; allowed: {known}",))


def refuse_units(project: ProjectSpec, pipeline: str, instead: str) -> None:
    """:class:`ConfigError` where a pipeline has work units, with the command for them."""
    if any(each.unit_sources for each in pipelines_of(project, pipeline)):
        raise ConfigError((f"pipeline {pipeline!r} has work units; for those there is `tidegate units {instead}`",))


def places_of(config: Config, pipeline: str, source: str | None) -> tuple[Place, ...]:
    """The sources of one pipeline, or the one that is named."""
    from tidegate.runs.bound_source import places_named

    project = load(config, pipeline=pipeline)
    refuse_others(project, pipeline)
    return places_named(open_places(project, pipeline), source)


def refuse_others(project: ProjectSpec, pipeline: str) -> None:
    """:class:`ConfigError` where a pipeline has no files to be asked about."""
    for each in pipelines_of(project, pipeline):
        how = "is followed by columns" if each.column_sources else "has work units" if each.unit_sources else ""
        if how:
            raise ConfigError((f"pipeline {pipeline!r} {how}; allowed here: a pipeline whose source is files",))


def pipelines_of_files(project: ProjectSpec, pipeline: str | None) -> tuple[PipelineSpec, ...]:
    """The pipelines whose tables can have staged files: runs over other sources commit by themselves."""
    chosen = pipelines_of(project, pipeline)
    tables = {each.sink.table.uri for each in project.pipelines if each.sources}
    found = tuple(each for each in chosen if each.sink.table.uri in tables)
    if not found:
        named = ", ".join(each.name for each in chosen)
        raise ConfigError((f"nothing can be staged by {named}: runs over sources that are no files commit",))
    return found


def open_places(project: ProjectSpec, name: str | None, emit: Emit = ignore) -> tuple[Place, ...]:
    """The sources of the pipeline that is named, or of all, with their tables, ready to be looked at or run."""
    from tidegate.runs.bound_source import open_place

    width = parallelism_of(project.spark)
    return tuple(
        open_place(project, pipeline, source, width, emit)
        for pipeline in pipelines_of(project, name)
        for source in pipeline.sources
    )


@contextlib.contextmanager
def spark_lane(
    spec: SparkSpec,
    emit: Emit,
    stop: threading.Event,
    places: Callable[[], tuple[Place, ...]] = tuple,
    columns: Sequence[PipelineSpec] = (),
) -> Iterator[Lane]:
    """Spark, started when it is first needed; with what it needs to write those of ``places`` that only it can, and for
    the sources of the pipelines ``columns``, which are followed by columns or by work units.
    """
    from tidegate.runs.engine import any_frames, frame_packages
    from tidegate.spark.arrow_lane import SparkArrowLane
    from tidegate.spark.jars import packages_for
    from tidegate.spark.session import py4j_is_silent

    lane = SparkArrowLane(
        spec,
        stop=stop,
        starting=lambda where: emit(SessionStarting("", "", where)),
        delta=lambda: bool(columns) or any_frames(places()),
        packages=lambda: (*packages_for(columns), *frame_packages(places())),
    )
    with py4j_is_silent(stop):
        try:
            yield lane
        finally:
            lane.close()
