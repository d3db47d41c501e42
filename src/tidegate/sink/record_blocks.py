"""Blocks of records that an API gave, as rows of the declared columns; a record that does not fit ends the read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import SourceError
from tidegate.sink.decoder import Decoder
from tidegate.sources.http.bounds import Part
from tidegate.sources.http.fetching import Block
from tidegate.specs import FieldSpec, SchemaSpec


@dataclass(frozen=True, slots=True)
class Columns:
    """What the rows have, and whose records they are; picklable."""

    fields: tuple[FieldSpec, ...]
    schema: SchemaSpec
    parts: tuple[Part, ...]
    where: str


@dataclass(slots=True)
class RecordBlocks:
    """Decodes the blocks of one task."""

    columns: Columns
    _decoder: Decoder = field(init=False)

    def __post_init__(self) -> None:
        schema = self.columns.schema
        self._decoder = Decoder(
            self.columns.fields,
            numbers=schema.numbers,
            coerce=schema.coerce_conflicts_to_utf8,
            rescued=schema.rescued,
        )

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._decoder.schema

    @property
    def unknown(self) -> Counter[str]:
        """Fields with a value that no column takes, by path."""
        return self._decoder.unknown

    def rows(self, block: Block) -> pa.RecordBatch:
        """The rows of a block that belong to its part; raises :class:`SourceError` that names the first bad record."""
        decoded = self._decoder.decode(block.lines)
        if decoded.rejected:
            first = decoded.rejected[0]
            raise SourceError(
                f"{self.columns.where}, page {block.page}, record {block.first + first.offset}: {first.reason}",
                "nothing of this read is kept; declare the column with a type that holds it, or see "
                "schema.coerce_conflicts_to_utf8 and schema.rescued",
            )
        return _own(decoded.batch, self.columns.parts[block.part])


def _own(batch: pa.RecordBatch, part: Part) -> pa.RecordBatch:
    """The rows whose value lies in the part's stretch."""
    if part.column is None or part.column not in batch.schema.names:
        return batch
    column = batch.column(part.column)
    try:
        wanted = pa.array([True] * len(batch))
        if part.after is not None:
            above = pc.greater(column, pa.scalar(part.after, column.type))
            wanted = pc.and_(wanted, pc.fill_null(above, False))
        if part.upto is not None:
            below = pc.less_equal(column, pa.scalar(part.upto, column.type))
            wanted = pc.and_(wanted, pc.fill_null(below, part.after is None))
        return batch.filter(wanted)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
        raise SourceError(
            f"the range of {part.column!r} was divided at {part.after or part.upto!r}, but the column is {column.type}",
            "declare the column in schema.fields with the type of its watermark",
        ) from error
