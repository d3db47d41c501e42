"""Blocks of lines to record batches with the declared columns: fast, and precise where something is odd.

Three ways, in this order: the vectorised parser plus the proof by counting
(:mod:`~tidegate.sink.accounting`); where that leaves something unexplained, Arrow's own parser, which is
stricter and slower and tells unknown fields from repeated ones; where that fails too, the same again for a
few hundred lines at a time, and line by line for those that still fail. A line that ends up bad is given back
with its number and reason.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.json as pj
from arro3.io import read_json

from tidegate.schema.types import arrow_schema
from tidegate.sink.accounting import verify
from tidegate.sink.careful import BadLine, CarefulReader
from tidegate.sink.mending import Mender
from tidegate.sink.relaxed import Suspicious, relaxed_field, settled
from tidegate.specs import FieldSpec, Numbers

ROWS_PER_STEP = 1024
"""Rows the parser builds at a time; more fall out of the processor's cache and cost up to half more."""

_GROUP = 256
_SAMPLED_LINES = 32
_PROBE_EVERY = 32
_OPEN, _CLOSE, _NEWLINE, _SPACE = 123, 125, 10, 32
_MISHANDLED = re.compile(rb"\\u(?:0000|[dD](?:8[4-9a-fA-F]|[9abAB]))")
"""Escapes the fast parser gets wrong: a zero character in an error message ends the process, and the characters
from U+20000 on come out as others."""

_PUNCTUATION = set('":,\\')


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


