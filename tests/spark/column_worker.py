"""A whole run on Spark in a process of its own: ``python column_worker.py CONFIG``."""

from __future__ import annotations

import sys

from tidegate import run

if __name__ == "__main__":
    report = run(sys.argv[1])
    for source in report.sources:
        if source.error:
            print(source.error, file=sys.stderr)
    sys.exit(0 if report.ok else 1)
