"""``tidegate demo``: show each step as it happens, then where everything is and what to try next."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import click

import tidegate
from tidegate.cli.invocation import Command, Invocation, with_json
from tidegate.reports.page import Block, Cell, Column, Fit, Gap, Heading, Style, facts, line, page, tabulate
from tidegate.reports.project import DemoReport, DemoStep
from tidegate.reports.wording import duration


@click.command(
    cls=Command,
    short_help="Try Tidegate on generated files. No set-up, no server.",
    examples=["tidegate demo", "tidegate demo my-demo", "tidegate demo --json -q"],
)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), metavar="[FOLDER]", required=False)
@with_json
def demo(invocation: Invocation, folder: Path | None) -> int:
    """Try Tidegate on generated files. No set-up, no server.

    Generates files, ingests them, and shows the table and the status. Puts everything into FOLDER (default:
    tidegate-demo).
    """
    numbers = count(1)

    def show(step: DemoStep) -> None:
        if not invocation.as_json:
            invocation.show(render_demo_step(next(numbers), step))

    with invocation.emitter() as emit:
        report = tidegate.demo(folder, emit, show)
    invocation.give(report, render_demo_end)
    return int(not report.ok)


@page
def render_demo_step(number: int, step: DemoStep) -> Iterator[Block]:
    """One step; ``number`` counts from 1."""
    yield Heading(f"{number}. {step.title}")
    yield from map(line, step.text.splitlines())
    if step.command:
        yield line(f"$ {step.command}", Style.STRONG)
    if step.columns:
        yield tabulate(tuple(_columns(step)), step.rows)
    yield Gap()


def _columns(step: DemoStep) -> Iterator[Column]:
    for index, title in enumerate(step.columns):
        values = [row[index] for row in step.rows]
        fit = Fit.MIDDLE if any("/" in value for value in values) else Fit.WHOLE
        yield Column(title, right=bool(values) and all(map(_is_number, values)), fit=fit)


def _is_number(text: str) -> bool:
    return text.replace(",", "").replace(".", "", 1).removeprefix("-").isdigit()


@page
def render_demo_end(report: DemoReport) -> Iterator[Block]:
    """Where the files of the demo are, and commands to try on them."""
    result = Cell(f"done in {duration(report.seconds)}", Style.GOOD)
    if not report.ok:
        result = Cell("the demonstration failed", Style.BAD)
    yield Heading("Done")
    yield facts(("result", result), ("folder", report.folder), ("configuration", report.config))
    if report.next_commands:
        yield Gap()
        yield Heading("Try next")
    yield from (line(f"$ {command}", Style.STRONG) for command in report.next_commands)
