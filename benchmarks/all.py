"""Runs every benchmark: one process each, or with ``--quick`` all in this one, with one Spark session.

``python -m benchmarks.all [--quick]``.
"""

from __future__ import annotations

import subprocess
import sys
import time
from importlib import import_module

NAMES = (
    "throughput",
    "idle_poll",
    "memory",
    "decode",
    "writer",
    "formats",
    "staging",
    "delivery",
    "jdbc",
    "merge",
    "delta_increment",
    "unit_planning",
    "units",
    "commands",
    "durability",
)
QUICK = ("throughput", "idle_poll", "memory", "decode")


def main() -> int:
    """Zero when every benchmark ran through."""
    codes = []
    for name in QUICK if "--quick" in sys.argv else NAMES:
        print(f"\n=== {name}", flush=True)
        started = time.monotonic()
        if "--quick" in sys.argv:
            import_module(f"benchmarks.{name}").main()
        else:
            codes.append(subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode)
        print(f"({name} took {time.monotonic() - started:.0f} s)", flush=True)
    return max(codes, default=0)


if __name__ == "__main__":
    sys.exit(main())
