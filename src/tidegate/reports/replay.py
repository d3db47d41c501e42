"""Rows that are read again: replayed files, replayed ranges of values, retried dead letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from tidegate.reports.page import (
    Block,
    Cell,
    Columns,
    Gap,
    Heading,
    Style,
    facts,
    line,
    more,
    notes,
    source_name,
    table,
)
from tidegate.reports.report import ChangeReport, Report, View, to_json
from tidegate.reports.watermark import FileSet, fates
from tidegate.reports.wording import count, duration

CHUNKS_SHOWN = 12
LETTERS_SHOWN = 10
_STYLES = {"done": Style.GOOD, "failed": Style.BAD, "skipped": Style.DIM, "planned": Style.NORMAL}


@dataclass(frozen=True, slots=True)
class ReplayReport(ChangeReport):
    """Files whose rows were replaced, or would be.

    ``rows_removed`` are the rows of ``replayed`` (and, with ``drop_missing``, of ``missing``) in the table,
    ``rows_written`` those that replaced them: None unless ``applied``. ``left_to_run`` are unfinished files,
    ``missing`` are in the table but no longer in the source.
    """

    pipeline: str
    source: str
    table_uri: str
    selected: str
    replayed: FileSet
    left_to_run: FileSet
    missing: FileSet
    drop_missing: bool
    rows_removed: int
    rows_written: int | None
    notes: tuple[str, ...]
    version: int
    table_version: int
    applied: bool = False
    seconds: float = 0.0

    def consequences(self, view: View) -> Iterator[Block]:
        """Yield which files are read again, which are left, and how many rows go."""
        yield Heading(f"{source_name(self)}: replay of {self.selected}")
        yield facts(("table", self.table_uri), ("rows to remove", f"{self.rows_removed:,}"))
        yield Gap()
        yield fates(
            ("read again: rows replaced", self.replayed, Style.STRONG),
            ("unfinished: left to the next run", self.left_to_run, Style.WARN),
            ("gone: rows removed" if self.drop_missing else "gone: rows kept", self.missing, Style.WARN),
        )
        yield from notes(self.notes)

    def describe_change(self) -> Iterator[Block]:
        """Yield how many rows were replaced."""
        rows = f"{count(self.rows_removed, 'row')} replaced by {count(self.rows_written or 0, 'row')}"
        yield line(f"committed: {rows} in {duration(self.seconds)}; table version {self.table_version}", Style.GOOD)


Fate = Literal["planned", "skipped", "done", "failed"]


@dataclass(frozen=True, slots=True)
class ChunkReport(Report):
    """Values ``low <= v < high`` and their fate.

    ``planned``: to be read; ``skipped``: finished by an earlier start of the same replay; ``done``: committed now, with
    ``rows``; ``failed``: nothing of it was committed, ``error`` says why.
    """

    low: str
    high: str
    fate: Fate
    rows: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ColumnReplayReport(ChangeReport):
    """A replay of one source. ``predicate`` is the condition over all chunks, ``saved`` the watermark that production
    continues from, if it was moved.

    ``resumed``: an earlier start of the same replay had finished some chunks. ``ok`` only if every chunk is finished.
    """

    pipeline: str
    source: str
    table_uri: str
    column: str
    chunks: tuple[ChunkReport, ...]
    predicate: str = ""
    resumed: bool = False
    saved: str | None = None
    notes: tuple[str, ...] = ()
    ok: bool = True
    applied: bool = False
    seconds: float = 0.0

    def code(self, *, stopped: bool = False) -> int:
        """Return 1 if a chunk is left."""
        return int(self.applied and not self.ok)

    def consequences(self, view: View) -> Iterator[Block]:
        """Yield the range, the condition, and the chunks."""
        chunks = self.chunks
        finished = sum(chunk.fate == "skipped" for chunk in chunks)
        yield Heading(f"{source_name(self)}: replay of {self.column}")
        yield facts(
            ("table", self.table_uri),
            ("from", Cell(chunks[0].low, Style.STRONG)),
            ("up to", Cell(f"{chunks[-1].high} (not included)", Style.STRONG)),
            ("reads", self.predicate),
            ("chunks", f"{len(chunks):,}" + (f", {finished:,} already finished" if finished else "")),
        )
        yield Gap()
        yield table(CHUNKS, chunks[:CHUNKS_SHOWN], more(len(chunks) - CHUNKS_SHOWN, "chunk"))
        yield from notes(self.notes)

    def describe_change(self) -> Iterator[Block]:
        """Yield what failed, how much was committed, and what is left."""
        for chunk in self.chunks:
            if chunk.error:
                yield line(f"{chunk.low} to {chunk.high}: {chunk.error}", Style.BAD, "failed")
        fates = Counter(chunk.fate for chunk in self.chunks)
        rows = count(sum(chunk.rows for chunk in self.chunks), "row")
        text = f"{count(fates['done'], 'chunk')} committed, {rows}, in {duration(self.seconds)}"
        if fates["skipped"]:
            text = f"{text}; {count(fates['skipped'], 'chunk')} skipped"
        if left := fates["failed"] + fates["planned"]:
            yield line(f"{text}; {count(left, 'chunk')} left: run the same replay again", Style.WARN)
        else:
            yield line(text, Style.GOOD)
        if self.saved is not None:
            yield line(f"runs continue at {self.saved}", Style.GOOD)


@dataclass(frozen=True, slots=True)
class LettersReport(Report):
    """The fate of dead letters: ``answered`` of the selected ``letters`` are done.

    ``still_bad`` has the id, the file and today's reason of each other one; ``position`` is that of the commit, None if
    there was nothing to commit.
    """

    pipeline: str
    source: str
    table_uri: str
    letters: int
    answered: int = 0
    rows: int = 0
    new_letters: int = 0
    still_bad: tuple[tuple[str, str, str], ...] = ()
    position: int | None = None
    table_version: int | None = None


CHUNKS: Columns[ChunkReport] = {
    "from": lambda chunk: chunk.low,
    "up to": lambda chunk: chunk.high,
    "state": lambda chunk: Cell(chunk.fate, _STYLES[chunk.fate]),
}
"""The table of ``tidegate replay --start``."""


@dataclass(frozen=True, slots=True)
class Answers(Report):
    """The fate of the dead letters of several sources; ``verb`` says what was done to them."""

    sources: tuple[LettersReport, ...]
    verb: str

    def to_json(self) -> dict[str, Any]:
        """Return the reports of the sources alone."""
        return {"sources": to_json(self.sources)}

    def code(self, *, stopped: bool = False) -> int:
        """Return 1 if letters are still bad."""
        return int(any(report.still_bad for report in self.sources))

    def describe(self, view: View) -> Iterator[Block]:
        """Yield a line per source, and the letters that are still bad."""
        for report in self.sources:
            name = source_name(report)
            if not report.letters:
                yield line(f"{name}: no open dead letter matches")
                continue
            rows = f", {count(report.rows, 'row')} committed" if report.rows else ""
            new = f", {count(report.new_letters, 'new letter')}" if report.new_letters else ""
            at = f" as table version {report.table_version}" if report.table_version is not None else ""
            text = f"{name}: {report.answered:,} of {count(report.letters, 'letter')} {self.verb}{rows}{new}{at}"
            yield line(text, Style.WARN if report.still_bad else Style.GOOD)
            for letter, file, reason in report.still_bad[:LETTERS_SHOWN]:
                yield line(f"{letter} of {file}: {reason}", Style.BAD, "still bad")
            if left := more(len(report.still_bad) - LETTERS_SHOWN, "letter"):
                yield line(left, Style.BAD, "still bad")
