"""CSV files: records of text cells, named by the header of each file or by the configuration.

Numbers are written with digits, a point and an exponent; ``true`` and ``false`` in any case are booleans; cells of
structs, lists, maps and ``json`` columns contain JSON. Moments, dates and bytes are written as in JSON.

A record ends with a line end outside quotes; the header is none, a blank line is one without a row. A quote opens a
cell only at its beginning; elsewhere outside quotes it is an ordinary character. Whole blocks are split at once if
every quote stands at the edge of a cell or beside another one; otherwise record by record.

A dead letter keeps the header and the record, so that it can be read again without its file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from tidegate.core.files.plan import FileSlice
from tidegate.errors import SourceError
from tidegate.formats.columnar import INTEGER, ColumnFit, doubtful_rows, join_text_bytes, narrow, parse_decimals
from tidegate.formats.json import (
    BLOCK_BYTES,
    LONGEST_LINE,
    MOST_RECORDS,
    LineTooLong,
    skip_lines,
    strip_byte_order_mark,
)
from tidegate.formats.port import Decoded, Rejected, RowDecoder, check_start, chunks
from tidegate.formats.strict_lines import NUMBER, BadLine, RecordRules, Suspicious
from tidegate.schema.literals import Literal, NotJson, Pairs, compact, excerpt, parse
from tidegate.schema.names import decimal_of, table_names
from tidegate.schema.types import arrow_type
from tidegate.specs.columns import CsvOptions
from tidegate.specs.files import Compression
from tidegate.specs.table import FieldSpec

WIDEST = 100_000
"""A file with more columns is refused: its heading is not one, or its line ends are missing."""

_TABBED = (".tsv", ".tsv.gz", ".tsv.zst")


class CsvFormat:
    """Reads CSV files; ``unknown`` counts the records of files with an undeclared column."""

    noun = "record"
    seeks = False

    def __init__(self, rules: RecordRules, options: CsvOptions, compression: Compression) -> None:
        self.unknown: Counter[str] = Counter()
        self._fields = rules.fields
        self._options = options
        self._compression = compression
        self._rows = RowDecoder(rules)
        self._fit = ColumnFit(rules)

    def read(self, raw: BinaryIO, file: FileSlice) -> Iterator[Decoded]:
        plain = strip_byte_order_mark(chunks(raw, file.path, self._compression))
        passed = 0
        for block, sheet in self._sheets(skip_lines(plain, self._options.skip_rows), file.path):
            left = max(file.start_record - passed, 0)
            passed += len(block.ends)
            if left < len(block.ends):
                yield self._decode(block.without(left), sheet)
        check_start(file, passed)

    def reread(self, contents: Sequence[bytes], path: str) -> Decoded:
        """Decode the records in dead letters of the file at ``path``, each with its header."""
        results = [self._reread_one(content, path) for content in contents]
        good = {number: result.batch for number, result in enumerate(results) if isinstance(result, Decoded)}
        bad = [
            Rejected(number, result, contents[number])
            for number, result in enumerate(results)
            if isinstance(result, str)
        ]
        kept = [number for number, batch in good.items() if batch.num_rows]
        return Decoded.join(list(good.values()), self._rows.schema, len(contents), kept, bad)

    def _reread_one(self, content: bytes, path: str) -> Decoded | str:
        """Decode the one record of a letter, or say what is still wrong with it."""
        try:
            blocks = [self._decode(block, sheet) for block, sheet in self._sheets([content], path) if len(block.ends)]
        except SourceError as error:
            return error.problem.removeprefix(f"{path}: ")
        if len(blocks) != 1 or blocks[0].lines != 1:
            return "is not one record with a header by now"
        return blocks[0].rejected[0].reason if blocks[0].rejected else blocks[0]

    def _sheets(self, plain: Iterable[bytes], path: str) -> Iterator[tuple[RecordBlock, Sheet]]:
        """Yield the blocks of a file without its header; checks the names."""
        declared = tuple(field.name for field in self._fields)
        checked = None
        for block, sheet in sheets(plain, self._options, path, declared, self._fit.forbidden):
            if sheet is not checked:
                self._fit.check_names(list(sheet.names), path)
                checked = sheet
            yield block, sheet

    def _decode(self, block: RecordBlock, sheet: Sheet) -> Decoded:
        declared = {field.name for field in self._fields}
        rows = CsvRows(block, sheet, self._fields)
        for name in sheet.names:
            if name not in declared:
                self.unknown[name] += len(rows)
        lines = len(block.ends)
        return self._rows.decode(rows, lines, None if len(rows) == lines else rows.places)


def sheets(
    plain: Iterable[bytes],
    options: CsvOptions,
    path: str,
    declared: tuple[str, ...] = (),
    forbidden: tuple[str, ...] = (),
) -> Iterator[tuple[RecordBlock, Sheet]]:
    """Yield the blocks of a file after its header, which is the first record that is not blank.

    Columns that neither a header nor the configuration names are the ``declared`` ones, or get numbers.
    """
    by_name = "\t" if path.lower().endswith(_TABBED) else ","
    dialect = CsvDialect(options.delimiter or by_name, options.quote, options.escape)
    sheet = None
    for block in record_blocks(plain, dialect):
        if sheet is None:
            block, names, header = _read_header(block, dialect, options, path, forbidden)
            if names is None:
                continue
            names = names or declared or _number_columns(block, dialect, path)
            sheet = Sheet(names, header, dialect, options.null_values)
        yield block, sheet


def _read_header(
    block: RecordBlock, dialect: CsvDialect, options: CsvOptions, path: str, forbidden: tuple[str, ...]
) -> tuple[RecordBlock, tuple[str, ...] | None, bytes]:
    """Return the block after the header, the names of the table's columns, and the header as written.

    The names are None if the block is blank, and empty without a header and configured columns. Raises
    :class:`SourceError` for an unreadable header.
    """
    if not options.header:
        return block, options.columns, b""
    for number in range(len(block.ends)):
        start = int(block.ends[number - 1]) if number else 0
        header = block.text[start : int(block.ends[number])]
        if not _strip_line_end(header):
            continue
        try:
            cells = _split_heading(dialect, _strip_line_end(header), path)
            names = table_names([cell.decode() for cell, _ in cells], forbidden)
        except (BadLine, UnicodeDecodeError) as error:
            raise SourceError(f"{path}: its header cannot be read ({error})", "write the file again") from error
        return block.without(number + 1), names, _strip_line_end(header) + b"\n"
    return block.without(len(block.ends)), None, b""


def sample_records(plain: Iterable[bytes], options: CsvOptions, path: str) -> Iterator[tuple[Sheet, bytes]]:
    """Yield the records of a file that are not blank, without declared columns."""
    for block, sheet in sheets(skip_lines(strip_byte_order_mark(plain), options.skip_rows), options, path):
        rows = CsvRows(block, sheet, ())
        yield from ((sheet, rows.line(number)) for number in range(len(rows)))


def _number_columns(block: RecordBlock, dialect: CsvDialect, path: str) -> tuple[str, ...]:
    """Name unnamed columns, as many as the first record has cells."""
    first = _strip_line_end(block.text[: int(block.ends[0])])
    return tuple(f"column_{number}" for number in range(1, len(_split_heading(dialect, first, path)) + 1))


def _split_heading(dialect: CsvDialect, record: bytes, path: str) -> list[tuple[bytes, bool]]:
    """Split the record that tells how many columns a file has; :class:`SourceError` for absurdly many."""
    # Bounded: a heading of five million cells took minutes.
    cells = dialect.cells(record, WIDEST)
    if len(cells) > WIDEST:
        raise SourceError(
            f"{path}: its first record has more than {WIDEST:,} columns",
            "check the delimiter and the line ends; write the file again with fewer columns",
        )
    return cells


@dataclass(frozen=True, slots=True)
class Sheet:
    """What all records of one file share: columns, the header as written, the dialect."""

    names: tuple[str, ...]
    header: bytes
    dialect: CsvDialect
    null_values: tuple[str, ...]

    def cells(self, record: bytes) -> list[tuple[str, bytes | None, bool]]:
        """Return name and text of each cell, None for null, and whether it is quoted; raises :class:`BadLine`."""
        cells = self.dialect.cells(record, WIDEST)
        if len(cells) != len(self.names):
            more = "more than " if len(cells) > WIDEST else ""
            raise BadLine(f"{more}{min(len(cells), WIDEST)} cells instead of {len(self.names)}")
        nulls = {text.encode() for text in self.null_values}
        return [
            (name, None if not quoted and cell in nulls else cell, quoted)
            for name, (cell, quoted) in zip(self.names, cells, strict=True)
        ]


class CsvRows:
    """The records of a block that are not blank."""

    def __init__(self, block: RecordBlock, sheet: Sheet, fields: tuple[FieldSpec, ...]) -> None:
        self._block = block
        self._sheet = sheet
        self._fields = {field.name: field for field in fields}
        starts = np.concatenate((np.array([0], np.int64), block.ends[:-1]))[: len(block.ends)]
        lengths = block.ends - starts
        content = np.frombuffer(block.text, np.uint8)
        blank = (lengths == 1) | ((lengths == 2) & (content[starts] == ord("\r")))
        self.places = np.flatnonzero(~blank)
        self._starts, self._ends = starts[self.places], block.ends[self.places]
        self._is_ascii = block.text.isascii()

    def __len__(self) -> int:
        return len(self.places)

    def columns(self, start: int, end: int) -> dict[str, pa.Array]:
        if start == end:
            return {}
        first, last = int(self._starts[start]), int(self._ends[end - 1])
        text = self._block.text
        if not self._block.is_neat and not self._sheet.dialect.has_neat_records(text[first:last]):
            raise Suspicious("a quote at an unusual place")
        wanted = [index for index, name in enumerate(self._sheet.names) if name in self._fields]
        table = _parse(pa.py_buffer(text).slice(first, last - first), self._sheet, wanted, is_ascii=self._is_ascii)
        # A record that Arrow divides in another way would shift every row after it.
        if table.num_rows != end - start:
            raise Suspicious(f"{table.num_rows} rows in {end - start} records")
        arrays = {}
        for index, column in zip(wanted, table.columns, strict=True):
            field = self._fields[self._sheet.names[index]]
            cells = column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
            arrays[field.name] = _convert_cells(cells, field)
        return arrays

    def record(self, number: int) -> Pairs:
        """Convert the declared cells of one record to JSON values."""
        cells = self._sheet.cells(self.line(number))
        return Pairs(
            (name, None if cell is None else _convert_cell(cell, self._fields[name], quoted=quoted))
            for name, cell, quoted in cells
            if name in self._fields
        )

    def to_text(self, number: int) -> bytes:
        """The header and the record, as written."""
        return self._sheet.header + self.line(number)

    def line(self, number: int) -> bytes:
        """One record as written, without its line end."""
        return _strip_line_end(self._block.text[self._starts[number] : self._ends[number]])


def _strip_line_end(record: bytes) -> bytes:
    return record.removesuffix(b"\n").removesuffix(b"\r")


def _parse(piece: pa.Buffer, sheet: Sheet, wanted: list[int], *, is_ascii: bool) -> pa.Table:
    """Parse the wanted columns of some records, by position, as text."""
    dialect = sheet.dialect
    names = [str(index) for index in range(len(sheet.names))]
    try:
        return pv.read_csv(
            pa.BufferReader(piece),
            # In one block, because Arrow fails at a record that lies across two.
            pv.ReadOptions(use_threads=False, block_size=piece.size + 1, column_names=names),
            pv.ParseOptions(
                delimiter=dialect.delimiter,
                quote_char=dialect.quote or False,
                double_quote=dialect.quote is not None,
                newlines_in_values=dialect.quote is not None,
            ),
            pv.ConvertOptions(
                check_utf8=not is_ascii,
                column_types=dict.fromkeys(names, pa.string()),
                include_columns=[names[index] for index in wanted],
                null_values=list(sheet.null_values),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        raise Suspicious(str(error)) from error


_BOOLEANS = {"true": True, "false": False}
_NESTED = ("struct", "list", "map", "json")
_NULL_WORDS = frozenset(("-", "--", ".", "?", "n/a", "#n/a", "na", "nan", "nil", "none", "null", "\\n", "unknown"))
"""Words for a missing value, in lower case."""


def _convert_cells(cells: pa.Array, field: FieldSpec) -> pa.Array:
    """Convert text cells to the declared type; raises :class:`Suspicious` if one of them is no such value."""
    try:
        match field.type:
            case "json":
                return pa.array([None if cell is None else compact(parse(cell.encode())) for cell in cells.to_pylist()])
            case "struct" | "list" | "map":
                raise Suspicious("a cell with JSON in it")
            case "boolean":
                return _parse_booleans(cells)
            case "int32" | "int64":
                return _parse_integers(cells, field)
            case "float32" | "float64":
                return _parse_floats(cells, field)
            case _ if decimal_of(field.type):
                return parse_decimals(cells, arrow_type(field))
            case _:
                return narrow(cells, field)
    except (pa.ArrowInvalid, NotJson) as error:
        raise Suspicious(f"{field.name}: {error}") from error


def _parse_integers(cells: pa.Array, field: FieldSpec) -> pa.Array:
    """Parse plain digits at once; others through decimals, which keep a fraction for the check."""
    # Arrow reads `0x1F` and `1e0x1` as numbers, too.
    if np.any(join_text_bytes(cells) | 0x20 == ord("x")):
        raise Suspicious("not a number")
    try:
        return pc.cast(cells, arrow_type(field))
    except pa.ArrowInvalid:
        return narrow(parse_decimals(cells, INTEGER), field)


def _parse_floats(cells: pa.Array, field: FieldSpec) -> pa.Array:
    """Parse numbers, rounded if they have a fraction; a rounded whole number, or 0 for another, is suspicious."""
    values = narrow(pc.cast(cells, arrow_type(field)), field)
    doubtful = doubtful_rows(values, field, zeros=True)
    written = cells.take(pa.array(doubtful))
    zero = pc.equal(values.take(pa.array(doubtful)), pa.scalar(0.0, values.type))
    wrong = pc.if_else(
        zero, pc.match_substring_regex(written, "^[^eE]*[1-9]"), pc.match_substring_regex(written, "^[+-]?[0-9]*$")
    )
    if pc.any(wrong).as_py():
        raise Suspicious("a whole number that may be rounded, or one that became 0")
    return values


def _parse_booleans(cells: pa.Array) -> pa.Array:
    words = pc.utf8_lower(cells)
    true, false = pc.equal(words, "true"), pc.equal(words, "false")
    if not pc.all(pc.or_(true, false)).as_py():
        raise Suspicious("neither true nor false")
    return true


def _convert_cell(cell: bytes, field: FieldSpec, *, quoted: bool) -> Any:
    """Convert one cell to a JSON value; raises :class:`BadLine`."""
    try:
        text = cell.decode()
        if field.type in _NESTED:
            return parse(cell)
    except UnicodeDecodeError as error:
        raise BadLine(f"{field.name!r}: not UTF-8 at byte {error.start + 1}") from error
    except NotJson as error:
        raise BadLine(f"{field.name!r}: {error}") from error
    hint = "" if quoted or text.lower() not in _NULL_WORDS else f"; if it means null, add '{text}' to csv.null_values"
    if field.type == "boolean":
        if text.lower() not in _BOOLEANS:
            raise BadLine(f"{field.name!r}: {excerpt(text)} is neither true nor false{hint}")
        return _BOOLEANS[text.lower()]
    if field.type in ("int32", "int64", "float32", "float64") or decimal_of(field.type):
        if not NUMBER.fullmatch(text):
            raise BadLine(f"{field.name!r}: {excerpt(text)} is not a number, the column is {field.type}{hint}")
        return Literal(text)
    if hint and field.type in ("date", "timestamp"):
        raise BadLine(f"{field.name!r}: {excerpt(text)} is not a {field.type}{hint}")
    return text


Ends = npt.NDArray[np.int64]

_NEWLINE = 10


class CsvDialect:
    """The delimiter, quote and escape of cells.

    A doubled quote inside quotes is one, with an escape too: otherwise records would depend on how a file is divided.
    An escape that is the quote means just that.
    """

    def __init__(self, delimiter: str, quote: str | None, escape: str | None) -> None:
        escape = None if escape == quote else escape
        self.delimiter, self.quote, self.escape = delimiter, quote, escape
        between, around, escaping = (re.escape((sign or "").encode()) for sign in (delimiter, quote, escape))
        escaped = b"|%b." % escaping if escape else b""
        plain = b"(?:[^%b\n%b]%b)*+" % (between, escaping, escaped)
        inside = b"(?:[^%b%b]%b)*+" % (around, escaping, escaped + b"|" + 2 * around)
        # Groups: quoted (1) and what wrongly follows it (2), or plain (3).
        cell = b"(?:%b(%b)%b(%b)|(?!%b)(%b))" % (around, inside, around, plain, around, plain)
        if not quote:
            cell = b"(?:()()(?!)|(%b))" % plain
        self._cell = re.compile(cell, re.DOTALL)
        self._record = re.compile(b"%b(?:%b%b)*+\n" % (cell, between, cell), re.DOTALL)
        # Before the byte that is meant stands an escape, inside quotes also a quote.
        self._outside = re.compile(escaping + b"(.)", re.DOTALL) if escape else None
        self._inside = re.compile(b"[%b%b](.)" % (escaping, around), re.DOTALL) if escape else None

    def records(self, text: bytes) -> RecordBlock:
        """Find the whole records of ``text``."""
        neat = self.neat_ends(text)
        return RecordBlock(text, self._find_ends_one_by_one(text) if neat is None else neat, neat is not None)

    def neat_ends(self, text: bytes) -> Ends | None:
        """Find the ends of records; None if a quote or an escape stands at an unusual place."""
        if self.escape and self.escape.encode() in text:
            return None
        content = np.frombuffer(text, np.uint8)
        ends = np.flatnonzero(content == _NEWLINE)
        if self.quote and self.quote.encode() in text:
            quotes = np.flatnonzero(content == ord(self.quote))
            if not self._are_neat(content, quotes):
                return None
            ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
        else:
            quotes = np.empty(0, np.int64)
        return None if self._has_lone_returns(text, content, quotes) else ends + 1

    def _has_lone_returns(self, text: bytes, content: npt.NDArray[np.uint8], quotes: Ends) -> bool:
        """True if a carriage return outside quotes stands without a line end: Arrow reads it as one."""
        if b"\r" not in text:
            return False
        returns = np.flatnonzero(content == 13)
        returns = returns[returns + 1 < len(content)]  # the next block decides about the last byte
        lone = returns[content[returns + 1] != _NEWLINE]
        return bool(np.any(np.searchsorted(quotes, lone) % 2 == 0))

    def has_neat_records(self, text: bytes) -> bool:
        """True if the text is whole records with every quote and escape in place, the last closed too."""
        ends = self.neat_ends(text)
        return ends is not None and len(ends) > 0 and int(ends[-1]) == len(text)

    def _are_neat(self, content: npt.NDArray[np.uint8], quotes: Ends) -> bool:
        """True if each opening quote begins a cell and each closing one ends it, doubled ones aside."""
        opening, closing = quotes[0::2], quotes[1::2]
        doubled = opening[1:] == closing[: len(opening) - 1] + 1
        before = content[np.maximum(opening - 1, 0)]
        begins = (before == ord(self.delimiter)) | (before == _NEWLINE) | (opening == 0)
        begins[1:] |= doubled
        after = content[np.minimum(closing + 1, len(content) - 1)]
        stops = (after == ord(self.delimiter)) | (after == _NEWLINE) | (after == 13) | (closing + 1 == len(content))
        stops[: len(doubled)] |= doubled[: len(stops)]
        return bool(begins.all() and stops.all())

    def _find_ends_one_by_one(self, text: bytes) -> Ends:
        ends = []
        place = 0
        while record := self._record.match(text, place):
            place = record.end()
            ends.append(place)
        return np.array(ends, np.int64)

    def cells(self, record: bytes, most: int | None = None) -> list[tuple[bytes, bool]]:
        """Split one record, without its line end, into cells and whether they were quoted; raises :class:`BadLine`.

        At most one more than ``most`` are looked at.
        """
        cells_read: list[tuple[bytes, bool]] = []
        place = 0
        while True:
            cell = self._cell.match(record, place)
            if cell is None:
                raise BadLine(f"cell {len(cells_read) + 1} has a quote that is not closed")
            quoted, behind, plain = cell.groups()
            if behind:
                raise BadLine(f"cell {len(cells_read) + 1} goes on behind its closing quote")
            cells_read.append(self._unquote(quoted, plain))
            place = cell.end()
            if place == len(record) or len(cells_read) - 1 == most:
                return cells_read
            place += 1

    def _unquote(self, quoted: bytes | None, plain: bytes | None) -> tuple[bytes, bool]:
        if quoted is None and b"\r" in (plain or b""):
            raise BadLine("a carriage return outside quotes")
        text, escapes = (plain or b"", self._outside) if quoted is None else (quoted, self._inside)
        if escapes is not None:
            text = escapes.sub(rb"\1", text)
        elif quoted is not None and self.quote:
            text = text.replace(2 * self.quote.encode(), self.quote.encode())
        return text, quoted is not None


@dataclass(frozen=True, slots=True)
class RecordBlock:
    """Whole records: the text, which may continue after them, and the end of each.

    ``is_neat``: no quote and no escape stands at an unusual place, so none does in a part of it.
    """

    text: bytes
    ends: Ends
    is_neat: bool

    def without(self, count: int) -> RecordBlock:
        """Drop the first ``count`` records."""
        return self.part(count, len(self.ends)) if count else self

    def part(self, start: int, end: int) -> RecordBlock:
        """Return the records from number ``start`` to before ``end``."""
        first, last = (int(self.ends[number - 1]) if number else 0 for number in (start, end))
        return RecordBlock(self.text[first:last], self.ends[start:end] - first, self.is_neat)

    def rest(self) -> bytes:
        """Return the text after the last record."""
        return self.text[int(self.ends[-1]) :] if len(self.ends) else self.text


def record_blocks(
    chunks: Iterable[bytes], dialect: CsvDialect, *, block_bytes: int = BLOCK_BYTES
) -> Iterator[RecordBlock]:
    """Cut chunks into blocks of whole records of about ``block_bytes``.

    Raises :class:`LineTooLong` after the records before that one, so that memory stays bounded. The rest at the end is
    a record too, whether its line or its quotes are closed or not.
    """
    held: list[bytes] = []
    size, wanted = 0, block_bytes
    for chunk in chunks:
        held.append(chunk)
        size += len(chunk)
        if size < wanted:
            continue
        block = dialect.records(b"".join(held))
        yield from _check_record_lengths(block)
        held = [block.rest()]
        size = len(held[0])
        if size > LONGEST_LINE + 1:
            raise LineTooLong
        # Doubling: a record of many blocks would otherwise be searched from its start once per chunk.
        wanted = block_bytes if len(block.ends) else min(2 * size, LONGEST_LINE + 2)
    text = b"".join(held)
    if text:
        block = dialect.records(text if text.endswith(b"\n") else text + b"\n")
        if block.rest():
            # A file that was cut off inside quotes must give a bad record here, not a row.
            block = replace(block, ends=np.append(block.ends, len(block.text)), is_neat=False)
        yield from _check_record_lengths(block)


def _check_record_lengths(block: RecordBlock) -> Iterator[RecordBlock]:
    """Yield a block in parts of few records, or its records before one that is too long; then raise."""
    long = np.flatnonzero(np.diff(block.ends, prepend=0) - 1 > LONGEST_LINE)
    count = int(long[0]) if len(long) else len(block.ends)
    if 0 < count == len(block.ends) <= MOST_RECORDS:
        yield block
    else:
        yield from (block.part(at, min(at + MOST_RECORDS, count)) for at in range(0, count, MOST_RECORDS))
    if len(long):
        raise LineTooLong
