"""What a run would read and why it skips the rest: files, columns, or work units.

Moments are ISO 8601 in UTC, ranges ``[low, high)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any, Self, TypeVar

from tidegate.core.calendar import iso, milliseconds, zone_named
from tidegate.reports.page import (
    FEW_TABLES,
    Block,
    Cell,
    Column,
    Columns,
    Fact,
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
    names,
    notes,
    position,
    sections,
    source_name,
    table,
    tabulate,
)
from tidegate.reports.report import Report, View
from tidegate.reports.wording import count, size

if TYPE_CHECKING:
    from tidegate.core.files.discovery import LeftOut, Skipped
    from tidegate.core.files.plan import FileGroup, FileSlice, Plan


Span = tuple[str, str]
Part = TypeVar("Part")

PARTITIONS_SHOWN = 12
UNITS_BESIDE = 12
ROWS_SHOWN = 24
RANGES_SHOWN = 12
NAMES_SHOWN = 3
FAILED_SHOWN = 12

WOULD_STOP = "a run would stop: "
"""How a note begins that says why the next run would refuse before it reads anything."""
REASONS = {
    "first": ("F", Style.STRONG, "first read, the whole partition"),
    "new": ("N", Style.STRONG, "new time, read from its high watermark less the grace period"),
    "catch_up": ("C", Style.STRONG, "catches up: unfinished, and below the cut-off"),
    "done": (".", Style.DIM, "done: its end is not above the cut-off"),
    "up_to_date": ("=", Style.DIM, "read up to the end of the plan"),
    "abstinent": ("a", Style.DIM, "read too recently (abstinent period)"),
    "grace_over": ("g", Style.WARN, "unfinished, below the cut-off, and catch_up is off"),
    "waiting": ("w", Style.WARN, "failed before, waits for its turn"),
    "capped": ("c", Style.WARN, "over parallelism_max; a later run reads it"),
    "retired": ("x", Style.WARN, "retired: the server does not know it"),
}
"""The reasons of work units: letter in the grid, style and meaning."""


def _engine_line(engine: str) -> Iterator[Block]:
    """Name the engine, unless it is the usual one."""
    if engine != "spark":
        yield line(f"engine: {engine}", Style.DIM)


class PlanReport(Report):
    """Base of the plans: what a run would do for one source, in the facts and words of its tracker."""

    __slots__ = ()
    pipeline: str
    source: str
    notes: tuple[str, ...]
    engine: str

    if TYPE_CHECKING:
        # Not at run time: a property of a base class would be the default of a dataclass field with that name.
        @property
        def position(self) -> int:
            """The position of the plan; 0 before the first commit."""

    def find_refusal(self) -> str | None:
        """Why the next run would refuse before it reads anything; None if nothing is known against it."""
        return next((note.removeprefix(WOULD_STOP) for note in self.notes if note.startswith(WOULD_STOP)), None)

    def replace_fields(self, **fields: Any) -> Self:
        """Return the same plan with other ``fields``."""
        assert is_dataclass(self)
        return replace(self, **fields)


@dataclass(frozen=True, slots=True)
class SourcePlan(PlanReport):
    """What a run would do for one source; ``notes`` concern table and lane, the plan has its own.

    ``pending_units`` wait for ``tidegate commit``; the plan is made on top of them.
    """

    pipeline: str
    source: str
    plan: Plan
    table_uri: str
    lane: str = "arrow"
    notes: tuple[str, ...] = ()
    pending_units: int = 0
    engine: str = "spark"
    table: str | None = None

    @property
    def position(self) -> int:
        """The position of the plan."""
        return self.plan.version

    def describe(self, view: View) -> Iterator[Block]:
        """Yield what would be read by partition, then what is skipped and why."""
        plan = self.plan
        yield Heading(f"{source_name(self)} → {self.table or self.table_uri}")
        yield from _engine_line(self.engine)
        yield facts(*_file_facts(self, view.verbose))
        if plan.groups:
            yield Gap()
            yield _partitions(plan)
        if plan.skipped:
            yield Gap()
            yield table(SKIPPED, plan.skipped)
        if plan.left_out is not None:
            yield Gap()
            yield _tabulate_left_out(plan.left_out)
        findings = (*plan.findings, *_findings(plan), *plan.notes, *self.notes)
        warnings = (line(text, Style.WARN, "note") for text in findings)
        yield from after_gap((*warnings, *(line(text, Style.DIM, "remark") for text in plan.remarks)))


@dataclass(frozen=True, slots=True)
class ColumnSourcePlan(PlanReport):
    """What a run would read of one column source.

    ``stored`` is the watermark by column, as text, ``effective`` where the read begins after look-back; both are empty
    on a first run. ``predicate`` is the condition in the language of the source. The run fixes the upper bounds;
    ``cap`` says how.
    """

    pipeline: str
    source: str
    table_uri: str
    kind: str
    source_uri: str
    load_type: str
    position: int
    stored: Mapping[str, str | None]
    effective: Mapping[str, str | None]
    predicate: str
    full: bool
    cap: str
    window: bool = False
    notes: tuple[str, ...] = ()
    tracking: str = "columns"
    engine: str = "spark"
    table: str | None = None
    block: str | None = None

    def describe(self, view: View) -> Iterator[Block]:
        """Yield the condition that is sent to the source, and the watermark of each column."""
        window = ", replacing the window" if self.window else ""
        yield Heading(f"{source_name(self)} → {self.table or self.table_uri}")
        yield from _engine_line(self.engine)
        yield facts(
            ("source", f"{self.kind}: {self.source_uri}"),
            ("would read", Cell(self.predicate, Style.STRONG)),
            ("up to", self.cap),
            ("loads by", f"{self.load_type}{window}"),
            *_position(self.position, view.verbose),
        )
        if self.stored:
            columns: Columns[str] = {
                "~watermark column": str,
                "=stored": lambda name: _bound(self.stored, name),
                "=read from": lambda name: _bound(self.effective, name),
            }
            yield Gap()
            yield table(columns, self.stored)
        yield from notes(self.notes)


@dataclass(frozen=True, slots=True)
class UnreadTable(PlanReport):
    """A table of a block that a run would not read, and why; ``exit_code`` is that of such a run, 0 for no failure."""

    pipeline: str
    source: str
    table_uri: str
    reason: str
    block: str | None = None
    notes: tuple[str, ...] = ()
    engine: str = "spark"
    table: str | None = None
    exit_code: int = 4
    position: int = 0

    def describe(self, view: View) -> Iterator[Block]:
        """Yield the reason."""
        style, label = (Style.BAD, "error") if self.exit_code else (Style.WARN, "note")
        yield line(f"{source_name(self)}: {self.reason}", style, label)


@dataclass(frozen=True, slots=True)
class Plans(Report):
    """The plans of several sources, one below the other; many tables of one block are added up."""

    plans: Sequence[PlanReport]

    def code(self, *, stopped: bool = False) -> int:
        """Return the exit code of the refused tables; 0 without any."""
        return max((each.exit_code for each in self.plans if isinstance(each, UnreadTable)), default=0)

    def describe(self, view: View) -> Iterator[Block]:
        """Yield one section per plan, or per block of tables."""
        parts = [plan.describe(view) for plan in self._single(view)]
        parts += [_describe_block(name, tables) for name, tables in self._blocks(view).items()]
        yield from sections(parts, "nothing to plan: no source was selected")

    def _blocks(self, view: View) -> dict[str, list[PlanReport]]:
        """The plans of blocks with many tables."""
        found: dict[str, list[PlanReport]] = {}
        for plan in self.plans:
            if (block := getattr(plan, "block", None)) is not None and not view.verbose:
                found.setdefault(block, []).append(plan)
        return {block: tables for block, tables in found.items() if len(tables) > FEW_TABLES}

    def _single(self, view: View) -> list[PlanReport]:
        folded = self._blocks(view)
        return [plan for plan in self.plans if getattr(plan, "block", None) not in folded]


def _describe_block(name: str, tables: Sequence[PlanReport]) -> Iterator[Block]:
    """Many tables of a block: what a run would do with them, and every table that it would not read."""
    unread = [each for each in tables if isinstance(each, UnreadTable)]
    read = [each for each in tables if isinstance(each, ColumnSourcePlan)]
    kinds: dict[str, Sequence[PlanReport]] = {
        "read whole, as in every run": [each for each in read if each.full and each.position],
        "read for the first time": [each for each in read if not each.position],
        "read above the watermark": [each for each in read if each.position and not each.full],
        "refused": [each for each in unread if each.exit_code],
        "no longer in the database": [each for each in unread if not each.exit_code],
    }
    yield Heading(f"{name} → {count(len(tables), 'table')}")
    yield from _engine_line(tables[0].engine)
    columns: Columns[tuple[str, Sequence[PlanReport]]] = {
        "what": lambda row: row[0],
        ">tables": lambda row: len(row[1]),
        "=which": lambda row: names([each.pipeline for each in row[1]], NAMES_SHOWN),
    }
    yield table(columns, [(what, some) for what, some in kinds.items() if some], "--verbose shows each table")
    yield from after_gap(block for each in unread for block in each.describe(View()))
    yield from notes(f"{source_name(each)}: {note}" for each in read for note in each.notes)


@dataclass(frozen=True, slots=True)
class PlannedUnits(Report):
    """Work units of one partition with the same decision: the range to read for each of ``units``, and why.

    ``before`` is how far they were read, ``segments`` are the parts to read one by one. ``replaces``: the table may
    have rows of them, which are replaced; ``failures`` is the number of failures in a row.
    """

    start: str
    nominal_end: str | None
    units: tuple[str, ...]
    low: str
    high: str
    why: str
    before: str | None
    segments: tuple[Span, ...]
    replaces: bool
    failures: int


@dataclass(frozen=True, slots=True)
class SkippedWork(Report):
    """Work units skipped for one reason: all ``units`` in ``partitions`` consecutive partitions.

    ``first`` and ``last`` are the starts of the first and the last one; ``eligible`` is when they may run.
    """

    why: str
    units: tuple[str, ...]
    partitions: int
    first: str
    last: str
    eligible: str | None


@dataclass(frozen=True, slots=True)
class PartitionLine(Report):
    """One partition of the plan: ``[start, end)``, its end when it is full, and its work units by reason."""

    start: str
    end: str
    nominal_end: str | None
    reasons: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class UnitSourcePlan(PlanReport):
    """What a run would read of one source of work units.

    ``partitions`` times ``units`` are all ``work_units``; each is either in ``runs`` or in ``skipped``, and ``reasons``
    counts both. ``job_cutoff`` is the greatest high watermark minus the grace period, None if nothing was read.
    ``grid`` is what the identities of work units depend on, ``stale`` are units that were read but no longer exist.
    ``input_version`` is the version of the secondary inputs; of their rows, ``repeated`` gave a unit again and
    ``filtered`` gave none. ``replace`` is what a unit that is read again replaces; without ``requests_by_time`` the
    requests do not contain the range, so that each read gets all rows of its unit.
    """

    pipeline: str
    source: str
    table_uri: str
    kind: str
    source_uri: str
    position: int
    now: str
    zone: str
    grid: str
    run: int
    replace: str
    work_units: int
    would_run: int
    reasons: Mapping[str, int]
    job_cutoff: str | None
    partitions: tuple[PartitionLine, ...]
    units: tuple[str, ...]
    runs: tuple[PlannedUnits, ...]
    skipped: tuple[SkippedWork, ...]
    stale: tuple[str, ...] = ()
    input_version: str | None = None
    repeated: int = 0
    filtered: int = 0
    notes: tuple[str, ...] = ()
    requests_by_time: bool = True
    tracking: str = "units"
    engine: str = "spark"
    table: str | None = None

    def describe(self, view: View) -> Iterator[Block]:
        """Yield what would be read, then a grid of partitions and units with the letter of a reason in each cell."""
        yield Heading(f"{source_name(self)} → {self.table or self.table_uri}")
        yield from _engine_line(self.engine)
        yield facts(*_unit_facts(self, view.verbose))
        if self.runs:
            yield Gap()
            yield _ranges(self)
            divided = sum(len(run.units) for run in self.runs if len(run.segments) > 1)
            if divided:
                yield line(
                    f"{count(divided, 'work unit')} in two segments, split where the next read begins", Style.DIM
                )
        if failed := _list_failed_units(self):
            hint = f"tidegate units list {view.config} -p {self.pipeline} --failed"
            yield Gap()
            yield line(f"{names(failed, FAILED_SHOWN)} ({hint})", Style.BAD, "failed before")
        if self.partitions and self.units:
            yield Gap()
            yield _grid(self) if _fits(self, view.width) else _counts(self)
            yield Gap()
            yield _legend(self.reasons)
        yield from notes(self.notes)


# Files


def _file_facts(source: SourcePlan, verbose: bool) -> Iterator[Fact]:
    plan = source.plan
    first = "" if plan.version else " (first run)"
    if plan.groups:
        yield "would read", Cell(f"{count(plan.files, 'file')}, {size(plan.bytes)}{first}", Style.STRONG)
    else:
        yield "would read", Cell(f"nothing new{first}", Style.GOOD)
    asked = f"{count(plan.list_requests, 'LIST request')}, {count(plan.listed_keys, 'key')}" if verbose else ""
    cut = "" if plan.complete else "truncated; the next plan lists the rest"
    if asked or cut:
        yield "listing", "; ".join(filter(None, (asked, cut)))
    if verbose:
        if plan.groups:
            yield "units", _unit_sizes(plan.groups)
        yield "position", position(plan.version, "none yet")
        yield "lane", source.lane


def _unit_sizes(units: Sequence[FileGroup]) -> str:
    sizes = [unit.bytes for unit in units]
    low, high = size(min(sizes)), size(max(sizes))
    return f"{len(units):,} of {low}" if low == high else f"{len(units):,} of {low} to {high}"


def _slices(plan: Plan) -> tuple[FileSlice, ...]:
    return tuple(piece for unit in plan.groups for piece in unit.slices)


def _partitions(plan: Plan) -> Table:
    groups: dict[str, list[FileSlice]] = {}
    for piece in _slices(plan):
        groups.setdefault(piece.path.rpartition("/")[0], []).append(piece)
    names = sorted(groups)
    rest = [piece for name in names[PARTITIONS_SHOWN:] for piece in groups[name]]
    rows = tuple((name or "(top level)", len(groups[name]), _bytes(groups[name])) for name in names[:PARTITIONS_SHOWN])
    left = count(len(names) - PARTITIONS_SHOWN, "more partition")
    footnote = f"… and {left} with {count(len(rest), 'file')}, {_bytes(rest)}" if rest else ""
    return tabulate(("~partition", ">files", ">size"), rows, footnote)


def _bytes(pieces: Sequence[FileSlice]) -> str:
    return size(sum(piece.size for piece in pieces))


SKIPPED: Columns[Skipped] = {
    "skipped because": lambda skipped: str(skipped.reason),
    ">count": lambda skipped: skipped.count,
    "~for example": lambda skipped: cell(next(iter(skipped.examples), ""), Style.DIM),
}


def _tabulate_left_out(left_out: LeftOut) -> Table:
    """What a first run leaves out, by folder."""
    rows = left_out.by_folder[:PARTITIONS_SHOWN]
    left = count(left_out.folders - len(rows), "more folder")
    least = "" if left_out.complete else ", not all of them counted"
    return tabulate(("~left out", ">files"), rows, f"… and {left}{least}" if left_out.folders > len(rows) else "")


def _findings(plan: Plan) -> Iterator[str]:
    resumed = [piece for piece in _slices(plan) if piece.start_record]
    retried = [piece for piece in _slices(plan) if piece.attempts]
    if resumed:
        first = resumed[0]
        yield (
            f"{count(len(resumed), 'file')} continued where an earlier run stopped,"
            f" e.g. {first.path} after record {first.start_record:,}"
        )
    if retried:
        tries = count(retried[0].attempts, "failed attempt")
        yield f"{count(len(retried), 'file')} retried, e.g. {retried[0].path} after {tries}"
    if plan.late:
        yield f"{count(len(plan.late), 'file')} arrived late, below the watermark, e.g. {plan.late[0]}"
    if plan.opens is not None:
        yield "a run also records the start of this source, even if there is nothing to read"


# Columns


def _position(version: int, verbose: bool) -> Iterator[Fact]:
    if verbose or not version:
        yield "position", position(version, "none yet (first run)")


def _bound(values: Mapping[str, str | None], name: str) -> Cell:
    if name not in values:
        return Cell("the beginning", Style.DIM)
    return cell(values[name]) if values[name] is not None else Cell("null so far", Style.DIM)


# Work units


def _list_failed_units(plan: UnitSourcePlan) -> list[str]:
    """The units whose last try failed, also those that wait."""
    runs = (run.units for run in plan.runs if run.failures)
    waiting = (skipped.units for skipped in plan.skipped if skipped.why == "waiting")
    return list(dict.fromkeys(unit_name(unit) for units in (*runs, *waiting) for unit in units))


def _unit_facts(plan: UnitSourcePlan, verbose: bool) -> Iterator[Fact]:
    total = f"{plan.work_units:,} ({count(len(plan.partitions), 'partition')} × {count(len(plan.units), 'unit')})"
    yield "source", f"{plan.kind}: {plan.source_uri}"
    if plan.would_run:
        yield "would read", Cell(f"{count(plan.would_run, 'work unit')} of {total}", Style.STRONG)
    else:
        yield "would read", Cell(f"nothing, of {count(plan.work_units, 'work unit')}", Style.GOOD)
    yield "at", f"{local_time(plan.now, plan.zone)} ({plan.zone}), run {plan.run:,}"
    yield "partitions", plan.grid
    cutoff = "none yet (nothing was read)" if plan.job_cutoff is None else local_time(plan.job_cutoff, plan.zone)
    yield "cut-off", cutoff
    if plan.input_version is not None:
        yield "units from", f"the secondary input at {plan.input_version}"
    yield "replaces by", _replacement(plan)
    yield from _position(plan.position, verbose)


def _replacement(plan: UnitSourcePlan) -> str:
    """Which rows a unit that is read again replaces."""
    match plan.replace:
        case "unit":
            return "unit: all rows of a unit that is read again"
        case "none":
            return "none: every read appends its rows, as history"
        case "segments" if not plan.requests_by_time:
            return "nothing: each unit is read once, because its request does not contain the time"
        case other:
            return other


def _ranges(plan: UnitSourcePlan) -> Table:
    """Show what a run would read, by partition."""

    def units(run: PlannedUnits) -> str:
        return ", ".join(map(unit_name, run.units)) if len(run.units) <= NAMES_SHOWN else f"{len(run.units):,}"

    def why(run: PlannedUnits) -> str:
        return run.why.replace("_", " ") + (f", failed {run.failures:,}×" if run.failures else "")

    def rows_there(run: PlannedUnits) -> Cell:
        kept = plan.replace == "none" and run.before
        return Cell("replaced" if run.replaces else "kept" if kept else "none", Style.DIM)

    columns: Columns[PlannedUnits] = {
        "partition": lambda run: local_time(run.start, plan.zone),
        "~units": units,
        "from": lambda run: local_time(run.low, plan.zone),
        "to": lambda run: local_time(run.high, plan.zone),
        "=why": why,
        "?rows there": rows_there,
    }
    left = plan.runs[RANGES_SHOWN:]
    omitted = count(sum(len(run.units) for run in left), "work unit")
    footnote = more(len(left), "range").replace("and", f"and {omitted} in", 1)
    return table(columns, plan.runs[:RANGES_SHOWN], footnote)


def _fits(plan: UnitSourcePlan, width: int) -> bool:
    names = [unit_name(unit) for unit in plan.units[: UNITS_BESIDE + 1]]
    # 30 for the columns in front; a grid whose lines break cannot be read.
    return len(names) <= UNITS_BESIDE and 30 + sum(len(name) + 2 for name in names) <= width


def _grid(plan: UnitSourcePlan) -> Table:
    """Partitions as rows, units as columns; equal neighbours share a row."""
    reasons = _reasons(plan)
    rows = [
        (_span(group, plan.zone), *(Cell(*REASONS.get(why, ("?", Style.NORMAL))[:2]) for why in pattern))
        for pattern, group in _neighbours(plan.partitions, lambda line: reasons[line.start])
    ]
    return _newest((Column("partition"), *(Column(unit_name(unit)) for unit in plan.units)), rows)


def _reasons(plan: UnitSourcePlan) -> dict[str, tuple[str, ...]]:
    """The reasons by partition, one per unit."""
    place = {unit: index for index, unit in enumerate(plan.units)}
    order = {line.start: index for index, line in enumerate(plan.partitions)}
    reasons = [[""] * len(plan.units) for _ in plan.partitions]
    for run in plan.runs:
        for unit in run.units:
            reasons[order[run.start]][place[unit]] = run.why
    for skipped in plan.skipped:
        for index in range(order[skipped.first], order[skipped.last] + 1):
            for unit in skipped.units:
                reasons[index][place[unit]] = skipped.why
    return {line.start: tuple(row) for line, row in zip(plan.partitions, reasons, strict=True)}


def _counts(plan: UnitSourcePlan) -> Table:
    """One row per partition, with the number of work units for each reason."""
    names = [why for why in REASONS if why in plan.reasons]
    rows = [
        (_span(group, plan.zone), *(cell(dict(pattern).get(why) or None, REASONS[why][1]) for why in names))
        for pattern, group in _neighbours(plan.partitions, lambda line: tuple(sorted(line.reasons.items())))
    ]
    return _newest(("partition", *(f">{why.replace('_', ' ')}" for why in names)), rows)


def _neighbours(
    lines: Sequence[PartitionLine], key: Callable[[PartitionLine], tuple[Part, ...]]
) -> Iterator[tuple[tuple[Part, ...], list[PartitionLine]]]:
    """Group neighbours with equal keys."""
    return ((found, list(group)) for found, group in groupby(lines, key))


def _span(group: Sequence[PartitionLine], zone: str) -> Cell:
    first, last = group[0], group[-1]
    many = f" ({len(group):,})" if len(group) > 1 else ""
    partial = " …" if last.nominal_end not in (None, last.end) else ""
    return Cell(f"{local_time(first.start, zone)} to {local_time(last.end, zone)}{partial}{many}")


def _newest(titles: Sequence[str | Column], rows: Sequence[Row]) -> Table:
    """The newest rows, which come last."""
    left = len(rows) - ROWS_SHOWN
    return tabulate(titles, rows[-ROWS_SHOWN:], older(left, "row"))


def _legend(reasons: Mapping[str, int]) -> Table:
    rows = tuple(
        (Cell(letter, style), Cell(why.replace("_", " "), style), reasons[why], Cell(text, Style.DIM))
        for why, (letter, style, text) in REASONS.items()
        if reasons.get(why)
    )
    return tabulate(("", "reason", ">work units", "=meaning"), rows)


def older(left: int, noun: str) -> str:
    """A footnote for the older rows left out; empty if none were."""
    return f"… {count(left, f'older {noun}')} not shown; --json has all" if left > 0 else ""


def unit_name(unit: str) -> str:
    """The display name of a unit; the only unit of a source has none."""
    return unit or "(all)"


def local_time(moment: str, zone: str) -> str:
    """A moment in the time zone ``zone``, as short as possible."""
    return iso(milliseconds(datetime.fromisoformat(moment)), zone_named(zone))
