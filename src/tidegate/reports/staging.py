"""What a committer, the adoption of files and the import of properties return."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.reports.run import Report


@dataclass(frozen=True, slots=True)
class RejectedUnit(Report):
    """Something that waited for the committer and was not committed; it lies in ``_staging/rejected/`` now."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class StagedSource(Report):
    """What a committer did for one source: ``units`` taken, ``waiting`` ones left, ``position`` where it is now."""

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

    ``files`` and ``rows`` are everything that became visible, ``foreign`` of the files came from metas without a unit.
    ``dropped`` units and ``duplicates`` were committed before; ``unknown`` units are of sources that the
    configuration does not have; ``aging`` ones wait for so long that a VACUUM could take their files.
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
    """What a committer did; ``ok`` only if nothing was rejected and nothing that could be taken is left."""

    tables: tuple[TableCommit, ...]
    ok: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class AdoptedFile(Report):
    """A Parquet file below a table that its log does not name; ``refused`` says why it cannot be added."""

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


@dataclass(frozen=True, slots=True)
class PropertyNote(Report):
    """One property of a file, by its line, and why it is not in the configuration as it was.

    ``changes_what_is_read``: without it the pipeline reads other data than the job did.
    """

    line: int
    name: str
    reason: str
    changes_what_is_read: bool = False


@dataclass(frozen=True, slots=True)
class PropertiesImport(Report):
    """A properties file as a configuration.

    ``carried`` are the properties that ``yaml`` says in its own way, ``left`` those that it does not say or not as a
    whole, ``not_needed`` those that have nothing to do here. ``variables`` of the environment are to be set before
    ``yaml`` is used: what was secret, and what the file did not say itself. ``reads_the_same`` is False where the
    pipeline would read other data than the job did, or does not load yet.
    """

    origin: str
    yaml: str
    carried: tuple[str, ...] = ()
    left: tuple[PropertyNote, ...] = ()
    not_needed: tuple[PropertyNote, ...] = ()
    variables: tuple[str, ...] = ()
    reads_the_same: bool = True
