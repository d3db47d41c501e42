"""Runs in which certain files end the Python worker that reads them: ``python ended_workers.py FOLDER``.

FOLDER holds a folder per scenario with its configuration; which files are deadly, and how, the failpoints of the
environment say. Prints what each run reported, as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import tidegate
from tidegate.spark.session import open_session
from tidegate.specs.project import SparkSpec

RUNS = {"watermark": 2, "set": 1, "staged": 1, "transform": 1}


def ran(config: Path) -> dict[str, Any]:
    """One run; what it told, and which files it says have failed."""
    report = tidegate.run(config)
    (source,) = report.sources
    failed = {each.path: [each.attempts, each.reason] for each in source.failed}
    return {"ok": report.ok, "rows": source.rows, "error": source.error, "dead": source.dead_files, "failed": failed}


def main(folder: Path) -> None:
    session = open_session(SparkSpec(master="local[2]"), delta=True)
    told: dict[str, list[dict[str, Any]]] = {}
    try:
        for name, runs in RUNS.items():
            config = folder / name / "tidegate.yml"
            told[name] = []
            for _ in range(runs):
                told[name].append(ran(config))
                if name == "staged":
                    tidegate.commit(config)
        print(json.dumps(told))
    finally:
        session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
