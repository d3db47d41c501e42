"""Load strategies on Spark under SIGKILL and races, and with commits of others in between.

Most processes that are killed share the Java machine of the tests; one has its own. Each strategy is killed before and
after its statement, and before and after what follows its commit; ``TIDEGATE_LONG=1`` kills it at every step.
"""

from __future__ import annotations

import contextlib
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
from support import attached
from support.column_lake import SCHEMA, ColumnLake
from support.column_loads import LOADS, go, lake_of, row, table
from support.long_runs import chosen
from tidegate import failpoints
from tidegate.protocol.change import SourceKey
from tidegate.protocol.log import DeltaLog
from tidegate.specs.locations import Location
from tidegate.storage.options import absolute_uri
from tidegate.storage.stores import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

WORKER = Path(__file__).with_name("column_worker.py")
PLACES = (
    "runs.planned",
    "runs.read",
    "state.document.after",
    "state.commit.before",
    "state.commit.after",
    "state.won.before",
    "runs.commit.after",
)
ALL = [(load, place) for load in LOADS for place in PLACES]
CASES = chosen(ALL, ("merge_upsert", "runs.read"))
AROUND_COMMIT = ("state.commit.before", "runs.commit.after", "state.done.before", "state.commit.after")
"""Before the statement of Spark, after and before the follow-ups of its commit, and right after the statement."""


@contextlib.contextmanager
def started(lake: ColumnLake, failpoints: str) -> Iterator[subprocess.Popen[bytes]]:
    """One run in a process and a Java machine of its own, which do not outlive the block."""
    environment = {**ENVIRONMENT, "TIDEGATE_FAILPOINTS": failpoints}
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
    log = DeltaLog(open_store(Location(absolute_uri("lake/orders", lake.root))))
    marks = (entry.tag_of(SourceKey("orders", "default")) for entry in log.tail(0))
    return [mark.version for mark in marks if mark is not None]


@pytest.mark.slow
@pytest.mark.parametrize(("load", "place"), CASES)
def test_a_kill_loses_and_doubles_nothing(spark: SparkSession, tmp_path: Path, load: str, place: str) -> None:
    """A run is killed after others made the table; the next one brings a new row, and a changed one into its place."""
    lake = lake_of(tmp_path, load)
    lake.arrive(row(1, 0), row(2, 1))
    go(lake)
    lake.arrive(row(3, 2))
    process = attached.start_run(spark, lake.config, f"{place}=kill")
    assert process.wait() == -signal.SIGKILL, f"the failpoint {place} was not reached: {process.output}"
    note = "new" if load == "append" else "changed"
    lake.rows = [row(1, 0), row(2, 1) if load == "append" else row(2, 3, note), row(3, 2), row(4, 3)]
    lake.save()
    assert go(lake).commits == 1
    assert table(lake) == [(1, "new"), (2, note), (3, "new"), (4, "new")]
    assert positions(lake) == list(range(1, len(positions(lake)) + 1))


@pytest.mark.slow
@pytest.mark.parametrize("load", chosen(tuple(LOADS), "append", "window", "scd2"))
def test_every_strategy_lives_through_kills_around_its_commit(spark: SparkSession, tmp_path: Path, load: str) -> None:
    """Each run brings a new row and, where rows may change, another version of the first, and is killed."""
    lake = lake_of(tmp_path, load)
    lake.arrive(row(0, 0), row(1, 0))
    go(lake)
    note = "new"
    for day, place in enumerate(AROUND_COMMIT, 1):
        note = note if load == "append" else place
        first = row(0, 0) if load == "append" else row(0, day, note)
        lake.rows = [first, row(1, 0), *(row(number + 1, number) for number in range(1, day + 1))]
        lake.save()
        process = attached.start_run(spark, lake.config, f"{place}=kill")
        assert process.wait() == -signal.SIGKILL, f"the failpoint {place} was not reached: {process.output}"
        assert len(positions(lake)) == day
    go(lake)
    assert table(lake) == [(0, note), *((number, "new") for number in range(1, 6))]
    assert positions(lake) == list(range(1, len(positions(lake)) + 1))


@pytest.mark.slow
def test_processes_that_merge_the_same_rows_at_once_leave_each_of_them_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One has read them and sleeps while the other reads and merges them, too; then it commits, and is killed."""
    lake = lake_of(tmp_path, "merge_upsert")
    # Else it would find that there is nothing left to change, and not commit.
    lake.sink_settings = {**lake.sink_settings, "skip_unchanged": False}
    lake.arrive(*(row(number, number % 5) for number in range(20)))
    go(lake)
    lake.rows = [row(number, 5, "changed") for number in range(10, 30)]
    lake.save()
    with started(lake, "runs.read=stop,state.commit.after=kill") as other:
        wait_until_stopped(other)
        go(lake)
        other.send_signal(signal.SIGCONT)
        assert other.wait(timeout=300) == -signal.SIGKILL
    expected = [(number, "new" if number < 10 else "changed") for number in range(30)]
    assert table(lake) == expected
    go(lake)
    assert table(lake) == expected
    assert positions(lake) == list(range(1, len(positions(lake)) + 1))


def append(spark: SparkSession, path: str, number: int) -> None:
    write_deltalake(path, pa.Table.from_pylist([row(number, 0, "foreign")], SCHEMA), mode="append")


def append_by_spark(spark: SparkSession, path: str, number: int) -> None:
    spark.sql(f"insert into delta.`{path}` values ({number}, timestamp '2026-03-01 00:00:00', 'foreign')")


def append_and_optimize(spark: SparkSession, path: str, number: int) -> None:
    append(spark, path, number)
    assert DeltaTable(path).optimize.compact()["numFilesRemoved"] > 1


def append_and_delete(spark: SparkSession, path: str, number: int) -> None:
    append(spark, path, number)
    DeltaTable(path).delete("id = 1")


def test_commits_of_somebody_else_in_between_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    """Four runs on one table, each with somebody else who commits at another moment."""
    meanwhile: tuple[tuple[str, Callable[[SparkSession, str, int], None]], ...] = (
        ("runs.planned", append),
        ("state.commit.before", append_by_spark),
        ("state.commit.before", append_and_optimize),
        ("runs.read", append_and_delete),
    )
    lake = lake_of(tmp_path, "merge_upsert")
    lake.arrive(row(1, 0), row(2, 10))
    go(lake)
    acted: list[int] = []

    def rule(reached: str) -> None:
        place, act = meanwhile[step]
        if reached == place and step not in acted:
            acted.append(step)
            act(spark, str(tmp_path / "lake" / "orders"), 100 + step)

    try:
        for step in range(len(meanwhile)):
            lake.arrive(row(3 + step, 12 + step))
            failpoints.arm_by(rule)
            go(lake)
            failpoints.arm("")
            first = () if step == 3 else (1,)
            ours = [(number, "new") for number in (*first, *range(2, 4 + step))]
            assert table(lake) == [*ours, *((100 + each, "foreign") for each in range(step + 1))], meanwhile[step]
    finally:
        failpoints.arm("")
    assert acted == [0, 1, 2, 3]
    assert positions(lake) == [1, 2, 3, 4, 5]
