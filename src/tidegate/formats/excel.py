"""Excel sheets as lines of JSON, so that their cells follow the same rules as every other record.

The first row names the columns. Times have no zone in Excel; they are in ``timezone``. For formulas, the cached value
is used.

The library that reads workbooks unpacks anything, holds every cell between the first and the last, aborts the process
if memory runs out, and does not represent errors and long numbers. So each part is unpacked here, within limits,
its XML is checked, and the library gets a workbook of those parts alone.
"""

from __future__ import annotations

import pickle
import posixpath
import re
import zipfile
from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from datetime import UTC, date, datetime, time, timedelta
from itertools import islice
from math import isfinite
from tempfile import NamedTemporaryFile
from typing import Any, BinaryIO
from xml.parsers import expat
from zoneinfo import ZoneInfo

import orjson
import pyarrow as pa

from tidegate.core.files.plan import FileSlice
from tidegate.errors import EnvironmentProblem, SourceError, TidegateError
from tidegate.formats.json import Decoder
from tidegate.formats.port import Decoded, Fetcher, scan
from tidegate.formats.samples import SAMPLED_LINES, spread
from tidegate.formats.strict_lines import RecordRules
from tidegate.schema.inference import check_agreement, infer_json
from tidegate.schema.names import table_names
from tidegate.specs.columns import TableRead
from tidegate.specs.files import PathSource
from tidegate.specs.table import FieldSpec, SchemaSpec
from tidegate.storage.stores import open_store

PATTERN = "*.xls[xm]"
ROWS_AT_ONCE = 4096
"""Rows of a sheet that are decoded together."""

LARGEST_SHEET = 2 * 1024**3
"""The most bytes of a sheet, unpacked on disk."""

LARGEST_PART = 256 * 1024**2
"""The most bytes of any other part, such as the shared texts, which are held in memory."""

LARGEST_TEXT = 512 * 1024**2
"""The most characters of all texts of a sheet; a shared text counts each time, since it is held that often."""

MOST_ROWS, MOST_COLUMNS = 1_048_576, 16_384
"""The most rows and columns of a sheet. A file may number a cell as it likes."""

MOST_CELLS = 16 * 1024**2
"""The most cells from the first to the last, which are held whether filled or not."""

MOST_KEPT = 1_000_000
"""The most whole numbers of 16 digits or more and errors, which are kept beside what the library reads."""

UNSUSPICIOUS, MOST_PACKED = 64 * 1024**2, 200
"""A part that unpacks to more than ``UNSUSPICIOUS`` bytes may be at most ``MOST_PACKED`` times its packed size."""

_CHUNK = 1024 * 1024
_WORKBOOK, _RELATIONS, _TEXTS = "xl/workbook.xml", "xl/_rels/workbook.xml.rels", "xl/sharedStrings.xml"
_PARTS = (_WORKBOOK, _RELATIONS, _TEXTS, "xl/styles.xml", "[Content_Types].xml", "_rels/.rels")
_MOST_SHEETS = 10_000
_REFERENCE = re.compile("([A-Z]{1,3})([1-9][0-9]{0,9})")
_LONG_NUMBER = re.compile("[-+]?[0-9]{16,}")


def workbooks_of(name: str, read: TableRead) -> PathSource:
    """Describe the workbooks of a scan as a source of files, without Excel's temporary ones."""
    pattern = read.pattern or PATTERN
    return PathSource(name, read.location, pattern=pattern, exclude=("~$*",), follow_links=read.follow_links)


def sheet_lines(
    raw: BinaryIO, path: str, sheet: str | None, timezone: str, days: Collection[str] = ()
) -> Iterator[bytes]:
    """Yield one line per row below the first; an empty row is an empty line. ``days`` are columns without times."""
    rows = _read_rows(raw, path, sheet)
    names = _read_names(next(rows, ()), path)
    zone = ZoneInfo(timezone)
    for number, row in enumerate(rows, start=2):
        filled = [(name, value) for name, value in zip(names, row, strict=False) if value != ""]
        try:
            cells = {name: _convert_cell(value, None if name in days else zone) for name, value in filled}
        except OverflowError as error:
            raise SourceError(f"{path}, row {number}: {error}", "correct the cell") from error
        if None in cells or any(value != "" for value in row[len(names) :]):
            raise SourceError(f"{path}, row {number}: a cell has no column name above it", "name it in the first row")
        yield orjson.dumps(cells) if cells else b""


