"""CSV text as records: where each one ends, line ends inside quotes included, and the cells of a single one.

A quote opens a cell only where the cell begins; anywhere else outside quotes it is a character like others. Whole
blocks are split at once where every quote stands at the edge of a cell or beside another one; where not, record by
record.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tidegate.formats.json import BLOCK_BYTES, LONGEST_LINE, LineTooLong
from tidegate.formats.strict_lines import BadLine

Ends = npt.NDArray[np.int64]

_NEWLINE = 10


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """What separates cells and what stands around them."""

    delimiter: str
    quote: str | None
    escape: str | None
    _cell: re.Pattern[bytes] = field(init=False, repr=False, compare=False)
    _record: re.Pattern[bytes] = field(init=False, repr=False, compare=False)
    _unescape: re.Pattern[bytes] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        cell = self._pattern()
        between = re.escape(self.delimiter.encode())
        escape = re.escape((self.escape or "").encode())
        object.__setattr__(self, "_cell", re.compile(cell, re.DOTALL))
        object.__setattr__(self, "_record", re.compile(b"%b(?:%b%b)*+\n" % (cell, between, cell), re.DOTALL))
        object.__setattr__(self, "_unescape", re.compile(escape + b"(.)", re.DOTALL) if self.escape else None)

    def _pattern(self) -> bytes:
        """One cell: quoted (1) and what wrongly follows it (2), or plain (3)."""
        between, quote, escape = (
            re.escape(each.encode()) if each else b"" for each in (self.delimiter, self.quote, self.escape)
        )
        escaped = b"|%b." % escape if escape else b""
        plain = b"(?:[^%b\n%b]%b)*+" % (between, escape, escaped)
        if not quote:
            return b"(?:()()(?!)|(%b))" % plain
        inside = b"(?:[^%b%b]%b)*+" % (quote, escape, escaped or b"|" + 2 * quote)
        return b"(?:%b(%b)%b(%b)|(?!%b)(%b))" % (quote, inside, quote, plain, quote, plain)

    def ends(self, text: bytes) -> Ends:
        """Behind which places records end; what follows the last is not whole."""
        found = self.neat_ends(text)
        return self._ends_one_by_one(text) if found is None else found

    def neat_ends(self, text: bytes) -> Ends | None:
        """The same at once; None where a quote or an escape stands at an unusual place."""
        if self.escape and self.escape.encode() in text:
            return None
        content = np.frombuffer(text, np.uint8)
        ends = np.flatnonzero(content == _NEWLINE)
        if self.quote and self.quote.encode() in text:
            quotes = np.flatnonzero(content == ord(self.quote))
            if not self._are_neat(content, quotes):
                return None
            ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
        return ends + 1

    def _are_neat(self, content: npt.NDArray[np.uint8], quotes: Ends) -> bool:
        """Whether each opening quote begins a cell and each closing one ends it, doubled ones aside."""
        opening, closing = quotes[0::2], quotes[1::2]
        doubled = opening[1:] == closing[: len(opening) - 1] + 1
        before = content[np.maximum(opening - 1, 0)]
        begins = (before == ord(self.delimiter)) | (before == _NEWLINE) | (opening == 0)
        begins[1:] |= doubled
        after = content[np.minimum(closing + 1, len(content) - 1)]
        stops = (after == ord(self.delimiter)) | (after == _NEWLINE) | (after == 13) | (closing + 1 == len(content))
        stops[: len(doubled)] |= doubled[: len(stops)]
        return bool(begins.all() and stops.all())

    def _ends_one_by_one(self, text: bytes) -> Ends:
        found = []
        place = 0
        while record := self._record.match(text, place):
            place = record.end()
            found.append(place)
        return np.array(found, np.int64)

    def cells(self, record: bytes) -> list[tuple[bytes, bool]]:
        """The cells of one record, without its line end, and whether they were quoted; raises :class:`BadLine`."""
        found: list[tuple[bytes, bool]] = []
        place = 0
        while True:
            cell = self._cell.match(record, place)
            if cell is None:
                raise BadLine(f"cell {len(found) + 1} has a quote that is not closed")
            quoted, behind, plain = cell.groups()
            if behind:
                raise BadLine(f"cell {len(found) + 1} goes on behind its closing quote")
            found.append(self._content(quoted, plain))
            place = cell.end()
            if place == len(record):
                return found
            place += 1

    def _content(self, quoted: bytes | None, plain: bytes | None) -> tuple[bytes, bool]:
        if quoted is None and b"\r" in (plain or b""):
            raise BadLine("a carriage return outside quotes")
        text = (plain or b"") if quoted is None else quoted
        if quoted is not None and self.quote and not self.escape:
            text = text.replace(2 * self.quote.encode(), self.quote.encode())
        if self._unescape is not None:
            text = self._unescape.sub(rb"\1", text)
        return text, quoted is not None


@dataclass(frozen=True, slots=True)
class RecordBlock:
    """Whole records: the text, and where each of them ends in it."""

    text: bytes
    ends: Ends

    def without(self, count: int) -> RecordBlock:
        """The same without its first records."""
        start = int(self.ends[count - 1]) if count else 0
        return RecordBlock(self.text[start:], self.ends[count:] - start)


def record_blocks(
    chunks: Iterable[bytes], dialect: CsvDialect, *, block_bytes: int = BLOCK_BYTES
) -> Iterator[RecordBlock]:
    """Blocks of whole records of about ``block_bytes``; raises :class:`LineTooLong`, so that memory stays bounded.

    What is left at the end is a record too, whether its line or its quotes are closed or not.
    """
    held = bytearray()
    wanted = block_bytes
    for chunk in chunks:
        held += chunk
        if len(held) < wanted:
            continue
        text = bytes(held)
        ends = dialect.ends(text)
        if len(ends):
            yield RecordBlock(text[: ends[-1]], ends)
            held, wanted = bytearray(text[ends[-1] :]), block_bytes
        elif len(held) > LONGEST_LINE:
            raise LineTooLong
        else:
            wanted = min(2 * len(held), LONGEST_LINE + 1)
    if held:
        text = bytes(held) if held.endswith(b"\n") else bytes(held) + b"\n"
        ends = dialect.ends(text)
        if not len(ends) or ends[-1] < len(text):
            ends = np.append(ends, len(text))
        yield RecordBlock(text, ends)
