"""A whole run without Spark in a process of its own, so that it can be killed: ``python worker.py CONFIG``."""

from __future__ import annotations

import sys

from tidegate import load
from tidegate.runs.lanes import InProcessLane
from tidegate.runs.running import Running


def main() -> int:
    """0 when everything was ingested."""
    project = load(sys.argv[1])
    report = Running(project, InProcessLane(), 2).once(project.pipelines)
    for source in report.sources:
        if source.error:
            print(source.error, file=sys.stderr)
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
