"""A process that polls again and again without Spark: ``python poller.py CONFIG FOLDER``.

It says ``ready`` by a file in FOLDER, begins when there is a file ``go``, and ends with one last pass once there is a
file ``enough``. The exit code is 0 if every pass ingested all there was.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from tidegate import load
from tidegate.runs.engine import InProcessLane
from tidegate.runs.loop import Running


def main() -> int:
    import deltalake  # noqa: F401  # loaded before the race begins

    project, folder = load(sys.argv[1]), Path(sys.argv[2])
    (folder / f"ready-{os.getpid()}").touch()
    while not (folder / "go").exists():
        time.sleep(0.005)
    running, failed = Running(project, InProcessLane(), 2), 0
    while True:
        last = (folder / "enough").exists()
        report = running.once(project.pipelines)
        for source in report.sources:
            if source.error:
                print(source.error, file=sys.stderr)
        failed += not report.ok
        if last:
            return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
