"""Parquet files, row group by row group, in bounded memory. A record is a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import BinaryIO
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegate.errors import SourceError
from tidegate.planning.plan import FileSlice
from tidegate.schema.column_names import table_names
from tidegate.schema.types import plain
from tidegate.sink.decoder import Decoded
from tidegate.sink.formats.columnar import ColumnarFormat
from tidegate.sink.formats.counting import check_start

_ROWS = 64 * 1024
_BATCH_BYTES = 16 * 1024 * 1024
_BUFFERS = 32 * 1024 * 1024
_SMALLEST_BUFFER = 256 * 1024
_LARGEST_BUFFER = 8 * 1024 * 1024


class ParquetFormat(ColumnarFormat):
    """Reads Parquet files; only the columns that are declared."""

    seeks = True

    def decoded(self, raw: BinaryIO, each: FileSlice) -> Iterator[Decoded]:
        """The rows from ``each.start_record`` on."""
        try:
            file = open_parquet(raw)
            schema = own_schema(file)
            unknown = self._fitting.unknown(schema, each.path)
            check_start(each, file.metadata.num_rows)
            declared = {field.name for field in self._fields}
            wanted = {
                own: name for own, name in zip(file.schema_arrow.names, schema.names, strict=True) if name in declared
            }
            for batch in _batches(file, list(wanted), each.start_record):
                yield self._decode(_plain(batch, wanted), unknown)
        except (pa.ArrowException, OSError) as error:
            raise SourceError(f"{each.path}: not a whole Parquet file ({error})", "write the file again") from error


def open_parquet(raw: BinaryIO) -> pq.ParquetFile:
    """The file, to be read through a buffer per column, which together stay within bounds."""
    metadata = pq.read_metadata(raw)
    buffer = min(max(_BUFFERS // max(metadata.num_columns, 1), _SMALLEST_BUFFER), _LARGEST_BUFFER)
    return pq.ParquetFile(
        raw, metadata=metadata, buffer_size=buffer, pre_buffer=False, coerce_int96_timestamp_unit="us"
    )


def own_schema(file: pq.ParquetFile) -> pa.Schema:
    """The columns of a file in plain types, under the names that they have in a table."""
    own = file.schema_arrow
    names = zip(table_names(own.names), own, strict=True)
    return pa.schema([pa.field(name, _plain_type(each.type), each.nullable) for name, each in names])


def _batches(file: pq.ParquetFile, columns: list[str], start: int) -> Iterator[pa.RecordBatch]:
    """The rows from ``start`` on; row groups before it are not read at all."""
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        if start >= group.num_rows:
            start -= group.num_rows
            continue
        for batch in file.iter_batches(_rows_at_once(group), [number], columns, use_threads=False):
            if start < batch.num_rows:
                yield batch.slice(start)
            start = max(start - batch.num_rows, 0)


def _rows_at_once(group: pq.RowGroupMetaData) -> int:
    """Rows whose values take about as much memory as a block of lines."""
    row: int = max(group.total_byte_size // max(group.num_rows, 1), 1)
    return max(min(_ROWS, _BATCH_BYTES // row), 1)


def _plain(batch: pa.RecordBatch, names: Mapping[str, str]) -> pa.RecordBatch:
    arrays = [_plain_array(array) for array in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, names=[names[own] for own in batch.schema.names])


def _plain_array(array: pa.Array) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage if array.type != pa.uuid() else _uuid_texts(array.storage)
    kind = _plain_type(array.type)
    return array if array.type == kind else pc.cast(array, kind)


def _uuid_texts(storage: pa.Array) -> pa.Array:
    return pa.array([None if each is None else str(UUID(bytes=each)) for each in storage.to_pylist()], pa.string())


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """A type without dictionaries, extensions and other physical variants."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.string() if kind == pa.uuid() else _plain_type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_time(kind):
        return pa.string()
    if pa.types.is_fixed_size_list(kind):
        return plain(pa.list_(kind.value_field))
    return plain(kind)
