"""Which lane a pipeline takes, and what the commands say that know only one; without Spark."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable

import tidegate
from support.errors import raises
from support.lake import Lake
from tidegate.errors import UnsupportedTable
from tidegate.protocol.follow_ups import new_work_area, remove_old_work
from tidegate.runs.bind import bind
from tidegate.runs.file_source import FileSource
from tidegate.runs.lanes import any_frames, as_read, frame_packages
from tidegate.spark.jars import S3


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path, sink_settings={"metadata_columns": ["_source_file"]})
    lake.arrive("date=2026-01-28/1.ndjson")
    return lake


def place_of(lake: Lake) -> FileSource:
    (pipeline,) = lake.project.pipelines
    return bind(lake.project, pipeline, pipeline.sources[0], 2)


def constrained(lake: Lake) -> None:
    DeltaTable(str(lake.root / "lake/events")).alter.add_constraint({"small": "id < 1000"})


def test_a_plain_table_is_written_by_the_arrow_lane_until_it_has_a_constraint(lake: Lake) -> None:
    assert lake.run().ok
    assert (tidegate.plan(lake.config)[0].lane, any_frames([place_of(lake)])) == ("arrow", False)
    constrained(lake)
    (plan,) = tidegate.plan(lake.config)
    assert (plan.lane, any_frames([place_of(lake)])) == ("dataframe", True)
    assert "CHECK constraint 'small'" in plan.notes[0]
    lake.arrive("date=2026-01-28/2.ndjson")
    report = lake.run()
    assert "only Spark can write this table" in (report.sources[0].error or "")
    assert tidegate.status(lake.config)[0].backlog_files == 1
    assert not list((lake.root / "lake/events/_tidegate/events/default").glob("work/**/*.parquet"))


def test_rows_of_a_table_that_only_spark_writes_are_not_replayed(lake: Lake) -> None:
    assert lake.run().ok
    constrained(lake)
    with raises(UnsupportedTable, "lake/events", "tidegate replay", "CHECK constraint 'small'"):
        tidegate.replay(lake.config, "events", files="**/*.ndjson")
    lake.pipeline_settings = {"transform": {"sql": "select * from source"}}
    with raises(UnsupportedTable, "tidegate replay", "transform.sql"):
        tidegate.replay(lake.config, "events", files="**/*.ndjson")


def test_a_transform_needs_a_table_on_a_local_disk_or_on_s3(lake: Lake) -> None:
    lake.pipeline_settings = {"transform": {"python": "a:b"}}
    lake.sink_settings = {"table_uri": "memory://lanes/events"}
    (plan,) = tidegate.plan(lake.config)
    assert plan.lane == "dataframe"
    assert "only on local disks and on S3" in plan.notes[0]
    assert "only on local disks and on S3" in (lake.run().sources[0].error or "")


def test_a_session_gets_the_way_to_s3_only_where_spark_writes_a_table_there(lake: Lake) -> None:
    lake.pipeline_settings = {"transform": {"python": "a:b"}}
    assert frame_packages([place_of(lake)]) == ()
    lake.sink_settings = {"table_uri": "s3://lake/events"}
    assert frame_packages([place_of(lake)]) == (S3,)


def test_files_are_read_into_the_sources_columns_where_a_transform_follows(lake: Lake) -> None:
    assert lake.run().ok
    opened = place_of(lake).positions.open()
    assert as_read(place_of(lake), opened) == opened
    lake.pipeline_settings = {"transform": {"sql": "select id from source"}}
    assert as_read(place_of(lake), opened).schema() is None


def test_old_work_areas_are_removed_and_young_ones_are_not(lake: Lake) -> None:
    place = place_of(lake)
    old, young = (new_work_area(place.key, place.pipeline.sink.table) for _ in range(2))
    for area in (old, young):
        place.table_store.put(f"{area.directory}/date=1/a.parquet", b"x")
    long_ago = time.time() - 25 * 3600
    os.utime(lake.root / "lake/events" / old.directory / "date=1/a.parquet", (long_ago, long_ago))
    assert remove_old_work(place.table_store, place.key, datetime.now(UTC)) == 1
    assert [info.path for info in place.table_store.list(place.key.directory)] == [
        f"{young.directory}/date=1/a.parquet"
    ]
    assert not (lake.root / "lake/events" / old.directory).exists()


def test_reconcile_removes_old_work_areas_and_says_so(lake: Lake) -> None:
    assert lake.run().ok
    place = place_of(lake)
    area = new_work_area(place.key, place.pipeline.sink.table)
    place.table_store.put(f"{area.directory}/a.parquet", b"x")
    long_ago = time.time() - 25 * 3600
    os.utime(lake.root / "lake/events" / area.directory / "a.parquet", (long_ago, long_ago))
    assert tidegate.reconcile(lake.config).tables[0].notes == ()
    assert tidegate.reconcile(lake.config, clean=True).tables[0].notes == ("1 file of old work areas removed",)
    assert not list(place.table_store.list(area.directory))