@dataclass(slots=True)
class _Lines:
    """A block on the slow way: its lines, which of them are ``filled``, and what has become of them.

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
        offsets = None if len(self.kept) == len(self.found) else np.array(self.kept, np.int64)
        return Decoded(_one_batch(whole, len(self.kept)), len(self.found), offsets, tuple(self.rejected))


class Decoder:
    """Decodes the blocks of one or many files; keeps count of unknown fields.

    ``unknown`` names fields with a value that the schema does not have, by path. Blocks read line by line are
    counted exactly; for the others the count is that of a sample of lines, multiplied up, and none at all is
    exact.
    """

    def __init__(
        self,
        fields: tuple[FieldSpec, ...],
        *,
        numbers: Numbers = Numbers.STRICT,
        coerce: bool = False,
        forbidden: tuple[str, ...] = (),
        rows_per_step: int = ROWS_PER_STEP,
    ) -> None:
        self.schema = arrow_schema(fields)
        self.unknown: Counter[str] = Counter()
        self._fields = fields
        self._strict = numbers is Numbers.STRICT
        self._rows_per_step = min(rows_per_step, ROWS_PER_STEP)
        barred = [pa.field(name, pa.null()) for name in forbidden]
        self._relaxed = pa.schema([*(relaxed_field(each, numbers) for each in fields), *barred])
        self._parse_options = _strict_options(fields, barred)
        self._careful = CarefulReader(fields, numbers=numbers, coerce=coerce, forbidden=forbidden)
        self._countable = not any(_PUNCTUATION & set(name) for name in _names(fields))
        kinds = set(_types(fields))
        self._mender = Mender(fields, coerce=coerce, kept=forbidden)
        self._can_mend = coerce or bool(kinds & {"json", "map"})
        self._mends_always = "json" in kinds
        self._unexplained = 0
        self._mended = 0

    def decode(self, block: bytes) -> Decoded:
        """The records of ``block``, which ends with a newline."""
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n")
        lines = None if self._mends_first() else _neat_lines(block)
        if lines is not None:
            try:
                return Decoded(self._fast(block, lines), lines)
            except Suspicious:
                pass
        return self._slow(block)

    def _mends_first(self) -> bool:
        """Whether lines are rewritten before anything else: always, or because it was needed lately."""
        return self._mends_always or bool(self._mended % _PROBE_EVERY)

    def _fast(self, block: bytes, lines: int) -> pa.RecordBatch:
        """All lines at once, or :class:`Suspicious`; ``block`` is neat and has that many lines."""
        survives = b"\\" not in block or _MISHANDLED.search(block) is None
        if not self._strict:
            if not survives:
                raise Suspicious("an escape that the parser does not survive")
            batch = self._settled(self._parsed(block, lines))
            self._sample(block, lines)
            return batch
        batch = self._proven(block, lines) if survives and self._countable else None
        if batch is not None:
            return self._settled(batch)
        batch = self._settled(self._strictly_parsed(block, lines))
        self._sample(block, lines)
        return batch

    def _proven(self, block: bytes, lines: int) -> pa.RecordBatch | None:
        """What the fast parser gives, if nothing else stands in the block; not tried where it failed lately."""
        if self._unexplained % _PROBE_EVERY:
            self._unexplained += 1
            return None
        batch = self._parsed(block, lines)
        try:
            verify(block, batch)
        except Suspicious:
            self._unexplained += 1
            return None
        self._unexplained = 0
        return batch

    def _parsed(self, block: bytes, lines: int) -> pa.RecordBatch:
        try:
            table = pa.table(read_json(io.BytesIO(block), self._relaxed, batch_size=self._rows_per_step))
        except Exception as error:
            raise Suspicious(str(error)) from error
        return _one_batch(table, lines)

    def _strictly_parsed(self, block: bytes, lines: int) -> pa.RecordBatch:
        options = pj.ReadOptions(use_threads=False, block_size=len(block) + 1)
        try:
            if not block.isascii():
                block.decode()
            table = pj.read_json(pa.BufferReader(block), options, self._parse_options)
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise Suspicious(str(error)) from error
        return _one_batch(table, lines)

    def _settled(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [settled(batch.column(index), each) for index, each in enumerate(self._fields)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _slow(self, block: bytes) -> Decoded:
        found = [line.strip(b" \t\r") for line in block.split(b"\n")]
        found.pop()
        lines = _Lines(found, [offset for offset, line in enumerate(found) if line])
        if self._can_mend:
            lines.mended = [self._mender.mend(found[offset]) for offset in lines.filled]
            self._count(self._mender.unknown)
            self._mended += 1
        if not (lines.mended and self._group(lines, 0, len(lines.filled))):
            for start in range(0, len(lines.filled), _GROUP):
                end = min(start + _GROUP, len(lines.filled))
                if not self._group(lines, start, end):
                    self._line_by_line(lines, start, end)
        return lines.decoded(self.schema)

    def _group(self, lines: _Lines, start: int, end: int) -> bool:
        """Some lines at once; False when one of them is suspicious."""
        chosen = lines.mended[start:end] or [lines.found[offset] for offset in lines.filled[start:end]]
        joined = b"\n".join([*chosen, b""])
        if _neat_lines(joined) != end - start:
            return False
        try:
            lines.batches.append(self._fast(joined, end - start))
        except Suspicious:
            return False
        lines.kept.extend(lines.filled[start:end])
        return True

    def _line_by_line(self, lines: _Lines, start: int, end: int) -> None:
        records: list[dict[str, Any]] = []
        for number in range(start, end):
            offset = lines.filled[number]
            try:
                records.append(self._careful.read(lines.found[offset]))
            except BadLine as bad:
                alone = self._alone(lines.mended[number] if lines.mended else lines.found[offset])
                if alone is None:
                    lines.rejected.append(Rejected(offset, str(bad), lines.found[offset]))
                    continue
                lines.batches += [self._batch(records), alone]
                records = []
            lines.kept.append(offset)
        lines.batches.append(self._batch(records))
        if lines.mended:
            self._careful.unknown.clear()
        self._count(self._careful.unknown)

    def _alone(self, line: bytes) -> pa.RecordBatch | None:
        """A line that only the fast parser takes for a record, such as one with the number 01.

        In a block without anything odd it would have passed, and neighbours must not decide.
        """
        line += b"\n"
        if _neat_lines(line) != 1 or _MISHANDLED.search(line) or (self._strict and not self._countable):
            return None
        try:
            batch = self._parsed(line, 1)
            if self._strict:
                verify(line, batch)
            return self._settled(batch)
        except Suspicious:
            return None

    def _batch(self, records: list[dict[str, Any]]) -> pa.RecordBatch:
        return pa.RecordBatch.from_struct_array(pa.array(records, pa.struct(list(self.schema))))

    def _sample(self, block: bytes, lines: int) -> None:
        """Count the unknown fields of some lines, for all of them."""
        every = max(lines // _SAMPLED_LINES, 1)
        chosen = block.split(b"\n")[:-1][::every]
        for line in chosen:
            self._mender.mend(line)
        self._count(self._mender.unknown, lines / len(chosen))

    def _count(self, unknown: Counter[str], weight: float = 1.0) -> None:
        for name, count in unknown.items():
            self.unknown[name] += round(count * weight)
        unknown.clear()


def _neat_lines(block: bytes) -> int | None:
    """How many lines there are if each is ``{…}`` without control characters; else None."""
    content = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(content < _SPACE)
    neat = (
        len(ends)
        and content[0] == _OPEN
        and ends[0] > 0
        and bool((content[ends] == _NEWLINE).all())
        and bool((content[ends - 1] == _CLOSE).all())
        and bool((content[ends[:-1] + 1] == _OPEN).all())
    )
    return len(ends) if neat else None


def _one_batch(table: pa.Table, rows: int) -> pa.RecordBatch:
    if table.num_rows != rows:
        raise Suspicious(f"{table.num_rows} records on {rows} lines")
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)


def _strict_options(fields: tuple[FieldSpec, ...], barred: list[pa.Field]) -> pj.ParseOptions:
    """Arrow's parser refuses what does not fit; only texts are left to us."""
    schema = pa.schema([*(_strict_field(field) for field in fields), *barred])
    return pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")


def _strict_field(field: FieldSpec) -> pa.Field:
    return pa.field(field.name, _strict_type(field), field.nullable)


def _strict_type(field: FieldSpec) -> pa.DataType:
    if field.type == "struct":
        return pa.struct([_strict_field(child) for child in field.fields])
    if field.type == "list" and field.items is not None:
        return pa.list_(pa.field("element", _strict_type(field.items), field.items.nullable))
    if field.type in ("timestamp", "date", "binary"):
        return pa.string()
    return arrow_schema((field,)).field(0).type


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
