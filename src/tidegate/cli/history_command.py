"""``tidegate watermark history``: the positions of a source and what each left."""

from __future__ import annotations

from pathlib import Path

import click

from tidegate.cli.files_command import source_option
from tidegate.cli.invocation import Invocation, print_json
from tidegate.cli.options import Command, config_argument, json_option, pipeline_option


@click.command(
    cls=Command,
    examples=[
        "tidegate watermark history pipelines.yml -p events",
        "tidegate watermark history pipelines.yml -p events -s asia --limit 0 --json",
    ],
)
@config_argument
@pipeline_option(required=True)
@source_option
@click.option(
    "--limit", metavar="N", type=click.IntRange(min=0), default=20, help="At most so many; 0: all (default: 20)."
)
@json_option
@click.pass_obj
def history(invocation: Invocation, config: Path, pipeline: str, source: str | None, limit: int, as_json: bool) -> None:
    """Show the commits of a source and the watermark each left.

    Newest first, with what made the commit, its files and rows.
    """
    found = invocation.functions().watermark_history(config, pipeline, source, limit=limit)
    if as_json:
        return print_json({"sources": [each.to_json() for each in found]})
    from tidegate.cli.history_view import render_history

    return invocation.show(render_history(found))
