"""Small made-up NDJSON files in hourly partitions, the same every time: for the demo, examples and benchmarks."""

from __future__ import annotations

import gzip
import json
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

EVENTS = ("view", "search", "basket", "purchase", "return")
COUNTRIES = ("JP", "SG", "IN", "VN", "KR")
NAMES = ("Aiko", "Bao", "Chitra", "Dewi", "Eun")
TAGS = ("mobile", "desktop", "campaign", "repeat", "gift")


@dataclass(frozen=True, slots=True)
class Arrival:
    """A file that arrived: where, and how many records it holds."""

    path: Path
    records: int


def record(number: int, moment: datetime, chance: random.Random) -> dict[str, object]:
    """One event with nested fields."""
    return {
        "id": number,
        "ts": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "event": chance.choice(EVENTS),
        "price": round(chance.random() * 500, 2),
        "user": {"name": chance.choice(NAMES), "country": chance.choice(COUNTRIES)},
        "tags": chance.sample(TAGS, chance.randrange(3)),
    }


def write_file(root: Path, moment: datetime, first_id: int, records: int, *, seed: int = 7) -> Arrival:
    """One gzip file in ``date=…/hour=…`` of ``moment``, named by its Unix second so that names sort in time."""
    chance = random.Random(f"{seed}-{first_id}")
    folder = root / moment.strftime("date=%Y-%m-%d/hour=%H")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{int(moment.timestamp())}-{first_id:08d}.ndjson.gz"
    step = timedelta(seconds=60 / max(records, 1))
    lines = (
        json.dumps(record(first_id + index, moment + index * step, chance), separators=(",", ":")) + "\n"
        for index in range(records)
    )
    part = path.with_name(f".{path.name}.part")
    with gzip.GzipFile(part, "wb", compresslevel=3, mtime=0) as out:
        out.write("".join(lines).encode())
    part.rename(path)
    return Arrival(path, records)


def write_hours(
    root: Path, start: datetime, hours: int, files_per_hour: int, records: int, *, first_id: int = 0
) -> tuple[Arrival, ...]:
    """``files_per_hour`` files in each of ``hours`` partitions from ``start`` on, ids counted up from ``first_id``."""
    arrivals = []
    for hour in range(hours):
        for number in range(files_per_hour):
            moment = start + timedelta(hours=hour, minutes=60 * number / files_per_hour)
            arrivals.append(write_file(root, moment.astimezone(UTC), first_id, records))
            first_id += records
    return tuple(arrivals)
