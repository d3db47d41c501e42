"""Tracking by a set on a real S3 server: segments are uploaded, fetched and checked there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from servers.s3 import Server
from support import scripts
from support.bucket import WORKER, Bucket
from tidegate import load, plan, recover
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
from tidegate.storage.stores import open_store

pytestmark = pytest.mark.s3


@pytest.fixture
def bucket(s3: Server, tmp_path: Path) -> Bucket:
    bucket = Bucket(s3, tmp_path)
    data = json.loads(bucket.config.read_text())
    data["pipelines"]["events"]["source"]["use_watermark"] = False
    bucket.config.write_text(json.dumps(data))
    for number in (7, 3, 9, 1):
        bucket.arrive(f"d={number % 2}/{number} ü+%41.ndjson")
    return bucket


def run(bucket: Bucket) -> int:
    project = load(bucket.config)
    report = Loop(project, InProcessEngine(), 2).once(project.pipelines)
    assert report.ok
    return report.sources[0].files


def test_files_in_any_order_are_read_once_from_s3(bucket: Bucket) -> None:
    assert run(bucket) == 4
    bucket.arrive("d=0/0 ü+%41.ndjson")
    bucket.arrive("top.ndjson")
    assert run(bucket) == 2
    assert run(bucket) == 0
    bucket.assert_exactly_once()
    bucket.store.put("top.ndjson", b'{"id": 1}\n{"id": 2}\n')
    (planned,) = plan(bucket.config)
    assert {each.reason.name: each.count for each in planned.plan.skipped} == {"READ": 5, "REWRITTEN": 1}


def test_runs_started_together_on_s3_write_every_row_once(bucket: Bucket) -> None:
    runs = [scripts.start(WORKER, bucket.config) for _ in range(3)]
    assert [run.wait() for run in runs] == [0, 0, 0]
    bucket.assert_exactly_once()


def test_a_lost_segment_on_s3_is_rebuilt(bucket: Bucket) -> None:
    run(bucket)
    table = open_store(bucket.table)
    (segment,) = [info.path for info in table.list("_tidegate/events_default_set")]
    table.delete(segment)
    assert recover(bucket.config, "events")[0].verdict == "fail"
    assert recover(bucket.config, "events", accept=["set"])[0].verdict == "ok"
    bucket.arrive("d=0/0.ndjson")
    assert run(bucket) == 1
    bucket.assert_exactly_once()
