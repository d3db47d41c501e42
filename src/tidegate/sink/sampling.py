"""A look into some files of a source, to infer its columns: first lines, first records, or the files' own schemas.

A file that cannot be read says nothing here and is refused when it is read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import BinaryIO, cast

import pyarrow as pa

from tidegate.errors import ObjectChanged, ObjectMissing, SourceError
from tidegate.planning.plan import FileSlice
from tidegate.schema.infer import Inference
from tidegate.schema.infer_cells import Row, infer_cells
from tidegate.schema.infer_types import infer_types
from tidegate.sink.careful import BadLine
from tidegate.sink.decompression import chunks
from tidegate.sink.formats.avro import AvroFile
from tidegate.sink.formats.csv import sampled_records
from tidegate.sink.formats.json_array import element_lines
from tidegate.sink.formats.parquet import open_parquet, own_schema
from tidegate.sink.lines import LineTooLong, blocks, without_mark
from tidegate.specs import Format, PathSource
from tidegate.storage.port import ObjectStore
from tidegate.storage.seekable import SeekableInput

SAMPLED_FILES = 10
SAMPLED_LINES = 1000

_UNREADABLE = (SourceError, BadLine, ObjectMissing, ObjectChanged, LineTooLong, pa.ArrowException, OSError)


def spread(slices: Sequence[FileSlice]) -> Sequence[FileSlice]:
    """A few of many files, the first and the last among them, evenly in between."""
    last = len(slices) - 1
    return slices if last < SAMPLED_FILES else [slices[n * last // (SAMPLED_FILES - 1)] for n in range(SAMPLED_FILES)]


def first_lines(store: ObjectStore, source: PathSource, each: FileSlice, count: int) -> Sequence[bytes]:
    """The first JSON lines of a file, or elements of its array."""
    found: list[bytes] = []
    with contextlib.suppress(*_UNREADABLE), closing(_opened(store, each)) as raw:
        plain = chunks(raw, each.path, source.compression)
        whole = element_lines(without_mark(plain), each.path) if source.format is Format.JSON else plain
        found.extend(islice((line for block in blocks(whole) for line in block.splitlines()), count))
    return found


def without_lines(
    store: ObjectStore, source: PathSource, slices: Sequence[FileSlice], count: int, forbidden: tuple[str, ...]
) -> Inference | None:
    """What files say that are not lines of JSON; None for those that are."""
    match source.format:
        case Format.CSV:
            return _of_cells(store, source, slices, count, forbidden)
        case Format.PARQUET | Format.AVRO:
            return infer_types(_schemas(store, source.format, slices), forbidden=forbidden)
        case _:
            return None


def _of_cells(
    store: ObjectStore, source: PathSource, slices: Sequence[FileSlice], count: int, forbidden: tuple[str, ...]
) -> Inference:
    samples: list[list[Row]] = []
    unreadable = 0
    for each in slices:
        rows: list[Row] = []
        with contextlib.suppress(*_UNREADABLE), closing(_opened(store, each)) as raw:
            plain = chunks(raw, each.path, source.compression)
            for sheet, record in islice(sampled_records(plain, source.csv, each.path), count):
                try:
                    rows.append({name: None if cell is None else cell.decode() for name, cell in sheet.cells(record)})
                except (BadLine, UnicodeDecodeError):
                    unreadable += 1
        samples.append(rows)
    return infer_cells(samples, unreadable=unreadable, forbidden=forbidden)


def _schemas(store: ObjectStore, format: Format, slices: Sequence[FileSlice]) -> Iterator[tuple[str, pa.Schema, int]]:
    for each in slices:
        with contextlib.suppress(*_UNREADABLE):
            if format is Format.PARQUET:
                raw = cast(BinaryIO, SeekableInput(store, each.path, etag=each.etag, size=each.size))
                file = open_parquet(raw)
                yield each.path, own_schema(file), file.metadata.num_rows
            else:
                with closing(_opened(store, each)) as stream:
                    yield each.path, AvroFile(stream, each.path).schema, 1


def _opened(store: ObjectStore, each: FileSlice) -> BinaryIO:
    return store.open_input(each.path, etag=each.etag, size=each.size)
