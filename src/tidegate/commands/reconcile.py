"""Reconcile: compares sources and tables with what was committed, and repairs what is late or left over."""

from __future__ import annotations

import contextlib
import threading
from datetime import timedelta

from tidegate.commands.project import (
    Config,
    load,
    on_engine,
    open_engine,
    pipelines_of,
    sources_named,
    sources_of,
    without_secrets,
)
from tidegate.observe.events import Emit, ignore
from tidegate.reports.reconcile import ReconcileReport
from tidegate.runs.bind import is_files
from tidegate.runs.loop import stops_on_signals
from tidegate.runs.reconcile import ReconcileOptions, Reconciling, check_age


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
    engine: str | None = None,
) -> ReconcileReport:
    """List sources and tables completely and compare them with what was committed.

    ``ingest`` reads the late files, by the engine. ``clean`` removes orphans older than ``older_than``, at least a day
    unless ``force``. Without either, nothing is written.
    """
    flag = stop or threading.Event()
    age = check_age(older_than, force=force) if clean else older_than
    project = load(config)
    if ingest:
        project = on_engine(project, engine, pipeline=pipeline)
    told = without_secrets(emit, project)
    names = {each.name for each in pipelines_of(project, pipeline)}
    # All of them, whatever was asked for: files of any source of the table look like orphans until they are committed.
    every = sources_of(project, None, emit=told)
    sources = sources_named([each for each in every if each.pipeline.name in names], source)
    files = tuple(filter(is_files, sources))
    opening = open_engine(project, told, flag, lambda: files) if ingest else contextlib.nullcontext()
    with opening as opened, stops_on_signals(flag):
        options = ReconcileOptions(opened, clean, age)
        return Reconciling(sources, every, options, told, flag).all()
