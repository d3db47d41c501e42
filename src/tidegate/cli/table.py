"""``tidegate schema`` and ``table``: the columns of a table, and its maintenance."""

from __future__ import annotations

from typing import Any

import click

import tidegate
from tidegate.cli.invocation import Group, Invocation, confirm_options, dry_run_option, print_yaml, target, with_json


@click.group(
    cls=Group,
    examples=["tidegate schema infer pipelines.yml -p events", "tidegate schema diff pipelines.yml -p events"],
)
def schema() -> None:
    """Infer and compare columns, and replace those of a table."""


@schema.command(
    examples=[
        "tidegate schema infer pipelines.yml -p events",
        "tidegate schema infer pipelines.yml -p events --sample 10000 --json",
        "tidegate schema infer pipelines.yml -p events --update --yes",
    ]
)
@target()
@click.option("-s", "--source", metavar="SOURCE", help="The source to sample (default: the first).")
@click.option(
    "--sample",
    metavar="N",
    type=click.IntRange(min=1),
    default=1000,
    help="Lines to read of each of up to ten files (default: 1000).",
)
@click.option("--update", is_flag=True, help="Add new fields to the remembered schema.")
@confirm_options
@with_json
def infer(invocation: Invocation, /, update: bool, dry_run: bool, yes: bool, **given: Any) -> int:
    """Infer fields and types from a sample of files.

    Shows how often each field occurs and how certain its type is. Prints columns to paste into the configuration.
    Changes nothing without --update. Does not start Spark.
    """
    if update:
        question = "Add these fields to the remembered schema?"
        return invocation.change(tidegate.infer_schema, question, dry_run=dry_run, yes=yes, update=True, **given)
    report = tidegate.infer_schema(**given)
    code = invocation.give(report, report.consequences)
    if not invocation.as_json:
        print_yaml("\n" + report.yaml)
    return code


@schema.command(examples=["tidegate schema show pipelines.yml -p events"])
@target()
@with_json
def show(invocation: Invocation, /, **given: Any) -> int:
    """Show all known columns side by side.

    The declared columns, those remembered from an inference, and those of the table.
    """
    return invocation.give(tidegate.show_schema(**given))


@schema.command(examples=["tidegate schema diff pipelines.yml -p events"])
@target()
@with_json
def diff(invocation: Invocation, /, **given: Any) -> int:
    """Show how the next run would change the columns of the table.

    Exits with 0 if the run would go on, with or without changes, and with 5 if it would stop.
    """
    return invocation.give(tidegate.diff_schema(**given))


@schema.command(
    examples=[
        "tidegate schema replace pipelines.yml -p events --dry-run",
        "tidegate schema replace pipelines.yml -p events --yes",
    ]
)
@target()
@confirm_options
@with_json
def replace(invocation: Invocation, /, **given: Any) -> int:
    """Replace the columns of the table and remove its rows.

    For schema_evolution: overwrite. Makes one commit. The position stays: no run reads finished files again.
    """
    return invocation.change(tidegate.replace_schema, "Remove these rows from the table?", **given)


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
@dry_run_option
@with_json
def optimize(invocation: Invocation, /, **given: Any) -> int:
    """Combine small data files into larger ones.

    No row changes, and runs may continue meanwhile. The small files stay on disk until a vacuum removes them.
    """
    return invocation.give(tidegate.optimize_table(**given))


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
@dry_run_option
@with_json
def vacuum(invocation: Invocation, /, **given: Any) -> int:
    """Remove data files that left the table long ago.

    Older versions of the table that need these files can no longer be read or restored. Keeps files that runs have
    written but not yet committed, and everything that Tidegate stores.
    """
    return invocation.give(tidegate.vacuum_table(**given))


@table.command(examples=["tidegate table checkpoint pipelines.yml -p events"])
@target()
@dry_run_option
@with_json
def checkpoint(invocation: Invocation, /, **given: Any) -> int:
    """Write a Delta checkpoint, so that the table loads fast.

    Runs write one every delta_checkpoint_interval commits.
    """
    return invocation.give(tidegate.checkpoint_table(**given))


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
def widen(invocation: Invocation, /, **given: Any) -> int:
    """Rewrite the table with a wider type for one column.

    One commit writes every row again. The positions of all sources stay, and running pipelines continue with the new
    type. Does not start Spark.
    """
    return invocation.change(tidegate.widen_table, "Rewrite the table?", **given)
