"""The rows of several data files in one: read file by file, written by the same writer as everything else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.errors import TableError
from tidegate.sink.parquet import FinishedFile
from tidegate.sink.partitions import Partition
from tidegate.sink.read_task import writer_settings
from tidegate.sink.writer import RollingWriter
from tidegate.specs import SinkSpec
from tidegate.state.arrow import arrow_schema
from tidegate.state.rewriting import ActiveFile, Rewrite
from tidegate.state.table import Add, TableFacts
from tidegate.storage.port import ObjectStore

BATCH_ROWS = 65_536
NEVER_ROLL = 1 << 62


def merged(store: ObjectStore, facts: TableFacts, groups: Sequence[Sequence[ActiveFile]], sink: SinkSpec) -> Rewrite:
    """One new file for each group, durably in the store; ``TableError`` when a row would be lost."""
    columns = pa.schema(
        [field for field in arrow_schema(facts.schema_json) if field.name not in facts.partition_columns]
    )
    settings = replace(writer_settings(sink), file_size=NEVER_ROLL, rollover_secs=None, inactivity_secs=None)
    added: list[Add] = []
    with closing(RollingWriter(store, settings)) as writer:
        for group in groups:
            partition = Partition(group[0].partition_values)
            read = 0
            for file in group:
                for batch in _rows(store, file, columns):
                    writer.write(batch, partition, "")
                    read += batch.num_rows
            added.extend(_measured(store, file, read) for file in writer.cut())
    return Rewrite(tuple(file for group in groups for file in group), tuple(added))


def _rows(store: ObjectStore, file: ActiveFile, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    content = store.get(file.path)
    if len(content) != file.size:
        raise TableError(f"data file {file.path} has {len(content)} bytes, the log says {file.size}", "restore it")
    with pq.ParquetFile(pa.BufferReader(content), coerce_int96_timestamp_unit="us") as parquet:
        unknown = set(parquet.schema_arrow.names) - set(columns.names)
        if unknown:
            raise TableError(f"data file {file.path} has columns that the table has not: {', '.join(sorted(unknown))}")
        for batch in parquet.iter_batches(BATCH_ROWS):
            yield _fitted(batch, columns, file)


def _fitted(batch: pa.RecordBatch, columns: pa.Schema, file: ActiveFile) -> pa.RecordBatch:
    """The batch with the table's columns: those it lacks are null."""
    try:
        arrays = [
            batch.column(field.name).cast(field.type)
            if field.name in batch.schema.names
            else pa.nulls(batch.num_rows, field.type)
            for field in columns
        ]
    except pa.ArrowException as error:
        raise TableError(f"data file {file.path} does not fit the table's columns: {error}") from error
    return pa.RecordBatch.from_arrays(arrays, schema=columns.remove_metadata())


def _measured(store: ObjectStore, file: FinishedFile, read: int) -> Add:
    if file.record_count != read:
        raise TableError(f"{read} rows were read and {file.record_count} written to {file.path}", "nothing was changed")
    found = store.head(file.path)
    if found.size != file.size:
        raise TableError(f"data file {file.path} has {found.size} bytes and was written with {file.size}", "try again")
    return Add(file.path, file.size, file.partition_values, int(found.modified.timestamp() * 1000), file.stats or "{}")
