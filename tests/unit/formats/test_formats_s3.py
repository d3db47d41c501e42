"""Formats against a real object store: ranged requests for Parquet, and a file that is replaced while it is read."""

from __future__ import annotations

import contextlib
import io
import os

import pyarrow.parquet as pq
import pytest

from servers.s3 import Server
from support.format_files import ENDINGS, written
from tidegate.core.files.plan import FileGroup, FileSlice
from tidegate.errors import ObjectChanged
from tidegate.formats.port import Fetcher
from tidegate.parquet.partitions import Partitioning
from tidegate.schema.types import arrow_schema
from tidegate.specs.files import Format
from tidegate.specs.table import FieldSpec
from tidegate.storage.stores import open_store
from tidegate.tasks.read_task import ReadTask, open_format
from tidegate.tasks.task import read_group_at_once

pytestmark = pytest.mark.s3

FIELDS = (FieldSpec("id", "int64"), FieldSpec("k", "string"))


@pytest.mark.parametrize("format", sorted(ENDINGS))
def test_large_and_small_objects_are_read(s3: Server, format: str) -> None:
    source, table = s3.location("in"), s3.location("out")
    store = open_store(source)
    slices = []
    for number, records in enumerate((5, 20_000, 5)):
        rows = [{"id": 100_000 * number + place, "k": os.urandom(20).hex()} for place in range(records)]
        path = f"{number}{ENDINGS[format]}"
        store.put(path, written(format, rows, row_group=4000))
        found = store.head(path)
        slices.append(FileSlice(path, found.size, found.etag))
    schema = arrow_schema(FIELDS)
    task = ReadTask(source, table, FIELDS, schema.serialize().to_pybytes(), format=Format(format))
    result = read_group_at_once(task, FileGroup(0, tuple(slices)))
    tables = [pq.read_table(io.BytesIO(open_store(table).get(file.path))) for file in result.data_files]
    ids = sorted(number for each in tables for number in each.column("id").to_pylist())
    assert ids == [*range(5), *range(100_000, 120_000), *range(200_000, 200_005)]


def test_a_parquet_object_that_is_replaced_while_it_is_read_is_noticed(s3: Server) -> None:
    store = open_store(s3.location("in"))
    rows = [{"id": place, "k": os.urandom(50).hex()} for place in range(40_000)]
    store.put("a.parquet", written("parquet", rows, row_group=10_000))
    found = store.head("a.parquet")
    each = FileSlice("a.parquet", found.size, found.etag)
    schema = arrow_schema(FIELDS)
    task = ReadTask(store.location, store.location, FIELDS, schema.serialize().to_pybytes(), format=Format.PARQUET)
    reading = open_format(task, Partitioning(None, schema))
    with contextlib.closing(Fetcher(store).open(each, seeks=True)) as raw:
        decoded = reading.read(raw, each)
        assert next(decoded).lines
        store.put("a.parquet", written("parquet", rows[:39_999], row_group=10_000))
        with pytest.raises(ObjectChanged):
            list(decoded)
