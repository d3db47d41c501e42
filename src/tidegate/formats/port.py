"""The port of file formats: blocks of decoded rows from an open file, and from dead letters.

A format converts some rows to columns at once, exactly or not at all, and one row to a JSON value. Rows that cannot be
converted at once are tried in groups, and then one by one by the strict reader of JSON lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.core.files.plan import FileSlice
from tidegate.errors import SourceError
from tidegate.formats.strict_lines import BadLine, RecordRules, StrictLineReader, Suspicious
from tidegate.schema.literals import Pairs
from tidegate.schema.types import arrow_schema

GROUP = 256
"""Rows of a suspicious block that are tried together."""


class FormatReader(Protocol):
    """Reads files of one format into the declared columns, in bounded memory.

    ``unknown`` counts what the files have and the schema lacks, by path. ``noun`` is the word for a record. ``seeks``:
    files must be opened with random access.
    """

    noun: str
    seeks: bool

    @property
    def unknown(self) -> Counter[str]: ...

    def read(self, raw: BinaryIO, each: FileSlice) -> Iterator[Decoded]:
        """The records from ``each.start_record`` on; raises ``SourceError`` for an unreadable file."""

    def reread(self, contents: Sequence[bytes], path: str) -> Decoded:
        """The records in dead letters of the file at ``path``: content ``n`` is record ``n``."""


def check_start(each: FileSlice, records: int) -> None:
    """Raise :class:`SourceError` if a file has fewer records than are committed."""
    if records < each.start_record:
        raise SourceError(
            f"{each.path}: has {records} records, but {each.start_record} of its records are committed",
            "the file was cut after it was read; restore it",
        )


class Rejected(NamedTuple):
    """Line ``offset`` (from 0) of the block is not a record."""

    offset: int
    reason: str
    text: bytes


@dataclass(frozen=True, slots=True)
class Decoded:
    """A block: its physical ``lines``, the records, and the lines that are none.

    ``offsets`` has the physical line of each record, from 0 at the block's beginning; None if record ``n`` is line
    ``n``.
    """

    batch: pa.RecordBatch
    lines: int
    offsets: npt.NDArray[np.int64] | None = None
    rejected: tuple[Rejected, ...] = ()

    @classmethod
    def join(
        cls, batches: Sequence[pa.RecordBatch], schema: pa.Schema, lines: int, kept: Sequence[int], bad: list[Rejected]
    ) -> Decoded:
        """Join batches with the records on the lines ``kept``."""
        whole = one_batch(batches, schema)
        offsets = None if len(kept) == lines else np.array(kept, np.int64)
        return cls(whole, lines, offsets, tuple(sorted(bad, key=lambda each: each.offset)))


def one_batch(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Concatenate batches."""
    if len(batches) == 1:
        return batches[0]
    joined = pa.Table.from_batches(batches, schema).combine_chunks().to_batches()
    return joined[0] if joined else pa.RecordBatch.from_pylist([], schema)


def batch_of(records: Iterable[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Records as Python values in a batch."""
    return pa.RecordBatch.from_struct_array(pa.array(records, pa.struct(list(schema))))


class Rows(Protocol):
    """A block of rows in the form of its format."""

    def __len__(self) -> int: ...

    def columns(self, start: int, end: int) -> dict[str, pa.Array]:
        """Rows from ``start`` to before ``end`` as declared columns, by name; raises :class:`Suspicious`."""

    def record(self, number: int) -> Pairs:
        """One row as a JSON object; raises :class:`BadLine`."""

    def text(self, number: int) -> bytes:
        """One row as a dead letter keeps it."""


class RowDecoder:
    """Decodes blocks of rows into the declared columns; missing columns are null."""

    def __init__(self, rules: RecordRules) -> None:
        self.schema = arrow_schema(rules.fields)
        self._filled = rules.filled
        self._reader = StrictLineReader(replace(rules, rescued=None))

    def decode(self, rows: Rows, lines: int, places: npt.NDArray[np.int64] | None = None) -> Decoded:
        """Decode a block of ``lines`` records; ``rows`` are those at ``places`` (None: all)."""
        try:
            return Decoded(self._at_once(rows, 0, len(rows)), lines, places)
        except Suspicious:
            pass
        batches: list[pa.RecordBatch] = []
        kept: list[int] = []
        bad: list[tuple[int, str]] = []
        for start in range(0, len(rows), GROUP):
            end = min(start + GROUP, len(rows))
            try:
                batches.append(self._at_once(rows, start, end))
                kept.extend(range(start, end))
            except Suspicious:
                self._one_by_one(rows, range(start, end), batches, kept, bad)
        all_places = np.arange(len(rows)) if places is None else places
        rejected = [Rejected(int(all_places[number]), reason, rows.text(number)) for number, reason in bad]
        return Decoded.join(batches, self.schema, lines, all_places[kept].tolist(), rejected)

    def _one_by_one(
        self, rows: Rows, numbers: range, batches: list[pa.RecordBatch], kept: list[int], bad: list[tuple[int, str]]
    ) -> None:
        records: list[dict[str, Any]] = []
        for number in numbers:
            try:
                records.append(self._reader.record(rows.record(number)))
            except BadLine as error:
                alone = self._alone(rows, number)
                if alone is None:
                    bad.append((number, str(error)))
                    continue
                batches += [batch_of(records, self.schema), alone]
                records = []
            kept.append(number)
        batches.append(batch_of(records, self.schema))

    def _alone(self, rows: Rows, number: int) -> pa.RecordBatch | None:
        """A row without a JSON form; in a block it would have passed, and neighbours must not decide."""
        try:
            return self._at_once(rows, number, number + 1)
        except Suspicious:
            return None

    def _at_once(self, rows: Rows, start: int, end: int) -> pa.RecordBatch:
        columns = rows.columns(start, end)
        arrays = [
            columns[each.name] if each.name in columns else pa.nulls(end - start, each.type) for each in self.schema
        ]
        for each, array in zip(self.schema, arrays, strict=True):
            if not each.nullable and array.null_count:
                raise Suspicious(f"a null in {each.name}")
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        check_filled(batch, self._filled)
        return batch


def check_filled(batch: pa.RecordBatch, columns: Iterable[str]) -> None:
    """Raise :class:`Suspicious` for an empty text in one of ``columns``."""
    if any(pc.any(pc.equal(batch.column(name), "")).as_py() for name in columns):
        raise Suspicious("an empty text where none may be")
