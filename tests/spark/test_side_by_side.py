"""Sources side by side on one Spark: each has its own settings and views, and nobody waits for one that hangs."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate
from tidegate.observe import events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ZONES = {"Asia/Tokyo": 9, "America/Bogota": -5}
NOON = datetime(2026, 3, 1, 12)
GATE = threading.Event()


def hang(session: SparkSession, request: Any) -> object:
    """Answers only when the gate is open."""
    GATE.wait(60)
    return session.createDataFrame([(1,)], "id long")


def end_worker(session: SparkSession, request: Any) -> object:
    """Rows whose task kills the Python worker that it runs in, once the gate is open."""
    GATE.wait(60)

    def kill(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        os.kill(os.getpid(), signal.SIGKILL)
        yield from batches

    return session.range(1).mapInArrow(kill, "id long")


def write_config(folder: Path, pipelines: dict[str, Any]) -> Path:
    path = folder / "pipelines.yml"
    path.write_text(json.dumps({"pipelines": pipelines}))
    return path


def test_two_sources_at_once_never_see_each_others_settings(spark: SparkSession, tmp_path: Path) -> None:
    """Zones are settings of a session, and the rows of a transform are a view of it: both differ for every source."""
    pipelines: dict[str, Any] = {}
    for number, zone in enumerate(ZONES):
        folder = tmp_path / f"in{number}"
        folder.mkdir()
        rows = pa.table({"id": [number] * 50, "at": [NOON + timedelta(seconds=each) for each in range(50)]})
        pq.write_table(rows, folder / "a.parquet")
        read = {"type": "parquet", "source_uri": str(folder), "watermark_columns": ["at"], "source_timezone": zone}
        pipelines[f"merged{number}"] = {
            "source": read,
            "sink": {"table_uri": str(tmp_path / f"merged{number}"), "load_type": "merge_upsert", "merge_keys": ["at"]},
        }
        (tmp_path / f"text{number}").mkdir()
        (tmp_path / f"text{number}" / "a.ndjson").write_text(f'{{"id": {number}}}\n' * 50)
        pipelines[f"transformed{number}"] = {
            "source": {"source_uri": str(tmp_path / f"text{number}")},
            "schema": {"fields": [{"name": "id", "type": "int64"}]},
            "transform": {"sql": "select id, current_timezone() as zone from source"},
            "sink": {"table_uri": str(tmp_path / f"transformed{number}")},
        }
    before = spark.conf.get("spark.sql.session.timeZone")
    report = tidegate.run(write_config(tmp_path, pipelines))
    assert {each.error for each in report.sources} == {None}
    assert spark.conf.get("spark.sql.session.timeZone") == before
    for number, hours in enumerate(ZONES.values()):
        merged = spark.read.format("delta").load(str(tmp_path / f"merged{number}"))
        first = merged.selectExpr("unix_seconds(min(at))", "count(*)", "min(id)", "max(id)").collect()[0]
        noon = int((NOON.replace(tzinfo=UTC) - timedelta(hours=hours)).timestamp())
        assert tuple(first) == (noon, 50, number, number)
        rows = spark.read.format("delta").load(str(tmp_path / f"transformed{number}")).collect()
        assert {(row["id"], row["zone"]) for row in rows} == {(number, "UTC")}
        assert len(rows) == 50


def test_a_source_that_ends_its_worker_fails_and_the_other_one_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    GATE.clear()
    (tmp_path / "files").mkdir()
    function = {"type": "python", "function": f"{__name__}:end_worker", "watermark_columns": ["id"]}
    ends = {**function, "poll_interval_secs": 600}
    pipelines = {
        "ends": {"source": ends, "sink": {"table_uri": str(tmp_path / "ends"), "load_type": "append"}},
        "files": {
            "source": {"source_uri": str(tmp_path / "files"), "poll_interval_secs": 1},
            "schema": {"fields": [{"name": "id", "type": "int64"}]},
            "sink": {"table_uri": str(tmp_path / "table")},
        },
    }
    stop, commits, told = threading.Event(), 0, list[str]()

    def arrive() -> None:
        for number in range(5):
            (tmp_path / "files" / f"{commits}-{number}.ndjson").write_text(f'{{"id": {commits * 5 + number}}}\n' * 3)

    def note(event: events.Event) -> None:
        nonlocal commits
        if isinstance(event, events.SourceFailed):
            told.append(f"{event.pipeline}: {event.error}")
        elif isinstance(event, events.Committed):
            commits += 1
            GATE.set()
            if told and commits > 2:
                stop.set()
            else:
                arrive()

    arrive()
    report = tidegate.run(write_config(tmp_path, pipelines), mode="continuous", emit=note, stop=stop)
    failed, went_on = report.sources
    assert (failed.pipeline, failed.rows, went_on.pipeline, went_on.error) == ("ends", 0, "files", None)
    assert "worker" in str(failed.error)
    assert told == [f"ends: {failed.error}"]
    rows = spark.read.format("delta").load(str(tmp_path / "table")).groupBy("id").count().collect()
    assert {(row["id"], row["count"]) for row in rows} == {(number, 3) for number in range(commits * 5)}


def test_a_file_source_goes_on_beside_a_source_that_hangs(spark: SparkSession, tmp_path: Path) -> None:
    GATE.clear()
    (tmp_path / "files").mkdir()
    function = {"type": "python", "function": f"{__name__}:hang", "watermark_columns": ["id"]}
    pipelines = {
        "hangs": {"source": function, "sink": {"table_uri": str(tmp_path / "hangs"), "load_type": "append"}},
        "files": {
            "source": {"source_uri": str(tmp_path / "files"), "poll_interval_secs": 1},
            "schema": {"fields": [{"name": "id", "type": "int64"}]},
            "sink": {"table_uri": str(tmp_path / "table")},
        },
    }
    stop, commits = threading.Event(), 0

    def arrive() -> None:
        (tmp_path / "files" / f"{commits}.ndjson").write_text(json.dumps({"id": commits}) + "\n")

    def note(event: events.Event) -> None:
        nonlocal commits
        if isinstance(event, events.Committed) and event.pipeline == "files":
            commits += 1
            if commits == 3:
                stop.set()
                GATE.set()
            else:
                arrive()

    arrive()
    config = write_config(tmp_path, pipelines)
    report = tidegate.run(config, mode="continuous", emit=note, stop=stop)
    assert [(each.pipeline, each.error) for each in report.sources] == [("hangs", None), ("files", None)]
    assert (report.sources[1].rows, commits) == (3, 3)
