"""Replays from Python: plans that start no Spark, bounds as text, several dataflows at once."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from support.column_lake import ColumnLake
from support.errors import raises
from tidegate import DataFlow, ReplayConfig, replay_range, run_replay
from tidegate.errors import ConfigError, WatermarkError
from tidegate.reports.replay import ColumnReplayReport
from tidegate.spark.engine import SparkEngine

FILES = """
pipelines:
  events:
    source: {type: files, source_uri: in, pattern: "*.ndjson"}
    sink: {table_uri: lake/events}
    schema: {fields: [{name: id, type: int64}]}
"""


@pytest.fixture
def lake(tmp_path: Path) -> ColumnLake:
    """A table that is followed by ``at``, up to the 8th of March."""
    lake = ColumnLake(tmp_path, source_settings={"watermark_columns": ["at"]})
    lake.arrive({"id": 1, "at": datetime(2026, 3, 8, tzinfo=UTC)})
    assert lake.run().ok
    return lake


def planned(lake: ColumnLake, start: Any, end: Any, **options: Any) -> ColumnReplayReport:
    return replay_range(lake.config, "orders", start=start, end=end, confirm=lambda planned: False, **options)


def test_a_plan_of_a_replay_starts_no_spark(lake: ColumnLake, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(lane: SparkEngine) -> None:
        raise AssertionError("Spark is not needed")

    monkeypatch.setattr(SparkEngine, "session", refused)
    report = planned(lake, "2026-01-01", "2026-03-08", chunk={"months": 1}, save_watermark=True)
    assert (report.applied, len(report.chunks)) == (False, 3)


@pytest.mark.parametrize(
    ("text", "low"),
    [
        ("2026-01-01", "2026-01-01T00:00:00+00:00"),
        ("2026-01-01T06:00:00+02:00", "2026-01-01T06:00:00+02:00"),
    ],
)
def test_text_is_a_value_of_the_watermarks_kind(lake: ColumnLake, text: str, low: str) -> None:
    assert planned(lake, text, "2026-02-01").chunks[0].low == low


@pytest.mark.parametrize("text", ["5", "2026-01-01T06:00:00", "soon"])
def test_text_that_is_no_such_value_is_refused(lake: ColumnLake, text: str) -> None:
    with raises(WatermarkError, "(a time with a zone)"):
        planned(lake, text, "2026-02-01")


def test_dates_do_not_stand_for_times(lake: ColumnLake) -> None:
    with raises(WatermarkError, "orders/default", "'at'", "2026-01-01 (a date)", "chunk_column"):
        planned(lake, date(2026, 1, 1), date(2026, 2, 1))


def test_the_pipelines_own_table_is_no_other_table(lake: ColumnLake) -> None:
    own = str(lake.root / "lake" / "orders")
    assert planned(lake, "2026-01-01", "2026-03-09", into=own, save_watermark=True).table_uri.endswith("lake/orders")
    with raises(ConfigError, "orders/default", "another table"):
        planned(lake, "2026-01-01", "2026-03-09", into=f"{own}2", save_watermark=True)


def test_a_range_of_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "t.yml").write_text(FILES)
    with raises(ConfigError, "'events'", "files", "range"):
        replay_range(tmp_path / "t.yml", "events", start=0, end=1)
    with raises(ConfigError, "'events'", "none"):
        DataFlow(tmp_path / "t.yml", "events")


def test_several_dataflows_are_replayed_by_the_same_range(lake: ColumnLake) -> None:
    flow = DataFlow(lake.config, "orders")
    config = ReplayConfig(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC), {"months": 1})
    assert run_replay([], config) == ()
    reports = run_replay([flow, flow], config, confirm=lambda planned: False)
    assert [(each.source, len(each.chunks)) for each in reports] == [("default", 2), ("default", 2)]


def test_several_dataflows_do_not_go_into_one_table(lake: ColumnLake) -> None:
    flow = DataFlow(lake.config, "orders")
    with raises(ConfigError, "replay", "one dataflow"):
        run_replay([flow, flow], ReplayConfig(0, 1), into="lake/copy")


def test_a_source_that_shares_its_table_is_not_replayed_there(lake: ColumnLake) -> None:
    source = {"type": "parquet", "source_uri": "data", "watermark_columns": ["at"]}
    europe = {**source, "source_uri": "other"}
    pipeline = {"sources": {"asia": source, "europe": europe}, "sink": {"table_uri": "lake/both"}}
    config = lake.root / "both.yml"
    config.write_text(json.dumps({"pipelines": {"orders": pipeline}}))
    bounds = {"start": "2026-01-01", "end": "2026-02-01", "confirm": lambda planned: False}
    with raises(ConfigError, "orders/asia", "europe"):
        replay_range(config, "orders", "asia", **bounds)  # type: ignore[arg-type]
    assert replay_range(config, "orders", "asia", into="lake/asia", **bounds).chunks  # type: ignore[arg-type]
    with raises(ConfigError, "'orders'", "asia, europe"):
        replay_range(config, "orders", **bounds)  # type: ignore[arg-type]
