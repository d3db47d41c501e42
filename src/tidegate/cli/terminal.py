"""Draws pages on a terminal with rich: colours by meaning, tables that fit the width."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO, assert_never

from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from tidegate.cli.pages import Cell, Facts, Gap, Heading, Line, Page, Style, Table
from tidegate.observe.wording import visible

if TYPE_CHECKING:
    from rich.console import RenderableType

_COLOURS = {
    Style.NORMAL: "",
    Style.STRONG: "bold",
    Style.GOOD: "green",
    Style.WARN: "yellow",
    Style.BAD: "bold red",
    Style.DIM: "dim",
}


def console_for(stream: TextIO, *, colour: bool) -> Console:
    """A console on that stream; without ``colour`` it also uses no bold or dim."""
    return Console(file=stream, highlight=False, markup=False, color_system="auto" if colour else None)


def draw(page: Page, console: Console) -> None:
    """Print the page."""
    for block in page:
        match block:
            case Heading():
                console.print(Text(visible(block.text), style="bold"))
            case Facts():
                console.print(Padding(_facts(block), (0, 0, 0, 2)))
            case Table():
                block = _fit(block, console.width - 2)
                console.print(Padding(_table(block), (0, 0, 0, 2)))
                if block.footnote:
                    console.print(Padding(Text(visible(block.footnote), style="dim"), (0, 0, 0, 2)))
            case Line():
                console.print(Padding(_line(block), (0, 0, 0, 2)))
            case Gap():
                console.print()
            case _:
                assert_never(block)


def _text(cell: Cell) -> Text:
    return Text(cell.text, style=_COLOURS[cell.style], overflow="fold")


def _facts(facts: Facts) -> RenderableType:
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, value in facts.pairs:
        grid.add_row(label, _text(value))
    return grid


def _fit(table: Table, width: int) -> Table:
    """The table without as many spare columns, from the right, as it takes to fit; a footnote names them."""
    kept = list(range(len(table.columns)))
    widths = [
        2 + max(len(text) for text in (column.title, *(row[index].text for row in table.rows)))
        for index, column in enumerate(table.columns)
    ]
    spare = [index for index in kept if table.columns[index].spare]
    while spare and sum(widths[index] for index in kept) - 2 > width:
        kept.remove(spare.pop())
    left_out = [column.title for index, column in enumerate(table.columns) if index not in kept]
    if not left_out:
        return table
    note = f"no room for: {', '.join(left_out)}; --json has them"
    return Table(
        tuple(table.columns[index] for index in kept),
        tuple(tuple(row[index] for index in kept) for row in table.rows),
        f"{table.footnote}; {note}" if table.footnote else note,
    )


def _table(table: Table) -> RenderableType:
    grid = Grid(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for number, column in enumerate(table.columns):
        last = number == len(table.columns) - 1
        grid.add_column(
            column.title,
            justify="right" if column.right else "left",
            overflow="fold",
            no_wrap=column.right and not last,
        )
    for row in table.rows:
        grid.add_row(*map(_text, row))
    return grid


def _line(line: Line) -> RenderableType:
    if not line.label:
        return _text(line.text)
    grid = Grid.grid(padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True, style=_COLOURS[line.text.style] or "dim")
    grid.add_column(overflow="fold")
    grid.add_row(f"{line.label}:", Text(line.text.text, overflow="fold"))
    return grid
