"""``tidegate table widen``: a wider type for one column, in one commit."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from tidegate.cli.confirming import Asking, confirm_options
from tidegate.cli.invocation import Invocation
from tidegate.cli.options import Command, config_argument, json_option, pipeline_option
from tidegate.cli.schema_command import rewrite


@click.command(
    cls=Command,
    examples=[
        "tidegate table widen pipelines.yml -p events --column id --type int64",
        "tidegate table widen pipelines.yml -p events --column user.age --type int64",
    ],
)
@config_argument
@pipeline_option(required=True)
@click.option("--column", metavar="PATH", required=True, help="The column, or a field inside it: user.age.")
@click.option("--type", "to", metavar="TYPE", required=True, help="The wider type, such as int64 or decimal(18,2).")
@confirm_options
@json_option
@click.pass_obj
def widen(
    invocation: Invocation,
    config: Path,
    pipeline: str,
    column: str,
    to: str,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Rewrite the table with a wider type of one column.

    One commit by which every row is written again; the positions of all sources stay, and running pipelines go on
    with the new type. Starts no Spark.
    """
    asking = Asking(invocation, dry_run, yes)
    call = partial(invocation.functions().widen_table, config, pipeline, column=column, to=to)
    return rewrite(asking, "Rewrite the table?", call, as_json=as_json)
