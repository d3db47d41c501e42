"""A page as a value: headings, facts, tables and lines.

A report makes its page from these; :mod:`tidegate.reports.render` prints it as aligned lines or HTML, and the command
line draws it on a terminal. Text from outside (file names, errors) is made printable here, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import Protocol, TypeVar

from tidegate.reports.wording import count, duration, visible

AnyRow = TypeVar("AnyRow")
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
    CODE = "code"


class _Printable:
    """Escapes control characters in every text of a block: names of files, units and columns may contain anything."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]  # the classes below are dataclasses
            value = getattr(self, field.name)
            if type(value) is str:
                object.__setattr__(self, field.name, visible(value))


@dataclass(frozen=True, slots=True)
class Bar(_Printable):
    """One bar of a small chart: its label, and its height from 0 to 1; None if that is not known."""

    label: str
    height: float | None
    style: Style = Style.NORMAL


@dataclass(frozen=True, slots=True)
class Cell:
    """A text with a meaning; ``at`` is the moment that it tells.

    A chart has ``bars``: its text begins with one character for each, in whose place HTML has a drawing.
    """

    text: str
    style: Style = Style.NORMAL
    at: datetime | None = None
    bars: tuple[Bar, ...] = ()

    def __post_init__(self) -> None:
        # Not by the loop of _Printable: a table of files may have millions of cells.
        object.__setattr__(self, "text", visible(self.text))


@dataclass(frozen=True, slots=True)
class Heading(_Printable):
    """The title of what follows; ``level`` 1 is that of a whole document."""

    text: str
    level: int = 3


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
class Column(_Printable):
    """A column's title; numbers are aligned to the right.

    A narrow terminal leaves out ``spare`` columns, shortens paths in the ``MIDDLE``, and wraps ``WORDS``;
    ``WHOLE`` texts, such as ids and times, stay whole.
    """

    title: str
    right: bool = False
    spare: bool = False
    fit: Fit = Fit.WHOLE


@dataclass(frozen=True, slots=True)
class Table(_Printable):
    """Rows under column titles; ``footnote`` names what was left out."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    footnote: str = ""


@dataclass(frozen=True, slots=True)
class Line(_Printable):
    """A line of text, after an optional label such as ``note``."""

    text: Cell
    label: str = ""


@dataclass(frozen=True, slots=True)
class Gap:
    """An empty line."""


@dataclass(frozen=True, slots=True)
class Panel:
    """Blocks that stand together and stand out."""

    blocks: tuple[Block, ...]
    style: Style = Style.NORMAL


Block = Heading | Facts | Table | Line | Gap | Panel
Page = tuple[Block, ...]
Row = tuple[object, ...]
Fact = tuple[str, object]
"""Content of tables and facts: cells, or values for :func:`cell`."""
Columns = Mapping[str, Callable[[AnyRow], object]]
"""The columns of a table: titles with marks for :func:`tabulate`, each with the function that makes its cells."""


class OfSource(Protocol):
    """A report about one source."""

    @property
    def pipeline(self) -> str: ...

    @property
    def source(self) -> str: ...


class OfTable(OfSource, Protocol):
    """A report about one source, which may be a table of a block."""

    @property
    def block(self) -> str | None: ...


InBlock = TypeVar("InBlock", bound=OfTable)
FEW_TABLES = 5
"""So many tables of a block are shown one by one."""


def sections(parts: Iterable[Iterable[Block]], nothing: str = "nothing to show: no source was selected") -> Page:
    """Put a gap between the parts of a page; show ``nothing`` if there are none."""
    blocks = [block for part in parts for block in (Gap(), *part)]
    return tuple(blocks[1:]) or (line(nothing),)


def cell(value: object, style: Style = Style.NORMAL) -> Cell:
    """Format a value for people: a dash for ``None`` and the empty string, commas between thousands, times in UTC."""
    match value:
        case Cell():
            return value
        case None | "":
            return Cell("-", Style.DIM)
        case int():
            return Cell(f"{value:,}", style)
        case datetime():
            return Cell(moment(value), style, value)
        case _:
            return Cell(str(value), style)


def moment(time: datetime) -> str:
    """Format a time in UTC, to the second."""
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def ago(time: datetime, now: datetime) -> Cell:
    """Format a time in UTC, and how long it was ago."""
    return Cell(f"{moment(time)}, {measure_age(time, now)} ago", at=time)


def measure_age(time: datetime, now: datetime) -> str:
    """How long a time was ago; that of a clock that was ahead counts as now."""
    return duration(max((now - time).total_seconds(), 0.0))


_HEIGHTS = "▁▂▃▄▅▆▇█"


def chart(bars: Sequence[Bar], caption: str = "") -> Cell:
    """Draw bars in one line, with a caption behind them.

    >>> chart([Bar("Mon", 0.0), Bar("Tue", 1.0), Bar("Wed", None)], "7 rows").text
    '▁█? 7 rows'
    """
    drawn = "".join(_draw_bar(each) for each in bars)
    return Cell(f"{drawn} {caption}".rstrip(), bars=tuple(bars))


def _draw_bar(bar: Bar) -> str:
    if bar.height is None:
        return "?"
    if not bar.height:
        return "✖" if bar.style is Style.BAD else _HEIGHTS[0]
    # Little is more than nothing.
    return _HEIGHTS[max(1, round(bar.height * (len(_HEIGHTS) - 1)))]


def facts(*pairs: Fact) -> Facts:
    """Pair labels with values."""
    return Facts(tuple((visible(label), cell(value)) for label, value in pairs))


def table(columns: Columns[AnyRow], rows: Iterable[AnyRow], footnote: str = "") -> Table:
    """Make a table with a row per report: one line of ``columns`` is one column."""
    return tabulate(tuple(columns), (tuple(make(row) for make in columns.values()) for row in rows), footnote)


def tabulate(titles: Sequence[str | Column], rows: Iterable[Row], footnote: str = "") -> Table:
    """Put rows under titles. Marks before a title: ``>`` aligns the column to the right, ``?`` makes it a spare one,
    ``~`` shortens its texts in the middle, ``=`` wraps them.
    """
    heads = tuple(title if isinstance(title, Column) else _head(title) for title in titles)
    return Table(heads, tuple(tuple(map(cell, row)) for row in rows), footnote)


def _head(title: str) -> Column:
    name = title.lstrip("?>~=")
    marks = title.removesuffix(name)
    fit = Fit.MIDDLE if "~" in marks else Fit.WORDS if "=" in marks else Fit.WHOLE
    return Column(name, ">" in marks, "?" in marks, fit)


def line(text: str, style: Style = Style.NORMAL, label: str = "") -> Line:
    """Make a line of text in a style."""
    return Line(Cell(text, style), label)


def notes(texts: Iterable[str]) -> Iterator[Block]:
    """Yield a gap and one line per note; nothing without notes."""
    return after_gap(line(text, Style.WARN, "note") for text in texts)


def after_gap(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield a gap and these blocks; nothing without blocks."""
    for number, block in enumerate(blocks):
        if not number:
            yield Gap()
        yield block


