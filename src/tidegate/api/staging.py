"""Commit what others have written below the tables."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tidegate.api.opening import Config, Mode, agreed, bound_files, load, pipelines_of_files
from tidegate.errors import ConfigError
from tidegate.observe.events import Emit, ignore
from tidegate.reports.staging import CommitReport, FileAdoption


def commit(
    config: Config,
    pipeline: str | None = None,
    *,
    mode: Mode = "once",
    emit: Emit = ignore,
    stop: threading.Event | None = None,
) -> CommitReport:
    """Commit what staged runs and foreign writers left below the tables; ``mode="continuous"`` until ``stop`` is set.

    With ``pipeline`` only its table, for everyone of the configuration who writes into it. Starts no Spark.
    """
    from tidegate.commands.commit import Committing, poll_interval
    from tidegate.runs.loop import stops_on_signals
    from tidegate.web.pages import watched

    flag = stop or threading.Event()
    project = load(config)
    chosen = pipelines_of_files(project, pipeline)
    with stops_on_signals(flag):
        if mode == "once":
            return Committing(project, emit, flag).once(chosen)
        with watched(project, chosen, emit, lambda each: poll_interval(project, each.sink.table.uri)) as told:
            return Committing(project, told, flag).continuously(chosen)


def adopt_files(
    config: Config,
    pipeline: str | None = None,
    *,
    prefix: str,
    confirm: Callable[[FileAdoption], bool] = agreed,
    emit: Emit = ignore,
) -> FileAdoption:
    """Add Parquet files below ``prefix`` of a table that its log does not name, if ``confirm`` agrees to the list."""
    from tidegate.commands.commit import FileAdopting

    project = load(config)
    tables = {each.sink.table.uri for each in pipelines_of_files(project, pipeline)}
    if len(tables) > 1:
        raise ConfigError((f"{project.origin}: it has {len(tables)} tables; name a pipeline of the one that is meant",))
    sources = tuple(each for each in bound_files(project, None, emit) if each.table_uri in tables)
    return FileAdopting(sources, emit).run(prefix, confirm)
