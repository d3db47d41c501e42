"""``tidegate table``: optimize, vacuum, checkpoint and widen the table of a pipeline."""

from __future__ import annotations

from pathlib import Path

import click

import tidegate
from tidegate.cli.invocation import Confirmation, Group, Invocation, confirm_options, target, with_json
from tidegate.cli.schema import render_rewrite, render_rewrite_end
from tidegate.reports.page import Page, Style, line
from tidegate.reports.table import TableCareReport
from tidegate.reports.wording import count, duration, size

_dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would happen; change nothing.")


@click.group(
    cls=Group,
    examples=[
        "tidegate table optimize pipelines.yml -p events --dry-run",
        "tidegate table vacuum pipelines.yml -p events",
    ],
)
def table() -> None:
    """Maintain a table: optimize, vacuum, checkpoint, widen."""


@table.command(
    examples=[
        "tidegate table optimize pipelines.yml -p events --dry-run",
        "tidegate table optimize pipelines.yml -p events --target-mb 256",
    ],
)
@target()
@click.option(
    "--target-mb", metavar="N", type=click.IntRange(min=1), help="Size of the new files (default: file_size_mb)."
)
@_dry_run_option
@with_json
def optimize(invocation: Invocation, config: Path, pipeline: str, target_mb: int | None, dry_run: bool) -> None:
    """Combine small data files into larger ones.

    No row changes, and runs may continue meanwhile. The small files stay on disk until a vacuum removes them.
    """
    invocation.give(tidegate.optimize_table(config, pipeline, target_mb=target_mb, dry_run=dry_run), render_care)


@table.command(
    examples=[
        "tidegate table vacuum pipelines.yml -p events --dry-run",
        "tidegate table vacuum pipelines.yml -p events --retention-hours 48",
    ],
)
@target()
@click.option(
    "--retention-hours",
    metavar="N",
    type=click.IntRange(min=0),
    help="Keep files that left the table less than N hours ago (default: vacuum_retention_hours, 168).",
)
@click.option("--force", is_flag=True, help="Allow less than 24 hours. Only safe while nobody uses the table.")
@_dry_run_option
@with_json
def vacuum(
    invocation: Invocation, config: Path, pipeline: str, retention_hours: int | None, force: bool, dry_run: bool
) -> None:
    """Remove data files that left the table long ago.

    Older versions of the table that need these files can no longer be read or restored. Keeps files that runs have
    written but not yet committed, and everything that Tidegate stores.
    """
    report = tidegate.vacuum_table(config, pipeline, retention_hours=retention_hours, force=force, dry_run=dry_run)
    invocation.give(report, render_care)


@table.command(examples=["tidegate table checkpoint pipelines.yml -p events"])
@target()
@_dry_run_option
@with_json
def checkpoint(invocation: Invocation, config: Path, pipeline: str, dry_run: bool) -> None:
    """Write a Delta checkpoint, so that the table loads fast.

    Runs write one every delta_checkpoint_interval commits.
    """
    invocation.give(tidegate.checkpoint_table(config, pipeline, dry_run=dry_run), render_care)


@table.command(
    examples=[
        "tidegate table widen pipelines.yml -p events --column id --type int64",
        "tidegate table widen pipelines.yml -p events --column user.age --type int64",
    ],
)
@target()
@click.option("--column", metavar="PATH", required=True, help="The column, or a field inside it: user.age.")
@click.option("--type", "to", metavar="TYPE", required=True, help="The wider type, such as int64 or decimal(18,2).")
@confirm_options
@with_json
def widen(invocation: Invocation, config: Path, pipeline: str, column: str, to: str, dry_run: bool, yes: bool) -> int:
    """Rewrite the table with a wider type for one column.

    One commit writes every row again. The positions of all sources stay, and running pipelines continue with the new
    type. Does not start Spark.
    """
    confirm = Confirmation(invocation, "Rewrite the table?", render_rewrite, dry_run, yes)
    return confirm.give(
        tidegate.widen_table(config, pipeline, column=column, to=to, confirm=confirm), render_rewrite_end
    )


def render_care(report: TableCareReport) -> Page:
    """The result of table maintenance, in a line or two."""
    done = not report.dry_run
    taken = f"in {duration(report.seconds)}"
    match report.operation:
        case "optimize" if not report.files_before:
            text = "nothing to combine: no partition has two small files"
        case "optimize":
            after = f" ({size(report.bytes_after)}) {taken}" if done else ""
            verb = "became" if done else "would become"
            before = f"{count(report.files_before, 'small file')} ({size(report.bytes_before)})"
            text = f"{before} {verb} {count(report.files_after, 'file')}{after}"
        case "vacuum" if not report.files_before:
            text = f"nothing to remove: no file on disk left the table over {report.retention_hours} h ago"
        case "vacuum":
            verb = "removed" if done else "would remove"
            removed = f"{count(report.files_before, 'file')} ({size(report.bytes_before)})"
            text = f"{verb} {removed} that left the table over {report.retention_hours} h ago"
        case "checkpoint":
            text = f"checkpoint written {taken}" if done else "would write a checkpoint"
    where = f"{report.table_uri} (version {report.table_version})"
    return (line(text, Style.GOOD if done else Style.STRONG), line(where, label="table"))
