"""Runs every benchmark, one process each. ``python -m benchmarks.all [--quick]``."""

from __future__ import annotations

import subprocess
import sys

NAMES = ("throughput", "idle_poll", "memory", "decode")


def main() -> int:
    """Zero when every benchmark ran through."""
    codes = []
    for name in NAMES:
        print(f"\n=== {name}", flush=True)
        codes.append(
            subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *sys.argv[1:]], check=False).returncode
        )
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
