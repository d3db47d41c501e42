"""Replaying files of a lake in this process."""

from __future__ import annotations

from collections.abc import Callable

from support.lake import Lake
from tidegate import ReplayReport
from tidegate.commands.replay import FileReplay, other_locations, other_sources
from tidegate.core.files.edit import Selection
from tidegate.protocol.position import utc_now
from tidegate.runs.bind import bind
from tidegate.runs.engine import Engine
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.tracker import Clock


def replay(
    lake: Lake,
    files: str | None = None,
    *,
    partition: str | None = None,
    drop_missing: bool = False,
    widen: bool = False,
    confirm: Callable[[ReplayReport], bool] = lambda report: True,
    lane: Engine | None = None,
    clock: Clock = utc_now,
) -> ReplayReport:
    """What ``tidegate.replay`` does, without Spark."""
    project = lake.project
    pipeline = project.pipelines[0]
    place = bind(project, pipeline, pipeline.sources[0], 2)
    made = FileReplay(
        place,
        lane or InProcessEngine(),
        Selection(files, partition),
        drop_missing=drop_missing,
        widen=widen,
        others=other_locations(project, place),
        beside=other_sources(project, place),
        clock=clock,
    )
    return made.run(confirm)
