"""A dead letter: a line that is not a record, or a file that could not be read, kept with the reason.

The dead-letter table only ever grows. A letter that was read after all, or that nobody wants any more, is answered by a
row of the kind ``resolution`` that names it; a letter is open while there is none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from tidegate.reports.page import Block, Cell, Columns, Gap, Heading, Style, cell, facts, line, source_name, table
from tidegate.reports.report import Report, View, to_json
from tidegate.schema.names import field_to_json
from tidegate.specs.table import FieldSpec

if TYPE_CHECKING:
    import pyarrow as pa

RECORD, FILE, RESOLUTION = "record", "file", "resolution"
SHOWN = 50
TEXT_SHOWN = 4000
RETRIED, DISCARDED, REPLAYED, READ_AGAIN = "retried", "discarded", "replayed", "read again"


@dataclass(frozen=True, slots=True)
class Letter(Report):
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
        shown = {name: to_json(getattr(self, name)) for name in LETTER_COLUMNS if name not in ("raw", "resolves")}
        if self.raw is not None:
            shown["text"] = self.raw.decode(errors="backslashreplace")
        return shown

    def describe(self, view: View) -> Iterator[Block]:
        """Yield where the letter comes from, why it is one, and its content."""
        yield Heading(f"{source_name(self)}: letter {self.id}")
        yield facts(
            ("file", self.file),
            ("from line" if self.kind == FILE else "line", self.line or None),
            ("reason", cell(self.reason, Style.BAD)),
            ("stage", self.stage),
            ("at", self.at),
            ("run", self.run),
            ("schema", self.schema_fingerprint),
            ("size, etag", f"{self.size or 0:,} bytes, {self.etag or '-'}"),
        )
        if self.kind == RECORD:
            text = self.content.decode(errors="backslashreplace")
            cut = f" … ({len(text) - TEXT_SHOWN:,} more characters; --json has all)" if len(text) > TEXT_SHOWN else ""
            yield Gap()
            yield from map(line, (text[:TEXT_SHOWN] + cut).split("\n"))


@dataclass(frozen=True, slots=True)
class Letters(Report):
    """Dead letters, of which at most ``limit`` are shown."""

    letters: tuple[Letter, ...]
    limit: int = SHOWN

    def to_json(self) -> dict[str, Any]:
        """Return all letters."""
        return {"letters": to_json(self.letters)}

    def describe(self, view: View) -> Iterator[Block]:
        """Yield one row per letter."""
        if not self.letters:
            yield line("no open dead letter matches", Style.GOOD)
            return
        footnote = "… and more; --limit shows them" if len(self.letters) > self.limit else ""
        yield table(COLUMNS, self.letters[: self.limit], footnote)


@dataclass(frozen=True, slots=True)
class OpenLetters(Letters):
    """The open letters of one pipeline, and what to do about them; JSON has at most ``limit``, too."""

    def to_json(self) -> dict[str, Any]:
        """Return the letters that are shown, and whether there are more."""
        return {"letters": to_json(self.letters[: self.limit]), "more": len(self.letters) > self.limit}

    def describe(self, view: View) -> Iterator[Block]:
        """Yield one row per letter, and the commands that answer them."""
        yield from Letters.describe(self, view)
        if self.letters:
            where = f"{view.config} -p {self.letters[0].pipeline}"
            yield Gap()
            yield line(f"tidegate dlq retry {where}", label="once the configuration takes them")
            yield line(f"tidegate dlq discard {where}", label="once a new file has them right")


COLUMNS: Columns[Letter] = {
    "id": lambda letter: Cell(letter.id, Style.STRONG),
    "?source": lambda letter: letter.source,
    "~file": lambda letter: letter.file,
    ">line": lambda letter: (letter.line or None) if letter.kind == RECORD else Cell("file", Style.WARN),
    "=reason": lambda letter: letter.reason,
    "?at": lambda letter: cell(letter.at, Style.DIM),
}
"""The table of ``tidegate dlq list``."""

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
    # Joined by a character that no name can have, so that two different sets never give the same text.
    told = "\0".join((pipeline, source, run, file, "")).encode()
    return [hashlib.sha256(b"%b%d" % (told, line)).hexdigest()[:16] for line in lines]


def fingerprint(fields: Iterable[FieldSpec]) -> str:
    """Identify a schema: a letter that another schema refused may be good by now."""
    told = json.dumps([field_to_json(field) for field in fields], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:16]
