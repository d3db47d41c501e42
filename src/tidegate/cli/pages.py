"""What a command shows, as values: headings, facts, tables and notes, and their form as plain text.

A view makes a page from a report; :mod:`tidegate.cli.terminal` draws it with colours and wrapping, ``plain``
writes it as aligned lines for files and pipes. Text from outside (file names,
errors) is made printable here, once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from tidegate.observe.wording import visible


class Style(StrEnum):
    """What a piece of text means; the terminal gives it a colour."""

    NORMAL = "normal"
    STRONG = "strong"
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    DIM = "dim"


@dataclass(frozen=True, slots=True)
class Cell:
    """A piece of text with a meaning."""

    text: str
    style: Style = Style.NORMAL

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", visible(self.text))


@dataclass(frozen=True, slots=True)
class Heading:
    """The title of what follows."""

    text: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Labels and their values."""

    pairs: tuple[tuple[str, Cell], ...]


@dataclass(frozen=True, slots=True)
class Column:
    """A column's title; numbers stand on the right."""

    title: str
    right: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under column titles; ``footnote`` says what was left out."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    footnote: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text, after an optional label such as ``note``."""

    text: Cell
    label: str = ""


@dataclass(frozen=True, slots=True)
class Gap:
    """An empty line."""


Block = Heading | Facts | Table | Line | Gap
Page = tuple[Block, ...]


def cell(value: object, style: Style = Style.NORMAL) -> Cell:
    """A cell; ``None`` and the empty string show as a dash."""
    return Cell("-", Style.DIM) if value is None or value == "" else Cell(str(value), style)


def plain(page: Page) -> Iterator[str]:
    """The page as lines of aligned text, not wrapped."""
    for block in page:
        match block:
            case Heading():
                yield visible(block.text)
            case Facts():
                width = max((len(label) for label, _ in block.pairs), default=0)
                yield from (f"  {label:<{width}}  {value.text}".rstrip() for label, value in block.pairs)
            case Table():
                yield from _plain_table(block)
            case Line():
                label = f"{block.label}: " if block.label else ""
                yield f"  {label}{block.text.text}"
            case Gap():
                yield ""
            case _:
                assert_never(block)


def _plain_table(table: Table) -> Iterator[str]:
    texts = [[entry.text for entry in row] for row in table.rows]
    titles = [column.title for column in table.columns]
    widths = [max(len(row[index]) for row in [titles, *texts]) for index in range(len(titles))]
    for row in [titles, *texts]:
        yield "  " + _aligned(row, widths, table.columns)
    if table.footnote:
        yield f"  {visible(table.footnote)}"


def _aligned(row: Sequence[str], widths: Sequence[int], columns: Sequence[Column]) -> str:
    pieces = (
        text.rjust(width) if column.right else text.ljust(width)
        for text, width, column in zip(row, widths, columns, strict=True)
    )
    return "  ".join(pieces).rstrip()
