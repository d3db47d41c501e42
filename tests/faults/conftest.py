"""Workers that are forked in milliseconds, and a lake for them to work on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.lake import Lake
from tidegate.experiments.workers import Workers

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def workers() -> Iterator[Workers]:
    """Processes that do ``faults.worker.work``."""
    with Workers("faults.worker:work", str(TESTS)) as workers:
        yield workers


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Six files in two folders, none of them ingested."""
    lake = Lake(tmp_path, sink_settings={"delta_checkpoint_interval": 1})
    for hour in (11, 12):
        for number in range(3):
            lake.arrive(f"date=2026-01-28/hour={hour}/{number}.ndjson.gz")
    return lake
