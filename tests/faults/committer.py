"""A committer in a process of its own, so that it can be killed; forked by ``experiments.workers``, or started by
itself: ``python committer.py CONFIG FOLDER`` commits again and again until there is a file ``enough`` in FOLDER.

The exit code is that of ``faults.worker``.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from faults.worker import CRASHED, FAILED, FINE, LOST, SURVIVED, _arm
from tidegate import load
from tidegate.commands.commit import Committing
from tidegate.failpoints import InjectedFailure
from tidegate.reports.commit import CommitReport


def work(task: Mapping[str, Any]) -> int:
    """Commit once what waits below the tables of ``config``; ``failpoints`` as in the environment."""
    acted = _arm(task.get("failpoints", ""))
    project = load(task["config"])
    try:
        report = Committing(project).once(project.pipelines)
    except InjectedFailure:
        return CRASHED
    if problems := errors(report):
        print(problems, file=sys.stderr)
        return LOST if acted and "lost on purpose" in str(problems) else FAILED
    return SURVIVED if acted else FINE


def errors(report: CommitReport) -> list[str]:
    """What stopped a table or a source; what was rejected stops nothing."""
    tables = [table.error for table in report.tables]
    return [each for each in (*tables, *(one.error for table in report.tables for one in table.sources)) if each]


def main() -> int:
    project, folder = load(sys.argv[1]), Path(sys.argv[2])
    (folder / f"ready-{os.getpid()}").touch()
    while not (folder / "go").exists():
        time.sleep(0.005)
    committing, failed = Committing(project), 0
    while True:
        last = (folder / "enough").exists()
        if problems := errors(committing.once(project.pipelines)):
            print(problems, file=sys.stderr)
            failed += 1
        if last:
            return 1 if failed else 0
        time.sleep(0.01)


if __name__ == "__main__":
    sys.exit(main())
