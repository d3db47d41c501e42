"""``tidegate init``: write a small project to begin with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

import tidegate
from tidegate.cli.invocation import Command, Invocation, with_json
from tidegate.reports.page import Block, Gap, Heading, Style, line, page
from tidegate.reports.project import InitReport

if TYPE_CHECKING:
    from tidegate.commands.init import Kind


@click.command(
    cls=Command,
    examples=["tidegate init", "tidegate init shop --database", "tidegate init surveys --api"],
)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), metavar="[DIR]", required=False)
@click.option(
    "--files", "kind", flag_value="files", default=True, help="For files in a folder or bucket (the default)."
)
@click.option("--database", "kind", flag_value="database", help="For a table of a database.")
@click.option("--api", "kind", flag_value="api", help="For an HTTP API.")
@with_json
def init(invocation: Invocation, folder: Path | None, kind: str) -> None:
    """Write a small project to begin with.

    Writes pipelines.yml with comments, its schema for editors, .env.example and a test into DIR (default: the current
    folder). Overwrites nothing.
    """
    invocation.give(tidegate.init(folder, cast("Kind", kind)), render_init)


@page
def render_init(report: InitReport) -> Iterator[Block]:
    """What was written, and what to do next."""
    yield Heading(f"Written into {report.folder}")
    yield from (line(name) for name in report.files)
    yield Gap()
    yield Heading("Next")
    if report.variables:
        yield line(f"edit pipelines.yml, and set the variables of {report.variables}")
    yield from (line(f"$ {command}", Style.STRONG) for command in report.next_commands)