class WorkbookFormat:
    """Reads a sheet of each workbook; records are numbered like Excel's rows, so the first is a blank one."""

    noun = "row"
    seeks = True

    def __init__(self, rules: RecordRules, sheet: str | None, timezone: str) -> None:
        self._decoder = Decoder(rules)
        self._days = {field.name for field in rules.fields if field.type == "date"}
        self._sheet = sheet
        self._timezone = timezone

    @property
    def unknown(self) -> Counter[str]:
        """Columns that the schema lacks, with the number of their values."""
        return self._decoder.unknown

    def read(self, raw: BinaryIO, file: FileSlice) -> Iterator[Decoded]:
        lines = sheet_lines(raw, file.path, self._sheet, self._timezone, self._days)
        some = [b"", *islice(lines, ROWS_AT_ONCE)]
        while some:
            yield self._decoder.decode_lines(some)
            some = list(islice(lines, ROWS_AT_ONCE))

    def reread(self, contents: Sequence[bytes], path: str) -> Decoded:
        return self._decoder.decode_lines(contents)


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
        """Pickled, so that no plan of Spark shows the options of the location."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        source, fields, schema, sheet, timezone, slots = pickle.loads(self._payload)
        format = WorkbookFormat(RecordRules(fields, schema.numbers, schema.coerce_conflicts_to_utf8), sheet, timezone)
        store = open_store(source.location)
        for batch in batches:
            for slot in batch.column(0).to_pylist():
                yield from scan(format, store, slots[slot], "correct the cell, or the schema")


def first_rows(source: PathSource, file: FileSlice, sheet: str | None, timezone: str, count: int) -> Sequence[bytes]:
    """Read the first rows of a workbook as lines."""
    with closing(Fetcher(open_store(source.location)).open(file, seeks=True)) as raw:
        lines = sheet_lines(raw, file.path, sheet, timezone)
        return [line for line in islice(lines, count) if line]


def infer_workbooks(
    source: PathSource, slices: Sequence[FileSlice], sheet: str | None, timezone: str, schema: SchemaSpec
) -> tuple[FieldSpec, ...]:
    """Infer columns from the first rows of some workbooks."""
    samples = (first_rows(source, file, sheet, timezone, SAMPLED_LINES) for file in spread(slices))
    return check_agreement(infer_json(samples, coerce_conflicts_to_utf8=schema.coerce_conflicts_to_utf8)).fields


def _read_rows(raw: BinaryIO, path: str, sheet: str | None) -> Iterator[list[Any]]:
    """Yield the rows of a sheet from its first cell on; an empty cell is an empty text."""
    workbooks = excel_library().CalamineWorkbook
    try:
        parts = zipfile.ZipFile(raw)
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise SourceError(f"{path} is no Excel workbook ({error})", "correct the file, or the pattern") from error
    with NamedTemporaryFile(prefix="tidegate-", suffix=".xlsx") as plain, closing(parts):
        name, kept = _Workbook(parts, path).write(plain, sheet)
        try:
            with workbooks.from_path(plain.name) as book:
                sheet_read = book.get_sheet_by_name(name)
                rows = sheet_read.iter_rows()
        except BaseException as error:
            raise _damage_error(error, path) from error
    column = sheet_read.start[1] if sheet_read.start else 0
    for number, row in enumerate(rows):
        cells: list[Any] = [""] * column + row
        for place, value in kept.get(number, {}).items():
            # The library turns long numbers into floats, and errors into nothing.
            if place < len(cells) and (cells[place] == "" or isinstance(cells[place], float)):
                cells[place] = value
        yield cells


def excel_library() -> Any:
    """Load the library that reads workbooks; :class:`EnvironmentProblem` if it is not installed."""
    try:
        import python_calamine
    except ImportError as error:
        raise EnvironmentProblem(
            "Excel files are read by python-calamine, which is missing", "pip install 'tidegate[excel]'"
        ) from error
    return python_calamine


def _damage_error(error: BaseException, path: str) -> BaseException:
    """Turn an error or a panic of the library, which is no ``Exception``, into that of a damaged workbook."""
    # None of these says that the file is damaged.
    if isinstance(error, MemoryError | KeyboardInterrupt | SystemExit | GeneratorExit):
        return error
    return SourceError(f"{path}: a sheet is damaged ({error})", "write the file again")


Kept = dict[int, dict[int, int | str]]
"""Values that the library does not represent, by row and column, from 0."""


class _Workbook:
    """The parts of one workbook that a sheet needs, unpacked within the limits."""

    def __init__(self, parts: zipfile.ZipFile, path: str) -> None:
        self._parts = parts
        self._path = path
        self._found = {part.filename.lower(): part for part in parts.infolist()}

    def write(self, plain: Any, sheet: str | None) -> tuple[str, Kept]:
        """Write a workbook with one sheet (None: the first) to ``plain``; returns its name, and the kept values."""
        sheets, targets, texts = _EntryPart("sheet"), _EntryPart("Relationship"), _TextPart()
        looks = {_WORKBOOK: sheets, _RELATIONS: targets, _TEXTS: texts}
        with zipfile.ZipFile(plain, "w") as written:
            for part in _PARTS:
                if part.lower() in self._found:
                    self._copy(part, written, looks.get(part) or _Part(), LARGEST_PART)
            name, part = self._choose(sheets.found, targets.found, sheet)
            cells = _CellPart(texts.lengths)
            self._copy(part, written, cells, LARGEST_SHEET)
        plain.flush()
        return name, cells.kept

    def _choose(self, sheets: _Attributes, relations: _Attributes, sheet: str | None) -> tuple[str, str]:
        """Return the name of a sheet, and of its part."""
        targets = {
            relation.get("Id"): relation.get("Target", "")
            for relation in relations
            if relation["Type"].endswith("/worksheet")
        }
        ids = {entry["name"]: next((entry[key] for key in entry if key.endswith(":id")), None) for entry in sheets}
        if sheet is not None and sheet not in ids:
            raise SourceError(f"{self._path} has no sheet {sheet!r}", f"its sheets are {', '.join(ids)}")
        for name, id_ in ids.items():
            # Targets may be relative to the folder of the workbook, or absolute.
            part = posixpath.normpath(posixpath.join("/xl", targets.get(id_, ""))).lstrip("/")
            if name == (sheet or name) and part.lower() in self._found:
                return name, part
        raise SourceError(
            f"{self._path} has no {'such ' * bool(sheet)}sheet with cells", "correct the file, or `sheet`"
        )

    def _copy(self, name: str, written: zipfile.ZipFile, look: _Part, limit: int) -> None:
        info = self._found[name.lower()]
        self._check_size(info, limit)
        try:
            with self._parts.open(info) as packed, written.open(name, "w", force_zip64=True) as copy:
                while chunk := packed.read(_CHUNK):
                    look.take(chunk)
                    copy.write(chunk)
                look.take(b"", is_last=True)
        except (TidegateError, MemoryError, OSError):
            raise
        except Exception as error:
            problem = f"{self._path}: a sheet is damaged ({name}: {error})"
            raise SourceError(problem, "write the file again, or as CSV or Parquet") from error

    def _check_size(self, part: zipfile.ZipInfo, limit: int) -> None:
        """Refuse a part that unpacks beyond the limits; only the size in the directory is ever unpacked."""
        said = f"{self._path}: {part.filename} unpacks to {part.file_size:,} bytes"
        if part.file_size > limit:
            remedy = "write the rows into several workbooks, or as CSV or Parquet"
            raise SourceError(f"{said}, the limit is {limit // 2**20} MiB", remedy)
        if part.file_size > UNSUSPICIOUS and part.file_size > MOST_PACKED * part.compress_size:
            remedy = "cells are at most 32,767 characters long; write the file again"
            raise SourceError(f"{said}, more than {MOST_PACKED} times its size", remedy)


_Attributes = list[dict[str, str]]


class _Part:
    """Checks a part while it is copied: its XML is complete and plain."""

    def __init__(self) -> None:
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        # A document type can define entities that expand without end.
        self._parser.StartDoctypeDeclHandler = self._refuse
        self._local: dict[str, str] = {}

    def take(self, content: bytes, *, is_last: bool = False) -> None:
        self._parser.Parse(content, is_last)

    def _refuse(self, *_: object) -> None:
        raise ValueError("it declares a document type, which no workbook does")

    def _name(self, element: str) -> str:
        """The name of an element without its prefix."""
        return self._local.setdefault(element, element.rpartition(":")[2])


class _EntryPart(_Part):
    """Keeps the attributes of all elements of one name."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.found: _Attributes = []
        self._wanted = name
        self._parser.StartElementHandler = self._start

    def _start(self, element: str, attributes: dict[str, str]) -> None:
        if self._name(element) == self._wanted:
            self.found.append(attributes)
            if len(self.found) > _MOST_SHEETS:
                raise ValueError(f"more than {_MOST_SHEETS:,} sheets")


