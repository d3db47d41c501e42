"""The port of file formats: blocks of decoded rows out of an open file, and out of dead letters.

A format says how some rows become columns at once, exactly or not at all, and what one row is as a JSON value. What
does not go at once goes in groups, and then row by row through the same slow look as lines of JSON, by the same rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.core.files.plan import FileSlice
from tidegate.errors import SourceError
from tidegate.formats.conversion import ColumnFit, exact, json_value, row_value
from tidegate.formats.json_decoder import Decoded, Decoder, Rejected
from tidegate.formats.json_parsing import one_batch
from tidegate.formats.line_repair import Suspicious
from tidegate.formats.strict_lines import BadLine, StrictLineReader
from tidegate.schema.literals import NotJson, Pairs, compact
from tidegate.schema.types import arrow_schema
from tidegate.specs.project import FieldSpec, Numbers


class FormatReader(Protocol):
    """Reads files of one format into the declared columns, in bounded memory.

    ``unknown`` counts what the files have and the schema has not, by path. ``noun`` is what a record is called.
    ``seeks`` says that files must be opened so that they can be read from anywhere.
    """

    noun: str
    seeks: bool

    @property
    def unknown(self) -> Counter[str]: ...

    def decoded(self, raw: BinaryIO, each: FileSlice) -> Iterator[Decoded]:
        """The records from ``each.start_record`` on; raises ``SourceError`` for a file that cannot be read on."""

    def reread(self, contents: Sequence[bytes], path: str) -> Decoded:
        """The records that dead letters of the file at ``path`` keep: content ``n`` is record ``n``."""


def check_start(each: FileSlice, records: int) -> None:
    """Raise :class:`SourceError` when a file has fewer records than are committed of it."""
    if records < each.start_record:
        raise SourceError(
            f"{each.path}: has {records} records, but {each.start_record} of its records are committed",
            "the file was cut after it was read; restore it",
        )


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
        self._careful = StrictLineReader(fields, numbers=numbers, coerce=coerce, forbidden=forbidden, filled=filled)

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


class BatchRows:
    """One batch of a file, whose types are those of :func:`~tidegate.schema.types.plain`."""

    def __init__(self, batch: pa.RecordBatch, fields: tuple[FieldSpec, ...]) -> None:
        self._batch = batch
        self._fields = {field.name: field for field in fields}
        self._is_nested = any(pa.types.is_nested(each.type) for each in batch.schema)

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    def columns(self, start: int, end: int) -> dict[str, pa.Array]:
        """Some rows; nested ones are copied, so that what lies beside them is out of sight."""
        if self._is_nested:
            chosen = self._batch.take(pa.array(np.arange(start, end)))
        else:
            chosen = self._batch.slice(start, end - start)
        found = zip(chosen.schema.names, chosen.columns, strict=True)
        return {name: exact(array, self._fields[name]) for name, array in found if name in self._fields}

    def record(self, number: int) -> Pairs:
        """One row as JSON."""
        try:
            return row_value(self._batch, number, self._fields)
        except NotJson as error:
            raise BadLine(f"a json column holds what is {error}") from error

    def text(self, number: int) -> bytes:
        """One row as JSON text."""
        try:
            value = row_value(self._batch, number, self._fields)
        except NotJson:
            value = Pairs((name, json_value(column[number], None)) for name, column in _named(self._batch))
        return compact(value).encode("utf-8", "backslashreplace")


def _named(batch: pa.RecordBatch) -> zip[tuple[str, pa.Array]]:
    return zip(batch.schema.names, batch.columns, strict=True)


class ColumnarFormat:
    """What Parquet and Avro have in common; dead letters are JSON, and are read again as JSON."""

    noun = "record"

    def __init__(self, fields: tuple[FieldSpec, ...], rows: RowDecoder, lines: Decoder, fitting: ColumnFit) -> None:
        self._fields = fields
        self._rows = rows
        self._lines = lines
        self._fitting = fitting

    @property
    def unknown(self) -> Counter[str]:
        """Columns and fields that the schema does not have, with how many records lie in files that have them."""
        return self._lines.unknown

    def reread(self, contents: Sequence[bytes], path: str) -> Decoded:
        """The records that dead letters keep, as JSON."""
        return self._lines.decode(b"".join(content + b"\n" for content in contents))

    def _decode(self, batch: pa.RecordBatch, unknown: Sequence[str]) -> Decoded:
        for name in unknown:
            self.unknown[name] += batch.num_rows
        return self._rows.decode(BatchRows(batch, self._fields), batch.num_rows)
