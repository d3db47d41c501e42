"""Results of commands that correct: moved watermarks, replays, reconciliations."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from tidegate.reports.run import FailedFile, Report

if TYPE_CHECKING:
    from tidegate.core.files.discovery import FutureSeal


@dataclass(frozen=True, slots=True)
class FileSet(Report):
    """Some source files: their number, total size, and up to three examples."""

    files: int = 0
    bytes: int = 0
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WatermarkMove(Report):
    """A watermark set or forgotten by a person, and the consequences for the files.

    ``partition`` is None for the whole source, ``before`` and ``after`` are None without a watermark. ``read_again``
    are finished files that the next run would read again, which doubles their rows unless they were not in the table;
    ``never_read`` are unread files that it would skip. ``letters`` are the open dead letters of files that are read
    from their start again; the move answers them. ``version`` is the position after the commit if ``applied``, else the
    one looked at. ``tracking`` is ``columns`` for a column source: it has no partition, and the notes say what happens
    to rows.
    """

    pipeline: str
    source: str
    action: str
    partition: str | None
    before: str | None
    after: str | None
    read_again: FileSet
    never_read: FileSet
    notes: tuple[str, ...]
    version: int
    table_version: int
    applied: bool = False
    letters: int = 0
    tracking: Literal["files", "columns"] = "files"


@dataclass(frozen=True, slots=True)
class ReplayReport(Report):
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
class ColumnReplayReport(Report):
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
