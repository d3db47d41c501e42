"""Parquet files, row group by row group, in bounded memory. A record is a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegate.core.files.plan import FileSlice
from tidegate.errors import SourceError
from tidegate.formats.columnar import ColumnarFormat
from tidegate.formats.port import Decoded, check_start
from tidegate.schema.names import table_names
from tidegate.schema.types import simplify_type

_ROWS = 64 * 1024
_CELLS = 16 * _ROWS
"""Rows read at once; more for files with few columns, so that each batch has about as many cells."""

_BATCH_BYTES = 16 * 1024 * 1024
_BUFFERS = 32 * 1024 * 1024
_SMALLEST_BUFFER = 256 * 1024
_LARGEST_BUFFER = 8 * 1024 * 1024
_EXPANDED_BYTES = 128 * 1024 * 1024
_HARMLESS = 4 * 1024
_ITEM_BYTES = 8
"""Memory of an item of a list; in the file a few bytes may stand for millions of equal items."""

_PAGE_HEADER = 32
_NEXT_NUMBER = 0x15

LARGEST_ROW = 64 * 1024 * 1024
"""The most bytes of a row, of a text and of a dictionary; a file with larger ones is refused."""


class ParquetFormat(ColumnarFormat):
    """Reads the declared columns of Parquet files."""

    seeks = True

    def read(self, raw: BinaryIO, file: FileSlice) -> Iterator[Decoded]:
        try:
            parquet = open_parquet(raw)
            schema = read_schema(parquet, self._fit.forbidden)
            unknown = self._fit.find_unknown(schema, file.path)
            check_start(file, parquet.metadata.num_rows)
            declared = {field.name for field in self._fields}
            wanted = {
                own: name
                for own, name in zip(parquet.schema_arrow.names, schema.names, strict=True)
                if name in declared
            }
            for batch in _Groups(raw, parquet, list(wanted), file.path).batches(file.start_record):
                yield self._decode(Decoded.of_good(_simplify(batch, wanted)), unknown)
        # Arrow's MemoryError is an ArrowException too; the task decides what to do when memory runs out.
        except MemoryError:
            raise
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise SourceError(f"{file.path}: not a whole Parquet file ({error})", "write the file again") from error


def open_parquet(raw: BinaryIO) -> pq.ParquetFile:
    """Open a file with a read buffer per column, all within bounds."""
    return _open(raw, pq.read_metadata(raw))


def _open(raw: BinaryIO, metadata: pq.FileMetaData, dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
    buffer = min(max(_BUFFERS // max(metadata.num_columns, 1), _SMALLEST_BUFFER), _LARGEST_BUFFER)
    return pq.ParquetFile(
        raw,
        metadata=metadata,
        buffer_size=buffer,
        # Buffering ahead would hold the columns of a whole row group.
        pre_buffer=False,
        # As nanoseconds, which is the default, INT96 ends in the year 2262.
        coerce_int96_timestamp_unit="us",
        read_dictionary=list(dictionaries) or None,
    )


def read_schema(file: pq.ParquetFile, forbidden: tuple[str, ...] = ()) -> pa.Schema:
    """Return the columns of a file in plain types, with their names in a table."""
    try:
        own = file.schema_arrow
        names = zip(table_names(own.names, forbidden), own, strict=True)
        return pa.schema([pa.field(name, _simplify_type(column.type), column.nullable) for name, column in names])
    except UnicodeDecodeError as error:
        raise pa.ArrowInvalid(f"the name of a column is not Unicode: {error}") from error


class _Groups:
    """The row groups of one file, each in batches that fit into memory.

    The footer has the size of the columns of a row group. It does not say how much larger they become if a column
    refers to a dictionary: one long text in it may stand for every row. So the longest is looked up first.
    """

    def __init__(self, raw: BinaryIO, file: pq.ParquetFile, columns: list[str], path: str) -> None:
        self._raw = raw
        self._file = file
        self._columns = columns
        self._path = path

    def batches(self, start: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows from ``start`` on; earlier row groups are not read at all."""
        for number in range(self._file.metadata.num_row_groups):
            group = self._file.metadata.row_group(number)
            if start >= group.num_rows:
                start -= group.num_rows
                continue
            rows = self._rows_at_once(number, group)
            for batch in self._file.iter_batches(rows, [number], self._columns, use_threads=False):
                if start < batch.num_rows:
                    yield batch.slice(start)
                start = max(start - batch.num_rows, 0)

    def _rows_at_once(self, number: int, group: pq.RowGroupMetaData) -> int:
        """Rows whose values take about as much memory as a block of lines, and never far more."""
        places = [place for place in range(group.num_columns) if self._is_wanted(group.column(place))]
        chunks = [group.column(place) for place in places]
        written = sum(chunk.total_uncompressed_size for chunk in chunks)
        items = sum(max(chunk.num_values - group.num_rows, 0) for chunk in chunks)
        # In a dictionary, one long value of fixed length may stand for every row.
        kinds = [self._file.schema.column(place) for place in places]
        fixed = sum(int(kind.length) for kind in kinds if kind.physical_type == "FIXED_LEN_BYTE_ARRAY")
        row: int = max(max(written, items * _ITEM_BYTES) // max(group.num_rows, 1), fixed, 1)
        if row > LARGEST_ROW:
            raise self._refuse(f"the rows of row group {number} have {row:,} bytes on average")
        for chunk in chunks:
            self._check_dictionary(number, chunk)
        most = min(max(_ROWS, _CELLS // max(len(chunks), 1)), max(group.num_rows, 1))
        harmless = min(_HARMLESS, _EXPANDED_BYTES // most)
        longest = self._longest_entries(
            number, [chunk.path_in_schema for chunk in chunks if _may_expand(chunk, harmless)]
        )
        if longest > LARGEST_ROW:
            raise self._refuse(f"row group {number} has texts of {longest:,} bytes")
        rows: int = min(most, _BATCH_BYTES // row, _EXPANDED_BYTES // max(longest, 1))
        return max(rows, 1)

    def _is_wanted(self, chunk: pq.ColumnChunkMetaData) -> bool:
        path: str = chunk.path_in_schema
        return any(path == name or path.startswith(f"{name}.") for name in self._columns)

    def _check_dictionary(self, number: int, chunk: pq.ColumnChunkMetaData) -> None:
        """Refuse a dictionary that is too large to hold; its own header has the size if the footer does not."""
        if not chunk.has_dictionary_page or chunk.total_uncompressed_size <= LARGEST_ROW:
            return
        self._raw.seek(chunk.dictionary_page_offset)
        size = _read_page_size(self._raw.read(_PAGE_HEADER))
        if size > LARGEST_ROW:
            raise self._refuse(f"the dictionary of {chunk.path_in_schema!r} in row group {number} has {size:,} bytes")

    def _longest_entries(self, number: int, paths: list[str]) -> int:
        """The longest possible texts of one row from dictionaries."""
        if not paths:
            return 0
        file = _open(self._raw, self._file.metadata, paths)
        first = next(file.iter_batches(1, [number], paths, use_threads=False), None)
        return 0 if first is None else sum(map(_longest_text, first.columns))

    def _refuse(self, problem: str) -> SourceError:
        return SourceError(
            f"{self._path}: {problem}, the limit is {LARGEST_ROW // 2**20} MiB",
            "write smaller values, or smaller row groups",
        )


def _may_expand(chunk: pq.ColumnChunkMetaData, harmless: int) -> bool:
    """True if texts of a dictionary may expand far beyond the size of the column."""
    is_text: bool = chunk.physical_type == "BYTE_ARRAY" and chunk.has_dictionary_page
    return is_text and bool(chunk.total_uncompressed_size > harmless)


def _longest_text(array: pa.Array) -> int:
    """The longest entry of the dictionaries in a column, at any depth."""
    if isinstance(array, pa.DictionaryArray):
        return pc.max(pc.binary_length(array.dictionary)).as_py() or 0 if len(array.dictionary) else 0
    if isinstance(array, pa.StructArray):
        return sum(_longest_text(array.field(index)) for index in range(array.type.num_fields))
    if isinstance(array, pa.MapArray):
        return _longest_text(array.keys) + _longest_text(array.items)
    if isinstance(array, pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray):
        return _longest_text(array.values)
    return 0


def _read_page_size(header: bytes) -> int:
    """Read the unpacked size of a page: the second number of its header; 0 if it is written in another way."""
    numbers: list[int] = []
    value = shift = 0
    in_number = False
    for byte in header:
        if not in_number:
            if byte != _NEXT_NUMBER or len(numbers) == 2:
                break
            in_number, value, shift = True, 0, 0
            continue
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            numbers.append((value >> 1) ^ -(value & 1))
            in_number = False
    return numbers[1] if len(numbers) == 2 else 0


def _simplify(batch: pa.RecordBatch, names: Mapping[str, str]) -> pa.RecordBatch:
    """Select the wanted columns, without one that only lies on the path of a name with a dot."""
    # pyarrow passes invalid Unicode and decimals with too many digits on, and no reader of the table would take them.
    batch.validate(full=True)
    wanted = [(names[own], array) for own, array in zip(batch.schema.names, batch.columns, strict=True) if own in names]
    arrays = [_simplify_array(array) for _, array in wanted]
    return pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in wanted])


def _simplify_array(array: pa.Array) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        if array.type == pa.uuid():
            texts = [None if value is None else str(UUID(bytes=value)) for value in array.storage.to_pylist()]
            return pa.array(texts, pa.string())
        array = array.storage
    kind = _simplify_type(array.type)
    return array if array.type == kind else pc.cast(array, kind)


def _simplify_type(kind: pa.DataType) -> pa.DataType:
    """Drop dictionaries, extensions and other physical variants from a type."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.string() if kind == pa.uuid() else _simplify_type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _simplify_type(kind.value_type)
    # No table has times of day.
    if pa.types.is_time(kind):
        return pa.string()
    if pa.types.is_fixed_size_list(kind):
        return simplify_type(pa.list_(kind.value_field))
    return simplify_type(kind)
