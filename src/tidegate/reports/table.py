"""Results of commands on tables: files and positions of the ledger, staged and adopted files, columns; and imports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tidegate.reports.run import Report


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
class PositionView(Report):
    """One position of a source: when and by what it was committed, and the watermark after it.

    ``gap`` is None, or says why nothing else is known.
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
    """The positions of one source, newest first; ``complete`` is false if a limit left some out."""

    pipeline: str
    source: str
    positions: tuple[PositionView, ...]
    complete: bool
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


@dataclass(frozen=True, slots=True)
class PropertyNote(Report):
    """A property of a file, by its line, and why it was not converted as it stands.

    ``changes_what_is_read``: without it the pipeline reads other data than the job did.
    """

    line: int
    name: str
    reason: str
    changes_what_is_read: bool = False


@dataclass(frozen=True, slots=True)
class PropertiesImport(Report):
    """A properties file converted into a configuration.

    ``carried`` properties are in ``yaml``, ``left`` ones are not or only in part, ``not_needed`` ones have no purpose
    here. The environment ``variables`` must be set before ``yaml`` is used: secrets, and what the file did not define.
    ``reads_the_same`` is False if the pipeline would read other data than the job did, or does not load yet.
    """

    origin: str
    yaml: str
    carried: tuple[str, ...] = ()
    left: tuple[PropertyNote, ...] = ()
    not_needed: tuple[PropertyNote, ...] = ()
    variables: tuple[str, ...] = ()
    reads_the_same: bool = True


@dataclass(frozen=True, slots=True)
class ColumnSeen(Report):
    """One field of the sampled records, by its path.

    Of ``records`` that could have it, ``seen`` had a value, ``nulls`` a null, ``absent`` nothing. ``kinds`` counts the
    kinds of JSON values, ``examples`` has one of each. ``confidence`` is ``high``, ``low`` or ``none``.
    """

    path: str
    type: str
    records: int
    seen: int
    nulls: int
    absent: int
    confidence: str
    kinds: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, slots=True)
class SchemaInference(Report):
    """Columns inferred from a sample of files; ``yaml`` can be pasted into the configuration.

    ``problems`` would keep a run from inferring these columns. ``new`` are fields that the remembered schema lacks;
    with ``applied`` they were added to it.
    """

    pipeline: str
    source: str
    files: int
    records: int
    unreadable: int
    columns: tuple[ColumnSeen, ...]
    problems: tuple[str, ...]
    yaml: str
    new: tuple[str, ...] = ()
    applied: bool = False


@dataclass(frozen=True, slots=True)
class SchemaColumn(Report):
    """One column or field: its declared, remembered and actual type; None if it has none."""

    path: str
    declared: str | None
    remembered: str | None
    table: str | None


@dataclass(frozen=True, slots=True)
class SchemaView(Report):
    """The columns of a pipeline side by side; ``table_version`` is None without a table."""

    pipeline: str
    table_uri: str
    table_version: int | None
    evolution: str
    columns: tuple[SchemaColumn, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaChange(Report):
    """One difference between what a pipeline writes and its table; ``error`` if it stops the next run."""

    path: str
    kind: str
    table: str | None
    written: str | None
    effect: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class SchemaDiff(Report):
    """How the next run would change the columns of its table; ``ok`` if it would not stop."""

    pipeline: str
    table_uri: str
    evolution: str
    changes: tuple[SchemaChange, ...]
    ok: bool
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableRewrite(Report):
    """A table whose columns a person changed, or would change.

    ``action`` is ``table widen`` (every row is kept and rewritten) or ``schema replace`` (``rows`` leave the table).
    ``table_version`` is that of the commit if ``applied``, else the one looked at.
    """

    pipeline: str
    table_uri: str
    action: str
    changes: tuple[SchemaChange, ...]
    rows: int
    data_files: int
    bytes: int
    table_version: int
    notes: tuple[str, ...] = ()
    applied: bool = False
    seconds: float = 0.0
