"""Formats whose files have typed columns of their own: their batches as declared columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tidegate.schema.literals import NotJson, Pairs, compact
from tidegate.sink.careful import BadLine
from tidegate.sink.decoder import Decoded, Decoder
from tidegate.sink.formats.exact import exact
from tidegate.sink.formats.kinds import Fitting
from tidegate.sink.formats.row_json import json_value, row_value
from tidegate.sink.formats.rows import RowDecoder
from tidegate.specs import FieldSpec


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

    def __init__(self, fields: tuple[FieldSpec, ...], rows: RowDecoder, lines: Decoder, fitting: Fitting) -> None:
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
