"""The start of every command: the checked configuration, the bound sources and the engine.

``config`` is the path of a YAML file, YAML text with a line break in it, or a :class:`ProjectSpec`. Sources and engines
are imported on first use: `tidegate config check` needs neither.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from tidegate.commands.block_tables import ListTables, ask_tables, recall_tables, refuse_tables
from tidegate.config import load as load_file
from tidegate.config import select
from tidegate.config.document import nearest, sentence
from tidegate.config.known_tables import with_known_places
from tidegate.core.engines import local_engine_problems
from tidegate.errors import ConfigError
from tidegate.migrate.foreign import FOREIGN
from tidegate.observe.events import Emit, SessionStarting, ignore
from tidegate.observe.logs import log_events, mask_events, one_at_a_time
from tidegate.observe.messenger import GROUP_SECS, Dispatcher, send_messages
from tidegate.protocol.sent_record import TableSentStore
from tidegate.reports.page import names
from tidegate.reports.wording import count
from tidegate.specs.masking import Mask, remember
from tidegate.specs.project import EngineKind, PipelineSpec, ProjectSpec, SourceSpec
from tidegate.specs.table_block import TableRefusal

if TYPE_CHECKING:
    from tidegate.runs.engine import Engine
    from tidegate.runs.file_source import FileSource
    from tidegate.runs.tracker import AnySource, TrackedSource, UnitBound

NAMES_SHOWN = 20
Config = str | Path | ProjectSpec
Mode = Literal["once", "continuous"]
BoundT = TypeVar("BoundT", bound="AnySource")


def agree(planned: object) -> bool:
    """Agree to any plan."""
    return True


def load(config: Config, *, pipeline: str | None = None) -> ProjectSpec:
    """Load and check the configuration; :class:`ConfigError` has every problem of the file.

    Whether its engine can carry everything is another question: :func:`on_engine` asks it. Blocks have the tables that
    runs remember; no database is asked.
    """
    return _load(config, pipeline, lambda project: recall_tables(project) if _lacks_tables(project) else project)


def load_asking(
    config: Config, *, pipeline: str | None = None, remember: bool = True, list_tables: ListTables | None = None
) -> ProjectSpec:
    """Load the configuration, and ask the databases of its blocks for their tables.

    Without ``remember`` the answer is kept only if none was before, for commands that change nothing. ``list_tables``
    asks a database, in place of the usual way.
    """
    ask = partial(ask_tables, pipeline=pipeline, remember=remember, list_tables=list_tables)
    return _load(config, pipeline, ask)


def _load(config: Config, pipeline: str | None, put_tables: Callable[[ProjectSpec], ProjectSpec]) -> ProjectSpec:
    if isinstance(config, ProjectSpec):
        project = replace(config, foreign=FOREIGN)
        project = put_tables(project) if project.blocks else project
    else:
        project = load_file(config, env=os.environ, foreign=FOREIGN)
        remember(Mask.around(project))
        project = put_tables(project) if project.blocks else project
        project = project if pipeline is None else select(project, (pipeline,))
        if any(each.has_names for each in project.pipelines):
            project = with_known_places(project)
    # From here on, also for errors that nobody catches: the last handler masks what it prints.
    remember(Mask.around(project))
    return project


def load_one(config: Config, pipeline: str) -> ProjectSpec:
    """Load the configuration for a command about one pipeline: a block of tables is none."""
    project = load(config, pipeline=pipeline)
    tables = [each.name for each in project.pipelines if each.block == pipeline and each.name != pipeline]
    if tables:
        said = f"{pipeline!r} is a block of {count(len(tables), 'table')}, and this command is about one of them"
        raise ConfigError((f"{said}; name it, such as -p {tables[0]}",))
    return project


def _lacks_tables(project: ProjectSpec) -> bool:
    """Whether a block has no pipeline at all, not even one that says why: nobody has put its tables in yet."""
    return any(not any(each.block == block.name for each in project.pipelines) for block in project.blocks)


def on_engine(project: ProjectSpec, engine: str | None = None, *, pipeline: str | None = None) -> ProjectSpec:
    """The project with the given engine, or its own; :class:`ConfigError` with all that this engine leaves to Spark.

    Only ``pipeline`` has to suit the engine, if it is given.
    """
    if engine is not None:
        known = [each.value for each in EngineKind]
        if engine not in known:
            problem = sentence(f"no engine {engine!r}", f"allowed: {', '.join(known)}", nearest(engine, known))
            raise ConfigError((problem,))
        project = replace(project, engine=EngineKind(engine))
    if project.engine is EngineKind.LOCAL:
        chosen = [each for each in project.pipelines if each.is_named(pipeline) and each.block is None]
        blocks = [each for each in project.blocks if each.is_named(pipeline)]
        problems = local_engine_problems((*chosen, *(each.template for each in blocks)))
        # What concerns one table of a block, such as one that is read whole, refuses that table alone.
        tables = local_engine_problems(each for each in project.pipelines if each.block is not None)
        project = refuse_tables(project, {each.pipeline: TableRefusal(*each.say()) for each in reversed(tables)})
        if problems:
            mask = Mask.around(project)
            raise ConfigError(tuple(mask(f"{project.origin}: {problem}") for problem in problems))
    return project


def without_secrets(emit: Emit, project: ProjectSpec) -> Emit:
    """What every part of a command emits to, so that no event has a secret of the project, whoever emits it.

    Events go to the standard ``logging`` as well.
    """
    return mask_events(log_events(emit), Mask.around(project))


@contextlib.contextmanager
def open_emitter(
    project: ProjectSpec,
    pipelines: Sequence[PipelineSpec],
    mode: Mode,
    emit: Emit,
    interval: Callable[[PipelineSpec], float] | None = None,
    *,
    is_whole: bool = True,
) -> Iterator[Emit]:
    """An emitter without secrets that also serves metrics and health in continuous runs, or exports those of others.

    It sends the messages of ``notify``, beside the run. What does all that is loaded only if it is asked for.
    ``is_whole``: these are all pipelines of the configuration.
    """
    with send_notes(project, mode, emit) as sent:
        if mode == "once" and project.metrics.is_exported:
            from tidegate.observe.metrics_export import export_run

            with export_run(project, pipelines, without_secrets(sent, project), is_whole=is_whole) as told:
                yield told
            return
        if mode == "once":
            yield without_secrets(sent, project)
            return
        from tidegate.observe.pages import serve_metrics

        with serve_metrics(project, pipelines, sent, interval) as told:
            yield without_secrets(told, project)


@contextlib.contextmanager
def send_notes(project: ProjectSpec, mode: Mode, emit: Emit) -> Iterator[Emit]:
    """An emitter that also sends messages, where the configuration has somebody to send them to."""
    if not project.notify:
        yield emit
        return
    dispatcher = Dispatcher(project, TableSentStore(project.pipelines))
    groups = None if mode == "once" else GROUP_SECS
    # Notices about messages come from a thread of their own.
    with send_messages(dispatcher, one_at_a_time(emit), groups=groups) as sent:
        yield sent


def pipelines_of(project: ProjectSpec, name: str | None) -> tuple[PipelineSpec, ...]:
    """The pipeline with that name, or all; :class:`ConfigError` for an unknown name."""
    chosen = tuple(each for each in project.pipelines if each.is_named(name))
    if not chosen:
        known = [each.name for each in project.pipelines]
        allowed = f"allowed: {names(known, NAMES_SHOWN)}"
        raise ConfigError((sentence(f"{project.origin}: no pipeline {name!r}", allowed, nearest(name or "", known)),))
    return chosen


def sources_of(
    project: ProjectSpec, name: str | None, source: str | None = None, emit: Emit = ignore
) -> tuple[TrackedSource, ...]:
    """The sources of one pipeline, or of all, bound to their tables; an unknown name raises."""
    return sources_named(_bound(project, name, emit), source)


def source_of(config: Config, pipeline: str, source: str | None) -> TrackedSource:
    """The source with that name; without a name, the only one of the pipeline."""
    return source_named(_bound(load_one(config, pipeline), pipeline), source)


def bound_files(project: ProjectSpec, name: str | None, emit: Emit = ignore) -> tuple[FileSource, ...]:
    """Only the file sources: another source that cannot be bound does not stop them."""
    from tidegate.runs.bind import is_files

    located = replace(project, pipelines=tuple(each for each in project.pipelines if each.is_located))
    if not any(each.is_named(name) for each in located.pipelines):
        return ()
    return tuple(filter(is_files, _bound(located, name, emit, lambda each: each.read is None)))


def source_named(sources: Sequence[BoundT], source: str | None) -> BoundT:
    """The source with that name; without a name, the only one."""
    chosen = sources_named(sources, source)
    if len(chosen) > 1:
        known = ", ".join(each.source.name for each in chosen)
        raise ConfigError((f"pipeline {chosen[0].pipeline.name!r} has several sources; name one of them: {known}",))
    return chosen[0]


def sources_named(sources: Sequence[BoundT], source: str | None) -> tuple[BoundT, ...]:
    """The sources with that name, or all; an unknown name is an error that lists the known ones."""
    chosen = tuple(each for each in sources if source in (None, each.source.name))
    if not chosen:
        known = list(dict.fromkeys(each.source.name for each in sources))
        within = ", ".join(dict.fromkeys(repr(each.pipeline.name) for each in sources))
        told = sentence(
            f"no source {source!r} in {within}", f"allowed: {', '.join(known)}", nearest(source or "", known)
        )
        raise ConfigError((told,))
    return chosen


def _bound(
    project: ProjectSpec, name: str | None, emit: Emit = ignore, takes: Callable[[SourceSpec], bool] = lambda each: True
) -> list[TrackedSource]:
    from tidegate.runs.bind import bind

    width = project.parallelism
    return [
        bind(project, pipeline, each, width, emit)
        for pipeline in pipelines_of(project, name)
        # Of many tables, those that are refused are left out; one that was named says why it is.
        if pipeline.refused is None or pipeline.name == name
        for each in pipeline.sources
        if takes(each)
    ]


def file_sources(config: Config, pipeline: str, source: str | None = None) -> tuple[FileSource, ...]:
    """The sources of one pipeline, or the named one; all must be files."""
    from tidegate.runs.bind import require_files

    return tuple(map(require_files, sources_of(load(config, pipeline=pipeline), pipeline, source)))


def unit_sources(config: Config, pipeline: str, source: str | None = None) -> tuple[UnitBound, ...]:
    """The sources of one pipeline, or the named one; all must have work units."""
    from tidegate.runs.bind import require_units

    return tuple(map(require_units, sources_of(load(config, pipeline=pipeline), pipeline, source)))


@contextlib.contextmanager
def open_engine(
    project: ProjectSpec,
    emit: Emit,
    stop: threading.Event,
    sources: Callable[[], Sequence[FileSource]] = tuple,
    columns: Sequence[PipelineSpec] = (),
) -> Iterator[Engine]:
    """The engine of the project; Spark is started on first use, with the packages that tables and sources need.

    Spark writes the tables of some ``sources``, and reads the column sources and work units of ``columns``.
    """
    if project.engine is EngineKind.LOCAL:
        from tidegate.runs.in_process import InProcessEngine

        yield InProcessEngine()
        return
    from tidegate.runs.lanes import any_frames, frame_packages
    from tidegate.spark.engine import SparkEngine
    from tidegate.spark.jars import packages_for
    from tidegate.spark.session import py4j_is_silent

    engine = SparkEngine(
        project.spark,
        stop=stop,
        starting=lambda where: emit(SessionStarting("", "", where)),
        # Asked when the session starts, not before: loading every table first would cost runs that read nothing new.
        delta=lambda: bool(columns) or any_frames(sources()),
        packages=lambda: (*packages_for(columns), *frame_packages(sources())),
        mask=Mask.around(project),
    )
    with py4j_is_silent(stop):
        try:
            yield engine
        finally:
            engine.close()
