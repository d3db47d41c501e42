"""``tidegate adopt``: show what Blizzard left, ask, and take it over."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegate.cli.invocation import Invocation, print_json
from tidegate.cli.options import Command, config_argument, json_option, pipeline_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.reports.run import Adoption


@click.command(
    cls=Command,
    examples=[
        "tidegate adopt pipelines.yml -p events --dry-run",
        "tidegate adopt pipelines.yml -p events -s asia --yes",
        "tidegate adopt pipelines.yml -p events --yes --quiet-for 3600 --json",
    ],
)
@config_argument
@pipeline_option(required=True)
@click.option("-s", "--source", metavar="SOURCE", help="Only this source (default: all of the pipeline).")
@click.option("--dry-run", is_flag=True, help="Only show what would be taken over.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--quiet-for",
    type=click.FloatRange(min=0),
    default=600.0,
    show_default="600",
    metavar="SECONDS",
    help="How long Blizzard must not have moved.",
)
@click.option("--read-skipped", is_flag=True, help="Read the files that it left out in partitions without an entry.")
@click.option("--fresh", is_flag=True, help="It never read this source: start at the beginning.")
@json_option
@click.pass_obj
def adopt(
    invocation: Invocation,
    config: Path,
    pipeline: str,
    source: str | None,
    dry_run: bool,
    yes: bool,
    quiet_for: float,
    read_skipped: bool,
    fresh: bool,
    as_json: bool,
) -> int:
    """Take over the position that Blizzard left in a table.

    Shows what it read and what it may have left out or doubled, then writes the first position by an empty commit; no
    row is touched. Refuses while Blizzard still moves. Ends with 1 if a source could not be taken over.
    """
    asks = not (dry_run or yes)
    if asks and (as_json or not sys.stdin.isatty()):
        raise click.UsageError("nobody can be asked here: give --yes, or --dry-run to look first")
    call = partial(
        invocation.functions().adopt,
        config,
        pipeline,
        source,
        quiet_for=quiet_for,
        fresh=fresh,
        read_skipped=read_skipped,
    )
    reports = call(dry_run=not yes or dry_run)
    if asks:
        _show(invocation, reports, as_json=False)
        if _refused(reports) or not click.confirm("Take it over?", err=True):
            return 1
        reports = call(dry_run=False)
    _show(invocation, reports, as_json=as_json)
    return _refused(reports)


def _refused(reports: Sequence[Adoption]) -> int:
    return int(any(each.error for each in reports))


def _show(invocation: Invocation, reports: Sequence[Adoption], *, as_json: bool) -> None:
    if as_json:
        return print_json({"adoptions": [each.to_json() for each in reports]})
    from tidegate.cli.adopt_view import render_adoptions

    return invocation.show(render_adoptions(reports))
