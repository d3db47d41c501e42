"""Blocks of lines to record batches with the declared columns: fast, and precise where something is odd.

First the grammar: no parser sees a line that is not JSON. Then three ways, in this order: the vectorised parser plus
the proof by counting (both in :mod:`~tidegate.formats.json_parsing`); where that leaves something unexplained,
Arrow's own parser, which is stricter and slower and tells unknown fields from repeated ones; where that fails too,
the same again for a few hundred lines at a time, and line by line for those that still fail. A line that ends up bad
is given back with its number and reason.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.formats.json_parsing import (
    MISHANDLED,
    are_objects,
    matches,
    objects,
    one_batch,
    parse_quickly,
    parse_strictly,
    strict_options,
    verify,
)
from tidegate.formats.line_repair import FRACTION_DIGITS, LineRepair, Suspicious, doubtful_rows, relaxed_field, settled
from tidegate.formats.strict_lines import BadLine, StrictLineReader
from tidegate.formats.undeclared import NOT_COUNTED, Undeclared
from tidegate.schema.names import decimal_of
from tidegate.schema.types import arrow_schema
from tidegate.specs.project import FieldSpec, Numbers

ROWS_PER_STEP = 1024
"""Rows the parser builds at a time; more fall out of the processor's cache and cost up to half more."""

_GROUP = 256
_LOOKED_AT = 64
_PROBE_EVERY = 32
_FINE = rf"[eE]-[0-9]|\.[0-9]{{{FRACTION_DIGITS + 1}}}"
"""How a number is written that has more digits behind the point than the quick parser keeps."""

