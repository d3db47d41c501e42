"""What the files of a work unit tell about their columns: so little that it can be told for all of them.

Of JSON these are the records that have something new, of CSV cells of each kind, of Parquet and Avro
the schemas of the files themselves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing

import pyarrow as pa

from tidegate.errors import SourceError
from tidegate.schema.column_names import unusable
from tidegate.schema.infer import Inference, look
from tidegate.schema.infer_cells import cell_kind, examples_of, infer_cells
from tidegate.schema.infer_types import infer_types
from tidegate.sink.decompression import chunks
from tidegate.sink.formats.avro import AvroFile
from tidegate.sink.formats.csv import sampled_records
from tidegate.sink.formats.json_array import element_lines
from tidegate.sink.formats.parquet import open_parquet, own_schema
from tidegate.sink.lines import LineTooLong, blocks, without_mark
from tidegate.sink.unit_files import file_format, opened, told_of
from tidegate.sources.http.shapes import Shapes
from tidegate.sources.units.fetched import FetchedFile
from tidegate.specs import FieldSpec, SchemaSpec
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
        """All names, and a cell of each kind that no other file had; a bad record is told when it is read."""
        names = _names(self._read, file)
        if not names:
            return
        format = file_format(self._read, SchemaSpec(), tuple(FieldSpec(name, "string") for name in names), file)
        good, reason = 0, ""
        with closing(opened(file, seeks=False)) as raw:
            for decoded in format.decoded(raw, file.slice):
                good += decoded.batch.num_rows
                reason = reason or next((each.reason for each in decoded.rejected), "")
                if good:
                    yield from self._cells(dict.fromkeys(names))
                for name, column in zip(names, decoded.batch.columns, strict=True):
                    for cell in examples_of(column).values():
                        yield from self._cells({name: cell})
        if reason and not good:
            raise SourceError(f"{file.slice.path}: no record can be read ({reason})", "correct the file")

    def _cells(self, row: dict[str, str | None]) -> list[bytes]:
        kinds = {(name, "" if cell is None else cell_kind(cell)) for name, cell in row.items()}
        is_new = not kinds <= self._seen
        self._seen |= kinds
        return [json.dumps(row).encode()] if is_new else []


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
