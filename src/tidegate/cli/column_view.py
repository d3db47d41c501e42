"""How plans of column sources are shown: the window, the condition that is sent, and how it is capped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidegate.cli.pages import Block, Cell, Column, Facts, Gap, Heading, Line, Style, Table, cell
from tidegate.reports.run import ColumnSourcePlan


def column_section(plan: ColumnSourcePlan) -> Iterator[Block]:
    """One source."""
    yield Heading(f"{plan.pipeline}/{plan.source} → {plan.table_uri}")
    yield Facts(tuple(_facts(plan)))
    if plan.stored:
        yield Gap()
        yield _window(plan)
    if plan.notes:
        yield Gap()
    yield from (Line(Cell(text, Style.WARN), "note") for text in plan.notes)


def _facts(plan: ColumnSourcePlan) -> Iterator[tuple[str, Cell]]:
    yield "source", Cell(f"{plan.kind}: {plan.source_uri}")
    yield "would read", Cell(plan.predicate, Style.STRONG)
    yield "up to", Cell(plan.cap)
    window = ", and replace the window" if plan.window else ""
    yield "would load by", Cell(f"{plan.load_type}{window}")
    yield "position", Cell(f"version {plan.position}" if plan.position else "none yet (first run)")


def _window(plan: ColumnSourcePlan) -> Table:
    titles = (Column("watermark column"), Column("stored"), Column("read from"))
    rows = tuple((cell(name), _shown(plan.stored, name), _shown(plan.effective, name)) for name in plan.stored)
    return Table(titles, rows)


def _shown(values: Mapping[str, str | None], name: str) -> Cell:
    if name not in values:
        return Cell("the beginning", Style.DIM)
    return cell(values[name]) if values[name] is not None else Cell("null so far", Style.DIM)