class _TextPart(_Part):
    """Counts the characters of each text that sheets share."""

    def __init__(self) -> None:
        super().__init__()
        self.lengths = array("L")
        self._length = 0
        self._parser.CharacterDataHandler = self._add_text
        self._parser.EndElementHandler = self._end

    def _add_text(self, text: str) -> None:
        self._length += len(text)

    def _end(self, element: str) -> None:
        if self._name(element) == "si":
            self.lengths.append(self._length)
            self._length = 0


class _CellPart(_Part):
    """Checks the cells of a sheet: ``kept`` are values that the library would change or drop."""

    def __init__(self, shared: array[int]) -> None:
        super().__init__()
        self.kept: Kept = {}
        self._shared = shared
        self._row = self._column = self._last_row = self._last_column = self._characters = self._count = 0
        self._kind: str | None = None
        self._value: str | None = None
        self._columns: dict[str, int] = {}
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end

    def _start(self, element: str, attributes: dict[str, str]) -> None:
        name = self._name(element)
        if name == "c":
            self._place(attributes.get("r"))
            self._kind = attributes.get("t")
        elif name in ("v", "is"):
            self._value = ""
            self._parser.CharacterDataHandler = self._add_text
        elif name == "row":
            self._row = int(attributes.get("r", self._row + 1))
            self._column = 0

    def _place(self, reference: str | None) -> None:
        if reference is None:
            self._column += 1
            return
        match = _REFERENCE.fullmatch(reference)
        if match is None:
            raise ValueError(f"a cell is called {reference[:40]!r}")
        letters, row = match.groups()
        self._row, column = int(row), self._columns.get(letters)
        if column is None:
            column = 0
            for letter in letters:
                column = column * 26 + ord(letter) - 64
            self._columns[letters] = column
        self._column = column

    def _add_text(self, text: str) -> None:
        self._characters += len(text)
        self._value = text if not self._value else self._value + text if self._kind != "inlineStr" else "text"

    def _end(self, element: str) -> None:
        if self._value is None or self._name(element) not in ("v", "is"):
            return
        self._parser.CharacterDataHandler = None
        value, self._value = self._value, None
        if self._row > self._last_row:
            self._last_row = self._row
            self._check_area()
        if self._column > self._last_column:
            self._last_column = self._column
            self._check_area()
        if self._kind == "s":
            self._characters += self._shared[int(value)] if value.isdecimal() and int(value) < len(self._shared) else 0
        elif self._kind == "e":
            self._keep(value)
        # A float holds every whole number of 15 digits.
        elif len(value) > 15 and self._kind in (None, "n") and _LONG_NUMBER.fullmatch(value):
            self._keep(int(value))
        if self._characters > LARGEST_TEXT:
            raise ValueError(f"its texts have more than {LARGEST_TEXT:,} characters")

    def _check_area(self) -> None:
        """Check the area up to the last row and column, all of which is held."""
        if self._last_row > MOST_ROWS:
            raise ValueError(f"a sheet has more than {MOST_ROWS:,} rows: Excel has no more")
        if self._last_column > MOST_COLUMNS:
            raise ValueError(f"a sheet has more than {MOST_COLUMNS:,} columns: Excel has no more")
        if self._last_row * self._last_column > MOST_CELLS:
            size = f"{self._last_row:,} rows and {self._last_column:,} columns"
            raise ValueError(f"its cells reach over {size}, the limit is {MOST_CELLS:,} cells")

    def _keep(self, value: int | str) -> None:
        self._count += 1
        if self._count > MOST_KEPT:
            raise ValueError(f"more than {MOST_KEPT:,} whole numbers of 16 digits or more, or errors")
        self.kept.setdefault(self._row - 1, {})[self._column - 1] = value


