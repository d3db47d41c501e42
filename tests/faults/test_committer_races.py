"""Several writers and several committers at once, in real processes: every record is in the table once."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from faults.racing import polling
from support.lake import Lake
from support.staging import commit, pending, rejected
from support.streaming import streaming
from tidegate import files, status

TESTS = Path(__file__).parents[1]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path, pipeline_settings={"delivery": "staged"})


def test_writers_of_one_source_and_committers_of_its_table_race(lake: Lake, tmp_path: Path) -> None:
    with streaming(lake) as stream:
        config = lake.config
        with polling(tmp_path / "signals", config, config, committers=2):
            for hour in range(8):
                for number in range(3):
                    lake.arrive(f"date=2026-01-28/hour={hour:02d}/{number}.ndjson", 5)
                time.sleep(0.25)
        assert lake.run().ok
        commit(lake)
        stream.assert_exactly_once()
    assert rejected(lake) == []
    assert [path.name for path in pending(lake).rglob("*.unit.json")] == []
    (now,) = status(lake.config)
    assert (now.backlog_files, now.in_progress) == (0, 0)
    report = files(lake.config, "events", limit=0)
    assert (report.gaps, report.totals.files, report.totals.rows) == ((), 24, 120)


def test_a_continuous_committer_without_spark_ends_cleanly_when_it_is_told_to(lake: Lake) -> None:
    lake.arrive("0.ndjson")
    assert lake.run().ok
    program = (
        "import sys, tidegate; report = tidegate.commit(sys.argv[1], mode='continuous'); "
        "print(report.ok, 'pyspark' in sys.modules)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(lake.config)], stdout=subprocess.PIPE, text=True, cwd=TESTS
    )
    try:
        while any(pending(lake).rglob("*.unit.json")):
            assert process.poll() is None
            time.sleep(0.02)
        process.terminate()
        said, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, said.strip()) == (0, "True False")
    lake.assert_exactly_once()
