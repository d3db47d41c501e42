"""Sources whose commits are counted: one limit at a time decides when a commit is due."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random

import pytest

from support.lake import Lake
from tidegate.observe.events import Committed

MANY = 10_000
SPARK = {"spark": {"master": "local[2]"}}


def many_small_files(root: Path, files: int, **checkpoint: int) -> Lake:
    """So many files of two records; one task at a time reads them, Parquet files do not count."""
    limits = {"interval_files": MANY, "interval_secs": MANY, **checkpoint}
    lake = Lake(root, {"checkpoint": limits}, {"commit_batch_files": MANY}, SPARK, {"max_concurrent_files": 1})
    for number in range(files):
        lake.arrive(f"date=2026-01-28/{1769600000 + number}.ndjson", records=2)
    return lake


def one_large_file(root: Path, commit_batch_files: int, records: int = 54_000) -> Lake:
    """One file that becomes many Parquet files; only these count."""
    sink = {"file_size_mb": 1, "row_group_size_bytes": 256 * 1024, "commit_batch_files": commit_batch_files}
    limits = {"interval_files": MANY, "interval_secs": MANY}
    lake = Lake(root, {"checkpoint": limits}, sink, SPARK, {"max_concurrent_files": 1})
    chance = Random(0)
    lines = "".join(f'{{"id":{number},"event":"{chance.randbytes(250).hex()}"}}\n' for number in range(records))
    lake.write("date=2026-01-28/1.ndjson", lines)
    lake.expected = list(range(records))
    return lake


def committed(lake: Lake) -> list[Committed]:
    """The commits that a run told of."""
    return [event for event in lake.seen if isinstance(event, Committed)]


def hours_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks whether a commit is due finds that an hour has passed since it last asked."""
    hours: Iterator[int] = count(0, 3600)
    monkeypatch.setattr("tidegate.runs.file_walk.monotonic", lambda: float(next(hours)))


def assert_ten_and_ten_and_the_rest(lake: Lake) -> None:
    """Twice a commit as soon as ten Parquet files were full, as seen at the end of a block, and one at the end."""
    first, second, rest = (event.data_files for event in committed(lake))
    assert (10 <= first < 15, 10 <= second < 15, 0 < rest < 10) == (True, True, True)
    lake.assert_exactly_once()