def _read_names(row: Sequence[Any], path: str) -> list[str | None]:
    given = [None if value == "" else str(_to_whole(value)).strip() for value in row]
    fitted = iter(table_names([name for name in given if name is not None]))
    names = [None if name is None else next(fitted) for name in given]
    twice = [name for name in names if name is not None and names.count(name) > 1]
    if twice:
        raise SourceError(f"{path}: the first row has {twice[0]!r} twice", "give each column a name of its own")
    return names


def _to_whole(value: Any) -> Any:
    """Convert to a whole number if there is no fraction; Excel knows only floats."""
    return int(value) if type(value) is float and value.is_integer() and abs(value) < 2**53 else value


def _convert_cell(value: Any, zone: ZoneInfo | None) -> object:
    match value:
        case float() if not isfinite(value):
            raise OverflowError("a number is too large for every column")
        case float():
            return _to_whole(value)
        case int() if not -(2**63) <= value < 2**64:
            return orjson.Fragment(str(value))
        case datetime() if zone is not None or value.time() != time():
            return value.replace(tzinfo=zone or UTC).astimezone(UTC).isoformat().replace("+00:00", "Z")
        case date() if zone is not None:
            return _convert_cell(datetime.combine(value, time()), zone)
        case datetime():
            return value.date().isoformat()
        case date() | time():
            return value.isoformat()
        case timedelta():
            return str(value)
        case _:
            return value
