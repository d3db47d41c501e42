"""Adopting and recovering with source and table on a real S3 server."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from servers.s3 import Server
from support.bucket import Bucket
from tidegate import adopt, load, recover
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
from tidegate.storage.stores import open_store

pytestmark = pytest.mark.s3

SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), ("ts", pa.timestamp("us", tz="UTC")), ("event", pa.string())]
)


def run(bucket: Bucket) -> None:
    project = load(bucket.config)
    assert Loop(project, InProcessEngine(), 2).once(project.pipelines).ok


def test_a_table_of_blizzard_on_s3_is_taken_over_in_the_middle_of_a_file(s3: Server, tmp_path: Path) -> None:
    bucket = Bucket(s3, tmp_path)
    for name in "abc":
        bucket.arrive(f"date=2026-01-28/{name}.ndjson")
    files = {f"{bucket.source.uri}/date=2026-01-28/b.ndjson": {"RecordsRead": 4}}
    last = f"{bucket.source.uri}/date=2026-01-28/a.ndjson"
    state = {"schema_version": 1, "source_state": {"files": files, "last_committed_file": last}, "delta_version": 0}
    app_id = "blizzard:" + base64.b64encode(json.dumps(state).encode()).decode()
    rows = pa.table({"id": list(range(14)), "ts": [None] * 14, "event": [None] * 14}, schema=SCHEMA)
    properties = CommitProperties(app_transactions=[Transaction(app_id, 1, 1)])
    options = dict(bucket.table.options)
    write_deltalake(bucket.table.uri, rows, storage_options=options, commit_properties=properties)
    (refused,) = adopt(bucket.config, "events")
    assert "still moves" in (refused.error or "")
    (report,) = adopt(bucket.config, "events", quiet_for=0)
    assert (report.error, report.in_progress) == (None, {"date=2026-01-28/b.ndjson": 4})
    run(bucket)
    bucket.assert_exactly_once()


def test_a_lost_state_on_s3_is_recovered_from_its_mirror(s3: Server, tmp_path: Path) -> None:
    bucket = Bucket(s3, tmp_path)
    bucket.arrive("date=2026-01-28/a.ndjson")
    run(bucket)
    store, options = open_store(bucket.table), dict(bucket.table.options)
    (document,) = [each.path for each in store.list("_tidegate/events/default") if each.path.endswith(".json")]
    store.delete(document)
    DeltaTable(bucket.table.uri, storage_options=options).create_checkpoint()
    DeltaTable(bucket.table.uri, storage_options=options).alter.set_table_description("a foreign commit")
    store.delete(f"_delta_log/{0:020d}.json")
    (stopped, *_) = recover(bucket.config, "events")
    assert stopped.verdict == "fail"
    (told, *_) = recover(bucket.config, "events", accept=["mirror"])
    assert told.verdict == "ok", told
    bucket.arrive("date=2026-01-28/b.ndjson")
    run(bucket)
    bucket.assert_exactly_once()
