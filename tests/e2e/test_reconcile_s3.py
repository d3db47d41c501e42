"""Late files and orphans on a real S3 server."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from servers.s3 import Server
from support.lake import FIELDS, assert_same
from support.reconciling import clean, compare, ingest
from tidegate import load
from tidegate.parquet.parquet_file import uuid7
from tidegate.protocol.delta import query
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
from tidegate.storage.stores import open_store

pytestmark = pytest.mark.s3


def test_a_late_file_is_read_once_and_an_orphan_removed(s3: Server, tmp_path: Path) -> None:
    source, table = s3.location(f"source-{uuid4()}"), s3.location(f"table-{uuid4()}")
    files, data = open_store(source), open_store(table)
    options = dict(source.options)
    pipeline = {
        "source": {"source_uri": source.uri, "use_watermark": True, "storage_options": options, "late_window": 1},
        "schema": {"fields": FIELDS},
        "sink": {"table_uri": table.uri, "storage_options": options},
    }
    config = tmp_path / "s3.yml"
    config.write_text(json.dumps({"pipelines": {"events": pipeline}}))
    project = load(config)

    def ids() -> list[int]:
        return [row["id"] for row in query(table, "select id from t")]

    for number in (10, 20, 30):
        files.put(f"d=1/{number} ü+%41.ndjson", f'{{"id": {number}}}\n'.encode())
    assert Loop(project, InProcessEngine(), 2).once(project.pipelines).ok
    files.put("d=1/15 ü+%41.ndjson", b'{"id": 15}\n')
    (found,) = compare(project).sources
    assert (found.late.names, found.ingested) == (("d=1/15 ü+%41.ndjson",), 3)
    assert ingest(project).ok
    assert ingest(project).sources[0].commits == 0
    assert Loop(project, InProcessEngine(), 2).once(project.pipelines).sources[0].files == 0
    assert_same(ids(), [10, 15, 20, 30])

    orphan = f"{uuid7()}.parquet"
    data.put(orphan, b"PAR1 unfinished")
    assert [each.path for each in compare(project).tables[0].young.files] == [orphan]
    assert clean(project).tables[0].removed.count == 0
    time.sleep(1.1)
    report = clean(project, older_than=timedelta(0))
    assert [each.path for each in report.tables[0].removed.files] == [orphan]
    assert report.ok
    assert [each.path for each in data.list() if each.path == orphan] == []
    assert_same(ids(), [10, 15, 20, 30])
