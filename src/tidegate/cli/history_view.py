"""How the history of watermarks is shown: one line per position, newest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from tidegate.cli.files_view import action, committed
from tidegate.cli.pages import Block, Cell, Column, Gap, Heading, Line, Page, Style, Table, cell
from tidegate.reports.ledger import PositionView, WatermarkHistory

_COLUMNS = (
    Column("position", right=True),
    Column("committed"),
    Column("action"),
    Column("files", right=True),
    Column("rows", right=True),
    Column("table version", right=True),
    Column("watermark"),
)


def render_history(histories: Sequence[WatermarkHistory]) -> Page:
    """All sources, one section each."""
    sections = [tuple(_section(each)) for each in histories]
    if not sections:
        return (Line(Cell("nothing to show: no source was selected")),)
    return tuple(chain(sections[0], *((Gap(), *section) for section in sections[1:])))


def _section(history: WatermarkHistory) -> Iterator[Block]:
    yield Heading(f"{history.pipeline}/{history.source}")
    if history.positions:
        more = "" if history.complete else "older positions are left out; --limit 0 shows all"
        yield Table(_COLUMNS, tuple(map(_row, history.positions)), more)
    else:
        yield Line(Cell("no position yet"))
    yield from (Line(Cell(note, Style.WARN), "note") for note in history.notes)


def _row(view: PositionView) -> tuple[Cell, ...]:
    if view.gap is not None:
        unknown = Cell("?", Style.WARN)
        return (
            Cell(f"{view.position:,}"),
            unknown,
            unknown,
            unknown,
            unknown,
            unknown,
            Cell(f"unknown: {view.gap}", Style.WARN),
        )
    return (
        Cell(f"{view.position:,}"),
        committed(view.committed_at),
        action(view.action),
        Cell(f"{view.files:,}"),
        Cell(f"{view.rows:,}"),
        cell(view.table_version),
        cell(view.watermark),
    )
