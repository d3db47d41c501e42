"""What the files of a work unit tell about their columns: so little that it can be told for all of them.

Of JSON these are the records that have something new, of CSV the records with a new kind of cell, of Parquet and Avro
the schemas of the files themselves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import BinaryIO, cast

import pyarrow as pa

from tidegate.errors import SourceError
from tidegate.schema.infer import Inference, look
from tidegate.schema.infer_cells import cell_kind, infer_cells
from tidegate.schema.infer_types import infer_types
from tidegate.sink.careful import BadLine
from tidegate.sink.decompression import chunks
from tidegate.sink.formats.avro import AvroFile
from tidegate.sink.formats.csv import sampled_records
from tidegate.sink.formats.json_array import element_lines
from tidegate.sink.formats.parquet import open_parquet, own_schema
from tidegate.sink.lines import LONGEST_LINE, LineTooLong, blocks, without_mark
from tidegate.sources.http.shapes import Shapes
from tidegate.sources.units.fetched import FetchedFile
from tidegate.specs import SchemaSpec
from tidegate.storage.opening import open_store
from tidegate.storage.seekable import SeekableInput
from tidegate.unit_specs import FileFormat, FileRead


class Telling:
    """What the files of one work unit tell, each thing once."""

    def __init__(self, read: FileRead) -> None:
        self._read = read
        self._shapes = Shapes()
        self._seen: set[tuple[str, str] | bytes] = set()

    def of(self, file: FetchedFile) -> list[bytes]:
        """What ``file`` tells besides those before; raises :class:`SourceError` for one that cannot be read."""
        try:
            match self._read.format:
                case FileFormat.NDJSON | FileFormat.JSON:
                    told = (self._shapes.telling(line) for line in _lines(self._read, file))
                    return [record for record in told if record is not None]
                case FileFormat.CSV:
                    return list(self._rows(file))
                case FileFormat.PARQUET | FileFormat.AVRO:
                    return self._new(_schema(self._read, file).serialize().to_pybytes())
        except (SourceError, LineTooLong) as error:
            raise told_of(error, file) from error

    def _new(self, told: bytes) -> list[bytes]:
        is_new = told not in self._seen
        self._seen.add(told)
        return [told] if is_new else []

    def _rows(self, file: FetchedFile) -> Iterator[bytes]:
        """Records with a kind of cell that no other had; one that is none is told when it is read."""
        good, reasons = 0, []
        with closing(opened(file, seeks=False)) as raw:
            plain = chunks(raw, file.slice.path, file.compression)
            for sheet, record in sampled_records(plain, self._read.csv, file.slice.path):
                try:
                    row = {name: None if cell is None else cell.decode() for name, cell in sheet.cells(record)}
                except (BadLine, UnicodeDecodeError) as error:
                    reasons.append(str(error))
                    continue
                good += 1
                kinds = {(name, "" if cell is None else cell_kind(cell)) for name, cell in row.items()}
                if not kinds <= self._seen:
                    self._seen |= kinds
                    yield json.dumps(row).encode()
        if reasons and not good:
            raise SourceError(f"{file.slice.path}: no record can be read ({reasons[0]})", "correct the file")


def inferred(format: FileFormat | None, schema: SchemaSpec, told: Sequence[Sequence[bytes]]) -> Inference:
    """Columns for what each of several work units told; raises :class:`SourceError`.

    Contradictions of JSON records are told in ``problems``.
    """
    match format:
        case FileFormat.CSV:
            return infer_cells([json.loads(row) for row in rows] for rows in told)
        case FileFormat.PARQUET | FileFormat.AVRO:
            schemas = [pa.ipc.read_schema(pa.py_buffer(each)) for own in told for each in own]
            return infer_types(("the files", each, 1) for each in schemas)
        case _:
            rescued = schema.rescued is not None
            return look(told, coerce_conflicts_to_utf8=schema.coerce_conflicts_to_utf8, rescued=rescued)


def opened(file: FetchedFile, *, seeks: bool) -> BinaryIO:
    """The file as it was fetched or listed."""
    store, there = open_store(file.location), file.slice
    if seeks:
        return cast(BinaryIO, SeekableInput(store, there.path, etag=there.etag, size=there.size))
    return store.open_input(there.path, etag=there.etag, size=there.size)


def told_of(error: SourceError | LineTooLong, file: FetchedFile) -> SourceError:
    """The same error about a file by the name that people know it by."""
    if isinstance(error, LineTooLong):
        return SourceError(f"{file.where}: a record is longer than {LONGEST_LINE // 2**20} MiB", "write the file again")
    problem = error.problem.removeprefix(f"{file.slice.path}: ")
    is_named = problem != error.problem
    return SourceError(f"{file.where}: {problem}" if is_named else problem, error.remedy)


def _lines(read: FileRead, file: FetchedFile) -> Iterator[bytes]:
    with closing(opened(file, seeks=False)) as raw:
        plain = chunks(raw, file.slice.path, file.compression)
        is_array = read.format is FileFormat.JSON
        whole = element_lines(without_mark(plain), file.slice.path) if is_array else plain
        yield from (line for block in blocks(whole) for line in block.splitlines() if line.strip())


def _schema(read: FileRead, file: FetchedFile) -> pa.Schema:
    if read.format is FileFormat.AVRO:
        with closing(opened(file, seeks=False)) as raw:
            return AvroFile(raw, file.slice.path).schema
    try:
        return own_schema(open_parquet(opened(file, seeks=True)))
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{file.where}: not a whole Parquet file ({error})", "write the file again") from error
