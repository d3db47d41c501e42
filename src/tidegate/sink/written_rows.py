"""Written Parquet files as one stream of rows in the columns of a table, for commits that name no files.

One file at a time is in memory, so that files written for this purpose are kept small.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.errors import SchemaMismatch
from tidegate.state.files import DataFile
from tidegate.storage.port import ObjectStore

FILE_BYTES = 32 * 1024 * 1024
"""How large files become that are written to be read again."""

_ROWS = 8192


def rows_of(store: ObjectStore, files: Sequence[DataFile], columns: pa.Schema) -> pa.RecordBatchReader:
    """The rows of ``files`` in ``columns``: partition values become columns, what a file lacks is null."""
    return pa.RecordBatchReader.from_batches(columns, _batches(store, files, columns))


def _batches(store: ObjectStore, files: Sequence[DataFile], columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    for file in files:
        content = pq.ParquetFile(pa.BufferReader(store.get(file.path)))
        for batch in content.iter_batches(_ROWS):
            yield _fitted(batch, file, columns)


def _fitted(batch: pa.RecordBatch, file: DataFile, columns: pa.Schema) -> pa.RecordBatch:
    known = [*batch.schema.names, *file.partition_values]
    unknown = [name for name in known if name not in columns.names]
    if unknown:
        raise SchemaMismatch(
            f"columns {', '.join(unknown)} of {file.path} are not in the table", "add them to the table first"
        )
    arrays = [_column(batch, file, field) for field in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=columns)


def _column(batch: pa.RecordBatch, file: DataFile, field: pa.Field) -> pa.Array:
    if field.name in file.partition_values:
        return pa.repeat(_value(file.partition_values[field.name], field.type), batch.num_rows)
    if field.name in batch.schema.names:
        return batch.column(field.name).cast(field.type)
    return pa.nulls(batch.num_rows, field.type)


def _value(text: str | None, kind: pa.DataType) -> pa.Scalar:
    """A partition value from the text that Delta has of it; a moment is in UTC."""
    zoned = text is not None and pa.types.is_timestamp(kind) and kind.tz is not None
    return pa.scalar(f"{text}Z" if zoned else text, pa.string()).cast(kind)
