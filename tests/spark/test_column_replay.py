"""Replays on Spark: how the chunks of each load strategy get into the table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from support.column_lake import ColumnLake
from tidegate import DataFlow, ReplayConfig, replay_range, run, run_replay
from tidegate.protocol.delta import query
from tidegate.specs.locations import Location
from tidegate.storage.options import absolute_uri

pytestmark = pytest.mark.spark

START = datetime(2026, 3, 1, tzinfo=UTC)
BY_TIME = {"watermark_columns": ["at"]}


def row(number: int, day: int, note: str = "new") -> dict[str, Any]:
    return {"id": number, "at": START + timedelta(days=day), "note": note}


def rows(lake: ColumnLake, table: str = "lake/orders", columns: str = "id, note") -> list[tuple[Any, ...]]:
    return sorted(
        tuple(each.values()) for each in query(Location(absolute_uri(table, lake.root)), f"select {columns} from t")
    )


def test_chunks_of_an_append_replace_their_window_and_hand_over(spark: SparkSession, tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path, source_settings=BY_TIME)
    lake.arrive(row(1, 0), row(2, 1), row(3, 3))
    assert run(lake.config).ok
    lake.rows = [row(1, 0, "corrected"), row(3, 3), row(4, 4), row(5, 6)]
    lake.save()
    report = replay_range(
        lake.config, "orders", start="2026-03-01", end="2026-03-07", chunk={"days": 3}, save_watermark=True
    )
    assert [(each.fate, each.rows) for each in report.chunks] == [("done", 1), ("done", 2)]
    assert report.saved == "at=2026-03-07T00:00:00+00:00"
    assert rows(lake) == [(1, "corrected"), (3, "new"), (4, "new")]
    assert run(lake.config).sources[0].rows == 1
    assert run(lake.config).sources[0].rows == 0
    assert [number for number, _ in rows(lake)] == [1, 3, 4, 5]
    late = replay_range(lake.config, "orders", start=START - timedelta(days=9), end=START)
    assert (late.ok, late.chunks[0].rows) == (True, 0)


def test_merges_are_replayed_in_parallel_and_into_another_table(spark: SparkSession, tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path, source_settings=BY_TIME)
    lake.arrive(row(1, 0), row(2, 2), row(3, 4))
    config = ReplayConfig(START, START + timedelta(days=6), {"days": 3})
    for load in ("merge_upsert", "merge_overwrite"):
        lake.sink_settings = {"load_type": load, "merge_keys": ["id"]}
        flow = DataFlow(lake.config, "orders")
        (report,) = run_replay([flow], config, into=str(tmp_path / "lake" / "copy"), max_workers=2)
        assert report.ok, report.chunks
        assert [number for number, _ in rows(lake, "lake/copy")] == [1, 2, 3]
    assert not (tmp_path / "lake" / "orders").exists()


def test_versions_are_replayed_in_the_order_of_time_and_only_once(spark: SparkSession, tmp_path: Path) -> None:
    lake = ColumnLake(tmp_path, source_settings=BY_TIME, sink_settings={"load_type": "scd2", "merge_keys": ["id"]})
    lake.arrive(row(1, 0, "a"), row(1, 3, "b"), row(1, 5, "c"))
    flow = DataFlow(lake.config, "orders")
    config = ReplayConfig(START, START + timedelta(days=6), {"days": 3}, save_watermark=True)
    for _ in range(2):
        (report,) = run_replay(flow, config, max_workers=3, again=True)
        assert (report.ok, [each.rows for each in report.chunks]) == (True, [1, 2])
        assert rows(lake, columns="note, __is_current") == [("a", False), ("b", False), ("c", True)]
