"""A whole run over a column source without Spark in a process of its own: ``python column_worker.py CONFIG``."""

from __future__ import annotations

import sys

from support.column_lake import InProcessColumnLane
from tidegate import load
from tidegate.runs.loop import Running

if __name__ == "__main__":
    project = load(sys.argv[1])
    report = Running(project, InProcessColumnLane(), 1).once(project.pipelines)
    for source in report.sources:
        if source.error:
            print(source.error, file=sys.stderr)
    sys.exit(0 if report.ok else 1)
