"""The output of commands as values (headings, facts, tables, lines), and its plain text form.

Each command makes a page from a report. :mod:`tidegate.cli.terminal` draws it with colours and wrapping; ``plain``
writes it as aligned lines for files and pipes. Text from outside (file names, errors) is made printable here, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import wraps
from typing import ParamSpec, Protocol, assert_never

from tidegate.reports.wording import count, visible

P = ParamSpec("P")
UNBOUNDED = 10_000
"""A terminal width at which nothing is shortened; the terminal wraps lines itself."""


class Style(StrEnum):
    """The meaning of a text; the terminal gives it a colour."""

    NORMAL = "normal"
    STRONG = "strong"
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    DIM = "dim"


@dataclass(frozen=True, slots=True)
class Cell:
    """A text with a meaning."""

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


class Fit(StrEnum):
    """How a narrow terminal treats the texts of a column."""

    WHOLE = "whole"
    MIDDLE = "middle"
    WORDS = "words"


@dataclass(frozen=True, slots=True)
class Column:
    """A column's title; numbers are aligned to the right.

    A narrow terminal leaves out ``spare`` columns, shortens paths in the ``MIDDLE``, and wraps ``WORDS``;
    ``WHOLE`` texts, such as ids and times, stay whole.
    """

    title: str
    right: bool = False
    spare: bool = False
    fit: Fit = Fit.WHOLE


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under column titles; ``footnote`` names what was left out."""

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
Row = tuple[object, ...]
Fact = tuple[str, object]
"""Content of tables and facts: cells, or values for :func:`cell`."""


class OfSource(Protocol):
    """A report about one source."""

    @property
    def pipeline(self) -> str: ...

    @property
    def source(self) -> str: ...


def page(blocks: Callable[P, Iterator[Block]]) -> Callable[P, Page]:
    """Decorator: turn a generator of blocks into a function that returns a page."""

    @wraps(blocks)
    def whole(*args: P.args, **kwargs: P.kwargs) -> Page:
        return tuple(blocks(*args, **kwargs))

    return whole


def sections(parts: Iterable[Iterable[Block]], nothing: str = "nothing to show: no source was selected") -> Page:
    """The parts of a page with a gap between them; ``nothing`` if there is no part."""
    found = [block for part in parts for block in (Gap(), *part)]
    return tuple(found[1:]) or (line(nothing),)


def cell(value: object, style: Style = Style.NORMAL) -> Cell:
    """A value for people: a dash for ``None`` and the empty string, commas between thousands, times in UTC."""
    match value:
        case Cell():
            return value
        case None | "":
            return Cell("-", Style.DIM)
        case int():
            return Cell(f"{value:,}", style)
        case datetime():
            return Cell(moment(value), style)
        case _:
            return Cell(str(value), style)


def moment(time: datetime) -> str:
    """A time in UTC, to the second."""
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def facts(*pairs: Fact) -> Facts:
    """Labels and their values."""
    return Facts(tuple((label, cell(value)) for label, value in pairs))


def tabulate(titles: Sequence[str | Column], rows: Iterable[Row], footnote: str = "") -> Table:
    """Rows under titles. Marks before a title: ``>`` aligns the column to the right, ``?`` makes it a spare one, ``~``
    shortens its texts in the middle, ``=`` puts them on several lines.
    """
    heads = tuple(each if isinstance(each, Column) else _head(each) for each in titles)
    return Table(heads, tuple(tuple(map(cell, row)) for row in rows), footnote)


def _head(title: str) -> Column:
    name = title.lstrip("?>~=")
    marks = title.removesuffix(name)
    fit = Fit.MIDDLE if "~" in marks else Fit.WORDS if "=" in marks else Fit.WHOLE
    return Column(name, ">" in marks, "?" in marks, fit)


def line(text: str, style: Style = Style.NORMAL, label: str = "") -> Line:
    """A line of text in a style."""
    return Line(Cell(text, style), label)


def notes(texts: Iterable[str]) -> Iterator[Block]:
    """A gap and one line per note; nothing without notes."""
    return after_gap(line(text, Style.WARN, "note") for text in texts)


def after_gap(lines: Iterable[Line]) -> Iterator[Block]:
    """A gap and these lines; nothing without lines."""
    for number, each in enumerate(lines):
        if not number:
            yield Gap()
        yield each


def more(left: int, noun: str, plural: str = "") -> str:
    """A footnote for what was left out; empty if nothing was.

    >>> more(2, "partition"), more(0, "partition")
    ('… and 2 more partitions; --json lists all', '')
    """
    return f"… and {count(left, f'more {noun}', plural and f'more {plural}')}; --json lists all" if left > 0 else ""


def source_name(report: OfSource) -> str:
    """The display name of a source."""
    return f"{report.pipeline}/{report.source}"


def position(version: int, none: str = "none yet") -> str:
    """The position of a source, or ``none``."""
    return f"version {version}" if version else none


def plain(page: Page) -> Iterator[str]:
    """The page as aligned lines, not wrapped."""
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
