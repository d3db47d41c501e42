"""The ledger of ingested files, its export and its compaction."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tidegate.reports.report import Report


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


@dataclass(frozen=True, slots=True)
class LedgerExport(Report):
    """A Parquet file with the ledger: the number of sources and rows."""

    path: str
    sources: int
    rows: int


@dataclass(frozen=True, slots=True)
class LedgerCompaction(Report):
    """The compaction of one source's ledger: blocks written, objects removed."""

    pipeline: str
    source: str
    blocks: int
    removed: int
