"""A whole run without Spark in a process of its own, so that it can be killed; forked by ``experiments.workers``,
or started by itself: ``python worker.py CONFIG``, which ends with 0 when everything was ingested.

The exit code says how it ended: 0 as if nothing had been, otherwise what the failpoint that acted did to it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from tidegate import failpoints, load
from tidegate.failpoints import InjectedFailure
from tidegate.protocol.position import Pace
from tidegate.runs.bound_source import utc_now
from tidegate.runs.engine import InProcessLane
from tidegate.runs.loop import Running, stops_on_signals

FINE, FAILED, SURVIVED, LOST, CRASHED, TOLD_TO_STOP = 0, 1, 40, 41, 42, 43


def work(task: Mapping[str, Any]) -> int:
    """One run of ``config``; ``failpoints`` as in the environment, ``ahead`` is how wrong the clock is, in seconds."""
    acted = _arm(task.get("failpoints", ""))
    stop = threading.Event()
    project = load(task["config"])
    clock = lambda: utc_now() + timedelta(seconds=task.get("ahead", 0))  # noqa: E731
    running = Running(project, InProcessLane(), 2, stop=stop, clock=clock, pace=Pace(now=clock))
    try:
        with stops_on_signals(stop):
            report = running.once(project.pipelines)
    except InjectedFailure:
        return CRASHED
    for source in report.sources:
        if source.error:
            print(source.error, file=sys.stderr)
            return LOST if acted and "lost on purpose" in source.error else FAILED
    if stop.is_set():
        return TOLD_TO_STOP
    return (SURVIVED if acted else FINE) if report.ok else FAILED


def _arm(text: str) -> list[str]:
    """Arm failpoints as the environment would; gives a list that tells which acted."""
    acted: list[str] = []
    failpoints.arm(text)
    rules = dict(failpoints._armed)

    def rule(place: str) -> str | None:
        action = rules[place](place) if place in rules else None
        if action is not None:
            acted.append(place)
        return action

    if rules:
        failpoints.arm_by(rule)
    return acted


if __name__ == "__main__":
    given = {"config": sys.argv[1], "failpoints": os.environ.get(failpoints.VARIABLE, "")}
    sys.exit(0 if work(given) in (FINE, SURVIVED) else 1)
