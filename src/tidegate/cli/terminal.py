"""Draws pages on a terminal with rich: colours by meaning, tables that fit the width."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO, assert_never

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from tidegate.reports.page import UNBOUNDED, Cell, Column, Facts, Fit, Gap, Heading, Line, Page, Panel, Style, Table

if TYPE_CHECKING:
    from rich.console import RenderableType

_COLOURS = {
    Style.NORMAL: "",
    Style.STRONG: "bold",
    Style.GOOD: "green",
    Style.WARN: "yellow",
    Style.BAD: "bold red",
    Style.DIM: "dim",
    Style.CODE: "bold",
}

INDENT = 2
GUTTER = 2
READABLE = 20
"""The least useful width of a path or text; spare columns make room for it."""
SHORTEST = 12


def console_for(stream: TextIO, *, colour: bool, wide: bool = False) -> Console:
    """A console on a stream; without ``colour`` also no bold or dim, and with ``wide`` nothing is shortened."""
    return Console(
        file=stream,
        highlight=False,
        # A path such as data[1]/x would be taken for a style.
        markup=False,
        color_system="auto" if colour else None,
        width=UNBOUNDED if wide else None,
    )


@contextmanager
def watch(console: Console) -> Iterator[Callable[[str], None]]:
    """A line that moves while something is waited for; it shows the last text that it was given, and then goes."""
    with console.status("starting") as line:
        yield lambda text: line.update(shorten_middle(text, console.width - READABLE // 5))


def draw(page: Page, console: Console) -> None:
    """Print the page."""
    for block in page:
        match block:
            case Heading():
                console.print(Text(block.text, style="bold"))
            case Facts():
                _print_indented(console, _facts(block, console.width // 3))
            case Table():
                _draw_table(block, console)
            case Line():
                _print_indented(console, _line(block))
            case Panel():
                draw(block.blocks, console)
            case Gap():
                console.print()
            case _:
                assert_never(block)


def _draw_table(table: Table, console: Console) -> None:
    """Print a table; each row as facts of its own if the columns that must stay whole do not fit the width."""
    fitted, widths = _fit(table, console.width - INDENT)
    if sum(widths) + GUTTER * (len(widths) - 1) <= console.width - INDENT:
        _print_indented(console, _table(fitted, widths))
    else:
        fitted, titles = table, [each.title for each in table.columns]
        for number, row in enumerate(table.rows):
            if number:
                console.print()
            _print_indented(console, _facts(Facts(tuple(zip(titles, row, strict=True))), console.width // 3))
    if fitted.footnote:
        _print_indented(console, Text(fitted.footnote, style="dim"))


def _print_indented(console: Console, shown: RenderableType) -> None:
    console.print(Padding(shown, (0, 0, 0, INDENT), expand=False))


def _text(cell: Cell, width: int | None = None) -> Text:
    text = cell.text if width is None else shorten_middle(cell.text, width)
    drawn = Text(text, style=_COLOURS[cell.style], overflow="fold")
    for number, bar in enumerate(cell.bars):
        drawn.stylize(_COLOURS[bar.style], number, number + 1)
    return drawn


def _facts(facts: Facts, longest: int) -> RenderableType:
    """Labels and values; a label takes at most ``longest`` characters, which leaves room for its value."""
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, value in facts.pairs:
        grid.add_row(shorten_middle(label, max(longest, READABLE)), _text(value))
    return grid


def _fit(table: Table, width: int) -> tuple[Table, list[int]]:
    """The table for a width, and the width of each column.

    Spare columns go first, from the right, until the others have room; then the columns that can be shortened share the
    rest. A footnote names both.
    """
    needs = [_need(column, [row[index] for row in table.rows]) for index, column in enumerate(table.columns)]
    kept = list(range(len(table.columns)))
    spare = [index for index in kept if table.columns[index].spare]
    while spare and _least(table, needs, kept) > width:
        kept.remove(spare.pop())
    widths = _shares(table, needs, kept, width)
    notes = (
        ("no room for", [column.title for index, column in enumerate(table.columns) if index not in kept]),
        ("shortened", [table.columns[index].title for index in kept if _is_cut(table, index, widths, needs)]),
    )
    told = [f"{what}: {', '.join(titles)}" for what, titles in notes if titles]
    told = [*told[:-1], f"{told[-1]} (--wide shows all)"] if told else []
    footnote = "; ".join(filter(None, (table.footnote, *told)))
    columns = tuple(table.columns[index] for index in kept)
    rows = tuple(tuple(row[index] for index in kept) for row in table.rows)
    return Table(columns, rows, footnote), [widths[index] for index in kept]


def _need(column: Column, cells: Sequence[Cell]) -> int:
    return max(cell_len(text) for text in (column.title, *(each.text for each in cells)))


def _least(table: Table, needs: Sequence[int], kept: Sequence[int]) -> int:
    """The least width at which the table is readable."""
    bounds = (needs[index] if table.columns[index].fit is Fit.WHOLE else min(needs[index], READABLE) for index in kept)
    return sum(bounds) + GUTTER * (len(kept) - 1)


def _shares(table: Table, needs: Sequence[int], kept: Sequence[int], width: int) -> dict[int, int]:
    """The width of each column: what it needs, or an equal share of what the fixed ones leave."""
    widths = {index: needs[index] for index in kept}
    elastic = sorted((index for index in kept if table.columns[index].fit is not Fit.WHOLE), key=needs.__getitem__)
    left = width - GUTTER * (len(kept) - 1) - sum(needs[index] for index in kept if index not in elastic)
    for place, index in enumerate(elastic):
        widths[index] = min(needs[index], max(left // (len(elastic) - place), SHORTEST))
        left -= widths[index]
    return widths


def _is_cut(table: Table, index: int, widths: Mapping[int, int], needs: Sequence[int]) -> bool:
    return table.columns[index].fit is Fit.MIDDLE and widths[index] < needs[index]


def _table(table: Table, widths: Sequence[int]) -> RenderableType:
    # Left of a column: rich before 14.3 counts a padding right of the last one, too.
    grid = Grid(box=None, padding=(0, 0, 0, GUTTER), pad_edge=False, header_style="dim")
    for number, (column, width) in enumerate(zip(table.columns, widths, strict=True)):
        last = number == len(table.columns) - 1
        grid.add_column(
            column.title,
            justify="right" if column.right else "left",
            overflow="fold",
            no_wrap=column.right and not last,
            max_width=None if column.fit is Fit.WHOLE else width,
        )
    for row in table.rows:
        cells = zip(row, table.columns, widths, strict=True)
        grid.add_row(*(_text(each, width if column.fit is Fit.MIDDLE else None) for each, column, width in cells))
    return grid


def shorten_middle(text: str, width: int) -> str:
    """Shorten a text to ``width`` characters: its beginning and a longer part of its end.

    >>> shorten_middle("date=2026-01-28/hour=14/0007.ndjson", 24)
    'date=2026-…4/0007.ndjson'
    """
    if cell_len(text) <= width:
        return text
    # Paths and messages differ at their ends.
    tail = (width - 1) * 3 // 5
    return f"{set_cell_size(text, width - 1 - tail).rstrip()}…{set_cell_size(text[::-1], tail)[::-1].lstrip()}"


def _line(line: Line) -> RenderableType:
    if not line.label:
        return _text(line.text)
    if cell_len(line.label) > READABLE:
        return Text.assemble((f"{line.label}: ", _COLOURS[line.text.style] or "dim"), line.text.text, overflow="fold")
    grid = Grid.grid(padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True, style=_COLOURS[line.text.style] or "dim")
    grid.add_column(overflow="fold")
    grid.add_row(f"{line.label}:", Text(line.text.text, overflow="fold"))
    return grid
