"""Blocks of lines to record batches with the declared columns: fast, and precise where something is odd.

First the grammar: no parser sees a line that is not JSON. Then three ways, in this order:

1. *Quick.* The quick parser reads the whole block, and the proof shows that it holds nothing else (both in
   :mod:`~tidegate.formats.json_parsing`). Fields that the schema lacks are parsed along, once they are known
   (:mod:`~tidegate.formats.line_fields`), so they do not upset the proof.
2. *Strict.* Where the proof leaves something unexplained, Arrow's own parser reads the block: stricter, slower, and
   able to tell unknown fields from repeated ones.
3. *Slow.* Where that fails too, the same is tried for a few hundred lines at a time, with lines rewritten where that
   helps, and then line by line. Here a bad line gets its reason (:mod:`~tidegate.formats.strict_lines`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.formats.json_parsing import (
    FRACTION_DIGITS,
    ObjectLines,
    ParserSchemas,
    are_objects,
    doubtful_rows,
    every_field,
    matches,
    object_lines,
    one_batch,
    parse_quickly,
    parse_strictly,
    settle,
    verify,
)
from tidegate.formats.line_fields import NOT_COUNTED, LineRepair, Undeclared
from tidegate.formats.strict_lines import BadLine, RecordRules, StrictLineReader, Suspicious
from tidegate.schema.names import decimal_of
from tidegate.schema.types import arrow_schema
from tidegate.specs.project import FieldSpec

ROWS_PER_STEP = 1024
"""Rows the parser builds at a time; more fall out of the processor's cache and cost up to half more."""

GROUP = 256
"""Lines of a suspicious block that are tried together."""

_SAMPLED_LINES = 64
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

    @classmethod
    def join(
        cls, batches: Sequence[pa.RecordBatch], schema: pa.Schema, lines: int, kept: Sequence[int], bad: list[Rejected]
    ) -> Decoded:
        """Batches that together hold the records on the lines ``kept``."""
        whole = one_batch(pa.Table.from_batches(batches, schema), len(kept))
        offsets = None if len(kept) == lines else np.array(kept, np.int64)
        return cls(whole, lines, offsets, tuple(sorted(bad, key=lambda each: each.offset)))


