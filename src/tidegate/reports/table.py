"""Tables: their columns, how runs change them, and maintenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tidegate.reports.report import Report


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


@dataclass(frozen=True, slots=True)
class TableCareReport(Report):
    """What was done for a table, or would be with ``dry_run``.

    ``optimize``: ``files_before`` became ``files_after``; ``vacuum``: ``files_before`` were removed, which had left the
    table more than ``retention_hours`` ago. ``table_version`` is the version afterwards.
    """

    pipeline: str
    table_uri: str
    operation: Literal["optimize", "vacuum", "checkpoint"]
    dry_run: bool
    table_version: int
    files_before: int = 0
    bytes_before: int = 0
    files_after: int = 0
    bytes_after: int = 0
    retention_hours: int | None = None
    seconds: float = 0.0
