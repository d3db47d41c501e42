"""``tidegate table optimize | vacuum | checkpoint``: care for the table of a pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegate.cli.invocation import Invocation, print_json
from tidegate.cli.options import Command, config_argument, json_option, pipeline_option

if TYPE_CHECKING:
    from tidegate.reports.run import TableCareReport

dry_run_option = click.option("--dry-run", is_flag=True, help="Only show what would be done.")


def _show(invocation: Invocation, report: TableCareReport, *, as_json: bool) -> None:
    if as_json:
        return print_json(report.to_json())
    from tidegate.cli.table_view import render_care

    return invocation.show(render_care(report))


@click.command(
    cls=Command,
    examples=[
        "tidegate table optimize pipelines.yml -p events --dry-run",
        "tidegate table optimize pipelines.yml -p events --target-mb 256",
    ],
)
@config_argument
@pipeline_option(required=True)
@click.option(
    "--target-mb", metavar="N", type=click.IntRange(min=1), help="Wanted size of the files (default: file_size_mb)."
)
@dry_run_option
@json_option
@click.pass_obj
def optimize(
    invocation: Invocation, config: Path, pipeline: str, target_mb: int | None, dry_run: bool, as_json: bool
) -> None:
    """Put the rows of small data files together.

    No row changes, and runs may go on meanwhile. The small files stay on disk until they are vacuumed.
    """
    report = invocation.functions().optimize_table(config, pipeline, target_mb=target_mb, dry_run=dry_run)
    return _show(invocation, report, as_json=as_json)


@click.command(
    cls=Command,
    examples=[
        "tidegate table vacuum pipelines.yml -p events --dry-run",
        "tidegate table vacuum pipelines.yml -p events --retention-hours 48",
    ],
)
@config_argument
@pipeline_option(required=True)
@click.option(
    "--retention-hours",
    metavar="N",
    type=click.IntRange(min=0),
    help="Keep what left the table within these hours (default: vacuum_retention_hours, 168).",
)
@click.option("--force", is_flag=True, help="Allow less than 24 hours; only while nobody uses the table.")
@dry_run_option
@json_option
@click.pass_obj
def vacuum(
    invocation: Invocation,
    config: Path,
    pipeline: str,
    retention_hours: int | None,
    force: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Remove data files that left the table long ago.

    Older versions of the table that need them cannot be read or restored any more. What runs have written and not
    committed yet stays, and so does everything Tidegate keeps.
    """
    report = invocation.functions().vacuum_table(
        config, pipeline, retention_hours=retention_hours, force=force, dry_run=dry_run
    )
    return _show(invocation, report, as_json=as_json)


@click.command(cls=Command, examples=["tidegate table checkpoint pipelines.yml -p events"])
@config_argument
@pipeline_option(required=True)
@dry_run_option
@json_option
@click.pass_obj
def checkpoint(invocation: Invocation, config: Path, pipeline: str, dry_run: bool, as_json: bool) -> None:
    """Write a Delta checkpoint, so that the table loads fast.

    Runs do so by themselves every delta_checkpoint_interval commits.
    """
    report = invocation.functions().checkpoint_table(config, pipeline, dry_run=dry_run)
    return _show(invocation, report, as_json=as_json)
