"""A dead letter: a line that is not a record, or a file that could not be read, kept with the reason.

The dead-letter table only ever grows. A letter that was read after all, or that nobody wants any more, is answered by a
row of the kind ``resolution`` that names it; a letter is open while there is none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from tidegate.schema.names import field_to_json
from tidegate.specs.project import FieldSpec

if TYPE_CHECKING:
    import pyarrow as pa

RECORD, FILE, RESOLUTION = "record", "file", "resolution"
RETRIED, DISCARDED, REPLAYED, READ_AGAIN = "retried", "discarded", "replayed", "read again"


@dataclass(frozen=True, slots=True)
class Letter:
    """One row. ``line`` counts from 1; of a file it is the first line that was not read.

    A line that is not valid UTF-8 is in ``raw``, any other in ``text``. ``resolves`` is the letter that a resolution
    answers, whose ``reason`` then says how.
    """

    id: str
    kind: str
    pipeline: str
    source: str
    at: datetime
    run: str
    file: str | None = None
    size: int | None = None
    etag: str | None = None
    line: int | None = None
    reason: str | None = None
    stage: str | None = None
    schema_fingerprint: str | None = None
    text: str | None = None
    raw: bytes | None = None
    resolves: str | None = None

    @property
    def content(self) -> bytes:
        """The line as it stood in the file, without blanks around it."""
        return self.raw if self.raw is not None else (self.text or "").encode()

    def to_json(self) -> dict[str, object]:
        """For ``--json``; bytes that are no text are shown as far as they can be."""
        shown = {name: getattr(self, name) for name in LETTER_COLUMNS if name not in ("raw", "resolves")}
        shown["at"] = self.at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        if self.raw is not None:
            shown["text"] = self.raw.decode(errors="backslashreplace")
        return shown


LETTER_COLUMNS = tuple(field.name for field in fields(Letter))
"""The columns of the dead-letter table, in their order."""


@cache
def letter_schema() -> pa.Schema:
    """The Arrow schema of the dead-letter table: a column for each field of :class:`Letter`."""
    import pyarrow as pa

    types = {"str": pa.string(), "int": pa.int64(), "bytes": pa.binary(), "datetime": pa.timestamp("us", tz="UTC")}
    declared = ((field.name, *str(field.type).partition(" | ")) for field in fields(Letter))
    return pa.schema([pa.field(name, types[kind], nullable=bool(optional)) for name, kind, optional, _ in declared])


def letter_of(row: Mapping[str, Any]) -> Letter:
    """The letter in a row of the table."""
    values: dict[str, Any] = {name: row.get(name) for name in LETTER_COLUMNS}
    return Letter(**values)


def letter_rows(letters: Iterable[Letter]) -> pa.RecordBatch:
    """Letters as rows of the table."""
    import pyarrow as pa

    rows = [{name: getattr(letter, name) for name in LETTER_COLUMNS} for letter in letters]
    return pa.RecordBatch.from_pylist(rows, letter_schema())


def letter_id(pipeline: str, source: str, run: str, file: str, line: int) -> str:
    """A short name that no other letter has."""
    return letter_ids(pipeline, source, run, file, (line,))[0]


def letter_ids(pipeline: str, source: str, run: str, file: str, lines: Iterable[int]) -> list[str]:
    """The same for several lines of a file."""
    told = "\0".join((pipeline, source, run, file, "")).encode()
    return [hashlib.sha256(b"%b%d" % (told, line)).hexdigest()[:16] for line in lines]


def fingerprint(fields: Iterable[FieldSpec]) -> str:
    """Tells schemas apart: a letter that was refused by another one may be good by now."""
    told = json.dumps([field_to_json(field) for field in fields], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:16]
