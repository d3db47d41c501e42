"""The data the benchmarks read: nested NDJSON of seven fields with a struct and a list, made once and kept."""

from __future__ import annotations

import gzip
import multiprocessing
import random
from collections.abc import Iterator
from pathlib import Path

FIELDS = [
    {"name": "id", "type": "int64"},
    {"name": "ts", "type": "timestamp"},
    {"name": "event", "type": "string"},
    {"name": "price", "type": "float64"},
    {
        "name": "user",
        "type": "struct",
        "fields": [{"name": "name", "type": "string"}, {"name": "age", "type": "int32"}],
    },
    {"name": "tags", "type": "list", "items": "string"},
    {"name": "ok", "type": "boolean"},
]
SPARK_SCHEMA = (
    "id bigint, ts timestamp, event string, price double, user struct<name: string, age: int>, "
    "tags array<string>, ok boolean"
)
DUCKDB_COLUMNS = (
    "{id: 'BIGINT', ts: 'TIMESTAMPTZ', event: 'VARCHAR', price: 'DOUBLE', "
    "user: 'STRUCT(name VARCHAR, age INTEGER)', tags: 'VARCHAR[]', ok: 'BOOLEAN'}"
)
_EVENTS = ("view", "search", "basket", "purchase", "return")
_TAGS = ('"mobile"', '"desktop"', '"campaign"', '"repeat"', '"gift"')


def _line(number: int, chance: random.Random) -> str:
    second = 1_760_000_000 + number // 50
    minute, hour, day = second // 60 % 60, second // 3600 % 24, second // 86400 % 28 + 1
    tags = ",".join(chance.choices(_TAGS, k=number % 4))
    return (
        f'{{"id":{number},"ts":"2025-10-{day:02d}T{hour:02d}:{minute:02d}:{second % 60:02d}.{number % 1000:03d}Z",'
        f'"event":"{chance.choice(_EVENTS)}","price":{chance.randrange(100000) / 100},'
        f'"user":{{"name":"user-{chance.randrange(200000)}","age":{chance.randrange(90)}}},'
        f'"tags":[{tags}],"ok":{"true" if number % 3 else "false"}}}\n'
    )


def pieces(records: int, size: int = 10_000) -> Iterator[bytes]:
    """The lines of one file, some thousand at a time."""
    chance = random.Random(0)
    for first in range(0, records, size):
        yield "".join(_line(number, chance) for number in range(first, min(first + size, records))).encode()


def _write(job: tuple[Path, int, int]) -> int:
    path, first, records = job
    chance = random.Random(first)
    text = "".join(_line(first + index, chance) for index in range(records)).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text, compresslevel=6, mtime=0))
    return len(text)


def dataset(folder: Path, files: int, records: int) -> tuple[Path, int]:
    """A folder of ``files`` gzip files of ``records`` records each, and its raw bytes; reused when it is there."""
    root = folder / f"events-{files}x{records}"
    done = root / "_complete"
    if not done.exists():
        jobs = [
            (
                root / f"date=2025-10-{number % 4 + 1:02d}" / f"{1760000000 + number}-{number:06d}.ndjson.gz",
                number * records,
                records,
            )
            for number in range(files)
        ]
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            raw = sum(pool.imap_unordered(_write, jobs, chunksize=max(1, files // 64)))
        done.write_text(str(raw))
    return root, int(done.read_text())
