"""How long commands take that only look: from the start of the process to its end.

``python -m benchmarks.commands``: the median of several runs of each on a project that has data and a table. Modules
are compiled by a first run, as they are where a package is installed.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import report

RUNS = 7
COMMANDS = (
    ("--help",),
    ("status", "t.yml"),
    ("plan", "t.yml"),
    ("watermark", "show", "t.yml", "-p", "events"),
    ("config", "show", "t.yml"),
)


def project(folder: Path) -> None:
    """A configuration of one source with two files."""
    for name in ("1.ndjson", "2.ndjson"):
        file = folder / "data" / "date=2026-01-28" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text('{"id": 1}\n')
    source = {"source_uri": "data/", "use_watermark": True}
    pipeline = {"source": source, "schema": {"infer": True}, "sink": {"table_uri": "lake/t"}}
    (folder / "t.yml").write_text(json.dumps({"pipelines": {"events": pipeline}}))


def seconds(arguments: tuple[str, ...], folder: Path) -> tuple[float, float]:
    """Seconds on the wall and of the processor."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "tidegate", *arguments],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        | {"PYTHONPYCACHEPREFIX": str(folder / "compiled")},
    )
    _, status, used = os.wait4(process.pid, 0)
    elapsed = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, arguments
    return elapsed, used.ru_utime + used.ru_stime


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(prefix="tidegate-commands-") as place:
        project(Path(place))
        rows, stored = [], {}
        for arguments in COMMANDS:
            taken = [seconds(arguments, Path(place)) for _ in range(RUNS + 1)][1:]
            wall, processor = (statistics.median(column) for column in zip(*taken, strict=True))
            rows.append((" ".join(arguments), f"{wall:.2f}", f"{processor:.2f}"))
            stored[" ".join(arguments)] = {"wall": wall, "processor": processor}
    report.table("commands that look", ("command", "seconds", "of them processor"), rows)
    report.store("commands", {"seconds": stored})


if __name__ == "__main__":
    main()
