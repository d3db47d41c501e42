"""What looking at the ledger gives back: files and how they came in, positions and what they left."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tidegate.reports.run import Report


@dataclass(frozen=True, slots=True)
class FileRange(Report):
    """Records ``start <= n < end`` of a file, and the commit that brought them.

    ``table_version`` is None where it was not noted; ``eof``: the file ends at ``end``.
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
    """One reading of a file, with the ranges it took, oldest first; the commit is that of the newest.

    ``records`` are physical lines: ``rows`` of them are rows of the table, ``bad`` went to the dead letters.
    ``finished``: everything from the first record to the end of the file is in. ``given_up``: the rest of it was not
    read, and is a dead letter.
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
    """Positions that were committed and whose coverage is unknown."""

    pipeline: str
    source: str
    first: int
    last: int
    reason: str


@dataclass(frozen=True, slots=True)
class FileTotals(Report):
    """Sums over the files of a report; ``commits`` are the positions that they came in."""

    files: int = 0
    bytes: int = 0
    records: int = 0
    rows: int = 0
    bad: int = 0
    commits: int = 0


@dataclass(frozen=True, slots=True)
class FilesReport(Report):
    """Files that were ingested, newest first; ``complete`` is false when a limit left some out."""

    files: tuple[IngestedFile, ...]
    totals: FileTotals
    complete: bool
    gaps: tuple[LedgerGap, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PositionView(Report):
    """One position of a source: when and by what it was committed, and the watermark that it left.

    ``gap`` is None, or says why nothing else is known of it.
    """

    position: int
    committed_at: datetime | None
    action: str
    files: int
    records: int
    rows: int
    bad: int
    data_files: int
    table_version: int | None
    state: str | None
    watermark: str | None
    gap: str | None = None


@dataclass(frozen=True, slots=True)
class WatermarkHistory(Report):
    """The positions of one source, newest first; ``complete`` is false when a limit left some out."""

    pipeline: str
    source: str
    positions: tuple[PositionView, ...]
    complete: bool
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LedgerExport(Report):
    """A Parquet file with the ledger: how many sources, and how many rows."""

    path: str
    sources: int
    rows: int


@dataclass(frozen=True, slots=True)
class LedgerCompaction(Report):
    """What the compaction of one source's ledger did: blocks written, objects removed."""

    pipeline: str
    source: str
    blocks: int
    removed: int
