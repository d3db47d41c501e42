"""The three limits of a commit on Spark; tasks that hold nobody up, that cannot report, and that are cancelled; what
they upload.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidegate
from servers.fault_proxy import in_front_of
from servers.s3 import Server
from support.commit_counts import (
    assert_ten_and_ten_and_the_rest,
    committed,
    hours_pass,
    many_small_files,
    one_large_file,
)
from support.lake import Lake
from support.live_uploads import assert_uploads_show_while_they_last
from tidegate.errors import CommitLost
from tidegate.observe.events import TasksReading
from tidegate.protocol.store import PositionStore
from tidegate.spark.engine import SparkEngine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def ingest(lake: Lake) -> tidegate.RunReport:
    return tidegate.run(lake.config, emit=lake.seen.append)


def test_a_large_file_is_committed_whenever_ten_parquet_files_of_it_are_full(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = one_large_file(tmp_path, commit_batch_files=10)
    assert ingest(lake).ok
    assert_ten_and_ten_and_the_rest(lake)


def test_a_task_tells_how_much_it_has_read_of_a_large_file(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lines = "".join(f'{{"id": {number}, "event": "{"x" * 90}"}}\n' for number in range(1000))
    size = lake.write("date=2026-01-28/1.ndjson", lines * 4000).stat().st_size
    assert ingest(lake).ok
    told = [event for event in lake.seen if isinstance(event, TasksReading)]
    assert (told[-1].bytes, told[-1].rows) == (0, 0)
    assert all(0 < each.bytes <= size and 0 < each.rows <= 4_000_000 for each in told[:-1])
    assert len(told) > 1


@pytest.mark.parametrize("reports", [True, False], ids=["one task that reports", "a task for each group"])
def test_ten_source_files_are_one_commit_and_the_rest_another(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reports: bool
) -> None:
    if not reports:
        monkeypatch.setattr(SparkEngine, "_listen", lambda self, session: None)
    lake = many_small_files(tmp_path, 25, interval_files=10)
    assert ingest(lake).ok
    assert [event.source_files for event in committed(lake)] == [10, 10, 5]
    lake.assert_exactly_once()


def test_whatever_is_finished_when_the_time_is_over_is_one_commit(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = many_small_files(tmp_path, 6, interval_secs=60)
    for day in (29, 30):
        lake.arrive(f"date=2026-01-{day}/1.ndjson", records=10_000)
    hours_pass(monkeypatch)
    assert ingest(lake).ok
    assert len(committed(lake)) >= 2
    lake.assert_exactly_once()


def test_others_are_committed_while_one_task_takes_long(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first file is read only once the others are committed."""
    lake = many_small_files(tmp_path, 8, interval_files=1)
    lake.pipeline_settings = {}
    others = threading.Event()
    read = SparkEngine._read_parts

    def read_parts(self: SparkEngine, parts: object) -> None:
        first = parts.parts[0][1].slices[0].path.endswith("1769600000.ndjson")  # type: ignore[attr-defined]
        assert not first or others.wait(60)
        read(self, parts)  # type: ignore[arg-type]

    def emit(event: object) -> None:
        lake.seen.append(event)  # type: ignore[arg-type]
        if sum(each.source_files for each in committed(lake)) == 7:
            others.set()

    monkeypatch.setattr(SparkEngine, "_listen", lambda self, session: None)
    monkeypatch.setattr(SparkEngine, "_read_parts", read_parts)
    assert tidegate.run(lake.config, emit=emit).ok
    lake.assert_exactly_once()


def test_a_plan_that_is_lost_is_cancelled_and_nothing_of_it_counts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = many_small_files(tmp_path, 25, interval_files=5)
    commit, lost = PositionStore.commit, [2]

    def lose(self: PositionStore, *arguments: object) -> object:
        lost[0] -= 1
        if lost[0] == 0:
            raise CommitLost("lost on purpose", "plan again")
        return commit(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(PositionStore, "commit", lose)
    assert ingest(lake).ok
    assert lost[0] < 0
    lake.assert_exactly_once()


@pytest.mark.s3
def test_uploads_of_tasks_show_on_the_metrics_page_while_they_last(
    spark: SparkSession, s3: Server, tmp_path: Path
) -> None:
    with in_front_of(s3) as proxy:
        assert_uploads_show_while_they_last(s3, proxy, tmp_path, lambda project, emit: tidegate.run(project, emit=emit))
