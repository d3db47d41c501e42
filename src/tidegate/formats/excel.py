"""Excel sheets as lines of JSON, so that their cells are read by the same rules as every other record.

The first row names the columns. Times have no zone in Excel; they are those of ``timezone``. Of a formula the value
counts that was saved with it.
"""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from datetime import UTC, date, datetime, time, timedelta
from itertools import islice
from math import isfinite
from typing import Any, BinaryIO
from zoneinfo import ZoneInfo

import orjson
import pyarrow as pa

from tidegate.core.files.plan import FileSlice
from tidegate.errors import EnvironmentProblem, SourceError
from tidegate.formats.files import Fetcher
from tidegate.formats.json_decoder import Decoder
from tidegate.formats.strict_lines import RecordRules
from tidegate.schema.names import table_names
from tidegate.specs.columns import TableRead
from tidegate.specs.project import FieldSpec, PathSource, SchemaSpec
from tidegate.storage.stores import open_store

PATTERN = "*.xls[xm]"
ROWS_AT_ONCE = 4096
"""Rows of a sheet that are decoded together."""

LARGEST_SHEET = 2 * 1024**3
"""Bytes of a sheet, which is read row by row."""

LARGEST_PART = 256 * 1024**2
"""Bytes of any other part, as the texts that the sheets share, which are held in memory."""

MOST_ROWS = 1_048_576
"""Rows that a sheet can have. A file may number a row as it likes, and all that are left out before it are given."""

UNSUSPICIOUS, MOST_PACKED = 64 * 1024**2, 200
"""A part that unpacks to more than so many bytes may not unpack to more than so many times its size."""


def workbooks_of(name: str, read: TableRead) -> PathSource:
    """The workbooks of a scan as a source of files; those that Excel keeps while it edits are none."""
    pattern = read.pattern or PATTERN
    return PathSource(name, read.location, pattern=pattern, exclude=("~$*",), follow_links=read.follow_links)


def sheet_lines(
    raw: BinaryIO, path: str, sheet: str | None, timezone: str, days: Collection[str] = ()
) -> Iterator[bytes]:
    """One line per row below the first; an empty row is an empty line. ``days`` are columns that hold no times."""
    rows = _rows(raw, path, sheet)
    names = _names(next(rows, ()), path)
    zone = ZoneInfo(timezone)
    for number, row in enumerate(rows, start=2):
        filled = [(name, value) for name, value in zip(names, row, strict=False) if value is not None]
        try:
            cells = {name: _cell(value, None if name in days else zone) for name, value in filled}
        except OverflowError as error:
            raise SourceError(f"{path}, row {number}: {error}", "correct the cell") from error
        if any(value is not None for value in row[len(names) :]) or None in cells:
            raise SourceError(f"{path}, row {number}: a cell has no column name above it", "name it in the first row")
        yield orjson.dumps(cells) if cells else b""


