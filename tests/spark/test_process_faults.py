"""Processes with Spark in them, killed or told to stop: whole trees through the command line, as users run it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate
from support import attached
from support.lake import Lake, assert_same
from support.long_runs import chosen
from support.scripts import Process
from tidegate.experiments.workers import kill_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TIDEGATE = [sys.executable, "-m", "tidegate"]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path, source_settings={"poll_interval_secs": 1}, settings={"spark": {"master": "local[2]"}})
    for number in range(6):
        lake.arrive(f"date=2026-01-28/hour=12/{number}.ndjson.gz")
    return lake


def test_a_kill_between_write_and_commit_neither_loses_nor_doubles(lake: Lake, spark: SparkSession) -> None:
    process = attached.start_run(spark, lake.config, "runs.commit.before=kill")
    assert process.wait() == -signal.SIGKILL, process.output
    assert list((lake.root / "lake/events").glob("*.parquet")), "rows were to be written before the kill"
    assert lake.ids() == []
    assert tidegate.run(lake.config).ok
    lake.assert_exactly_once()


@pytest.mark.parametrize("tasks", [1, 2])
def test_a_kill_repeats_at_most_the_limit_and_what_was_under_way(
    tmp_path: Path, spark: SparkSession, tasks: int
) -> None:
    """A commit is due after ten files. The third takes long, tasks go on meanwhile, then the driver dies.

    For each task one limit is in that commit, one is finished and waits, and one group is being read.
    """
    limits = {"interval_files": 10, "interval_secs": 10_000}
    spare = {"commit_batch_files": 10_000}, {"spark": {"master": "local[2]"}}, {"max_concurrent_files": tasks}
    lake = Lake(tmp_path, {"checkpoint": limits}, *spare)
    for number in range(200):
        lake.arrive(f"date=2026-01-28/{1769600000 + number}.ndjson", records=2)
    process = attached.start_run(spark, lake.config, "runs.commit.before=sleep:600@3")
    try:
        wait_until(lambda: files_read(lake) > len(lake.ids()) // 2 > 0, process=process)
        until_nothing_happens(lambda: files_read(lake), process)
        read, committed = files_read(lake), len(lake.ids()) // 2
    finally:
        process.kill()
    assert process.wait() == -signal.SIGKILL
    assert committed == len(lake.ids()) // 2
    assert 10 <= read - committed <= 3 * 10 * tasks
    again = tidegate.run(lake.config)
    assert again.ok
    assert sum(source.files for source in again.sources) == 200 - committed
    lake.assert_exactly_once()


def files_read(lake: Lake) -> int:
    """How many source files of two records are in whole Parquet files, committed or not."""
    rows = 0
    for path in (lake.root / "lake/events").glob("*.parquet"):
        with contextlib.suppress(pa.ArrowInvalid):  # it is just being written
            rows += pq.read_metadata(path).num_rows
    return rows // 2


def until_nothing_happens(count: Callable[[], int], process: Process, seconds: float = 3) -> None:
    """Wait until the count has stayed the same for so long."""
    before, since = count(), time.monotonic()
    while time.monotonic() - since < seconds:
        assert process.poll() is None, process.output
        if (now := count()) != before:
            before, since = now, time.monotonic()
        time.sleep(0.2)


def test_sigterm_ends_a_continuous_run_cleanly(lake: Lake, spark: SparkSession) -> None:
    run = subprocess.Popen([*TIDEGATE, "run", str(lake.config), "--continuous"], stderr=subprocess.PIPE)
    try:
        wait_until(lambda: len(lake.ids()) == 60)
        lake.arrive("date=2026-01-28/hour=12/7.ndjson.gz")
        run.send_signal(signal.SIGTERM)
        _, told = run.communicate(timeout=30)
    finally:
        run.kill()
    assert run.returncode == 0, told
    assert b"Traceback" not in told
    assert tidegate.run(lake.config).ok
    lake.assert_exactly_once()


def test_whole_trees_killed_at_any_moment_lose_and_double_nothing_for_a_spark_stream(
    lake: Lake, spark: SparkSession, tmp_path: Path
) -> None:
    """Driver, Java and Python workers die at once: right after a commit; with ``TIDEGATE_LONG=1`` before one, too."""
    run = [*TIDEGATE, "run", str(lake.config)]
    moments: tuple[tuple[str, Callable[[], object]], ...] = (
        ("runs.read=stop", lambda: list((lake.root / "lake/events").glob("*.parquet"))),
        ("runs.commit.after=stop", lake.ids),
    )
    for failpoint, reached in chosen(moments, moments[1]):
        lake.arrive(f"date=2026-01-28/hour=13/{len(lake.expected)}.ndjson.gz")
        tree = subprocess.Popen(run, env={**os.environ, "TIDEGATE_FAILPOINTS": failpoint}, start_new_session=True)
        try:
            wait_until(reached)
        finally:
            kill_session(tree.pid)
        assert tree.wait(timeout=30) == -signal.SIGKILL
    stream = follow(spark, lake, tmp_path)
    assert_same(stream(), lake.ids())
    lake.arrive("date=2026-01-28/hour=12/0a.ndjson.gz")
    assert tidegate.run(lake.config).ok
    lake.assert_exactly_once()
    assert_same(stream(), lake.expected)


def follow(spark: SparkSession, lake: Lake, folder: Path) -> Callable[[], list[int]]:
    """A structured stream over the table with a checkpoint: each call goes on and gives all ids so far."""
    seen = str(folder / "seen")

    def ids() -> list[int]:
        rows = spark.readStream.format("delta").load(lake.table.uri).select("id")
        writer = rows.writeStream.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
        writer.format("parquet").start(seen).awaitTermination()
        return [row["id"] for row in spark.read.parquet(seen).collect()]

    return ids


def wait_until(holds: object, seconds: float = 90, process: Process | None = None) -> None:
    assert callable(holds)
    deadline = time.monotonic() + seconds
    while not holds():
        assert process is None or process.poll() is None, process.output
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.5)
