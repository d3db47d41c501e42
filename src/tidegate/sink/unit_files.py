"""Fetched files of work units, opened and ready to be read into columns."""

from __future__ import annotations

from typing import BinaryIO, cast

from tidegate.errors import SourceError
from tidegate.schema.types import arrow_schema
from tidegate.sink.formats.opening import open_format
from tidegate.sink.formats.port import FileFormat
from tidegate.sink.lines import LONGEST_LINE, LineTooLong
from tidegate.sink.partitions import Partitioning
from tidegate.sink.read_task import ReadTask
from tidegate.sources.units.fetched import FetchedFile
from tidegate.specs import CsvOptions, FieldSpec, Format, SchemaSpec
from tidegate.storage.opening import open_store
from tidegate.storage.seekable import SeekableInput
from tidegate.unit_specs import FileRead, UnitRead


def opened(file: FetchedFile, *, seeks: bool) -> BinaryIO:
    """The file as it was fetched or listed."""
    store, there = open_store(file.location), file.slice
    if seeks:
        return cast(BinaryIO, SeekableInput(store, there.path, etag=there.etag, size=there.size))
    return store.open_input(there.path, etag=there.etag, size=there.size)


def file_format(read: UnitRead, schema: SchemaSpec, fields: tuple[FieldSpec, ...], file: FetchedFile) -> FileFormat:
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


def told_of(error: SourceError | LineTooLong, file: FetchedFile) -> SourceError:
    """The same error about a file by the name that people know it by."""
    if isinstance(error, LineTooLong):
        return SourceError(f"{file.where}: a record is longer than {LONGEST_LINE // 2**20} MiB", "write the file again")
    problem = error.problem.removeprefix(f"{file.slice.path}: ")
    is_named = problem != error.problem
    return SourceError(f"{file.where}: {problem}" if is_named else problem, error.remedy)
