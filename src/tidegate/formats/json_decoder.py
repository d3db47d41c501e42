"""Blocks of JSON lines to record batches with the declared columns, and a reason for every line that is no record.

There is one set of rules, and one reader that has them all: the strict line reader
(:mod:`~tidegate.formats.strict_lines`). It takes Python values and is slow. So the native reader goes first, where it
is installed (:mod:`~tidegate.schema.native`): it reads the lines that surely are records straight into columns, says
why others are none where it knows, and leaves the rest, bad or merely odd, to the strict one. Without it, the strict
one reads all lines. Which of them read a line makes no difference to what comes out, the reasons included; a law in
``tests/laws`` says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.formats.strict_lines import BadLine, RecordRules, StrictLineReader
from tidegate.schema.literals import DEEPEST
from tidegate.schema.native import find_native
from tidegate.schema.types import arrow_schema

_BLANKS = b" \t\r"

Parts = tuple[int, int, Sequence[bytes | None], Sequence["Parts"]]
"""A column: its values, how many of them are null, its buffers, the columns inside it."""

Odd = tuple[int, int, int, str | None]
"""A line that was not read: its number, start and end, and the reason where it is known."""

Block = tuple[int, int, Sequence[Parts], bytes | None, Sequence[Odd], Sequence[tuple[str, int]]]
"""Lines, records, columns, the line of each record (None: record ``n`` is line ``n``), the lines that were not read,
and the fields that the schema lacks."""


class NativeLines(Protocol):
    """Reads blocks of lines into declared columns, except for lines that may be no records."""

    def read(self, block: bytes) -> Block: ...

    def read_elements(self, splitter: Any, chunk: bytes, longest: int) -> tuple[Block, bytes, int, int | None]:
        """The same for elements of an array; what was not read lies in the lines that come with the block."""


class Rejected(NamedTuple):
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
        whole = one_batch(batches, schema)
        offsets = None if len(kept) == lines else np.array(kept, np.int64)
        return cls(whole, lines, offsets, tuple(sorted(bad, key=lambda each: each.offset)))


def one_batch(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Batches behind each other as one."""
    if len(batches) == 1:
        return batches[0]
    joined = pa.Table.from_batches(batches, schema).combine_chunks().to_batches()
    return joined[0] if joined else pa.RecordBatch.from_pylist([], schema)


def batch_of(records: Iterable[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Records as Python values in a batch."""
    return pa.RecordBatch.from_struct_array(pa.array(records, pa.struct(list(schema))))


class Decoder:
    """Decodes the blocks of one or many files.

    ``unknown`` names every field that the schema does not have, by path, with how often it stood there, null or not;
    with a column for rescued values also the values that did not fit.
    """

    def __init__(self, rules: RecordRules) -> None:
        self.schema = arrow_schema(rules.fields)
        self._strict = StrictLineReader(rules)
        self.unknown: Counter[str] = self._strict.unknown
        self._native = _native_lines(rules)

    @property
    def reads_elements(self) -> bool:
        """Whether elements of an array can be read without being made lines first."""
        return self._native is not None

    def decode(self, block: bytes) -> Decoded:
        """The records of ``block``, which ends with a newline."""
        if self._native is None:
            lines = [line.strip(_BLANKS) for line in block.split(b"\n")[:-1]]
            filled = [(number, line, None) for number, line in enumerate(lines) if line]
            batch, kept, rejected = self._read_strictly(filled)
            return Decoded(batch, len(lines), None if len(kept) == len(lines) else np.array(kept), rejected)
        return self._completed(self._native.read(block), block)

    def read_elements(self, splitter: Any, chunk: bytes, longest: int) -> tuple[Decoded, int, int | None]:
        """The elements of an array that end in ``chunk``, how many of its bytes were read, and where the array ends.

        ``splitter`` is the native one, and knows whether an element longer than ``longest`` follows.
        """
        assert self._native is not None
        found, lines, taken, end = self._native.read_elements(splitter, chunk, longest)
        return self._completed(found, lines), taken, end

    def _completed(self, found: Block, block: bytes) -> Decoded:
        """What the native reader found, with what it left to the strict one."""
        count, rows, columns, places, odd, unknown = found
        self.unknown.update(dict(unknown))
        arrays = [array_of(each.type, parts) for each, parts in zip(self.schema, columns, strict=True)]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        offsets = None if places is None else np.frombuffer(places, np.int64)
        if not odd:
            return Decoded(batch, count, offsets)
        others, kept, rejected = self._read_strictly(
            (number, block[start:end], reason) for number, start, end, reason in odd
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
        """The records of numbered lines with the numbers of those that are some, and the others with their reasons."""
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


def _native_lines(rules: RecordRules) -> NativeLines | None:
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
    """A column as Arrow has it."""
    length, nulls, buffers, inner = parts
    whole = [None if each is None else pa.py_buffer(each) for each in buffers]
    children: list[pa.Array] = []
    if pa.types.is_map(kind):
        pairs = [array_of(each, part) for each, part in zip((kind.key_type, kind.item_type), inner, strict=True)]
        children = [pa.StructArray.from_arrays(pairs, fields=[kind.key_field, kind.item_field])]
    elif inner:
        kinds: list[Any] = [kind.field(number).type for number in range(kind.num_fields)]
        children = [array_of(each, part) for each, part in zip(kinds, inner, strict=True)]
    return pa.Array.from_buffers(kind, length, whole, nulls, 0, children or None)
