"""Go on past what stops a source, and put right what is missing, late or wrong in its table."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection
from datetime import timedelta
from typing import TYPE_CHECKING

from tidegate.api.opening import (
    Config,
    agreed,
    file_sources,
    load,
    pipelines_of,
    replayed_source,
    sources_of,
    spark_engine,
)
from tidegate.observe.events import Emit, ignore
from tidegate.reports.correction import ReplayReport
from tidegate.reports.run import Adoption, Check
from tidegate.specs.project import PathSource

if TYPE_CHECKING:
    from tidegate.reports.correction import ReconcileReport


def recover(
    config: Config, pipeline: str, source: str | None = None, *, accept: Collection[str] = ()
) -> tuple[Check, ...]:
    """What stops the sources of a pipeline, and what is left of a state that cannot be read.

    ``accept`` (``identity``, ``restore``, ``mirror``, ``previous``, ``doubles``, ``set``) goes on past it: the
    position is recorded anew by an empty commit, which reads, writes and removes no rows.
    """
    from tidegate.commands.recover import recover as recover_source

    sources = sources_of(load(config, pipeline=pipeline), pipeline, source)
    return tuple(check for each in sources for check in recover_source(each, accept))


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
    from tidegate.runs.bind import is_files
    from tidegate.runs.bound_source import sources_named
    from tidegate.runs.loop import stops_on_signals
    from tidegate.runs.reconcile import ReconcileOptions, Reconciling, checked_age

    flag = stop or threading.Event()
    age = checked_age(older_than, force=force) if clean else older_than
    project = load(config)
    names = {each.name for each in pipelines_of(project, pipeline)}
    every = sources_of(project, None, emit=emit)
    sources = sources_named([each for each in every if each.pipeline.name in names], source)
    files = tuple(filter(is_files, sources))
    spark = spark_engine(project.spark, emit, flag, lambda: files) if ingest else contextlib.nullcontext()
    with spark as engine, stops_on_signals(flag):
        wanted = ReconcileOptions(engine, clean, age)
        return Reconciling(sources, every, wanted, emit, flag).all()


def adopt(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    dry_run: bool = False,
    quiet_for: float = 600.0,
    fresh: bool = False,
    read_skipped: bool = False,
) -> tuple[Adoption, ...]:
    """Take over the positions that Blizzard left in a pipeline's table; what speaks against it is in the report.

    It must not have moved for ``quiet_for`` seconds. ``fresh`` starts a source at the beginning that it never read,
    ``read_skipped`` leaves the files to be read that it passed over in partitions of which it noted nothing.
    """
    from tidegate.migrate.blizzard import AdoptOptions
    from tidegate.migrate.blizzard import adopt as adopt_source

    wish = AdoptOptions(dry_run, quiet_for, fresh, read_skipped)
    return tuple(adopt_source(bound, wish) for bound in file_sources(config, pipeline, source))


def replay(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    files: str | None = None,
    partition: str | None = None,
    drop_missing: bool = False,
    confirm: Callable[[ReplayReport], bool] = agreed,
    emit: Emit = ignore,
    stop: threading.Event | None = None,
) -> ReplayReport:
    """Read finished files again and replace exactly their rows, in one commit, if ``confirm`` agrees.

    ``files`` is a pattern, ``partition`` a directory of the source: give one of them. Needs ``_source_file`` in
    ``sink.metadata_columns``. A file that cannot be read raises and nothing changes. With ``drop_missing`` the rows of
    files that are no longer in the source are removed too. Uses Spark as ``run`` does, once there is something to read.
    """
    from tidegate.commands.replay import Replay, other_locations
    from tidegate.core.files.edit import Selection
    from tidegate.runs.loop import stops_on_signals

    selection = Selection(files, None if partition is None else partition.strip("/"))
    flag = stop or threading.Event()
    project = load(config)
    bound = replayed_source(project, pipeline, source, PathSource)
    with spark_engine(project.spark, emit, flag) as engine, stops_on_signals(flag):
        carried = Replay(bound, engine, others=other_locations(project, bound), emit=emit, stop=flag)
        return carried.run(selection, confirm, drop_missing=drop_missing)
