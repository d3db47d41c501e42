"""Tables: their columns, how runs change them, and maintenance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from tidegate.reports.page import (
    Block,
    Cell,
    Columns,
    Gap,
    Heading,
    Style,
    cell,
    facts,
    line,
    notes,
    source_name,
    table,
)
from tidegate.reports.report import ChangeReport, Report, View
from tidegate.reports.wording import count, duration, size

STOPS = 5
"""The exit code of ``schema diff`` if the next run would stop: the same as the run's."""
_SURE = {"high": Style.GOOD, "low": Style.WARN, "none": Style.BAD}


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
class SchemaInference(ChangeReport):
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

    def consequences(self, view: View) -> Iterator[Block]:
        """Yield the fields of the sample, and which of them are new."""
        yield Heading(f"{source_name(self)}: {count(self.records, 'record')} of {count(self.files, 'file')}")
        yield table(SEEN, self.columns)
        yield from (line(problem, Style.BAD, "problem") for problem in self.problems)
        if self.unreadable:
            yield line(f"{count(self.unreadable, 'record')} of the sample unreadable", Style.WARN, "note")
        if self.new:
            yield line(f"not in the remembered schema: {', '.join(self.new)}", Style.WARN, "note")

    def explain_unchanged(self) -> str:
        """Return whether there was anything to add."""
        return "nothing was changed" if self.new else "no new field"

    def describe_change(self) -> Iterator[Block]:
        """Yield how many fields were added to the remembered schema."""
        added = f"{count(len(self.new), 'field')} added to the remembered schema"
        yield line(f"{added if self.new else 'the schema is remembered'}; the next run writes it", Style.GOOD)


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

    def describe(self, view: View) -> Iterator[Block]:
        """Yield the columns side by side."""
        version = "no table yet" if self.table_version is None else f"version {self.table_version}"
        yield Heading(f"{self.pipeline}: columns")
        yield facts(("table", f"{self.table_uri} ({version})"), ("schema_evolution", self.evolution))
        yield Gap()
        yield table(SIDE_BY_SIDE, self.columns)
        yield from notes(self.notes)


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

    def code(self, *, stopped: bool = False) -> int:
        """Return the exit code of a run that stops, if the next one would."""
        return 0 if self.ok else STOPS

    def describe(self, view: View) -> Iterator[Block]:
        """Yield the differences, and whether the next run would stop."""
        yield Heading(f"{self.pipeline}: how the next run would change columns")
        yield facts(("table", self.table_uri), ("schema_evolution", self.evolution))
        yield from _changes(self.changes)
        yield from notes(self.notes)
        yield Gap()
        if not self.ok:
            yield line("the next run would stop", Style.BAD)
        elif self.changes:
            yield line(f"the next run would continue: {count(len(self.changes), 'difference')}", Style.GOOD)
        else:
            yield line("nothing to compare" if self.notes else "nothing differs", Style.GOOD)


@dataclass(frozen=True, slots=True)
class TableRewrite(ChangeReport):
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

    def consequences(self, view: View) -> Iterator[Block]:
        """Yield how many rows are rewritten or removed, and which columns change."""
        label = "rows to remove" if self.action == "schema replace" else "rows to rewrite"
        yield Heading(f"{self.pipeline}: {self.action}")
        yield facts(
            ("table", self.table_uri),
            (label, cell(self.rows, Style.STRONG)),
            ("data files", f"{self.data_files:,}, {size(self.bytes)}"),
        )
        yield from _changes(self.changes)
        yield from notes(self.notes)

    def explain_unchanged(self) -> str:
        """Return the version that stays."""
        return f"nothing was changed; table version {self.table_version}"

    def describe_change(self) -> Iterator[Block]:
        """Yield what became of the rows."""
        done = "removed" if self.action == "schema replace" else "rewritten"
        text = f"committed: {count(self.rows, 'row')} {done} in {duration(self.seconds)}"
        yield line(f"{text}; table version {self.table_version}", Style.GOOD)


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

    def describe(self, view: View) -> Iterator[Block]:
        """Yield the result in a line, and the table."""
        done = not self.dry_run
        yield line(self._result(), Style.GOOD if done else Style.STRONG)
        yield line(f"{self.table_uri} (version {self.table_version})", label="table")

    def _result(self) -> str:
        done = not self.dry_run
        taken = f"in {duration(self.seconds)}"
        match self.operation:
            case "optimize" if not self.files_before:
                return "nothing to combine: no partition has two small files"
            case "optimize":
                after = f" ({size(self.bytes_after)}) {taken}" if done else ""
                before = f"{count(self.files_before, 'small file')} ({size(self.bytes_before)})"
                return f"{before} {'became' if done else 'would become'} {count(self.files_after, 'file')}{after}"
            case "vacuum" if not self.files_before:
                return f"nothing to remove: no file on disk left the table over {self.retention_hours} h ago"
            case "vacuum":
                removed = f"{count(self.files_before, 'file')} ({size(self.bytes_before)})"
                verb = "removed" if done else "would remove"
                return f"{verb} {removed} that left the table over {self.retention_hours} h ago"
            case "checkpoint":
                return f"checkpoint written {taken}" if done else "would write a checkpoint"


def _kinds(column: ColumnSeen) -> str:
    examples = {kind: f" ({example})" for kind, example in column.examples.items()}
    kinds = ", ".join(f"{number:,} {kind}{examples.get(kind, '')}" for kind, number in column.kinds.items())
    note = f"; {column.note}" if column.note and len(column.kinds) < 2 else ""
    return (kinds or "never a value") + note


SEEN: Columns[ColumnSeen] = {
    "~field": lambda column: Cell(column.path, Style.STRONG),
    "~type": lambda column: column.type,
    "confidence": lambda column: Cell(column.confidence, _SURE[column.confidence]),
    ">values": lambda column: column.seen,
    "?>null": lambda column: column.nulls,
    "?>absent": lambda column: column.absent,
    "=seen as": _kinds,
}
"""The table of ``tidegate schema infer``."""

SIDE_BY_SIDE: Columns[SchemaColumn] = {
    "~column": lambda column: Cell(column.path, Style.STRONG),
    "=declared": lambda column: column.declared,
    "=remembered": lambda column: column.remembered,
    "=table": lambda column: column.table,
}
"""The table of ``tidegate schema show``."""

CHANGES: Columns[SchemaChange] = {
    "~column": lambda change: Cell(change.path, Style.STRONG),
    "=table": lambda change: change.table,
    "=pipeline": lambda change: change.written,
    "=what happens": lambda change: Cell(change.error or change.effect, Style.BAD if change.error else Style.NORMAL),
}
"""The table of ``tidegate schema diff``."""


def _changes(changes: tuple[SchemaChange, ...]) -> Iterator[Block]:
    if changes:
        yield Gap()
        yield table(CHANGES, changes)
