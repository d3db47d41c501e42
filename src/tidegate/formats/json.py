"""JSON files, an object per line or one array per file: record batches, and a reason for every line that is no record.

A record is a line; lines are counted as they lie in the file, blank ones included, because a commit remembers that
count of a half-read file.

The elements of an array become lines, whole chunks at once. Brackets and commas outside texts decide where an element
ends, whatever else is wrong inside it, so a malformed element becomes a line that the decoder refuses, and its
neighbours stay whole. Line ends inside an element become blanks; inside a text, where JSON does not allow them, they
become carriage returns, which it does not allow either. The native reader reads elements of large files in place, and
makes lines only of those that may be no records.

One reader has all the rules: the strict line reader (:mod:`~tidegate.formats.strict_lines`). It makes Python values and
is slow. So the native reader, if installed, goes first: it reads lines that surely are records straight into columns,
gives the reason for others if it knows it, and leaves the rest, bad or merely odd, to the strict one. Without it, the
strict one reads all lines. Both give the same result, reasons included; a law in ``tests/laws`` says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.core.files.plan import FileSlice
from tidegate.errors import SourceError
from tidegate.formats.port import Decoded, Rejected, batch_of, chunks, one_batch
from tidegate.formats.strict_lines import BadLine, RecordRules, StrictLineReader
from tidegate.schema.literals import DEEPEST, find_native
from tidegate.schema.types import arrow_schema
from tidegate.specs.files import Compression, Format
from tidegate.specs.table import FieldSpec

BLOCK_BYTES = 4 * 1024 * 1024
LONGEST_LINE = 64 * 1024 * 1024
MOST_RECORDS = 100_000
"""The most records of a block: each that is bad, or read without the native reader, is several Python objects."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class LineTooLong(Exception):
    """The line after the last block is longer than :data:`LONGEST_LINE`."""


def blocks(chunks: Iterable[bytes], *, block_bytes: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Cut chunks into blocks of about ``block_bytes`` that end with a newline; adds a missing last newline.

    Raises :class:`LineTooLong` after the lines before that one, so that memory stays bounded.
    """
    held: list[bytes | memoryview] = []
    size = open_size = 0
    for chunk in chunks:
        held.append(chunk)
        size += len(chunk)
        end = chunk.rfind(b"\n") + 1
        open_size = len(chunk) - end if end else open_size + len(chunk)
        if open_size > LONGEST_LINE:
            yield from _check_line_lengths(b"".join(held))
        if end and size >= block_bytes:
            held[-1] = memoryview(chunk)[:end]
            yield from _check_line_lengths(b"".join(held))
            held, size = [chunk[end:]], open_size
    last = b"".join(held)
    if last:
        yield from _check_line_lengths(last if last.endswith(b"\n") else last + b"\n")


def _check_line_lengths(block: bytes) -> Iterator[bytes]:
    """Yield a block, or its lines before one that is too long; then raise."""
    start = 0
    while len(block) - start > LONGEST_LINE:
        end = block.find(b"\n", start, start + LONGEST_LINE + 1)
        if end < 0:
            yield from _cut_into_records(block[:start])
            raise LineTooLong
        start = end + 1
    yield from _cut_into_records(block)


def _cut_into_records(block: bytes) -> Iterator[bytes]:
    """Cut a block into parts of at most :data:`MOST_RECORDS` lines; nothing if empty."""
    is_end = np.frombuffer(block, np.uint8) == _NEWLINE
    ends = (
        np.flatnonzero(is_end)[MOST_RECORDS - 1 :: MOST_RECORDS] + 1 if np.count_nonzero(is_end) > MOST_RECORDS else ()
    )
    for start, end in pairwise([0, *ends, len(block)]):
        if start < end:
            yield block[start:end]


def strip_byte_order_mark(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Drop a byte order mark at the beginning of the chunks."""
    beginning = b""
    rest = iter(chunks)
    for chunk in rest:
        beginning += chunk
        if len(beginning) >= len(_BYTE_ORDER_MARK):
            break
    yield beginning.removeprefix(_BYTE_ORDER_MARK)
    yield from rest


def skip_lines(chunks: Iterable[bytes], count: int, path: str | None = None) -> Iterator[bytes]:
    """Drop the first ``count`` lines of the chunks; with ``path``, there must be that many."""
    left = count
    for chunk in chunks:
        lines = chunk.count(b"\n") if left else 0
        if lines < left:
            left -= lines
            continue
        start = 0
        while left:
            start, left = chunk.index(b"\n", start) + 1, left - 1
        if start < len(chunk):
            yield chunk[start:]
    if left and path is not None:
        raise SourceError(
            f"{path}: has {count - left} lines, but {count} of its lines are committed",
            "the file was truncated after it was read; restore it",
        )


def line_blocks(raw: BinaryIO, path: str, compression: Compression, *, is_array: bool) -> Iterator[bytes]:
    """Read the lines of a file in blocks; for an array, its elements."""
    plain = strip_byte_order_mark(chunks(raw, path, compression))
    return blocks(element_lines(plain, path) if is_array else plain)


Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]

