"""The ledger of ingested files, its export and its compaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from tidegate.reports.page import (
    AnyRow,
    Block,
    Cell,
    Columns,
    Gap,
    Style,
    Table,
    line,
    source_name,
    table,
)
from tidegate.reports.report import Report, View
from tidegate.reports.status import failures_cell
from tidegate.reports.watermark import action_cell, version_text
from tidegate.reports.wording import count, size


@dataclass(frozen=True, slots=True)
class FileRange(Report):
    """Records ``start <= n < end`` of a file, and the commit that brought them.

    ``table_version`` is None if it was not recorded; ``eof``: the file ends at ``end``.
    """

    position: int
    table_version: int | None
    action: str
    committed_at: datetime | None
    start: int
    end: int
    eof: bool
    rows: int
    bad: int


@dataclass(frozen=True, slots=True)
class IngestedFile(Report):
    """One reading of a file with its ranges, oldest first; the commit is that of the newest.

    ``records`` are physical lines: ``rows`` of them are rows of the table, ``bad`` went to the dead letters.
    ``finished``: the whole file is committed. ``given_up``: the rest of it was not read, and is a dead letter.
    """

    pipeline: str
    source: str
    file: str
    size: int
    etag: str | None
    finished: bool
    records: int
    rows: int
    bad: int
    position: int
    table_version: int | None
    action: str
    committed_at: datetime | None
    ranges: tuple[FileRange, ...] = ()
    given_up: bool = False


@dataclass(frozen=True, slots=True)
class LedgerGap(Report):
    """Committed positions with unknown coverage."""

    pipeline: str
    source: str
    first: int
    last: int
    reason: str


@dataclass(frozen=True, slots=True)
class FileTotals(Report):
    """Totals over the files of a report; ``commits`` are their positions."""

    files: int = 0
    bytes: int = 0
    records: int = 0
    rows: int = 0
    bad: int = 0
    commits: int = 0


@dataclass(frozen=True, slots=True)
class FilesReport(Report):
    """Ingested files, newest first; ``complete`` is false if a limit left some out."""

    files: tuple[IngestedFile, ...]
    totals: FileTotals
    complete: bool
    gaps: tuple[LedgerGap, ...] = ()
    notes: tuple[str, ...] = ()

    def describe(self, view: View) -> Iterator[Block]:
        """Yield one row per file and the totals."""
        columns: Columns[IngestedFile] = {
            "~file": self._name(),
            **_commit_columns(lambda file: file),
            "=read": _progress,
            "?>records": lambda file: file.records,
            ">rows": lambda file: file.rows,
            ">bad": lambda file: failures_cell(file.bad),
        }
        yield from self._append_totals(table(columns, self.files))

    def describe_ranges(self, view: View) -> Iterator[Block]:
        """Yield one row for each range that was committed separately, and the totals."""
        name = self._name()
        columns: Columns[tuple[IngestedFile, FileRange]] = {
            "~file": lambda row: name(row[0]),
            **_commit_columns(lambda row: row[1]),
            ">from": lambda row: row[1].start,
            ">to": lambda row: f"{row[1].end:,}" + ("" if row[1].eof else " …"),
            "?>records": lambda row: row[1].end - row[1].start,
            ">rows": lambda row: row[1].rows,
            ">bad": lambda row: failures_cell(row[1].bad),
        }
        rows = ((file, part) for file in self.files for part in reversed(file.ranges))
        yield from self._append_totals(table(columns, rows))

    def _append_totals(self, files: Table) -> Iterator[Block]:
        if files.rows:
            yield files
            yield Gap()
        yield line(_totals(self.totals), Style.STRONG)
        if not self.complete:
            yield line("older files omitted; --limit 0 shows all", label="note")
        yield from (line(_gap(gap), Style.WARN, "gap") for gap in self.gaps)
        yield from (line(note, Style.WARN, "note") for note in self.notes)

    def _name(self) -> Callable[[IngestedFile], str]:
        """Return what names a file: its path, after its source if there are several."""
        several = len({source_name(file) for file in self.files}) > 1
        return lambda file: f"{file.source}: {file.file}" if several else file.file


@dataclass(frozen=True, slots=True)
class LedgerExport(Report):
    """A Parquet file with the ledger: the number of sources and rows."""

    path: str
    sources: int
    rows: int

    def describe(self, view: View) -> Iterator[Block]:
        """Yield one line."""
        text = f"{self.path}: {count(self.rows, 'row')}, the ledger of {count(self.sources, 'source')}"
        yield line(text, Style.GOOD)


@dataclass(frozen=True, slots=True)
class LedgerCompaction(Report):
    """The compaction of one source's ledger: blocks written, objects removed."""

    pipeline: str
    source: str
    blocks: int
    removed: int

    def describe(self, view: View) -> Iterator[Block]:
        """Yield one line."""
        what = f"{count(self.blocks, 'block')} written, {count(self.removed, 'object')} removed, now in blocks"
        yield line(f"{source_name(self)}: {what if self.blocks or self.removed else 'nothing to do'}")


def _commit_columns(commit: Callable[[AnyRow], IngestedFile | FileRange]) -> Columns[AnyRow]:
    """Return the columns about the commit that brought the file or range of a row."""
    return {
        "?committed": lambda row: commit(row).committed_at,
        "?>commit": lambda row: commit(row).position,
        "?>table version": lambda row: version_text(commit(row).table_version),
        "?action": lambda row: action_cell(commit(row).action),
    }


def _totals(totals: FileTotals) -> str:
    if not totals.files:
        return "no files"
    bad = f", {totals.bad:,} bad" if totals.bad else ""
    return (
        f"{count(totals.files, 'file')} ({size(totals.bytes)}) in {count(totals.commits, 'commit')}: "
        f"{count(totals.records, 'record')}, {count(totals.rows, 'row')}{bad}"
    )


def _gap(gap: LedgerGap) -> str:
    span = f"commit {gap.first}" if gap.first == gap.last else f"commits {gap.first} to {gap.last}"
    return f"{source_name(gap)}: files of {span} unknown: {gap.reason}"


def _progress(file: IngestedFile) -> Cell:
    rounds = f" in {count(len(file.ranges), 'round')}" if len(file.ranges) > 1 else ""
    if file.finished:
        return Cell(f"whole{rounds}")
    newest, oldest = file.ranges[-1], file.ranges[0]
    if file.given_up:
        return Cell(f"given up at record {newest.end:,}" if newest.end else "given up", Style.BAD)
    if newest.eof:
        return Cell(f"from record {oldest.start:,}{rounds}")
    return Cell(f"up to record {newest.end:,}{rounds}", Style.WARN)
