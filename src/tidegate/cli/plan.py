"""``tidegate plan``: what a run would read, from where, and why it skips the rest.

A plan of files is a table of partitions. A plan of columns shows the condition sent to the source. A plan of work units
is a grid of partitions and units with the letter of a reason in each cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, TypeVar

import click

import tidegate
from tidegate.cli.invocation import Command, Invocation, at_option, target, with_json
from tidegate.core.calendar import iso, milliseconds, zone_named
from tidegate.reports.page import (
    Block,
    Cell,
    Column,
    Fact,
    Gap,
    Heading,
    Page,
    Row,
    Style,
    Table,
    after_gap,
    cell,
    facts,
    line,
    more,
    notes,
    position,
    sections,
    source_name,
    tabulate,
)
from tidegate.reports.plan import ColumnSourcePlan, PartitionLine, PlannedUnits, SourcePlan, UnitSourcePlan
from tidegate.reports.wording import count, size

if TYPE_CHECKING:
    from tidegate.core.files.discovery import LeftOut
    from tidegate.core.files.plan import FileGroup, FileSlice, Plan

AnyPlan = SourcePlan | ColumnSourcePlan | UnitSourcePlan
Part = TypeVar("Part")

PARTITIONS_SHOWN = 12
UNITS_BESIDE = 12
ROWS_SHOWN = 24
RANGES_SHOWN = 12
NAMES_SHOWN = 3
FAILED_SHOWN = 12

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


@click.command(
    cls=Command,
    examples=[
        "tidegate plan pipelines.yml",
        "tidegate plan pipelines.yml -p events",
        "tidegate plan pipelines.yml -p responses --at 2026-03-02T06:00:00Z",
        "tidegate plan pipelines.yml --json | jq '.plans[].plan.list_requests'",
    ],
)
@target(pipeline="all")
@at_option("Plan as if it were then, with today's files and state.")
@click.option(
    "--accept-new-partitions",
    is_flag=True,
    help="Plan even if work units are now partitioned differently than when they were read.",
)
@with_json
def plan(
    invocation: Invocation, config: Path, pipeline: str | None, now: datetime | None, accept_new_partitions: bool
) -> None:
    """Show what a run would read, and change nothing.

    Lists the sources in the YAML file CONFIG above their watermarks. Explains what a run would skip, and why.
    """
    plans = tidegate.plan(config, pipeline, now=now, accept_new_partitions=accept_new_partitions)
    invocation.give_each("plans", plans, partial(_render, invocation, config))


def _render(invocation: Invocation, config: Path, plans: Sequence[AnyPlan]) -> Page:
    return render_plan(plans, invocation.width(), verbose=invocation.verbose, config=quote(str(config)))


def render_plan(plans: Sequence[AnyPlan], width: int = 100, *, verbose: bool = False, config: str = "CONFIG") -> Page:
    """One section per source; grids only if they fit into ``width``. Hints name commands for ``config``."""
    parts = (_section(each, width, verbose, config) for each in plans)
    return sections(parts, "nothing to plan: no source was selected")


def _section(plan: AnyPlan, width: int, verbose: bool, config: str) -> Iterator[Block]:
    yield Heading(f"{source_name(plan)} → {plan.table_uri}")
    match plan:
        case SourcePlan():
            yield from _file_blocks(plan, verbose)
        case ColumnSourcePlan():
            yield from _column_blocks(plan, verbose)
        case UnitSourcePlan():
            yield from _unit_blocks(plan, width, verbose, config)


# Files


def _file_blocks(source: SourcePlan, verbose: bool) -> Iterator[Block]:
    plan = source.plan
    yield facts(*_file_facts(source, verbose))
    if plan.units:
        yield Gap()
        yield _partitions(plan)
    if plan.skipped:
        yield Gap()
        yield _skipped(plan)
    if plan.left_out is not None:
        yield Gap()
        yield _left_out(plan.left_out)
    warnings = (line(text, Style.WARN, "note") for text in _warnings(source))
    yield from after_gap((*warnings, *(line(text, Style.DIM, "remark") for text in plan.remarks)))


def _file_facts(source: SourcePlan, verbose: bool) -> Iterator[Fact]:
    plan = source.plan
    first = "" if plan.version else " (first run)"
    if plan.units:
        yield "would read", Cell(f"{count(plan.files, 'file')}, {size(plan.bytes)}{first}", Style.STRONG)
    else:
        yield "would read", Cell(f"nothing new{first}", Style.GOOD)
    asked = f"{count(plan.list_requests, 'LIST request')}, {count(plan.listed_keys, 'key')}" if verbose else ""
    cut = "" if plan.complete else "cut off, the next plan lists the rest"
    if asked or cut:
        yield "listing", "; ".join(filter(None, (asked, cut)))
    if verbose:
        if plan.units:
            yield "units", _unit_sizes(plan.units)
        yield "position", position(plan.version, "none yet")
        yield "lane", source.lane


def _unit_sizes(units: Sequence[FileGroup]) -> str:
    sizes = [unit.bytes for unit in units]
    low, high = size(min(sizes)), size(max(sizes))
    return f"{len(units):,} of {low}" if low == high else f"{len(units):,} of {low} to {high}"


def _slices(plan: Plan) -> tuple[FileSlice, ...]:
    return tuple(piece for unit in plan.units for piece in unit.slices)


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


def _skipped(plan: Plan) -> Table:
    rows = tuple(
        (str(entry.reason), entry.count, cell(next(iter(entry.examples), ""), Style.DIM)) for entry in plan.skipped
    )
    return tabulate(("skipped because", ">count", "~for example"), rows)


def _left_out(left_out: LeftOut) -> Table:
    """What a first run leaves out, by folder."""
    rows = left_out.by_folder[:PARTITIONS_SHOWN]
    left = count(left_out.folders - len(rows), "more folder")
    least = "" if left_out.complete else ", not all of them counted"
    return tabulate(("~left out", ">files"), rows, f"… and {left}{least}" if left_out.folders > len(rows) else "")


def _warnings(source: SourcePlan) -> tuple[str, ...]:
    plan = source.plan
    return (*plan.findings, *_findings(plan), *plan.notes, *source.notes)


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
        yield f"{count(len(retried), 'file')} tried again, e.g. {retried[0].path} after {tries}"
    if plan.late:
        yield f"{count(len(plan.late), 'file')} arrived late, below the watermark, e.g. {plan.late[0]}"
    if plan.opens is not None:
        yield "a run also records the start of this source, even if there is nothing to read"


# Columns


def _column_blocks(plan: ColumnSourcePlan, verbose: bool) -> Iterator[Block]:
    window = ", replacing the window" if plan.window else ""
    yield facts(
        ("source", f"{plan.kind}: {plan.source_uri}"),
        ("would read", Cell(plan.predicate, Style.STRONG)),
        ("up to", plan.cap),
        ("loads by", f"{plan.load_type}{window}"),
        *_position(plan.position, verbose),
    )
    if plan.stored:
        rows = tuple((name, _bound(plan.stored, name), _bound(plan.effective, name)) for name in plan.stored)
        yield Gap()
        yield tabulate(("~watermark column", "=stored", "=read from"), rows)
    yield from notes(plan.notes)


def _position(version: int, verbose: bool) -> Iterator[Fact]:
    if verbose or not version:
        yield "position", position(version, "none yet (first run)")


def _bound(values: Mapping[str, str | None], name: str) -> Cell:
    if name not in values:
        return Cell("the beginning", Style.DIM)
    return cell(values[name]) if values[name] is not None else Cell("null so far", Style.DIM)


# Work units


def _unit_blocks(plan: UnitSourcePlan, width: int, verbose: bool, config: str) -> Iterator[Block]:
    yield facts(*_unit_facts(plan, verbose))
    if plan.runs:
        yield Gap()
        yield _ranges(plan)
        divided = sum(len(each.units) for each in plan.runs if len(each.segments) > 1)
        if divided:
            yield line(f"{count(divided, 'work unit')} in two segments, split where the next read begins", Style.DIM)
    if failed := _failed_units(plan):
        hint = f"tidegate units list {config} -p {plan.pipeline} --failed"
        names = ", ".join(map(unit_name, failed[:FAILED_SHOWN]))
        rest = f" and {len(failed) - FAILED_SHOWN:,} more" if len(failed) > FAILED_SHOWN else ""
        yield Gap()
        yield line(f"{names}{rest} ({hint})", Style.BAD, "failed before")
    if plan.partitions and plan.units:
        yield Gap()
        yield _grid(plan) if _fits(plan, width) else _counts(plan)
        yield Gap()
        yield _legend(plan.reasons)
    yield from notes(plan.notes)


def _failed_units(plan: UnitSourcePlan) -> list[str]:
    """The units whose last try failed, also those that wait."""
    runs = (each.units for each in plan.runs if each.failures)
    waiting = (each.units for each in plan.skipped if each.why == "waiting")
    return list(dict.fromkeys(unit for units in (*runs, *waiting) for unit in units))


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
    """What a run would read, by partition."""
    kept = plan.replace == "none"
    rows = tuple(_range(each, plan.zone, kept=kept) for each in plan.runs[:RANGES_SHOWN])
    left = plan.runs[RANGES_SHOWN:]
    units = count(sum(len(each.units) for each in left), "work unit")
    footnote = more(len(left), "range").replace("and", f"and {units} in", 1)
    return tabulate(("partition", "~units", "from", "to", "=why", "?rows there"), rows, footnote)


def _range(each: PlannedUnits, zone: str, *, kept: bool) -> Row:
    failed = f", failed {each.failures:,}×" if each.failures else ""
    few = len(each.units) <= NAMES_SHOWN
    return (
        local_time(each.start, zone),
        ", ".join(map(unit_name, each.units)) if few else f"{len(each.units):,}",
        local_time(each.low, zone),
        local_time(each.high, zone),
        f"{each.why.replace('_', ' ')}{failed}",
        Cell("replaced" if each.replaces else "kept" if kept and each.before else "none", Style.DIM),
    )


def _fits(plan: UnitSourcePlan, width: int) -> bool:
    names = [unit_name(unit) for unit in plan.units[: UNITS_BESIDE + 1]]
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
    found = [[""] * len(plan.units) for _ in plan.partitions]
    for each in plan.runs:
        for unit in each.units:
            found[order[each.start]][place[unit]] = each.why
    for skipped in plan.skipped:
        for index in range(order[skipped.first], order[skipped.last] + 1):
            for unit in skipped.units:
                found[index][place[unit]] = skipped.why
    return {line.start: tuple(reasons) for line, reasons in zip(plan.partitions, found, strict=True)}


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
