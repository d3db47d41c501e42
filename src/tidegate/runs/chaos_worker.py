"""A worker process of an experiment: a few passes over the scratch source, with whatever failpoint it is to die at."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from tidegate import failpoints
from tidegate.runs.chaos_source import NOW, scratch_project
from tidegate.runs.lanes import InProcessLane
from tidegate.runs.running import Running
from tidegate.specs import Location, Options

TARGET = f"{__name__}:work"


def work(task: Mapping[str, Any]) -> int:
    """0 if every pass succeeded, else the code of what went wrong, which goes to standard error."""
    failpoints.arm(task["failpoints"])
    place = Location(task["uri"], Options(task["options"]))
    project = scratch_project(place, columns=task["columns"], checkpoint_every=task["checkpoint_every"])
    running = Running(project, InProcessLane(), 2, clock=lambda: NOW)
    for _ in range(task["passes"]):
        for source in running.once(project.pipelines).sources:
            if source.error or source.failed:
                print(source.error or source.failed, file=sys.stderr)
                return source.exit_code or 1
    return 0
