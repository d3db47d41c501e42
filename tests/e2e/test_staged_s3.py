"""Staged delivery on a real S3 server: units, metas and footers are read there, by committers that race."""

from __future__ import annotations

import io
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from servers.s3 import Server
from support.bucket import Bucket
from tidegate import commit, load
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
from tidegate.storage.stores import open_store

pytestmark = pytest.mark.s3


@pytest.fixture
def bucket(s3: Server, tmp_path: Path) -> Bucket:
    bucket = Bucket(s3, tmp_path)
    data = json.loads(bucket.config.read_text())
    data["pipelines"]["events"] |= {"delivery": "staged", "staging": {"max_files_per_commit": 2}}
    bucket.config.write_text(json.dumps(data))
    return bucket


def stage(bucket: Bucket, name: str) -> None:
    bucket.arrive(name)
    project = load(bucket.config)
    assert Loop(project, InProcessEngine(), 2).once(project.pipelines).ok


def test_what_is_staged_on_s3_is_committed_once_by_committers_that_race(bucket: Bucket) -> None:
    table = open_store(bucket.table)
    for number in range(5):
        stage(bucket, f"d=1/{number} ü+%41.ndjson")
    content = io.BytesIO()
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    number = len(bucket.expected)
    pq.write_table(pa.table({"id": [number]}, schema=columns), content)
    table.put("imported/one.parquet", content.getvalue())
    meta = {"filename": "imported/one.parquet", "size": len(content.getvalue()), "record_count": 1, "source_file": None}
    table.put("_staging/pending/one.meta.json", json.dumps(meta).encode())
    bucket.expected.append(number)
    with ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(lambda _: commit(bucket.config), range(2)))
    assert [report.ok for report in reports] == [True, True], reports
    assert sum(report.tables[0].units for report in reports) == 5
    assert sum(report.tables[0].foreign for report in reports) == 1
    assert list(table.list("_staging/pending")) == []
    bucket.assert_exactly_once()
