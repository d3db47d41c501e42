"""Run: reads what is new into the tables, once or continuously."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from tidegate.commands.project import (
    Config,
    Mode,
    bound_files,
    load_asking,
    on_engine,
    open_emitter,
    open_engine,
    pipelines_of,
)
from tidegate.errors import ConfigError
from tidegate.observe.events import Emit, Notice, RunStarted, ignore
from tidegate.observe.logs import one_at_a_time
from tidegate.protocol.position import utc_now
from tidegate.reports.run import RunReport
from tidegate.runs.engine import Engine
from tidegate.runs.loop import Loop, stops_on_signals
from tidegate.runs.table_names import TableNames
from tidegate.specs.project import PipelineSpec, ProjectSpec


def run(
    config: Config,
    pipeline: str | None = None,
    *,
    mode: Mode = "once",
    emit: Emit = ignore,
    stop: threading.Event | None = None,
    accept_new_partitions: bool = False,
    now: datetime | None = None,
    engine: str | None = None,
    fail_fast: bool = False,
) -> RunReport:
    """Read what is new into the tables; ``mode="continuous"`` polls until ``stop`` is set or a signal comes.

    Sources run side by side, at most ``global.max_concurrent_sources`` at once. A failure is in the report of its
    source and does not stop the others, unless ``fail_fast`` is set; a wrong configuration raises. Uses the active
    Spark session of this process, or starts one for the first file to read and stops it at the end; ``engine="local"``
    needs none, and :class:`ConfigError` says what of the configuration it leaves to Spark. A continuous run serves
    metrics and health if ``metrics.enabled`` is set. ``accept_new_partitions``: work units may be divided in
    another way than before; what was read counts as read. ``now``: plan one pass as if it were then;
    :class:`ConfigError` for a future moment, and in a continuous run.
    """
    _check_moment(now, mode)
    if fail_fast and mode == "continuous":
        raise ConfigError(("a continuous run goes on when a source fails; give only a single run --fail-fast",))
    flag = stop or threading.Event()
    project = on_engine(load_asking(config, pipeline=pipeline), engine)
    named = pipelines_of(project, pipeline)
    chosen = [each for each in named if not each.vanished]
    if named and not chosen:
        gone = ", ".join(each.name for each in named)
        raise ConfigError((f"{project.origin}: no longer in the database: {gone}; what was read of it stays",))
    # A catalog describes and registers Delta tables only in a session with Delta.
    columns = [
        each
        for each in chosen
        if each.refused is None and (each.sink.name or any(source.read is not None for source in each.sources))
    ]
    with (
        open_emitter(project, chosen, mode, emit, is_whole=pipeline is None) as told,
        open_engine(project, told, flag, lambda: bound_files(project, pipeline), columns) as opened,
    ):
        return run_on(
            project,
            pipeline,
            mode,
            told,
            flag,
            opened,
            accept_new_partitions=accept_new_partitions,
            now=now,
            fail_fast=fail_fast,
            list_pipelines=partial(_list_blocks, config, pipeline, engine) if project.blocks else None,
        )


def _list_blocks(config: Config, pipeline: str | None, engine: str | None) -> tuple[PipelineSpec, ...]:
    """The pipelines that the blocks of the configuration have now."""
    project = on_engine(load_asking(config, pipeline=pipeline), engine)
    return tuple(each for each in project.pipelines if each.block is not None and each.is_named(pipeline))


def _check_moment(now: datetime | None, mode: Mode) -> None:
    """Refuse a future moment: what arrives until then would count as read."""
    if now is not None and mode == "continuous":
        raise ConfigError(("a continuous run follows the clock; give only a single run another time",))
    if now is not None and now.tzinfo is None:
        raise ConfigError((f"the moment of a run {now.isoformat()} has no time zone; give an aware datetime",))
    if now is not None and now > datetime.now(UTC):
        problem = (
            f"a run cannot be at {now.isoformat()}, which is in the future: what arrives until then would count as read"
        )
        raise ConfigError((f"{problem}; give a time in the past (`tidegate plan --at` takes any)",))


def run_on(
    project: ProjectSpec,
    pipeline: str | None,
    mode: Mode,
    emit: Emit,
    stop: threading.Event,
    engine: Engine,
    *,
    accept_new_partitions: bool = False,
    now: datetime | None = None,
    fail_fast: bool = False,
    list_pipelines: Callable[[], Sequence[PipelineSpec]] | None = None,
) -> RunReport:
    """Run the pipelines of a project on a given engine, after the notices of the project.

    ``list_pipelines`` returns the pipelines of blocks as they are now, for continuous runs.
    """
    emit = one_at_a_time(emit)
    clock = utc_now if now is None else lambda: now
    running = Loop(
        replace(project, pipelines=tuple(each for each in project.pipelines if each.refused is None)),
        engine,
        project.parallelism,
        emit,
        stop,
        clock,
        accept_new_partitions=accept_new_partitions,
        names=TableNames(project, engine.catalog, emit),
        fail_fast=fail_fast,
        list_pipelines=list_pipelines,
    )
    chosen = [each for each in pipelines_of(project, pipeline) if not each.vanished]
    # First, so that everything else has the id of the run.
    emit(RunStarted("", "", running.run_id, mode))
    for notice in project.notices:
        emit(Notice("", "", notice))
    with stops_on_signals(stop):
        if mode == "continuous":
            report = running.continuously([each.continuous() for each in chosen])
        else:
            report = running.once(chosen)
    blocks = {each.name: each.block for each in (*chosen, *running.project.pipelines)}
    sources = tuple(replace(each, block=blocks.get(each.pipeline)) for each in report.sources)
    return replace(report, engine=project.engine.value, sources=sources, run=running.run_id)
