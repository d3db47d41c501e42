"""How a plan is shown: what would be read, where from, what is skipped and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from tidegate.cli.column_view import column_section
from tidegate.cli.pages import Block, Cell, Column, Facts, Gap, Heading, Line, Page, Style, Table, cell
from tidegate.core.files.plan import FileGroup, FileSlice, Plan
from tidegate.observe.wording import count, size
from tidegate.reports.run import ColumnSourcePlan, SourcePlan
from tidegate.reports.units import UnitSourcePlan

PARTITIONS_SHOWN = 12


def render_plan(plans: Sequence[SourcePlan | ColumnSourcePlan | UnitSourcePlan], width: int = 100) -> Page:
    """All sources, one section each; grids only where they fit into ``width``."""
    sections = [tuple(_any_section(each, width)) for each in plans]
    if not sections:
        return (Line(Cell("nothing to plan: no source was selected")),)
    return tuple(chain(sections[0], *((Gap(), *section) for section in sections[1:])))


def _any_section(plan: SourcePlan | ColumnSourcePlan | UnitSourcePlan, width: int) -> Iterator[Block]:
    match plan:
        case ColumnSourcePlan():
            return column_section(plan)
        case UnitSourcePlan():
            from tidegate.cli.unit_plan_view import unit_section

            return unit_section(plan, width)
        case SourcePlan():
            return _section(plan)


def _section(source: SourcePlan) -> Iterator[Block]:
    plan = source.plan
    yield Heading(f"{source.pipeline}/{source.source} → {source.table_uri}")
    yield Facts(tuple(_facts(source)))
    if plan.units:
        yield Gap()
        yield _partitions(plan)
    if plan.skipped:
        yield Gap()
        yield _skipped(plan)
    yield from _notes(source)


def _notes(source: SourcePlan) -> Iterator[Block]:
    plan = source.plan
    notes = (*_findings(plan), *plan.notes, *source.notes)
    if notes or plan.remarks:
        yield Gap()
    yield from (Line(Cell(text, Style.WARN), "note") for text in notes)
    yield from (Line(Cell(text, Style.DIM), "remark") for text in plan.remarks)


def _facts(source: SourcePlan) -> Iterator[tuple[str, Cell]]:
    plan = source.plan
    if plan.units:
        yield "would read", Cell(f"{count(plan.files, 'file')}, {size(plan.bytes)}", Style.STRONG)
        yield "units", Cell(_units_text(plan.units))
    else:
        yield "would read", Cell("nothing new", Style.GOOD)
    yield "position", Cell(f"version {plan.version}" if plan.version else "none yet (first run)")
    cut = "" if plan.complete else "; cut off, what lies above follows with the next plan"
    requests = count(plan.list_requests, "LIST request")
    yield "listing", Cell(f"{requests}, {count(plan.listed_keys, 'key')}{cut}")
    yield "lane", Cell(source.lane)


def _units_text(units: Sequence[FileGroup]) -> str:
    sizes = [unit.bytes for unit in units]
    low, high = size(min(sizes)), size(max(sizes))
    return f"{len(units):,} of {low}" if low == high else f"{len(units):,} of {low} to {high}"


def _slices(plan: Plan) -> tuple[FileSlice, ...]:
    return tuple(piece for unit in plan.units for piece in unit.slices)


def _partitions(plan: Plan) -> Table:
    groups: dict[str, list[FileSlice]] = {}
    for piece in _slices(plan):
        groups.setdefault(piece.path.rpartition("/")[0], []).append(piece)
    shown = sorted(groups)[:PARTITIONS_SHOWN]
    rest = sorted(groups)[PARTITIONS_SHOWN:]
    rows = tuple((cell(name or "(top level)"), *_amounts(groups[name])) for name in shown)
    left_out = [piece for name in rest for piece in groups[name]]
    footnote = ""
    if rest:
        amount = size(sum(piece.size for piece in left_out))
        footnote = f"… and {count(len(rest), 'more partition')} with {count(len(left_out), 'file')}, {amount}"
    columns = (Column("partition"), Column("files", right=True), Column("size", right=True))
    return Table(columns, rows, footnote)


def _amounts(pieces: Sequence[FileSlice]) -> tuple[Cell, Cell]:
    return Cell(f"{len(pieces):,}"), Cell(size(sum(piece.size for piece in pieces)))


def _skipped(plan: Plan) -> Table:
    rows = tuple(
        (Cell(str(entry.reason)), Cell(f"{entry.count:,}"), cell(_examples(entry.examples), Style.DIM))
        for entry in plan.skipped
    )
    return Table((Column("skipped because"), Column("count", right=True), Column("for example")), rows)


def _examples(examples: Sequence[str]) -> str:
    return examples[0] if examples else ""


def _findings(plan: Plan) -> Iterator[str]:
    resumed = [piece for piece in _slices(plan) if piece.start_record]
    retried = [piece for piece in _slices(plan) if piece.attempts]
    if resumed:
        first = resumed[0]
        yield (
            f"{count(len(resumed), 'file')} read on where an earlier run stopped,"
            f" e.g. {first.path} after record {first.start_record:,}"
        )
    if retried:
        tries = count(retried[0].attempts, "failed attempt")
        yield f"{count(len(retried), 'file')} tried again, e.g. {retried[0].path} after {tries}"
    if plan.late:
        yield f"{count(len(plan.late), 'file')} arrived late, below the watermark, e.g. {plan.late[0]}"
    if plan.opens is not None:
        yield "a run also records the start of this source, although there may be nothing to read"
