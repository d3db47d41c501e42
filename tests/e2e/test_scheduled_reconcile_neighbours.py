"""A continuous run outlives a scheduled comparison that cannot be made."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from support.lake import Lake
from tidegate.observe.events import Event, Notice, SourceFinished
from tidegate.runs.engine import InProcessLane
from tidegate.runs.loop import Running
from tidegate.specs.locations import Location
from tidegate.specs.project import ReconcileSpec


def test_a_neighbour_that_cannot_be_opened_does_not_end_the_run(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.arrive("date=2026-01-28/0.ndjson")
    (events,) = lake.project.pipelines
    elsewhere = replace(events.sink, table=Location(f"file://{tmp_path}/lake/100%25"))
    project = replace(
        lake.project,
        pipelines=(events, replace(events, name="other", sink=elsewhere)),
        reconcile=ReconcileSpec(timedelta(microseconds=1)),
        poll_jitter_secs=0,
    )
    stop = threading.Event()
    seen: list[Event] = []

    def emit(event: Event) -> None:
        seen.append(event)
        if isinstance(event, SourceFinished):
            stop.set()

    Running(project, InProcessLane(), 2, emit, stop).continuously([events])
    lake.assert_exactly_once()
    told = [each.text for each in seen if isinstance(each, Notice)]
    assert any("comparison could not be made" in text and "percent sign" in text for text in told)
