"""A replay of 0 to 40 in chunks of 10 without Spark, in a process of its own: ``… FOLDER [save] [parallel]``."""

from __future__ import annotations

import sys
from pathlib import Path

from support.column_lake import ColumnLake

if __name__ == "__main__":
    workers = 2 if "parallel" in sys.argv else 1
    report = ColumnLake(Path(sys.argv[1])).replay(
        0, 40, 10, save="save" in sys.argv, max_workers=workers, allow_overlap=True
    )
    for chunk in report.chunks:
        if chunk.error:
            print(chunk.error, file=sys.stderr)
    sys.exit(0 if report.ok else 1)
