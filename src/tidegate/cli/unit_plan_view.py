"""How plans of work units are shown: what is read, and a grid of partitions and units with a reason in each cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import TypeVar

from tidegate.cli.correction_view import noted
from tidegate.cli.pages import Block, Cell, Column, Facts, Gap, Heading, Line, Style, Table
from tidegate.core.calendar import iso, milliseconds, zone_named
from tidegate.observe.wording import count
from tidegate.reports.units import PartitionLine, PlannedUnits, UnitSourcePlan

Part = TypeVar("Part")

UNITS_BESIDE = 12
ROWS_SHOWN = 24
RANGES_SHOWN = 12
NAMES_SHOWN = 3

REASONS = {
    "first": ("F", Style.STRONG, "first time, read whole"),
    "new": ("N", Style.STRONG, "new time, read on from its high watermark less the grace period"),
    "catch_up": ("C", Style.STRONG, "catches up: unfinished, and below the cut-off"),
    "done": (".", Style.DIM, "done: its end is not above the cut-off"),
    "up_to_date": ("=", Style.DIM, "read up to the end of the plan"),
    "abstinent": ("a", Style.DIM, "read too recently (abstinent period)"),
    "grace_over": ("g", Style.WARN, "unfinished, below the cut-off, and catch_up is off"),
    "waiting": ("w", Style.WARN, "failed before, waits its turn"),
    "capped": ("c", Style.WARN, "more than parallelism_max; comes with a later run"),
    "retired": ("x", Style.WARN, "retired: the server does not know it"),
}


def unit_section(plan: UnitSourcePlan, width: int) -> Iterator[Block]:
    """One source of work units, with a grid where it fits into ``width``."""
    yield Heading(f"{plan.pipeline}/{plan.source} → {plan.table_uri}")
    yield Facts(tuple(_facts(plan)))
    if plan.runs:
        yield Gap()
        yield _ranges(plan)
        divided = sum(len(each.units) for each in plan.runs if len(each.segments) > 1)
        if divided:
            yield Line(
                Cell(f"{count(divided, 'work unit')} in two segments, cut where the next read begins", Style.DIM)
            )
    if plan.partitions and plan.units:
        yield Gap()
        yield _grid(plan) if _fits(plan, width) else _counts(plan)
        yield Gap()
        yield _legend(plan.reasons)
    yield from noted(plan.notes)


def _facts(plan: UnitSourcePlan) -> Iterator[tuple[str, Cell]]:
    total = f"{plan.work_units:,} ({count(len(plan.partitions), 'partition')} × {count(len(plan.units), 'unit')})"
    yield "source", Cell(f"{plan.kind}: {plan.source_uri}")
    if plan.would_run:
        yield "would read", Cell(f"{count(plan.would_run, 'work unit')} of {total}", Style.STRONG)
    else:
        yield "would read", Cell(f"nothing, of {count(plan.work_units, 'work unit')}", Style.GOOD)
    yield "at", Cell(f"{shown(plan.now, plan.zone)} ({plan.zone}), run {plan.run:,}")
    yield "partitions", Cell(plan.grid)
    yield (
        "cut-off",
        Cell("none yet (nothing was read)" if plan.job_cutoff is None else shown(plan.job_cutoff, plan.zone)),
    )
    if plan.input_version is not None:
        yield "units from", Cell(f"the secondary input at {plan.input_version}")
    yield "replaces by", Cell(plan.replace)
    yield "position", Cell(f"version {plan.position}" if plan.position else "none yet (first run)")


def _ranges(plan: UnitSourcePlan) -> Table:
    """What is read of which partition."""
    columns = tuple(map(Column, ("partition", "units", "from", "to", "why", "rows there")))
    rows = tuple(_range(each, plan.zone) for each in plan.runs[:RANGES_SHOWN])
    left = plan.runs[RANGES_SHOWN:]
    units = count(sum(len(each.units) for each in left), "work unit")
    return Table(columns, rows, f"… and {units} in {count(len(left), 'more range')}; --json lists all" if left else "")


def _range(each: PlannedUnits, zone: str) -> tuple[Cell, ...]:
    failed = f", failed {each.failures:,}×" if each.failures else ""
    return (
        Cell(shown(each.start, zone)),
        Cell(_few(each.units)),
        Cell(shown(each.low, zone)),
        Cell(shown(each.high, zone)),
        Cell(f"{each.why.replace('_', ' ')}{failed}"),
        Cell("replaced" if each.replaces else "none", Style.DIM),
    )


def _few(units: Sequence[str]) -> str:
    """Names where there are few, else how many."""
    return ", ".join(map(name_of, units)) if len(units) <= NAMES_SHOWN else f"{len(units):,}"


def _fits(plan: UnitSourcePlan, width: int) -> bool:
    names = [name_of(unit) for unit in plan.units[: UNITS_BESIDE + 1]]
    return len(names) <= UNITS_BESIDE and 30 + sum(len(name) + 2 for name in names) <= width


def name_of(unit: str) -> str:
    """A unit as it is called; the only one of a source has no name."""
    return unit or "(all)"


def _grid(plan: UnitSourcePlan) -> Table:
    """Partitions as rows, units as columns; neighbours that look alike are one row."""
    letters = _letters(plan)
    rows = [
        (_span(group, plan.zone), *(_mark(why) for why in pattern))
        for pattern, group in _alike(plan.partitions, lambda line: letters[line.start])
    ]
    columns = (Column("partition"), *(Column(name_of(unit)) for unit in plan.units))
    return _shortened(columns, rows)


def _letters(plan: UnitSourcePlan) -> dict[str, tuple[str, ...]]:
    """The reasons of each partition, unit by unit."""
    place = {unit: number for number, unit in enumerate(plan.units)}
    order = {line.start: number for number, line in enumerate(plan.partitions)}
    found = [[""] * len(plan.units) for _ in plan.partitions]
    for each in plan.runs:
        for unit in each.units:
            found[order[each.start]][place[unit]] = each.why
    for skipped in plan.skipped:
        for number in range(order[skipped.first], order[skipped.last] + 1):
            for unit in skipped.units:
                found[number][place[unit]] = skipped.why
    return {line.start: tuple(reasons) for line, reasons in zip(plan.partitions, found, strict=True)}


def _counts(plan: UnitSourcePlan) -> Table:
    """One line per partition, with how many of its work units have which reason."""
    names = [why for why in REASONS if why in plan.reasons]
    rows = [
        (_span(group, plan.zone), *(_number(dict(pattern).get(why, 0), why) for why in names))
        for pattern, group in _alike(plan.partitions, lambda line: tuple(sorted(line.reasons.items())))
    ]
    columns = (Column("partition"), *(Column(why.replace("_", " "), right=True) for why in names))
    return _shortened(columns, rows)


def _alike(
    lines: Sequence[PartitionLine], key: Callable[[PartitionLine], tuple[Part, ...]]
) -> Iterator[tuple[tuple[Part, ...], list[PartitionLine]]]:
    """Neighbours with equal keys together."""
    return ((found, list(group)) for found, group in groupby(lines, key))


def _span(group: Sequence[PartitionLine], zone: str) -> Cell:
    first, last = group[0], group[-1]
    many = f" ({len(group):,})" if len(group) > 1 else ""
    partial = " …" if last.nominal_end not in (None, last.end) else ""
    return Cell(f"{shown(first.start, zone)} to {shown(last.end, zone)}{partial}{many}")


def _mark(why: str) -> Cell:
    letter, style, _ = REASONS.get(why, ("?", Style.NORMAL, why))
    return Cell(letter, style)


def _number(number: int, why: str) -> Cell:
    return Cell(f"{number:,}", REASONS[why][1]) if number else Cell("-", Style.DIM)


def _shortened(columns: tuple[Column, ...], rows: list[tuple[Cell, ...]]) -> Table:
    """The newest rows, which are the last."""
    left = len(rows) - ROWS_SHOWN
    note = f"… {count(left, 'older row')} above; --json has all" if left > 0 else ""
    return Table(columns, tuple(rows[-ROWS_SHOWN:]), note)


def _legend(reasons: Mapping[str, int]) -> Table:
    rows = tuple(
        (Cell(letter, style), Cell(why.replace("_", " "), style), Cell(f"{reasons[why]:,}"), Cell(text, Style.DIM))
        for why, (letter, style, text) in REASONS.items()
        if reasons.get(why)
    )
    return Table((Column(""), Column("reason"), Column("work units", right=True), Column("meaning")), rows)


def shown(moment: str, zone: str) -> str:
    """A moment as clocks of ``zone`` show it, as short as it can be."""
    return iso(milliseconds(datetime.fromisoformat(moment)), zone_named(zone))
