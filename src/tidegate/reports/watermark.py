"""Watermarks: the recorded state of a source, its history, and a watermark moved by a person."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any

from tidegate.reports.page import (
    Block,
    Cell,
    Columns,
    Gap,
    Heading,
    Row,
    Style,
    Table,
    after_gap,
    cell,
    facts,
    line,
    more,
    notes,
    source_name,
    table,
    tabulate,
)
from tidegate.reports.report import ChangeReport, Report, View, hide_from_json
from tidegate.reports.status import FailedUnit, state_cell
from tidegate.reports.wording import count, size

ROWS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class StateTable:
    """Entries of a state by name, under two headings; ``unnamed`` stands for an empty name."""

    name: str
    entry: str
    entries: Mapping[str, Any]
    noun: str
    plural: str = ""
    unnamed: str = "(top level)"

    def blocks(self) -> Iterator[Table]:
        """Yield the first entries as a table; nothing without entries."""
        if self.entries:
            shown = list(islice(self.entries.items(), ROWS_SHOWN))
            rows = tuple((name or self.unnamed, _progress(entry)) for name, entry in shown)
            left = more(len(self.entries) - len(shown), self.noun, self.plural)
            yield tabulate((f"~{self.name}", f"={self.entry}"), rows, left)


@dataclass(frozen=True, slots=True)
class WatermarkView(Report):
    """The complete recorded state of one source; ``remembered`` is the number of paths in its set, if it has one.

    For work units, ``partitions`` has by unit what was read; ``failed_units`` and ``retired`` ones follow. ``updated``
    is when the state was planned, ``last_commit_at`` when it was committed. For people alone, the tracker gives its own
    ``facts`` and ``tables``.
    """

    pipeline: str
    source: str
    version: int
    state: str
    value: str | None
    partitions: Mapping[str, str]
    files: Mapping[str, Any]
    sealed: Mapping[str, Any]
    last_committed_file: str | None
    updated: datetime | None
    tracking: str = "watermark"
    remembered: int = 0
    failed_units: tuple[FailedUnit, ...] = ()
    retired: Mapping[str, str] = field(default_factory=dict)
    last_commit_at: datetime | None = None
    facts: tuple[tuple[str, str | None], ...] = hide_from_json(())
    tables: tuple[StateTable, ...] = hide_from_json(())

    def describe(self, view: View) -> Iterator[Block]:
        """Yield the watermark, then what is open, unfinished, failed or sealed."""
        yield Heading(source_name(self))
        yield facts(
            ("state", state_cell(self.state)),
            *((label, cell(text, Style.STRONG if text == self.value else Style.NORMAL)) for label, text in self.facts),
            ("commits", self.version or "none yet"),
            ("last commit", self.last_commit_at or self.updated),
        )
        for state_table in self.tables:
            yield from after_gap(state_table.blocks())


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

    def describe(self, view: View) -> Iterator[Block]:
        """Yield one row per commit."""
        yield Heading(source_name(self))
        if self.positions:
            yield table(
                POSITIONS, self.positions, "" if self.complete else "older commits omitted; --limit 0 shows all"
            )
        else:
            yield line("no commit yet")
        yield from (line(note, Style.WARN, "note") for note in self.notes)


@dataclass(frozen=True, slots=True)
class FileSet(Report):
    """Some source files: their number, total size, and up to three examples."""

    files: int = 0
    bytes: int = 0
    examples: tuple[str, ...] = ()

    def cells(self, style: Style) -> Row:
        """Return number, size and examples; dashes for none."""
        if not self.files:
            return None, None, None
        rest = ", …" if self.files > len(self.examples) else ""
        return cell(self.files, style), size(self.bytes) if self.bytes else None, ", ".join(self.examples) + rest


class MoveReport(ChangeReport):
    """Base of the reports of state that a person changed: one commit, and no row changes."""

    __slots__ = ()
    table_version: int

    def describe_change(self) -> Iterator[Block]:
        """Yield the version of the commit; without a table yet there is none."""
        committed = f"committed as table version {self.table_version}; no row changed"
        yield line("saved: the first run begins there" if self.table_version < 0 else committed, Style.GOOD)


@dataclass(frozen=True, slots=True)
class WatermarkMove(MoveReport):
    """A watermark set or forgotten by a person, and the consequences for the files.

    ``partition`` is None for the whole source, ``before`` and ``after`` are None without a watermark. ``read_again``
    are finished files that the next run would read again, which doubles their rows unless they were not in the table;
    ``never_read`` are unread files that it would skip. ``letters`` are the open dead letters of files that are read
    from their start again; the move answers them. ``version`` is the position after the commit if ``applied``, else the
    one looked at. ``tracking`` is ``files``, or that of a source without files: its notes say what happens to rows.
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
    tracking: str = "files"
    lists_files: bool = hide_from_json(True)

    def consequences(self, view: View) -> Iterator[Block]:
        """Yield the new watermark, and which files it lets runs read again or skip."""
        yield Heading(f"{source_name(self)}: {self.action}")
        where = "the whole source" if self.partition is None else self.partition or "(top level)"
        yield facts(
            ("partition", Cell(where, Style.STRONG)),
            ("watermark", self.before),
            ("becomes", cell(self.after, Style.STRONG)),
        )
        if self.lists_files:
            yield Gap()
            yield fates(
                ("read again: rows in the table are doubled", self.read_again, Style.BAD),
                ("skipped: never read", self.never_read, Style.BAD),
            )
        yield from notes(self.notes)


def _progress(entry: object) -> Cell:
    match entry:
        case {"Failed": {"attempts": attempts, "reason": reason}}:
            return Cell(f"failed: {reason} ({count(attempts, 'attempt')})", Style.BAD)
        case {"RecordsRead": records}:
            return Cell(f"in progress: {count(records, 'record')} read", Style.WARN)
        case "Finished":
            return Cell("finished, waits for a file before it", Style.DIM)
        case {"below": below, "directories": int(directories)}:
            return Cell(f"{below} ({count(directories, 'directory', 'directories')})")
        case Mapping():
            return Cell(", ".join(f"{key}: {value}" for key, value in entry.items()))
        case _:
            return cell(entry)


def action_cell(action: str) -> Cell:
    """Format the kind of a commit; anything but an ordinary run stands out."""
    return Cell(action, Style.DIM if action == "run" else Style.NORMAL)


def version_text(version: int | None) -> str | None:
    """Format the version of a table: an identifier, so without commas."""
    return None if version is None else str(version)


def _unless_gap(make: Callable[[PositionView], object]) -> Callable[[PositionView], object]:
    return lambda view: make(view) if view.gap is None else Cell("?", Style.WARN)


def _watermark(view: PositionView) -> Cell | str | None:
    return view.watermark if view.gap is None else Cell(f"unknown: {view.gap}", Style.WARN)


POSITIONS: Columns[PositionView] = {
    ">commit": lambda view: view.position,
    "committed": _unless_gap(lambda view: view.committed_at),
    "?action": _unless_gap(lambda view: action_cell(view.action)),
    "?>files": _unless_gap(lambda view: view.files),
    ">rows": _unless_gap(lambda view: view.rows),
    "?>table version": _unless_gap(lambda view: version_text(view.table_version)),
    "~watermark": _watermark,
}
"""The table of ``tidegate watermark history``."""


def fates(*sets: tuple[str, FileSet, Style]) -> Table:
    """Tabulate what happens to each set of files, with examples."""
    rows = tuple((label, *files.cells(style)) for label, files, style in sets)
    return tabulate(("=effect", ">files", ">size", "~for example"), rows)
