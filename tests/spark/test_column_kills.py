"""Load strategies on Spark under SIGKILL and races, and with commits of others in between.

Every process has a Java machine of its own, so a few kills are tried each time; ``TIDEGATE_LONG=1`` tries every
strategy at every step.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from faults.racing import ENVIRONMENT
from support.column_lake import SCHEMA, ColumnLake
from support.column_loads import LOADS, go, lake_of, row, table
from tidegate import failpoints
from tidegate.protocol.identity import SourceKey
from tidegate.protocol.log import DeltaLog
from tidegate.specs.locations import Location
from tidegate.storage.options import absolute
from tidegate.storage.stores import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

WORKER = Path(__file__).with_name("column_worker.py")
LONG = bool(os.environ.get("TIDEGATE_LONG"))
PLACES = ("runs.read", "state.commit.before", "state.commit.after")
LONG_PLACES = ("runs.planned", "state.document.after", *PLACES, "state.won.before", "runs.commit.after")
CASES = [("merge_upsert", "state.commit.after")]
MORE = [(load, place) for load in LOADS for place in LONG_PLACES if (load, place) not in CASES]


@contextlib.contextmanager
def started(lake: ColumnLake, failpoint: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """One run in a process of its own, which does not outlive the block."""
    environment = {**ENVIRONMENT, "TIDEGATE_FAILPOINTS": failpoint}
    process = subprocess.Popen([sys.executable, str(WORKER), str(lake.config)], env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_until_stopped(process: subprocess.Popen[bytes]) -> None:
    """Until it has sent itself to sleep; fails if it ends before."""
    while process.poll() is None:
        if Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T":
            return
        time.sleep(0.1)
    raise AssertionError(f"the process ended with {process.returncode}")


def positions(lake: ColumnLake) -> list[int]:
    """The positions of the source in the table's log, in order."""
    log = DeltaLog(open_store(Location(absolute("lake/orders", lake.root))))
    marks = (entry.tag_of(SourceKey("orders", "default")) for entry in log.tail(0))
    return [mark.version for mark in marks if mark is not None]


def survives(folder: Path, load: str, place: str) -> None:
    """A kill at ``place`` after a table was made, and what comes after it."""
    lake = lake_of(folder, load)
    lake.arrive(row(1, 0), row(2, 1))
    go(lake)
    lake.arrive(row(3, 2))
    with started(lake, f"{place}=kill") as process:
        assert process.wait(timeout=300) == -signal.SIGKILL, f"the failpoint {place} was not reached"
    lake.arrive(row(4, 3))
    go(lake)
    assert table(lake) == [(number, "new") for number in (1, 2, 3, 4)]
    assert positions(lake) == list(range(1, len(positions(lake)) + 1))


@pytest.mark.slow
@pytest.mark.parametrize(("load", "place"), CASES)
def test_a_kill_loses_and_doubles_nothing(spark: SparkSession, tmp_path: Path, load: str, place: str) -> None:
    survives(tmp_path, load, place)


@pytest.mark.slow
@pytest.mark.skipif(not LONG, reason="TIDEGATE_LONG=1 runs the whole matrix")
@pytest.mark.parametrize(("load", "place"), MORE)
def test_a_kill_of_any_strategy_loses_and_doubles_nothing(
    spark: SparkSession, tmp_path: Path, load: str, place: str
) -> None:
    survives(tmp_path, load, place)


@pytest.mark.slow
def test_processes_that_merge_the_same_rows_at_once_leave_each_of_them_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One has read them and sleeps, while the other reads and merges them, too."""
    lake = lake_of(tmp_path, "merge_upsert")
    lake.arrive(*(row(number, number % 5) for number in range(20)))
    go(lake)
    lake.rows = [row(number, 5, "changed") for number in range(10, 30)]
    lake.save()
    with started(lake, "runs.read=stop") as other:
        wait_until_stopped(other)
        go(lake)
        other.send_signal(signal.SIGCONT)
        assert other.wait(timeout=300) == 0
    assert table(lake) == [(number, "new" if number < 10 else "changed") for number in range(30)]
    assert positions(lake) == list(range(1, len(positions(lake)) + 1))


def appended(spark: SparkSession, path: str) -> None:
    write_deltalake(path, pa.Table.from_pylist([row(100, 0, "foreign")], SCHEMA), mode="append")


def appended_by_spark(spark: SparkSession, path: str) -> None:
    spark.sql(f"insert into delta.`{path}` values (100, timestamp '2026-03-01 00:00:00', 'foreign')")


def optimized(spark: SparkSession, path: str) -> None:
    appended(spark, path)
    assert DeltaTable(path).optimize.compact()["numFilesRemoved"] > 1


def updated(spark: SparkSession, path: str) -> None:
    appended(spark, path)
    DeltaTable(path).delete("id = 1")


@pytest.mark.parametrize(
    ("place", "act"),
    [
        ("runs.planned", appended),
        ("state.commit.before", appended_by_spark),
        ("state.commit.before", optimized),
        ("runs.read", updated),
    ],
)
def test_a_commit_of_somebody_else_in_between_is_kept(
    spark: SparkSession, tmp_path: Path, place: str, act: Callable[[SparkSession, str], None]
) -> None:
    lake = lake_of(tmp_path, "merge_upsert")
    lake.arrive(row(1, 0), row(2, 10))
    go(lake)
    lake.arrive(row(3, 12), row(4, 13))
    acted: list[str] = []

    def rule(reached: str) -> None:
        if reached == place and not acted:
            acted.append(reached)
            act(spark, str(tmp_path / "lake" / "orders"))

    failpoints.arm_by(rule)
    try:
        go(lake)
    finally:
        failpoints.arm("")
    assert acted
    kept = [] if act is updated else [(1, "new")]
    assert table(lake) == [*kept, (2, "new"), (3, "new"), (4, "new"), (100, "foreign")]
    assert positions(lake) == [1, 2]