_QUOTE, _COMMA, _BACKSLASH, _NEWLINE, _RETURN, _BLANK = b'",\\\n\r '
_STEPS = np.zeros(256, np.int64)
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1
_WHITE = np.zeros(256, bool)
_WHITE[list(b" \t\r\n")] = True
_NO_PLACES = np.empty(0, np.int64)
_NOTHING = b","
"""The line for a missing element, as after a last comma."""


def element_lines(chunks: Iterable[bytes], path: str) -> Iterator[bytes]:
    """Turn the elements of the array in ``chunks`` into lines, without the last newline; raises :class:`SourceError`.

    A single object is an array of one. An empty file has no record.
    """
    file = _ArrayFile(path)
    for chunk in chunks:
        inside = file.select_inside(chunk)
        if inside:
            lines, end = file.splitter.take(inside)
            file.check_end(inside, end)
            yield lines
    yield file.end()


def gather_chunks(chunks: Iterable[bytes], size: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Join chunks to at least ``size`` bytes each, except the last."""
    held: list[bytes] = []
    missing = size
    for chunk in chunks:
        held.append(chunk)
        missing -= len(chunk)
        if missing <= 0:
            yield b"".join(held)
            held, missing = [], size
    yield b"".join(held)


@dataclass(frozen=True, slots=True)
class JsonChunk:
    """A chunk with its structure: quotes that open or close a text, and brackets outside texts.

    ``depths`` are those after each bracket, ``depth`` the one at the beginning; ``inside``: the chunk begins in a text.
    """

    content: Bytes
    inside: bool
    depth: int
    quotes: Places
    brackets: Places
    depths: Places

    def are_inside(self, places: Places) -> npt.NDArray[np.bool_]:
        """Tell which places lie in texts; an opening quote does not."""
        inside_text: npt.NDArray[np.bool_] = (np.searchsorted(self.quotes, places) + self.inside) % 2 == 1
        return inside_text

    def depths_at(self, places: Places) -> Places:
        """Return the depth at each place; at a bracket, the one before it."""
        return np.concatenate(([self.depth], self.depths))[np.searchsorted(self.brackets, places)]

    def up_to(self, end: int) -> JsonChunk:
        """Drop what lies from ``end`` on."""
        kept = self.brackets < end
        return replace(self, content=self.content[:end], brackets=self.brackets[kept], depths=self.depths[kept])

    def split(self) -> bytes:
        """Turn commas between elements into line ends, and drop the blanks between elements."""
        between = self._places_between()
        separators = between[self.content[between] == _COMMA]
        kept = np.ones(len(self.content), bool)
        kept[between[_WHITE[self.content[between]]]] = False
        breaks = np.flatnonzero((self.content == _NEWLINE) | (self.content == _RETURN))
        # `bytes` cannot be written to.
        lines = self.content.copy()
        lines[breaks] = np.where(self.are_inside(breaks), _RETURN, _BLANK)
        lines[separators] = _NEWLINE
        return lines[kept].tobytes()

    def _places_between(self) -> Places:
        """Return every place outside texts between elements."""
        shallow = np.concatenate(([self.depth], self.depths)) == 1
        starts = np.concatenate(([0], self.brackets + 1))[shallow]
        lengths = np.concatenate((self.brackets, [len(self.content)]))[shallow] - starts
        before = np.cumsum(lengths) - lengths
        places: Places = np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
        return places[~self.are_inside(places)]


class JsonScanner:
    """Finds the structure of JSON chunk by chunk, without parsing it: where texts and brackets are, and how deep.

    ``depth`` is that after the last chunk; ``inside``: that chunk ends in a text.
    """

    def __init__(self, depth: int = 0) -> None:
        self.depth = depth
        self.inside = False
        self._escaped = False

    def take(self, chunk: bytes) -> JsonChunk:
        content = np.frombuffer(chunk, np.uint8)
        quotes, self._escaped = find_text_quotes(content, self._escaped)
        folded = content | 32  # folds both kinds of brackets into one
        part = JsonChunk(content, self.inside, self.depth, quotes, _NO_PLACES, _NO_PLACES)
        brackets = np.flatnonzero((folded == ord("{")) | (folded == ord("}")))
        brackets = brackets[~part.are_inside(brackets)]
        depths = self.depth + np.cumsum(_STEPS[content[brackets]])
        self.inside ^= bool(len(quotes) % 2)
        self.depth = int(depths[-1]) if len(depths) else self.depth
        return replace(part, brackets=brackets, depths=depths)


def find_text_quotes(content: Bytes, escaped: bool) -> tuple[Places, bool]:
    """Find the quotes that open or close texts, and whether the first byte after ``content`` is escaped.

    A byte after an odd number of backslashes is escaped; ``escaped`` says whether the first byte is.
    """
    quotes: Places = np.flatnonzero(content == _QUOTE)
    slashes = np.flatnonzero(content == _BACKSLASH)
    if escaped:
        slashes = np.concatenate((np.array([-1]), slashes))
    if not len(slashes):
        return quotes, False
    starts = np.flatnonzero(np.diff(slashes, prepend=-9) != 1)
    lengths = np.diff(starts, append=len(slashes))
    after = (slashes[starts] + lengths)[lengths % 2 == 1]
    return quotes[~np.isin(quotes, after)], bool(len(after)) and int(after[-1]) == len(content)


class Splitter(Protocol):
    """Splits what follows the opening bracket, chunk by chunk; counts the complete elements."""

    elements: int
    element_is_empty: bool

    def take(self, chunk: bytes) -> tuple[bytes, int | None]:
        """Return the lines of a chunk, and the place of the bracket that closes the whole, if it is there."""


class ChunkSplitter:
    """Splits in numpy, where the native module is missing; ``outer`` is the depth at which the whole is closed."""

    def __init__(self, outer: int) -> None:
        self.elements = 0
        self.element_is_empty = True
        self._outer = outer
        self._structure = JsonScanner(depth=1)

    def take(self, chunk: bytes) -> tuple[bytes, int | None]:
        part = self._structure.take(chunk)
        closing = np.flatnonzero((part.depths <= self._outer) & (_STEPS[part.content[part.brackets]] < 0))
        if not len(closing):
            return self._fill_gaps(part.split()), None
        end = int(part.brackets[closing[0]])
        return self._fill_gaps(part.up_to(end + self._outer).split()), end

    def _fill_gaps(self, lines: bytes) -> bytes:
        """Add a line for every missing element, and count elements."""
        if not lines:
            return lines
        if self.element_is_empty and lines.startswith(b"\n"):
            lines = _NOTHING + lines
        # More than once, because replacements do not overlap: three line ends leave two.
        while b"\n\n" in lines:
            lines = lines.replace(b"\n\n", b"\n" + _NOTHING + b"\n")
        self.elements += lines.count(b"\n")
        self.element_is_empty = lines.endswith(b"\n")
        return lines


class _ArrayFile:
    """A file that is one array or one object: its beginning, its elements, and that nothing follows."""

    splitter: Splitter

    def __init__(self, path: str) -> None:
        self._path = path
        self._kind = ""
        self._ended = False

    def select_inside(self, chunk: bytes) -> bytes:
        """Return the part of the next chunk inside the array, for which there is a splitter."""
        if self._ended:
            self._check_behind(chunk)
            return b""
        return chunk if self._kind else self._begin(chunk.lstrip(b" \t\r\n"))

    def check_end(self, inside: bytes, end: int | None) -> None:
        """Check the bracket that closes the whole; raises for a wrong one and for anything after it."""
        if end is not None:
            self._ended = True
            self._check_bracket(inside[end : end + 1])
            self._check_behind(inside[end + 1 :])

    def end(self) -> bytes:
        """Return the rest at the end; raises if the array is truncated."""
        if not self._kind:
            return b""
        if not self._ended:
            raise SourceError(f"{self._path}: the {self._kind} is truncated", "write the whole file again")
        return _NOTHING if self.splitter.elements and self.splitter.element_is_empty else b""

    def _begin(self, chunk: bytes) -> bytes:
        if not chunk:
            return chunk
        self._kind = {b"[": "array", b"{": "object"}.get(chunk[:1], "")
        if not self._kind:
            raise SourceError(
                f"{self._path}: begins with {chunk[:1]!r}, so it is neither a JSON array nor an object",
                "write one array of objects, or set `format` of the source to what its files are",
            )
        native = find_native()
        splitter: Callable[[int], Splitter] = ChunkSplitter if native is None else native.ArraySplitter
        self.splitter = splitter(0 if self._kind == "array" else 1)
        return chunk[1:] if self._kind == "array" else chunk

    def _check_bracket(self, found: bytes) -> None:
        if found != (b"]" if self._kind == "array" else b"}"):
            raise SourceError(
                f"{self._path}: the {self._kind} is closed by {found.decode()!r} after element "
                f"{self.splitter.elements + 1}",
                "write the file again",
            )

    def _check_behind(self, rest: bytes) -> None:
        if rest.strip(b" \t\r\n"):
            raise SourceError(
                f"{self._path}: something follows the {self._kind}",
                "write one array per file, or set `format: ndjson` for a file with an object per line",
            )


_BLANKS = b" \t\r"

Parts = tuple[int, int, Sequence[bytes | None], Sequence["Parts"]]
"""A column: its values, how many of them are null, its buffers, its child columns."""

Odd = tuple[int, int, int, str | None]
"""A line that was not read: its number, start and end, and the reason if known."""

Block = tuple[int, int, Sequence[Parts], bytes | None, Sequence[Odd], Sequence[tuple[str, int]]]
"""Lines, records, columns, the line of each record (None: record ``n`` is line ``n``), unread lines, and the fields
that the schema lacks.
"""


class NativeLines(Protocol):
    """Reads blocks of lines into declared columns, except lines that may be no records."""

    def read(self, block: bytes) -> Block: ...

    def read_elements(self, splitter: Any, chunk: bytes, longest: int) -> tuple[Block, bytes, int, int | None]:
        """Read elements of an array; unread elements are in the lines that come with the block."""


class Decoder:
    """Decodes the blocks of one or many files.

    ``unknown`` counts every field that the schema lacks, by path, null or not; with a rescued column also the values
    that did not fit.
    """

    def __init__(self, rules: RecordRules) -> None:
        self.schema = arrow_schema(rules.fields)
        self._strict = StrictLineReader(rules)
        self.unknown: Counter[str] = self._strict.unknown
        self._native = _open_native_reader(rules)
        self._twins = frozenset(_lower_paths(rules.known, "")) if rules.tells_twins else frozenset[str]()

    @property
    def reads_elements(self) -> bool:
        """True if elements of an array can be read in place; not if the strict reader may have to read them again."""
        return self._native is not None and not self._twins

    def decode_lines(self, lines: Iterable[bytes]) -> Decoded:
        """Decode lines without line ends."""
        return self.decode(b"".join(line + b"\n" for line in lines))

    def decode(self, block: bytes) -> Decoded:
        """Decode the records of ``block``, which ends with a newline."""
        if self._native is None:
            return self._decode_strictly(block)
        result = self._native.read(block)
        if self._twins and any(path.lower() in self._twins for path, _ in result[-1]):
            # The native reader leaves fields that differ in case only out; the strict one refuses them.
            return self._decode_strictly(block)
        return replace(self._complete(result, block), text=_lines_of(block))

    def _decode_strictly(self, block: bytes) -> Decoded:
        lines = [line.strip(_BLANKS) for line in block.split(b"\n")[:-1]]
        filled = [(number, line, None) for number, line in enumerate(lines) if line]
        batch, kept, rejected = self._read_strictly(filled)
        offsets = None if len(kept) == len(lines) else np.array(kept)
        return Decoded(batch, len(lines), offsets, rejected, text=lines.__getitem__)

    def read_elements(self, splitter: Any, chunk: bytes, longest: int) -> tuple[Decoded, int, int | None]:
        """Decode the elements of an array that end in ``chunk``; return bytes read, and where the array ends.

        ``splitter`` is the native one, and knows whether an element longer than ``longest`` follows.
        """
        assert self._native is not None
        result, lines, taken, end = self._native.read_elements(splitter, chunk, longest)
        return self._complete(result, lines), taken, end

    def _complete(self, result: Block, block: bytes) -> Decoded:
        """Complete the result of the native reader with what the strict one makes of odd lines."""
        count, rows, columns, places, odd, unknown = result
        self.unknown.update(dict(unknown))
        arrays = [array_of(column.type, parts) for column, parts in zip(self.schema, columns, strict=True)]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        offsets = None if places is None else np.frombuffer(places, np.int64)
        if not odd:
            return Decoded(batch, count, offsets)
        others, kept, rejected = self._read_strictly(
            # The first of several reasons may hide a twin, which only the strict reader knows.
            (number, block[start:end], None if self._twins else reason)
            for number, start, end, reason in odd
        )
        if kept:
            offsets = np.concatenate([offsets if offsets is not None else np.arange(rows), np.array(kept)])
            order = np.argsort(offsets)
            batch = one_batch([batch, others], self.schema).take(pa.array(order))
            offsets = None if len(offsets) == count else offsets[order]
        return Decoded(batch, count, offsets, rejected)

    def _read_strictly(
        self, lines: Iterable[tuple[int, bytes, str | None]]
    ) -> tuple[pa.RecordBatch, list[int], tuple[Rejected, ...]]:
        """Read numbered lines: the records with their numbers, and the other lines with their reasons."""
        records: list[dict[str, Any]] = []
        kept: list[int] = []
        rejected: list[Rejected] = []
        for number, line, reason in lines:
            if reason is not None:
                rejected.append(Rejected(number, reason, line))
                continue
            try:
                records.append(self._strict.read(line))
                kept.append(number)
            except BadLine as bad:
                rejected.append(Rejected(number, str(bad), line))
        return batch_of(records, self.schema), kept, tuple(rejected)


def _lower_paths(fields: Iterable[FieldSpec], place: str) -> Iterator[str]:
    """Yield the path of every field in lower case, as unknown fields are counted: without places in lists and maps."""
    for field in fields:
        path = place + field.name.lower()
        yield path
        yield from _lower_paths(_members(field), f"{path}.")


def _members(field: FieldSpec) -> tuple[FieldSpec, ...]:
    """Return the fields of the structs in a column, through lists and maps."""
    inner = field.items or field.values
    return field.fields if inner is None else _members(inner)


def _lines_of(block: bytes) -> Callable[[int], bytes]:
    """Return a function that gives a line by its number; the block is split when the first one is wanted."""
    lines: list[bytes] = []

    def find_line(number: int) -> bytes:
        if not lines:
            lines.extend(block.split(b"\n"))
        return lines[number].strip(_BLANKS)

    return find_line


def _open_native_reader(rules: RecordRules) -> NativeLines | None:
    module = find_native()
    if module is None:
        return None
    reader: NativeLines = module.LineReader(
        rules.fields,
        lenient=not rules.is_strict,
        coerce=rules.coerce,
        rescued=rules.rescued,
        forbidden=rules.forbidden,
        filled=rules.filled,
        deepest=DEEPEST,
    )
    return reader


def array_of(kind: pa.DataType, parts: Parts) -> pa.Array:
    """Build an Arrow array from the buffers of a column."""
    length, nulls, buffers, inner = parts
    arrow_buffers = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
    children: list[pa.Array] = []
    if pa.types.is_map(kind):
        pairs = [array_of(child, part) for child, part in zip((kind.key_type, kind.item_type), inner, strict=True)]
        children = [pa.StructArray.from_arrays(pairs, fields=[kind.key_field, kind.item_field])]
    elif inner:
        kinds: list[Any] = [kind.field(number).type for number in range(kind.num_fields)]
        children = [array_of(child, part) for child, part in zip(kinds, inner, strict=True)]
    return pa.Array.from_buffers(kind, length, arrow_buffers, nulls, 0, children or None)


class LineFormat:
    """Files as blocks of lines, which may be decoded together with those of other files.

    ``keeps_text``: the text of good records may be asked for, so that elements of an array are made lines first.
    """

    seeks = False

    def __init__(self, decoder: Decoder, format: Format, compression: Compression, *, keeps_text: bool = False) -> None:
        self._decoder = decoder
        self._keeps_text = keeps_text
        self._is_array = format is Format.JSON
        self._compression = compression
        self.noun = "record" if self._is_array else "line"

    @property
    def unknown(self) -> Counter[str]:
        """Fields that the schema lacks, with their counts."""
        return self._decoder.unknown

    def blocks(self, raw: BinaryIO, file: FileSlice) -> Iterator[bytes]:
        """Yield the uncommitted lines of a file in blocks."""
        lines = line_blocks(raw, file.path, self._compression, is_array=self._is_array)
        return skip_lines(lines, file.start_record, file.path) if file.start_record else lines

    def decode(self, block: bytes) -> Decoded:
        return self._decoder.decode(block)

    def read(self, raw: BinaryIO, file: FileSlice) -> Iterator[Decoded]:
        # A half-read file is continued line by line: its committed records are skipped by number.
        if self._is_array and not file.start_record and self._decoder.reads_elements and not self._keeps_text:
            return self._read_elements(chunks(raw, file.path, self._compression), file.path)
        return map(self._decoder.decode, self.blocks(raw, file))

    def _read_elements(self, plain: Iterator[bytes], path: str) -> Iterator[Decoded]:
        """Yield the elements of an array, read in place."""
        file = _ArrayFile(path)
        for chunk in gather_chunks(strip_byte_order_mark(plain)):
            inside = file.select_inside(chunk)
            while inside:
                splitter: Any = file.splitter
                decoded, taken, end = self._decoder.read_elements(splitter, inside, LONGEST_LINE)
                file.check_end(inside, end)
                if decoded.lines:
                    yield decoded
                if splitter.is_too_long:
                    raise LineTooLong
                inside = inside[taken:]
        file.end()

    def reread(self, contents: Sequence[bytes], path: str) -> Decoded:
        return self._decoder.decode_lines(contents)
