"""A whole run over work units without Spark in a process of its own: ``python unit_worker.py CONFIG NOW``."""

from __future__ import annotations

import sys

from support.unit_lake import InProcessUnitLane, day
from tidegate import load
from tidegate.runs.loop import Running

if __name__ == "__main__":
    project, now = load(sys.argv[1]), day(sys.argv[2])
    report = Running(project, InProcessUnitLane(), 1, clock=lambda: now).once(project.pipelines)
    for source in report.sources:
        if source.error:
            print(source.error, file=sys.stderr)
    sys.exit(0 if report.ok else 1)
