"""The DataFrame lane: tables whose features the Delta library cannot honour are written by Spark, exactly once."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidegate
from spark.frame_tables import FEATURES, create, rows
from support import attached
from support.lake import FIELDS, Lake
from support.long_runs import chosen
from tidegate import failpoints
from tidegate.failpoints import InjectedFailure
from tidegate.observe.events import CommitContested, Committed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    lake = Lake(tmp_path, settings={"spark": {"master": "local[2]"}})
    lake.arrive("date=2026-01-28/1.ndjson.gz", records=3)
    lake.arrive("date=2026-01-28/2.ndjson.gz", records=2)
    yield lake
    failpoints.arm("")


def ids(spark: SparkSession, lake: Lake) -> list[int]:
    return [row["id"] for row in rows(spark, lake)]


def log(lake: Lake) -> list[Path]:
    return sorted((lake.root / "lake/events/_delta_log").glob("*.json"))


def left_in_work(lake: Lake) -> list[Path]:
    return [path for path in (lake.root / "lake/events/_tidegate/events/default").glob("work/**/*") if path.is_file()]


@pytest.mark.parametrize("feature", FEATURES)
def test_a_table_that_only_spark_may_write_gets_every_row_once(spark: SparkSession, lake: Lake, feature: str) -> None:
    create(spark, lake, feature)
    (plan,) = tidegate.plan(lake.config)
    assert plan.lane == "dataframe"
    assert "Spark writes this table" in plan.notes[0]
    report = tidegate.run(lake.config, emit=lake.seen.append)
    assert (report.ok, report.sources[0].rows, report.sources[0].error) == (True, 5, None)
    again = tidegate.run(lake.config)
    assert (again.ok, again.sources[0].commits, again.sources[0].state) == (True, 0, "Idle")
    found = rows(spark, lake)
    assert [row["id"] for row in found] == lake.expected
    assert {row["event"] for row in found} == {"view"}
    if feature == "generatedColumns":
        assert {str(row["day"]) for row in found} == {"2026-01-28"}
    if feature == "inCommitTimestamp":
        assert ({row["kind"] for row in found}, len({row["n"] for row in found})) == ({"new"}, 5)
    assert [event.rows for event in lake.seen if isinstance(event, Committed)] == [5]
    (status,) = tidegate.status(lake.config)
    assert (status.version, status.backlog_files, status.error) == (1, 0, None)
    assert left_in_work(lake) == []
    (commit,) = tidegate.watermark_history(lake.config, "events")[0].positions
    assert commit.data_files == log(lake)[-1].read_text().count('{"add":') > 0


def test_a_row_that_breaks_a_constraint_stops_the_run_and_nothing_is_committed(spark: SparkSession, lake: Lake) -> None:
    create(spark, lake, "checkConstraints")
    lake.write("date=2026-01-28/3.ndjson.gz", '{"id": 5000, "event": "view"}\n')
    before = len(log(lake))
    report = tidegate.run(lake.config)
    assert not report.ok
    assert "CHECK constraint small" in (report.sources[0].error or "")
    assert (len(log(lake)), ids(spark, lake)) == (before, [])
    (lake.root / "data/date=2026-01-28/3.ndjson.gz").unlink()
    assert tidegate.run(lake.config).ok
    assert ids(spark, lake) == lake.expected
    assert left_in_work(lake) == []


def test_bad_lines_become_letters_a_failed_file_waits_and_retry_brings_rows_in(spark: SparkSession, lake: Lake) -> None:
    create(spark, lake, "checkConstraints")
    lake.write("date=2026-01-28/3.ndjson.gz", '{"id": 100}\n{"id": 101.5}\n')
    report = tidegate.run(lake.config)
    assert (report.ok, report.sources[0].rows, report.sources[0].bad_records) == (True, 6, 1)
    lake.schema = {**lake.schema, "numbers": "lenient"}
    (answer,) = tidegate.retry_letters(lake.config, "events")
    assert (answer.answered, answer.rows) == (1, 1)
    assert ids(spark, lake) == [*lake.expected, 100, 101]


def test_a_position_moves_without_rows_whatever_the_table_has(spark: SparkSession, lake: Lake) -> None:
    create(spark, lake, "inCommitTimestamp")
    assert tidegate.run(lake.config).ok
    moved = tidegate.set_watermark(lake.config, "events", to="date=2026-01-28/9.ndjson.gz")
    assert moved.applied
    stamps = [json.loads(path.read_text().splitlines()[0])["commitInfo"]["inCommitTimestamp"] for path in log(lake)]
    assert stamps == sorted(set(stamps))
    lake.write("date=2026-01-28/95.ndjson", '{"id": 95}\n')
    assert tidegate.run(lake.config).ok
    assert ids(spark, lake) == [*lake.expected, 95]


@pytest.mark.parametrize("place", ["state.document.after", "state.done.before"])
def test_a_run_that_breaks_off_is_taken_up_by_the_next(spark: SparkSession, lake: Lake, place: str) -> None:
    create(spark, lake, "columnMapping")
    failpoints.arm(f"{place}=raise")
    with pytest.raises(InjectedFailure):
        tidegate.run(lake.config)
    failpoints.arm("")
    assert tidegate.run(lake.config).ok
    assert ids(spark, lake) == lake.expected


def test_a_lost_answer_a_rival_and_a_new_column_change_nothing(spark: SparkSession, lake: Lake) -> None:
    create(spark, lake, "columnMapping")
    failpoints.arm("state.commit.after=lose, state.debt.before=lose")
    assert tidegate.run(lake.config).ok
    assert ids(spark, lake) == lake.expected
    lake.arrive("date=2026-01-28/3.ndjson.gz")
    rivals = iter([lambda: tidegate.run(lake.config)])

    def rival(name: str) -> None:
        begin = next(rivals, None) if name == "state.commit.before" else None
        if begin is not None:
            assert begin().ok

    failpoints.arm_by(rival)
    assert tidegate.run(lake.config, emit=lake.seen.append).ok
    failpoints.arm("")
    assert [event for event in lake.seen if isinstance(event, CommitContested)]
    assert ids(spark, lake) == lake.expected
    lake.schema = {"fields": [*FIELDS, {"name": "price", "type": "float64"}]}
    lake.arrive("date=2026-01-28/4.ndjson.gz", records=1, price=2.5)
    assert tidegate.run(lake.config).ok
    assert [row["price"] for row in rows(spark, lake)] == [None] * (len(lake.expected) - 1) + [2.5]
    assert left_in_work(lake) == []


@pytest.mark.slow
@pytest.mark.parametrize("place", chosen(["state.commit.before", "state.commit.after"], "state.commit.after"))
def test_a_killed_process_is_taken_up_by_the_next(spark: SparkSession, lake: Lake, place: str) -> None:
    create(spark, lake, "rowTracking")
    process = attached.start_run(spark, lake.config, f"{place}=kill")
    assert process.wait() == -signal.SIGKILL, process.output
    assert tidegate.run(lake.config).ok
    assert ids(spark, lake) == lake.expected
