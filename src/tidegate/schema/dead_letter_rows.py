"""Dead letters as rows of their table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from tidegate.schema.dead_letter import Letter
from tidegate.schema.types import TIMESTAMP

LETTERS = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("pipeline", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("at", TIMESTAMP, nullable=False),
        pa.field("run", pa.string(), nullable=False),
        pa.field("file", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("etag", pa.string()),
        pa.field("line", pa.int64()),
        pa.field("reason", pa.string()),
        pa.field("stage", pa.string()),
        pa.field("schema_fingerprint", pa.string()),
        pa.field("text", pa.string()),
        pa.field("raw", pa.binary()),
        pa.field("resolves", pa.string()),
    ]
)
"""The columns of the dead-letter table."""


def letter_of(row: Mapping[str, Any]) -> Letter:
    """The letter in a row of the table."""
    values: dict[str, Any] = {field.name: row.get(field.name) for field in LETTERS}
    return Letter(**values)


def batch(letters: Iterable[Letter]) -> pa.RecordBatch:
    """Letters as rows of the table."""
    names = LETTERS.names
    rows = [{name: getattr(letter, name) for name in names} for letter in letters]
    return pa.RecordBatch.from_pylist(rows, LETTERS)
