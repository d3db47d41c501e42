"""How the demonstration is shown: each step as it happens, then where everything is and what to try next."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.cli.pages import Block, Cell, Column, Facts, Gap, Heading, Line, Page, Style, Table, cell
from tidegate.observe.wording import duration
from tidegate.reports.run import DemoReport, DemoStep


def render_demo_step(number: int, step: DemoStep) -> Page:
    """One step; ``number`` counts from 1."""
    return tuple(_step(number, step))


def _step(number: int, step: DemoStep) -> Iterator[Block]:
    yield Heading(f"{number}. {step.title}")
    yield from (Line(Cell(line)) for line in step.text.splitlines())
    if step.command:
        yield Line(Cell(f"$ {step.command}", Style.STRONG))
    if step.columns:
        yield Table(tuple(_columns(step)), tuple(tuple(map(cell, row)) for row in step.rows))
    yield Gap()


def _columns(step: DemoStep) -> Iterator[Column]:
    for index, title in enumerate(step.columns):
        values = [row[index] for row in step.rows]
        yield Column(title, right=bool(values) and all(_is_number(value) for value in values))


def _is_number(text: str) -> bool:
    return text.replace(",", "").replace(".", "", 1).removeprefix("-").isdigit()


def render_demo_end(report: DemoReport) -> Page:
    """Where the demonstration's files are, and commands that work on them."""
    result = Cell(f"done in {duration(report.seconds)}", Style.GOOD)
    if not report.ok:
        result = Cell("the demonstration did not end as it should", Style.BAD)
    pairs = (("result", result), ("folder", Cell(report.folder)), ("configuration", Cell(report.config)))
    lines = tuple(Line(Cell(f"$ {command}", Style.STRONG)) for command in report.next_commands)
    more: Page = (Gap(), Heading("Try next"), *lines) if lines else ()
    return (Heading("That was it"), Facts(pairs), *more)