_LARGE_OR_TINY = re.compile(rb"[0-9]{8}[ \t\r]*[,}\]]|" + _FINE.encode())
"""What a line has that writes a large whole number, or such a fraction."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """Line ``offset`` (from 0) of the block is not a record."""

    offset: int
    reason: str
    text: bytes


@dataclass(frozen=True, slots=True)
class Decoded:
    """A block: its physical ``lines``, the records, and the lines that are none.

    ``offsets`` has the physical line of each record, from 0 at the block's beginning; None when record ``n``
    is line ``n``.
    """

    batch: pa.RecordBatch
    lines: int
    offsets: npt.NDArray[np.int64] | None = None
    rejected: tuple[Rejected, ...] = ()


@dataclass(frozen=True, slots=True)
class _Objects:
    """A block whose lines are objects; ``has_tiny`` unless it is known to have no number near 0 but 0."""

    content: bytes
    lines: int
    has_tiny: bool = True
    is_mended: bool = False

    @property
    def survives(self) -> bool:
        """Whether the quick parser and the counting can take it."""
        return b"\\" not in self.content or MISHANDLED.search(self.content) is None

    def split(self) -> list[bytes]:
        """Its lines."""
        return self.content.split(b"\n")[:-1]


@dataclass(slots=True)
class _Lines:
    """A block on the slow way: its lines, which of them are ``filled`` with an object, and what has become of them.

    ``mended`` has the filled lines rewritten, or nothing.
    """

    found: list[bytes]
    filled: list[int]
    mended: list[bytes] = field(default_factory=list)
    batches: list[pa.RecordBatch] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)

    def decoded(self, schema: pa.Schema) -> Decoded:
        """All groups together."""
        whole = pa.Table.from_batches(self.batches, schema)
        self.rejected.sort(key=lambda each: each.offset)
        offsets = None if len(self.kept) == len(self.found) else np.array(self.kept, np.int64)
        return Decoded(one_batch(whole, len(self.kept)), len(self.found), offsets, tuple(self.rejected))


class Decoder:
    """Decodes the blocks of one or many files; keeps count of unknown fields.

    ``rescued`` is that one of ``fields``, a text, which takes what fits no other: no line has it by itself. Blocks in
    which nothing is to be rescued are read as fast as ever.

    ``unknown`` names every field with a value that the schema does not have, by path, with how often records had it;
    with ``rescued`` also the values that did not fit.
    """

    def __init__(
        self,
        fields: tuple[FieldSpec, ...],
        *,
        numbers: Numbers = Numbers.STRICT,
        coerce: bool = False,
        forbidden: tuple[str, ...] = (),
        filled: tuple[str, ...] = (),
        rows_per_step: int = ROWS_PER_STEP,
        rescued: str | None = None,
    ) -> None:
        self.schema = arrow_schema(fields)
        self.unknown: Counter[str] = Counter()
        self._fields = fields
        self._filled = filled
        self._rescued = rescued
        known = tuple(each for each in fields if each.name != rescued)
        self._strict = numbers is Numbers.STRICT
        self._rows_per_step = min(rows_per_step, ROWS_PER_STEP)
        barred = [pa.field(name, pa.null()) for name in forbidden]
        self._relaxed = pa.schema([*(relaxed_field(each, numbers) for each in fields), *barred])
        self._asked = self._relaxed
        self._bending = pa.schema([*(relaxed_field(each, numbers, bends=True) for each in fields), *barred])
        self._parse_options = strict_options(fields, barred)
        self._careful = StrictLineReader(
            known, numbers=numbers, coerce=coerce, forbidden=forbidden, filled=filled, rescued=rescued
        )
        self._countable = not any(NOT_COUNTED & set(name) for name in _names(fields))
        kinds = set(_types(fields))
        self._undeclared = Undeclared(known, forbidden)
        self._mender = LineRepair(known, coerce=coerce, kept=forbidden, rescued=rescued)
        self._can_mend = coerce or rescued is not None or bool(kinds & {"json", "map"})
        self._mends_always = "json" in kinds
        self._mends_few = rescued is not None and not (coerce or self._mends_always)
        self._fine = _fine_numbers(known)
        self._unexplained = 0
        self._mended = 0

    def decode(self, block: bytes) -> Decoded:
        """The records of ``block``, which ends with a newline."""
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n")
        found = None if self._mends_first() else objects(block)
        if found is not None:
            try:
                return Decoded(self._fast(_Objects(block, found.lines, found.has_tiny)), found.lines)
            except Suspicious:
                pass
        return self._slow(block)

    def _mends_first(self) -> bool:
        """Whether lines are rewritten before anything else: always, or because it was needed lately."""
        return self._mends_always or bool(self._mended % _PROBE_EVERY)

    def _fast(self, block: _Objects) -> pa.RecordBatch:
        """All lines at once, or :class:`Suspicious`."""
        survives = self._countable and block.survives
        if self._rescued is not None:
            return self._complete(block, survives=survives)
        proven = self._proven(block) if survives else None
        if proven is None and survives and self._learns_from_some(block):
            proven = self._proven(block)
        if proven is not None:
            batch = self._settled(proven, block)
            self._count(self._undeclared.count(proven))
            return batch
        if self._strict:
            batch = self._settled(parse_strictly(block.content, block.lines, self._parse_options), block)
        else:
            batch = self._settled(self._parsed(block, self._bending, survives=survives), block)
        self._look(block.split())
        return batch

    def _complete(self, block: _Objects, *, survives: bool) -> pa.RecordBatch:
        """The same where nothing may be left out: every character is explained, or :class:`Suspicious`."""
        batch = self._parsed(block, self._relaxed, survives=survives)
        verify(block.content, batch)
        if not block.is_mended and batch.column(self._rescued).null_count < block.lines:
            raise Suspicious("a field with the name of the column for what fits no other")
        return self._settled(batch, block)

    def _proven(self, block: _Objects) -> pa.RecordBatch | None:
        """What the fast parser gives, if nothing else stands in the block; not tried where it failed lately."""
        if self._unexplained % _PROBE_EVERY or not self._undeclared.are_columns:
            self._unexplained += 1
            return None
        try:
            batch = self._parsed(block, self._asked, survives=True)
        except Suspicious:
            if self._strict and self._asked is self._relaxed:
                raise
            self._unexplained += 1
            return None
        try:
            verify(block.content, batch, quoted_numbers=not self._strict)
        except Suspicious:
            self._unexplained += 1
            return None
        self._unexplained = 0
        return batch

    def _parsed(self, block: _Objects, columns: pa.Schema, *, survives: bool) -> pa.RecordBatch:
        if not survives:
            raise Suspicious("not for the quick parser")
        return parse_quickly(block.content, block.lines, columns, self._rows_per_step)

    def _settled(self, batch: pa.RecordBatch, block: _Objects) -> pa.RecordBatch:
        columns = [settled(batch.column(index), each) for index, each in enumerate(self._fields)]
        whole = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        if any(pc.any(pc.equal(whole.column(name), "")).as_py() for name in self._filled):
            raise Suspicious("an empty text where none may be")
        if self._strict:
            self._check_numbers(whole, block)
        return whole

    def _check_numbers(self, batch: pa.RecordBatch, block: _Objects) -> None:
        """Raise :class:`Suspicious` where a number may not be what was written.

        A float may be a rounded whole number, or 0 for a number that is not; of others, digits far behind the point
        may be gone.
        """
        columns = zip(batch.columns, self._fields, strict=True)
        found = [doubtful_rows(column, each, zeros=block.has_tiny) for column, each in columns]
        doubtful = {int(row) for rows in found for row in rows}
        fine = self._fine
        if fine is not None and block.has_tiny:
            fine = fine if b"\\" not in block.content else _FINE
        if fine is not None and not (block.has_tiny and matches(block.content, fine)):
            fine = None
        if not (doubtful or fine):
            return
        lines = block.split()
        if fine is not None:
            expression = re.compile(fine.encode())
            doubtful.update(row for row, line in enumerate(lines) if expression.search(line))
        for line in (lines[row] for row in sorted(doubtful) if _LARGE_OR_TINY.search(lines[row])):
            try:
                self._careful.read(line)
            except BadLine as bad:
                raise Suspicious(str(bad)) from bad
            if self._careful.misfits:
                self._careful.misfits.clear()
                raise Suspicious("a value to be rescued")

    def _slow(self, block: bytes) -> Decoded:
        found = [line.strip(b" \t\r") for line in block.split(b"\n")]
        found.pop()
        lines = self._well_formed(found)
        if self._can_mend and not self._mends_few:
            self._mend(lines, 0, len(lines.filled))
            self._mended += 1
        if not (lines.mended and self._group(lines, 0, len(lines.filled))):
            for start in range(0, len(lines.filled), _GROUP):
                end = min(start + _GROUP, len(lines.filled))
                if not self._group(lines, start, end) and not self._mended_group(lines, start, end):
                    self._line_by_line(lines, start, end)
        return lines.decoded(self.schema)

    def _well_formed(self, found: list[bytes]) -> _Lines:
        """The lines, of which those are filled that are objects; blank ones are skipped, others rejected."""
        lines = _Lines(found, [])
        filled = [offset for offset, line in enumerate(found) if line]
        for offset, good in zip(filled, are_objects([found[offset] for offset in filled]), strict=True):
            try:
                if not good:
                    self._careful.read(found[offset])
                lines.filled.append(offset)
            except BadLine as bad:
                lines.rejected.append(Rejected(offset, str(bad), found[offset]))
        return lines

    def _mend(self, lines: _Lines, start: int, end: int) -> None:
        """Rewrite some of the lines."""
        lines.mended = lines.mended or [b""] * len(lines.filled)
        lines.mended[start:end] = [self._mender.mend(lines.found[offset]) for offset in lines.filled[start:end]]
        self._count(self._mender.unknown)
        self._mender.unknown.clear()

    def _mended_group(self, lines: _Lines, start: int, end: int) -> bool:
        """Where only some lines need it: the same lines rewritten."""
        if not self._mends_few:
            return False
        self._mend(lines, start, end)
        return self._group(lines, start, end)

    def _group(self, lines: _Lines, start: int, end: int) -> bool:
        """Some lines at once; False when one of them is suspicious."""
        mended = lines.mended[start:end]
        mended = mended if any(mended) else []
        chosen = mended or [lines.found[offset] for offset in lines.filled[start:end]]
        joined = b"\n".join([*chosen, b""])
        try:
            lines.batches.append(self._fast(_Objects(joined, end - start, is_mended=bool(mended))))
        except Suspicious:
            return False
        lines.kept.extend(lines.filled[start:end])
        return True

    def _line_by_line(self, lines: _Lines, start: int, end: int) -> None:
        records: list[dict[str, Any]] = []
        read: list[bytes] = []
        for offset in lines.filled[start:end]:
            line = lines.found[offset]
            try:
                records.append(self._careful.read(line))
                self._count(self._careful.misfits)
                lines.kept.append(offset)
                read.append(line)
            except BadLine as bad:
                lines.rejected.append(Rejected(offset, str(bad), line))
                if lines.mended:
                    self._uncount(line)
            self._careful.misfits.clear()
        lines.batches.append(pa.RecordBatch.from_struct_array(pa.array(records, pa.struct(list(self.schema)))))
        if not lines.mended:
            self._look(read)

    def _look(self, lines: list[bytes]) -> None:
        """Count the undeclared fields of lines, and learn them."""
        self._count(self._learned(lines)[0])

    def _learns_from_some(self, block: _Objects) -> bool:
        """Whether some lines of a block that could not be proven teach undeclared fields; nothing is counted."""
        if self._unexplained != 1:
            return False
        return self._learned(block.split()[:: max(block.lines // _LOOKED_AT, 1)])[1]

    def _learned(self, lines: list[bytes]) -> tuple[Counter[str], bool]:
        """The undeclared fields of lines; the fast parser is asked for those that are new from now on."""
        names, is_new = self._undeclared.look(lines)
        if is_new and self._undeclared.are_columns:
            self._asked = self._undeclared.columns(self._relaxed)
            self._unexplained = 0
        return names, is_new and self._undeclared.are_columns

    def _count(self, names: Counter[str]) -> None:
        self.unknown.update(names)

    def _uncount(self, line: bytes) -> None:
        """Take back what rewriting a line has counted: it is no record."""
        self._mender.mend(line)
        for name, count in self._mender.unknown.items():
            self.unknown[name] -= count
        self.unknown += Counter()
        self._mender.unknown.clear()


def _fine_numbers(fields: tuple[FieldSpec, ...]) -> str | None:
    """An expression for :data:`_FINE` numbers in columns that must keep every digit; None without such columns.

    Numbers in a map are looked for anywhere in a line: they stand behind keys, which may hold any character.
    """
    names = set(_exact_names(fields))
    if "" in names or not all(name.isascii() and name.isprintable() for name in names):
        return _FINE
    known = "|".join(sorted(map(re.escape, names)))
    return rf'"(?:{known})"[ \t\r]*:[^"}}]*(?:{_FINE})' if names else None


def _exact_names(fields: tuple[FieldSpec, ...]) -> Iterator[str]:
    """The names behind which numbers of such columns stand; an empty one for any name, the key of a map."""
    for each in fields:
        item, is_in_map = each, False
        while item.items is not None or item.values is not None:
            is_in_map = is_in_map or item.values is not None
            item = item.items or item.values or item
        if item.type in ("int32", "int64") or decimal_of(item.type):
            yield "" if is_in_map else each.name
        yield from _exact_names(item.fields)


def _names(fields: tuple[FieldSpec, ...]) -> Iterator[str]:
    for each in fields:
        yield each.name
        yield from _names(each.fields)
        yield from _names(tuple(child for child in (each.items, each.values) if child is not None))


def _types(fields: tuple[FieldSpec, ...]) -> Iterator[str]:
    for each in fields:
        yield each.type
        yield from _types(each.fields)
        yield from _types(tuple(child for child in (each.items, each.values) if child is not None))
