"""Writes the files that the examples read, below ``data/`` beside this script, dated around now."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tidegate.runs.demo_data import write_hours


def main(folder: Path) -> None:
    """Three hours of files per region, two of clicks, and a few days of raw events."""
    this_hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    for number, region in enumerate(("asia", "europe")):
        write_hours(folder / "data" / region, this_hour - timedelta(hours=2), 3, 4, 250, first_id=number * 100_000)
    write_hours(folder / "data" / "clicks", this_hour - timedelta(hours=1), 2, 4, 250, first_id=800_000)
    write_hours(folder / "data" / "raw", this_hour - timedelta(days=2), 3, 4, 250, first_id=500_000)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
