"""Avro object container files, block by block, in bounded memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO

import pyarrow as pa

from tidegate.errors import SourceError, TidegateError
from tidegate.planning.plan import FileSlice
from tidegate.schema.avro_library import reading_library
from tidegate.sink.decoder import Decoded
from tidegate.sink.formats.avro_schema import Types
from tidegate.sink.formats.columnar import ColumnarFormat
from tidegate.sink.formats.counting import check_start

_ROWS = 8192


class AvroFormat(ColumnarFormat):
    """Reads Avro files with the schema that each of them carries."""

    seeks = False

    def decoded(self, raw: BinaryIO, each: FileSlice) -> Iterator[Decoded]:
        """The records from ``each.start_record`` on; whole blocks before it are not decoded."""
        file = AvroFile(raw, each.path)
        unknown = self._fitting.unknown(file.schema, each.path)
        for batch in file.batches(each.start_record):
            yield self._decode(batch, unknown)
        check_start(each, file.records)


class _Counted:
    """A stream that knows how far it was read, which is all that the library asks besides reading."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._place = 0

    def read(self, size: int = -1) -> bytes:
        content = self._raw.read(size)
        self._place += len(content)
        return content

    def tell(self) -> int:
        return self._place


class AvroFile:
    """One open file, whose columns are ``schema``; ``records`` counts those that have gone by."""

    def __init__(self, raw: BinaryIO, path: str) -> None:
        self._path = path
        self.records = 0
        with self._guarded():
            self._blocks = reading_library().block_reader(_Counted(raw))
            kind, self._shape = Types().of(self._blocks.writer_schema)
        if not pa.types.is_struct(kind):
            raise SourceError(f"{path}: its schema is not a record", "write the file with a record schema")
        self._type = kind
        self.schema = pa.schema(list(kind))

    def batches(self, start: int = 0) -> Iterator[pa.RecordBatch]:
        """The records from ``start`` on, some thousands at a time."""
        while True:
            with self._guarded():
                block = next(self._blocks, None)
            if block is None:
                return
            before, self.records = self.records, self.records + block.num_records
            if self.records > start:
                records = iter(block)
                with self._guarded():
                    list(islice(records, max(start - before, 0)))
                yield from self._of_block(records)

    def _of_block(self, records: Iterator[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
        while True:
            with self._guarded():
                found = list(islice(records, _ROWS))
                if self._shape is not None:
                    found = [self._shape(record) for record in found]
                batch = pa.RecordBatch.from_struct_array(pa.array(found, self._type))
            if not batch.num_rows:
                return
            yield batch

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """Whatever the library raises means that the file is not whole."""
        try:
            yield
        except TidegateError:
            raise
        except Exception as error:
            raise SourceError(f"{self._path}: not a whole Avro file ({error})", "write the file again") from error
