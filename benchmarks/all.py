"""Runs every benchmark: one process each, or with ``--quick`` all in this one, with one Spark session.

``python -m benchmarks.all [--quick]``. What was measured is gathered in one file: of a full run in
``benchmarks/history``, which is kept, of a quick one in ``benchmarks/results/quick``. ``python -m benchmarks.compare``
tells two of them apart.
"""

from __future__ import annotations

import subprocess
import sys
import time
from importlib import import_module

from benchmarks import report

NAMES = (
    "throughput",
    "idle_poll",
    "memory",
    "decode",
    "shapes",
    "writer",
    "formats",
    "staging",
    "delivery",
    "jdbc",
    "merge",
    "read_again",
    "delta_increment",
    "unit_planning",
    "units",
    "commands",
    "durability",
    "latency",
    "many_sources",
)
QUICK = ("throughput", "idle_poll", "memory", "decode", "shapes")


def main() -> int:
    """Zero when every benchmark ran through."""
    codes = []
    began = time.time()
    for name in QUICK if "--quick" in sys.argv else NAMES:
        print(f"\n=== {name}", flush=True)
        started = time.monotonic()
        if "--quick" in sys.argv:
            import_module(f"benchmarks.{name}").main()
        else:
            codes.append(subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode)
        print(f"({name} took {time.monotonic() - started:.0f} s)", flush=True)
    gathered = report.gather(report.RESULTS / "quick" if "--quick" in sys.argv else report.HISTORY, since=began)
    print(f"\nall numbers: {gathered}")
    return max(codes, default=0)


if __name__ == "__main__":
    sys.exit(main())
