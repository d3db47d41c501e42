"""Load strategies through whole runs on Spark: failures at every step, repeated runs, sources that change.

A failure is injected in this process, where a kill would cost a session; kills of whole processes: test_column_kills.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.column_loads import LOADS, LOOK_BACK, Crash, crash_at, go, lake_of, row, table
from tidegate import failpoints, run

pytestmark = pytest.mark.spark

EVERY = ("runs.read", "state.document.after", "state.commit.before", "state.commit.after", "state.won.before")
AROUND = ("state.commit.before", "state.commit.after")
ALL = [(load, place) for load in LOADS for place in EVERY]
CASES = [case for case in ALL if case[1] in AROUND[1:] or case == ("merge_upsert", AROUND[0])]
MORE = [case for case in ALL if case not in CASES]


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.arm("")


def survives(folder: Path, load: str, place: str) -> None:
    """A crash at ``place`` after a table was made, and what comes after it."""
    lake = lake_of(folder, load)
    lake.arrive(row(1, 0), row(2, 1))
    go(lake)
    lake.arrive(row(3, 2))
    crash_at(place)
    with pytest.raises(Crash):
        run(lake.config)
    failpoints.arm("")
    lake.arrive(row(4, 3))
    go(lake)
    assert table(lake) == [(1, "new"), (2, "new"), (3, "new"), (4, "new")]


@pytest.mark.parametrize(("load", "place"), CASES)
def test_a_failure_at_any_step_loses_and_doubles_nothing(
    spark: SparkSession, tmp_path: Path, load: str, place: str
) -> None:
    survives(tmp_path, load, place)


@pytest.mark.skipif(not os.environ.get("TIDEGATE_LONG"), reason="TIDEGATE_LONG=1 runs the whole matrix")
@pytest.mark.parametrize(("load", "place"), MORE)
def test_a_failure_of_any_strategy_at_any_step_loses_and_doubles_nothing(
    spark: SparkSession, tmp_path: Path, load: str, place: str
) -> None:
    survives(tmp_path, load, place)


@pytest.mark.parametrize("load", [load for load in LOADS if load != "append"])
def test_a_changed_row_takes_the_place_of_what_it_was(spark: SparkSession, tmp_path: Path, load: str) -> None:
    lake = lake_of(tmp_path, load)
    lake.arrive(row(1, 0), row(2, 1))
    go(lake)
    lake.rows = [row(1, 0), row(2, 2, "changed")]
    lake.save()
    assert go(lake).commits == 1
    assert table(lake) == [(1, "new"), (2, "changed")]


def test_rows_that_left_the_window_of_the_source_leave_the_table(spark: SparkSession, tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "window")
    lake.arrive(row(1, 0), row(2, 4), row(3, 5), row(4, 6), row(5, 6))
    go(lake)
    lake.rows = [row(1, 0), row(2, 4), row(4, 6), row(5, 6)]
    lake.save()
    go(lake)
    assert [number for number, _ in table(lake)] == [1, 2, 4, 5]


def test_a_run_that_finds_the_same_rows_again_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "merge_upsert")
    lake.arrive(row(1, 0), row(2, 1))
    go(lake)
    before = table(lake)
    go(lake)
    assert table(lake) == before


def test_a_new_column_and_a_null_in_the_watermark_are_taken_as_configured(spark: SparkSession, tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "merge_upsert")
    lake.source_settings = {**LOOK_BACK, "null_watermark": "include"}
    lake.arrive(row(1, 0), {"id": 2, "at": None, "note": "no time"})
    go(lake)
    go(lake)
    assert table(lake) == [(1, "new"), (2, "no time")]
