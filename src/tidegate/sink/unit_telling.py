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
from tidegate.schema.column_names import unusable
from tidegate.schema.infer import Inference, look
from tidegate.schema.infer_cells import cell_kind, examples_of, infer_cells
from tidegate.schema.infer_types import infer_types
from tidegate.schema.types import arrow_schema
from tidegate.sink.decompression import chunks
from tidegate.sink.formats.avro import AvroFile
from tidegate.sink.formats.csv import sampled_records
from tidegate.sink.formats.json_array import element_lines
from tidegate.sink.formats.opening import open_format
from tidegate.sink.formats.parquet import open_parquet, own_schema
from tidegate.sink.formats.port import FileFormat as RowFormat
from tidegate.sink.lines import LONGEST_LINE, LineTooLong, blocks, without_mark
from tidegate.sink.partitions import Partitioning
from tidegate.sink.read_task import ReadTask
from tidegate.sources.http.shapes import Shapes
from tidegate.sources.units.fetched import FetchedFile
from tidegate.specs import CsvOptions, FieldSpec, Format, SchemaSpec
from tidegate.storage.opening import open_store
from tidegate.storage.seekable import SeekableInput
from tidegate.unit_specs import FileFormat, FileRead, UnitRead


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
        """Kinds of cells that no other file had, and all names; a record that is none is told when it is read."""
        names = _names(self._read, file)
        fields = tuple(FieldSpec(name, "string") for name in names)
        told: list[dict[str, str | None]] = [dict.fromkeys(names)] if names else []
        format = file_format(self._read, SchemaSpec(), fields, file)
        good, reasons = 0, []
        with closing(opened(file, seeks=False)) as raw:
            for decoded in format.decoded(raw, file.slice) if names else ():
                good += decoded.batch.num_rows
                reasons += [each.reason for each in decoded.rejected[:1]]
                for name, column in zip(decoded.batch.schema.names, decoded.batch.columns, strict=True):
                    told += [{name: cell} for cell in examples_of(column).values()]
        if reasons and not good:
            raise SourceError(f"{file.slice.path}: no record can be read ({reasons[0]})", "correct the file")
        for row in told if good else ():
            kinds = {(name, "" if cell is None else cell_kind(cell)) for name, cell in row.items()}
            if not kinds <= self._seen:
                self._seen |= kinds
                yield json.dumps(row).encode()


def file_format(read: UnitRead, schema: SchemaSpec, fields: tuple[FieldSpec, ...], file: FetchedFile) -> RowFormat:
    """What reads a fetched file into columns; pages of an API are lines of JSON."""
    task = ReadTask(
        source=file.location,
        table=file.location,
        fields=fields,
        file_schema=b"",
        compression=file.compression,
        format=Format(read.format) if isinstance(read, FileRead) else Format.NDJSON,
        csv=read.csv if isinstance(read, FileRead) else CsvOptions(),
        numbers=schema.numbers,
        coerce_conflicts_to_utf8=schema.coerce_conflicts_to_utf8,
        rescued=schema.rescued,
    )
    return open_format(task, Partitioning(None, arrow_schema(fields)))


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


def _names(read: FileRead, file: FetchedFile) -> tuple[str, ...]:
    """The columns of a CSV file; none where it has no record."""
    with closing(opened(file, seeks=False)) as raw:
        records = sampled_records(chunks(raw, file.slice.path, file.compression), read.csv, file.slice.path)
        names = next((sheet.names for sheet, _ in records), ())
    if problems := unusable(list(names), ()):
        raise SourceError(f"{file.slice.path}: {'; '.join(problems)}", "declare schema.fields, or write the file again")
    return names


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
