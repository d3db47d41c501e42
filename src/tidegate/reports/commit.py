"""What a committer did with staged batches, and files that were added to a table."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.reports.report import Report


@dataclass(frozen=True, slots=True)
class RejectedUnit(Report):
    """Something that the committer rejected; it lies in ``_staging/rejected/`` now."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class StagedSource(Report):
    """What a committer did for one source: ``units`` committed, ``waiting`` ones left, its new ``position``."""

    pipeline: str
    source: str
    position: int
    units: int = 0
    rows: int = 0
    waiting: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class TableCommit(Report):
    """What a committer did for one table; ``exit_code`` is that of the error's class, 0 without one.

    ``files`` and ``rows`` became visible, ``foreign`` of the files came from metas without a unit. ``dropped`` units
    and ``duplicates`` were committed before; ``unknown`` units belong to sources that are not in the configuration;
    ``aging`` ones have waited so long that a VACUUM could remove their files.
    """

    table_uri: str
    table_version: int | None = None
    commits: int = 0
    units: int = 0
    files: int = 0
    rows: int = 0
    foreign: int = 0
    duplicates: int = 0
    dropped: int = 0
    waiting: int = 0
    unknown: int = 0
    aging: int = 0
    rejected: tuple[RejectedUnit, ...] = ()
    sources: tuple[StagedSource, ...] = ()
    error: str | None = None
    exit_code: int = 0


@dataclass(frozen=True, slots=True)
class CommitReport(Report):
    """What a committer did; ``ok`` only if nothing was rejected and nothing that could be committed is left."""

    tables: tuple[TableCommit, ...]
    ok: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class AdoptedFile(Report):
    """A Parquet file below a table that is not in its log; ``refused`` says why it cannot be added."""

    path: str
    size: int
    etag: str | None
    rows: int = 0
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class FileAdoption(Report):
    """Foreign Parquet files below ``prefix`` that were, or would be, added to a table; ``known`` are in its log."""

    table_uri: str
    prefix: str
    files: tuple[AdoptedFile, ...] = ()
    known: int = 0
    adopted: int = 0
    rows: int = 0
    table_version: int | None = None