def batch_of(records: Iterable[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Records as Python values in a batch."""
    return pa.RecordBatch.from_struct_array(pa.array(records, pa.struct(list(schema))))


def check_filled(batch: pa.RecordBatch, columns: Iterable[str]) -> None:
    """Raise :class:`Suspicious` for an empty text in one of ``columns``."""
    if any(pc.any(pc.equal(batch.column(name), "")).as_py() for name in columns):
        raise Suspicious("an empty text where none may be")


@dataclass(slots=True)
class _SplitBlock:
    """A block on the slow way: its lines, which of them are ``objects``, and what has become of them.

    ``repaired`` has the objects rewritten, or nothing.
    """

    lines: list[bytes]
    objects: list[int] = field(default_factory=list)
    repaired: list[bytes] = field(default_factory=list)
    batches: list[pa.RecordBatch] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)


class Decoder:
    """Decodes the blocks of one or many files; keeps count of unknown fields.

    ``unknown`` names every field with a value that the schema does not have, by path, with how often records had it;
    with a column for rescued values also the values that did not fit. Blocks in which nothing is to be rescued are
    read as fast as ever.
    """

    def __init__(self, rules: RecordRules, rows_per_step: int = ROWS_PER_STEP) -> None:
        self.schema = arrow_schema(rules.fields)
        self.unknown: Counter[str] = Counter()
        self._rules = rules
        self._rows_per_step = min(rows_per_step, ROWS_PER_STEP)
        self._schemas = ParserSchemas.of(rules)
        self._asked = self._schemas.quick
        self._strict_reader = StrictLineReader(rules)
        self._undeclared = Undeclared(rules)
        self._repair = LineRepair(rules)
        fields = list(every_field(rules.fields))
        kinds = {each.type for each in fields}
        self._can_prove = not any(NOT_COUNTED & set(each.name) for each in fields)
        self._can_repair = rules.coerce or rules.rescued is not None or bool(kinds & {"json", "map"})
        self._repairs_always = "json" in kinds
        self._repairs_few = rules.rescued is not None and not (rules.coerce or self._repairs_always)
        self._fine = _fine_numbers(rules.known)
        self._unproven = 0
        self._repaired = 0

    def decode(self, block: bytes) -> Decoded:
        """The records of ``block``, which ends with a newline."""
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n")
        repairs_first = self._repairs_always or self._repaired % _PROBE_EVERY
        whole = None if repairs_first else object_lines(block)
        if whole is not None:
            try:
                return Decoded(self._decode_at_once(whole), whole.lines)
            except Suspicious:
                pass
        return self._decode_slowly(block)

    # Quick and strict: all lines of a block at once, or Suspicious.

    def _decode_at_once(self, block: ObjectLines) -> pa.RecordBatch:
        is_quick = self._can_prove and block.is_for_quick_parser
        if self._rules.rescued is not None:
            return self._decode_completely(block, self._rules.rescued, is_quick=is_quick)
        proven = self._prove(block) if is_quick else None
        if proven is None and is_quick and self._learns_from_some(block):
            proven = self._prove(block)
        if proven is not None:
            batch = self._settle(proven, block)
            self.unknown.update(self._undeclared.count(proven))
            return batch
        if self._rules.is_strict:
            batch = self._settle(parse_strictly(block, self._schemas.arrow), block)
        else:
            batch = self._settle(self._parse(block, self._schemas.bending, is_quick=is_quick), block)
        self._count_undeclared(block.split())
        return batch

    def _decode_completely(self, block: ObjectLines, rescued: str, *, is_quick: bool) -> pa.RecordBatch:
        """The same where nothing may be left out: the proof explains every character, or :class:`Suspicious`."""
        batch = self._parse(block, self._schemas.quick, is_quick=is_quick)
        verify(block.content, batch)
        if not block.is_repaired and batch.column(rescued).null_count < block.lines:
            raise Suspicious("a field with the name of the column for what fits no other")
        return self._settle(batch, block)

    def _prove(self, block: ObjectLines) -> pa.RecordBatch | None:
        """What the quick parser gives, if nothing else stands in the block; not tried where it failed lately."""
        if self._unproven % _PROBE_EVERY or not self._undeclared.are_columns:
            self._unproven += 1
            return None
        try:
            batch = self._parse(block, self._asked, is_quick=True)
        except Suspicious:
            if self._rules.is_strict and self._asked is self._schemas.quick:
                raise
            self._unproven += 1
            return None
        try:
            verify(block.content, batch, quoted_numbers=not self._rules.is_strict)
        except Suspicious:
            self._unproven += 1
            return None
        self._unproven = 0
        return batch

    def _parse(self, block: ObjectLines, columns: pa.Schema, *, is_quick: bool) -> pa.RecordBatch:
        if not is_quick:
            raise Suspicious("not for the quick parser")
        return parse_quickly(block, columns, self._rows_per_step)

    def _settle(self, batch: pa.RecordBatch, block: ObjectLines) -> pa.RecordBatch:
        """The declared columns of a parsed batch, with the declared types."""
        columns = [settle(batch.column(index), each) for index, each in enumerate(self._rules.fields)]
        whole = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        check_filled(whole, self._rules.filled)
        if self._rules.is_strict:
            self._check_numbers(whole, block)
        return whole

    def _check_numbers(self, batch: pa.RecordBatch, block: ObjectLines) -> None:
        """Raise :class:`Suspicious` where a number may not be what was written.

        A float may be a rounded whole number, or 0 for a number that is not; of others, digits far behind the point
        may be gone.
        """
        columns = zip(batch.columns, self._rules.fields, strict=True)
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
                self._strict_reader.read(line)
            except BadLine as bad:
                raise Suspicious(str(bad)) from bad
            if self._strict_reader.misfits:
                self._strict_reader.misfits.clear()
                raise Suspicious("a value to be rescued")

    # Slow: groups of lines, rewritten where that helps, then one line after the other.

    def _decode_slowly(self, content: bytes) -> Decoded:
        block = _SplitBlock([line.strip(b" \t\r") for line in content.split(b"\n")[:-1]])
        self._find_objects(block)
        count = len(block.objects)
        if self._can_repair and not self._repairs_few:
            self._rewrite(block, 0, count)
            self._repaired += 1
        if not (block.repaired and self._decode_group(block, 0, count)):
            for start in range(0, count, GROUP):
                end = min(start + GROUP, count)
                if self._decode_group(block, start, end):
                    continue
                if self._repairs_few:
                    self._rewrite(block, start, end)
                    if self._decode_group(block, start, end):
                        continue
                self._decode_lines(block, start, end)
        return Decoded.join(block.batches, self.schema, len(block.lines), block.kept, block.rejected)

    def _find_objects(self, block: _SplitBlock) -> None:
        """Tell lines that are objects from others, which are rejected; blank ones are skipped."""
        filled = [offset for offset, line in enumerate(block.lines) if line]
        for offset, good in zip(filled, are_objects([block.lines[offset] for offset in filled]), strict=True):
            try:
                if not good:
                    self._strict_reader.read(block.lines[offset])
                block.objects.append(offset)
            except BadLine as bad:
                block.rejected.append(Rejected(offset, str(bad), block.lines[offset]))

    def _rewrite(self, block: _SplitBlock, start: int, end: int) -> None:
        block.repaired = block.repaired or [b""] * len(block.objects)
        block.repaired[start:end] = [self._repair.rewrite(block.lines[offset]) for offset in block.objects[start:end]]
        self.unknown.update(self._repair.take_unknown())

    def _decode_group(self, block: _SplitBlock, start: int, end: int) -> bool:
        """Decode some lines at once; False when one of them is suspicious."""
        repaired = block.repaired[start:end]
        is_repaired = any(repaired)
        chosen = repaired if is_repaired else [block.lines[offset] for offset in block.objects[start:end]]
        joined = b"\n".join([*chosen, b""])
        try:
            block.batches.append(self._decode_at_once(ObjectLines(joined, end - start, is_repaired=is_repaired)))
        except Suspicious:
            return False
        block.kept.extend(block.objects[start:end])
        return True

    def _decode_lines(self, block: _SplitBlock, start: int, end: int) -> None:
        records: list[dict[str, Any]] = []
        read: list[bytes] = []
        for offset in block.objects[start:end]:
            line = block.lines[offset]
            try:
                records.append(self._strict_reader.read(line))
                self.unknown.update(self._strict_reader.misfits)
                block.kept.append(offset)
                read.append(line)
            except BadLine as bad:
                block.rejected.append(Rejected(offset, str(bad), line))
                if block.repaired:
                    self._uncount(line)
            self._strict_reader.misfits.clear()
        block.batches.append(batch_of(records, self.schema))
        if not block.repaired:
            self._count_undeclared(read)

    def _uncount(self, line: bytes) -> None:
        """Take back what rewriting a line has counted: it is no record."""
        self._repair.rewrite(line)
        self.unknown -= self._repair.take_unknown()

    # Undeclared fields: counted line by line, and learned, so that the quick parser reads them next time.

    def _count_undeclared(self, lines: list[bytes]) -> None:
        names, _ = self._learn(lines)
        self.unknown.update(names)

    def _learns_from_some(self, block: ObjectLines) -> bool:
        """Whether some lines of a block that could not be proven teach undeclared fields; nothing is counted."""
        if self._unproven != 1:
            return False
        return self._learn(block.split()[:: max(block.lines // _SAMPLED_LINES, 1)])[1]

    def _learn(self, lines: list[bytes]) -> tuple[Counter[str], bool]:
        """The undeclared fields of lines; the quick parser is asked for those that are new from now on."""
        names, is_new = self._undeclared.look(lines)
        if is_new and self._undeclared.are_columns:
            self._asked = self._undeclared.columns(self._schemas.quick)
            self._unproven = 0
        return names, is_new and self._undeclared.are_columns


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