def names(texts: Sequence[str], most: int) -> str:
    """Join the first ``most`` names, and count the others.

    >>> names(("a", "b", "c"), 2), names(("a",), 2)
    ('a, b and 1 more', 'a')
    """
    left = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {left:,} more" if left > 0 else "")


def more(left: int, noun: str, plural: str = "") -> str:
    """Make the footnote for what was left out; empty if nothing was.

    >>> more(2, "partition"), more(0, "partition")
    ('… and 2 more partitions; --json lists all', '')
    """
    return f"… and {count(left, f'more {noun}', plural and f'more {plural}')}; --json lists all" if left > 0 else ""


def source_name(report: OfSource) -> str:
    """Return the display name of the source that a report is about, or of the tables that it adds up."""
    if told := getattr(report, "folded", ""):
        return f"{report.pipeline} ({told})"
    return f"{report.pipeline}/{report.source}"


def fold_blocks(
    reports: Sequence[InBlock],
    fails: Callable[[InBlock], bool],
    add_up: Callable[[str, Sequence[InBlock], str], InBlock],
) -> list[InBlock]:
    """Put one report in the place of those of a block with many tables, and those of them that fail after it.

    ``add_up`` makes that report of the name of the block, its reports, and their number in words.
    """
    tables: dict[str, list[InBlock]] = {}
    for each in reports:
        if each.block is not None:
            tables.setdefault(each.block, []).append(each)
    shown: list[InBlock] = []
    for each in reports:
        members = tables.get(each.block or "", [])
        if len(members) <= FEW_TABLES:
            shown.append(each)
        elif each is members[0]:
            failing = [member for member in members if fails(member)]
            told = count(len(members), "table") + (f", {len(failing):,} failed" if failing else "")
            shown += [add_up(str(each.block), members, told), *failing]
    return shown


def position(version: int, none: str = "none yet") -> str:
    """Format the position of a source, or ``none`` before its first commit."""
    return f"version {version}" if version else none
