"""Writes the files that the examples read, below ``data/`` beside this script, dated around now."""

from __future__ import annotations

import csv
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.commands.demo import write_hours


def main(folder: Path) -> None:
    """Three hours of files per region, two of clicks, and a few days of raw events."""
    this_hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    for number, region in enumerate(("asia", "europe")):
        write_hours(folder / "data" / region, this_hour - timedelta(hours=2), 3, 4, 250, first_id=number * 100_000)
    write_hours(folder / "data" / "clicks", this_hour - timedelta(hours=1), 2, 4, 250, first_id=800_000)
    write_hours(folder / "data" / "raw", this_hour - timedelta(days=2), 3, 4, 250, first_id=500_000)
    write_orders(folder / "data", this_hour)


def write_orders(folder: Path, day: datetime) -> None:
    """One CSV export and one Parquet file of orders."""
    name = f"date={day:%Y-%m-%d}/{int(day.timestamp())}"
    export, archive = folder / "exports" / f"{name}.csv", folder / "archive" / f"{name}.parquet"
    for path in (export, archive):
        path.parent.mkdir(parents=True, exist_ok=True)
    with export.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["id", "at", "price", "note"], delimiter=";")
        writer.writeheader()
        writer.writerows({**order, "price": f"{order['price']:.2f}"} for order in orders(day, 0, 300))
    pq.write_table(pa.Table.from_pylist(orders(day, 300, 200)), archive)


def orders(day: datetime, first: int, count: int) -> list[dict[str, Any]]:
    """Orders with a whole price and, here and there, a note of two lines."""
    return [
        {
            "id": number,
            "at": day + timedelta(seconds=number),
            "price": number % 90 + 10,
            "note": 'leave at "the back";\nring twice' if number % 10 == 0 else None,
        }
        for number in range(first, first + count)
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