class WorkbookScan:
    """The function that runs in a task: numbers of slots in, the rows of their workbooks out."""

    def __init__(
        self,
        source: PathSource,
        fields: tuple[FieldSpec, ...],
        schema: SchemaSpec,
        sheet: str | None,
        timezone: str,
        slots: Sequence[Sequence[FileSlice]],
    ) -> None:
        self._payload = pickle.dumps((source, fields, schema, sheet, timezone, [tuple(slot) for slot in slots]))
        """As bytes: no plan of Spark's shows what the location's options hold."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        source, fields, schema, sheet, timezone, slots = pickle.loads(self._payload)
        decoder = Decoder(RecordRules(fields, schema.numbers, schema.coerce_conflicts_to_utf8))
        days = {field.name for field in fields if field.type == "date"}
        fetcher = Fetcher(open_store(source.location))
        for batch in batches:
            for slot in batch.column(0).to_pylist():
                for each in slots[slot]:
                    with closing(fetcher.seekable(each)) as raw:
                        lines = sheet_lines(raw, each.path, sheet, timezone, days)
                        yield from _decode(decoder, lines, each.path)


def first_rows(source: PathSource, each: FileSlice, sheet: str | None, timezone: str, count: int) -> Sequence[bytes]:
    """The first rows of a workbook as lines."""
    with closing(Fetcher(open_store(source.location)).seekable(each)) as raw:
        lines = sheet_lines(raw, each.path, sheet, timezone)
        return [line for line in islice(lines, count) if line]


def _decode(decoder: Decoder, lines: Iterator[bytes], path: str) -> Iterator[pa.RecordBatch]:
    before = 2
    while some := list(islice(lines, ROWS_AT_ONCE)):
        decoded = decoder.decode(b"".join(line + b"\n" for line in some))
        if decoded.rejected:
            first = decoded.rejected[0]
            raise SourceError(f"{path}, row {before + first.offset}: {first.reason}", "correct the cell, or the schema")
        before += decoded.lines
        yield decoded.batch


def _rows(raw: BinaryIO, path: str, sheet: str | None) -> Iterator[tuple[Any, ...]]:
    try:
        from openpyxl import load_workbook  # type: ignore[import-untyped]  # it has no types
    except ImportError as error:
        raise EnvironmentProblem(
            "Excel files are read by openpyxl, which is missing", "install tidegate[excel]"
        ) from error
    _check_sizes(raw, path)
    try:
        book = load_workbook(raw, read_only=True, data_only=True)
    except Exception as error:
        raise SourceError(f"{path} is no Excel workbook ({error})", "correct the file, or the pattern") from error
    if sheet is not None and sheet not in book.sheetnames:
        raise SourceError(f"{path} has no sheet {sheet!r}", f"its sheets are {', '.join(book.sheetnames)}")
    if not book.worksheets:
        raise SourceError(f"{path} has no sheet with cells", "correct the file, or the pattern")
    found = book[sheet] if sheet is not None else book.worksheets[0]
    found.reset_dimensions()
    rows = found.iter_rows(values_only=True)
    for _ in range(MOST_ROWS + 1):
        try:
            row = next(rows, None)
        except Exception as error:
            raise SourceError(f"{path}: a sheet is damaged ({error})", "write the file again") from error
        if row is None:
            return
        yield row
    raise SourceError(f"{path}: a sheet has more than {MOST_ROWS:,} rows", "correct the file: Excel has no more")


def _check_sizes(raw: BinaryIO, path: str) -> None:
    """Refuse a workbook that unpacks beyond the limits; what its directory says is all that is ever unpacked."""
    try:
        with zipfile.ZipFile(raw) as parts:
            found = parts.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise SourceError(f"{path} is no Excel workbook ({error})", "correct the file, or the pattern") from error
    for part in found:
        limit = LARGEST_SHEET if part.filename.startswith("xl/worksheets/") else LARGEST_PART
        if part.file_size > limit:
            raise SourceError(
                f"{path}: {part.filename} unpacks to {part.file_size:,} bytes, the limit is {limit // 2**20} MiB",
                "write the rows into several workbooks, or as CSV or Parquet",
            )
        if part.file_size > UNSUSPICIOUS and part.file_size > MOST_PACKED * part.compress_size:
            raise SourceError(
                f"{path}: {part.filename} unpacks to {part.file_size:,} bytes, more than {MOST_PACKED} times its size",
                "cells are at most 32,767 characters long; write the file again",
            )


def _names(row: Sequence[Any], path: str) -> list[str | None]:
    given = [None if value is None else str(value).strip() for value in row]
    fitted = iter(table_names([name for name in given if name is not None]))
    names = [None if name is None else next(fitted) for name in given]
    twice = [name for name in names if name is not None and names.count(name) > 1]
    if twice:
        raise SourceError(f"{path}: the first row has {twice[0]!r} twice", "give each column a name of its own")
    return names


def _cell(value: Any, zone: ZoneInfo | None) -> object:
    match value:
        case datetime() if zone is None and value.time() == time():
            return value.date().isoformat()
        case int() if not -(2**63) <= value < 2**64:
            return orjson.Fragment(str(value))
        case float() if not isfinite(value):
            raise OverflowError("a number is too large for every column")
        case datetime():
            return value.replace(tzinfo=zone).astimezone(UTC).isoformat().replace("+00:00", "Z")
        case date() | time():
            return value.isoformat()
        case timedelta():
            return str(value)
        case _:
            return value
