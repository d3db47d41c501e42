"""A continuous run compares everything now and then: told as events, and late files are read where that is wanted."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from support.errors import raises
from support.lake import Lake
from tidegate import ConfigError
from tidegate.observe.events import Event, Notice, SourceReconciled
from tidegate.observe.logs import sentence
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
from tidegate.specs.project import ReconcileSpec

DAY = "date=2026-01-28"
OFTEN = timedelta(microseconds=1)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Two files that were read, and one below them that came late."""
    lake = Lake(tmp_path, source_settings={"late_files": "strict"})
    lake.arrive(f"{DAY}/2.ndjson")
    lake.arrive(f"{DAY}/3.ndjson")
    assert lake.run().ok
    lake.arrive(f"{DAY}/1.ndjson")
    return lake


def continuously(lake: Lake, spec: ReconcileSpec, comparisons: int) -> list[Event]:
    """Run until so many comparisons were told."""
    stop = threading.Event()
    seen: list[Event] = []

    def emit(event: Event) -> None:
        seen.append(event)
        if sum(isinstance(each, SourceReconciled) for each in seen) == comparisons:
            stop.set()

    project = replace(lake.project, reconcile=spec, poll_jitter_secs=0)
    pipelines = [
        replace(each, sources=tuple(replace(one, poll_interval_secs=0) for one in each.sources))
        for each in project.pipelines
    ]
    Loop(project, InProcessEngine(), 2, emit, stop).continuously(pipelines)
    return seen


def test_what_it_finds_is_told_and_nothing_is_changed(lake: Lake) -> None:
    before = lake.ids()
    seen = continuously(lake, ReconcileSpec(OFTEN), 2)
    found = [each for each in seen if isinstance(each, SourceReconciled)]
    assert [(each.listed, each.late, each.ingested_files) for each in found] == [(3, 1, 0)] * 2
    assert sentence(found[0]) == "compared 3 files with what was committed: 1 late"
    assert any(isinstance(each, Notice) and "`tidegate reconcile --ingest` reads them" in each.text for each in seen)
    assert lake.ids() == before


def test_late_files_are_read_once_where_that_is_wanted(lake: Lake) -> None:
    seen = continuously(lake, ReconcileSpec(OFTEN, ingest=True), 3)
    found = [each for each in seen if isinstance(each, SourceReconciled)]
    assert [(each.late, each.ingested_files) for each in found] == [(0, 1), (0, 0), (0, 0)]
    lake.assert_exactly_once()


def test_it_is_daily_unless_told_otherwise_and_may_be_switched_off(lake: Lake) -> None:
    assert lake.project.reconcile == ReconcileSpec(timedelta(days=1), ingest=False)
    lake.settings = {"reconcile": {"every": "none", "ingest": True}}
    assert lake.project.reconcile == ReconcileSpec(None, ingest=True)
    lake.settings = {"reconcile": {"every": "PT6H"}}
    assert lake.project.reconcile.every == timedelta(hours=6)
    lake.settings = {"reconcile": {"every": "48 periods"}}
    with raises(ConfigError, "reconcile.every", "'48 periods'", "'P1D'"):
        _ = lake.project
