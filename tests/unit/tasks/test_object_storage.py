"""The same walk against a real object store: many small objects, one that was replaced, large uploads."""

from __future__ import annotations

import gzip
import io
import os

import pyarrow.parquet as pq
import pytest

from servers.s3 import Server
from tidegate.core.files.plan import FileGroup, FileSlice
from tidegate.core.files.state import Changed, Covered
from tidegate.parquet.writer import WriterSettings
from tidegate.schema.types import arrow_schema
from tidegate.specs.table import FieldSpec, PartitionBy
from tidegate.storage.port import Upload
from tidegate.storage.stores import open_store
from tidegate.tasks.read_task import ReadTask
from tidegate.tasks.task import read_group_at_once

pytestmark = pytest.mark.s3

FIELDS = (FieldSpec("id", "int64"), FieldSpec("k", "string"))


def test_small_objects_are_fetched_ahead_and_each_is_the_one_that_was_listed(s3: Server) -> None:
    source, table = s3.location("in"), s3.location("out")
    store = open_store(source)
    slices = []
    for number in range(50):
        path = f"date=2024-01-28/{number:03d}.gz"
        store.put(path, gzip.compress(b'{"id":%d,"k":"a b:c"}\n' % number))
        found = store.head(path)
        slices.append(FileSlice(path, found.size, found.etag))
    store.put("date=2024-01-28/007.gz", gzip.compress(b'{"id":-7}\n'))
    store.delete("date=2024-01-28/008.gz")
    task = ReadTask(
        source,
        table,
        FIELDS,
        arrow_schema(FIELDS[:1]).serialize().to_pybytes(),
        partition_by=PartitionBy("k", "k"),
    )
    result = read_group_at_once(task, FileGroup(0, tuple(slices)))
    changed = [each.path for each in result.outcomes if isinstance(each, Changed)]
    assert changed == ["date=2024-01-28/007.gz", "date=2024-01-28/008.gz"]
    assert sum(isinstance(each, Covered) for each in result.outcomes) == 48
    data = open_store(table).get(result.data_files[0].path)
    assert result.data_files[0].path.startswith("k=a b%3Ac/")
    assert len(data) == result.data_files[0].size
    ids = pq.read_table(io.BytesIO(data)).column("id").to_pylist()
    assert ids == [number for number in range(50) if number not in (7, 8)]


def test_large_files_arrive_whole(s3: Server) -> None:
    source, table = s3.location("in"), s3.location("out")
    text = b"".join(b'{"id":%d,"k":"%s"}\n' % (number, os.urandom(30).hex().encode()) for number in range(150_000))
    store = open_store(source)
    store.put("a.ndjson", text)
    found = store.head("a.ndjson")
    writer = WriterSettings(
        file_size=4 << 20, row_group_size=2 << 20, uploads=2, upload=Upload(part_size=5 << 20, multipart_from=1 << 20)
    )
    task = ReadTask(source, table, FIELDS, arrow_schema(FIELDS).serialize().to_pybytes(), writer=writer)
    result = read_group_at_once(task, FileGroup(0, (FileSlice("a.ndjson", found.size, found.etag),)))
    assert len(result.data_files) > 1
    destination = open_store(table)
    tables = [pq.read_table(io.BytesIO(destination.get(file.path))) for file in result.data_files]
    assert sorted(number for each in tables for number in each.column("id").to_pylist()) == list(range(150_000))
