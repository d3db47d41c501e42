"""Blocks of rows of any format into the declared columns: all at once, or precise where something is odd.

A format says how some rows become columns at once, exactly or not at all, and what one row is as a JSON value. What
does not go at once goes in groups, and then row by row through the same slow look as lines of JSON, by the same rules.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.schema.literals import Pairs
from tidegate.schema.types import arrow_schema
from tidegate.sink.careful import BadLine, CarefulReader
from tidegate.sink.decoder import Decoded, Rejected
from tidegate.sink.parsers import one_batch
from tidegate.sink.relaxed import Suspicious
from tidegate.specs import FieldSpec, Numbers

_GROUP = 256


class Rows(Protocol):
    """A block of rows as its format holds them."""

    def __len__(self) -> int: ...

    def columns(self, start: int, end: int) -> dict[str, pa.Array]:
        """Rows from ``start`` to before ``end`` as declared columns, by name; raises :class:`Suspicious`."""

    def record(self, number: int) -> Pairs:
        """One row as a JSON object; raises :class:`BadLine`."""

    def text(self, number: int) -> bytes:
        """One row as a dead letter keeps it."""


class RowDecoder:
    """Decodes blocks of rows into the declared columns; columns that a file does not have are null."""

    def __init__(
        self,
        fields: tuple[FieldSpec, ...],
        *,
        numbers: Numbers = Numbers.STRICT,
        coerce: bool = False,
        forbidden: tuple[str, ...] = (),
        filled: tuple[str, ...] = (),
    ) -> None:
        self.schema = arrow_schema(fields)
        self._filled = filled
        self._careful = CarefulReader(fields, numbers=numbers, coerce=coerce, forbidden=forbidden, filled=filled)

    def decode(self, rows: Rows, lines: int, places: npt.NDArray[np.int64] | None = None) -> Decoded:
        """The block's ``lines`` records, of which ``rows`` are those at ``places`` (None: all of them)."""
        try:
            return Decoded(self._at_once(rows, 0, len(rows)), lines, places)
        except Suspicious:
            pass
        batches: list[pa.RecordBatch] = []
        kept: list[int] = []
        rejected: list[tuple[int, str]] = []
        for start in range(0, len(rows), _GROUP):
            end = min(start + _GROUP, len(rows))
            try:
                batches.append(self._at_once(rows, start, end))
                kept.extend(range(start, end))
            except Suspicious:
                self._one_by_one(rows, range(start, end), batches, kept, rejected)
        whole = pa.Table.from_batches(batches, self.schema)
        all_places = np.arange(len(rows)) if places is None else places
        return Decoded(
            one_batch(whole, len(kept)),
            lines,
            None if len(kept) == lines else all_places[kept],
            tuple(Rejected(int(all_places[number]), reason, rows.text(number)) for number, reason in rejected),
        )

    def _one_by_one(
        self,
        rows: Rows,
        numbers: range,
        batches: list[pa.RecordBatch],
        kept: list[int],
        rejected: list[tuple[int, str]],
    ) -> None:
        records: list[dict[str, Any]] = []
        for number in numbers:
            try:
                records.append(self._careful.record(rows.record(number)))
            except BadLine as bad:
                alone = self._alone(rows, number)
                if alone is None:
                    rejected.append((number, str(bad)))
                    continue
                batches += [self._batch(records), alone]
                records = []
            kept.append(number)
        batches.append(self._batch(records))

    def _alone(self, rows: Rows, number: int) -> pa.RecordBatch | None:
        """A row that JSON has no words for; in a block it would have passed, and neighbours must not decide."""
        try:
            return self._at_once(rows, number, number + 1)
        except Suspicious:
            return None

    def _batch(self, records: list[dict[str, Any]]) -> pa.RecordBatch:
        return pa.RecordBatch.from_struct_array(pa.array(records, pa.struct(list(self.schema))))

    def _at_once(self, rows: Rows, start: int, end: int) -> pa.RecordBatch:
        columns = rows.columns(start, end)
        arrays = [
            columns[each.name] if each.name in columns else pa.nulls(end - start, each.type) for each in self.schema
        ]
        for each, array in zip(self.schema, arrays, strict=True):
            if not each.nullable and array.null_count:
                raise Suspicious(f"a null in {each.name}")
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        if any(pc.any(pc.equal(batch.column(name), "")).as_py() for name in self._filled):
            raise Suspicious("an empty text where none may be")
        return batch
