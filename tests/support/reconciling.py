"""Reconciling in this process, without Spark, and what tests put below a table."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path

from tidegate import ProjectSpec, ReconcileReport
from tidegate.observe.events import Emit, ignore
from tidegate.parquet.parquet_file import uuid7
from tidegate.runs.bind import bind
from tidegate.runs.engine import Engine
from tidegate.runs.file_source import FileSource
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.reconcile import ReconcileOptions, Reconciling

DAY = timedelta(hours=24)


def places_of(project: ProjectSpec, emit: Emit = ignore) -> tuple[FileSource, ...]:
    """Every source of the project, opened."""
    return tuple(
        bind(project, pipeline, source, 2, emit) for pipeline in project.pipelines for source in pipeline.sources
    )


def compare(project: ProjectSpec, emit: Emit = ignore) -> ReconcileReport:
    """Only look."""
    places = places_of(project, emit)
    return Reconciling(places, places, ReconcileOptions(), emit).all()


def ingest(project: ProjectSpec, lane: Engine | None = None, emit: Emit = ignore) -> ReconcileReport:
    """Read what is late."""
    places = places_of(project, emit)
    return Reconciling(places, places, ReconcileOptions(lane or InProcessEngine()), emit).all()


def clean(project: ProjectSpec, older_than: timedelta = DAY) -> ReconcileReport:
    """Remove orphans."""
    places = places_of(project)
    return Reconciling(places, places, ReconcileOptions(clean=True, older_than=older_than)).all()


def leave_behind(table: Path, name: str | None = None, *, age: timedelta = DAY * 2) -> Path:
    """A Parquet file that no commit names, as a dead task leaves it, that long ago."""
    path = table / (name or f"{uuid7()}.parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"PAR1 unfinished")
    moment = time.time() - age.total_seconds()
    os.utime(path, (moment, moment))
    return path
