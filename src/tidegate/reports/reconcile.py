"""All files of sources and tables, compared with what was committed."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from tidegate.reports.report import Report
from tidegate.reports.status import FailedFile

if TYPE_CHECKING:
    from tidegate.core.files.discovery import FutureSeal


NAMES = 10_000
"""The most names kept per kind; counts are always complete."""


@dataclass(frozen=True, slots=True)
class FoundFiles(Report):
    """Files of one kind: their number, total size, and up to 10,000 names, ascending."""

    count: int = 0
    bytes: int = 0
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceComparison(Report):
    """One source compared with the ledger of its commits.

    ``late``, like everything else here, is what is left at the end; ``ingested_files`` and ``ingested_rows`` are what
    ``ingest=True`` read, ``failed`` the late files that it could not read. ``compared`` is false for a column source:
    its rows are not compared. ``future_seals`` are seals that a clock set that was ahead once; ``ingest`` takes them
    back.
    """

    pipeline: str
    source: str
    version: int = 0
    listed: FoundFiles = field(default_factory=FoundFiles)
    ingested: int = 0
    late: FoundFiles = field(default_factory=FoundFiles)
    changed: FoundFiles = field(default_factory=FoundFiles)
    waiting: FoundFiles = field(default_factory=FoundFiles)
    unfinished: FoundFiles = field(default_factory=FoundFiles)
    unexplained: FoundFiles = field(default_factory=FoundFiles)
    excluded: FoundFiles = field(default_factory=FoundFiles)
    gone: FoundFiles = field(default_factory=FoundFiles)
    given_up: FoundFiles = field(default_factory=FoundFiles)
    repaired: FoundFiles = field(default_factory=FoundFiles)
    ingested_files: int = 0
    ingested_rows: int = 0
    commits: int = 0
    failed: tuple[FailedFile, ...] = ()
    notes: tuple[str, ...] = ()
    error: str | None = None
    exit_code: int = 0
    compared: bool = True
    future_seals: tuple[FutureSeal, ...] = ()

    @property
    def needs_someone(self) -> bool:
        """Whether there are findings that no run will repair."""
        found = self.late.count or self.changed.count or self.repaired.count
        return bool(self.error or found or self.future_seals)


@dataclass(frozen=True, slots=True)
class FoundDataFile(Report):
    """A Parquet file below the table; ``modified`` is the store's time."""

    path: str
    size: int
    modified: datetime


@dataclass(frozen=True, slots=True)
class FoundDataFiles(Report):
    """Data files of one kind: their number, total size, the oldest, and up to 10,000 by path."""

    count: int = 0
    bytes: int = 0
    oldest: datetime | None = None
    files: tuple[FoundDataFile, ...] = ()


@dataclass(frozen=True, slots=True)
class TableComparison(Report):
    """The Parquet files below one table compared with its log.

    ``orphans`` are Tidegate's own, older than the limit and in no entry of the log; ``young`` ones are not that old and
    may still be committed; ``foreign`` ones were written by something else. ``removed`` are those that ``clean=True``
    deleted, after it had fenced the sources in ``fenced``.
    """

    table_uri: str
    data_files: int = 0
    orphans: FoundDataFiles = field(default_factory=FoundDataFiles)
    young: FoundDataFiles = field(default_factory=FoundDataFiles)
    foreign: FoundDataFiles = field(default_factory=FoundDataFiles)
    removed: FoundDataFiles = field(default_factory=FoundDataFiles)
    fenced: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    error: str | None = None
    exit_code: int = 0

    @property
    def needs_someone(self) -> bool:
        """Whether there are orphans that nobody removes."""
        return bool(self.error or self.orphans.count)


@dataclass(frozen=True, slots=True)
class ReconcileReport(Report):
    """The comparison of sources and tables; ``ok`` if nothing was found, or all of it was repaired."""

    sources: tuple[SourceComparison, ...]
    tables: tuple[TableComparison, ...]
    ok: bool
    seconds: float
