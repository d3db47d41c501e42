"""``tidegate schema``: what files say about the columns, what is known, what the next run would change."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegate.cli.confirming import Asking, confirm_options
from tidegate.cli.invocation import Invocation, print_json
from tidegate.cli.options import Group, config_argument, json_option, pipeline_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegate.reports.schema import SchemaInference, TableRewrite

STOPS = 5
"""The code of ``diff`` when the next run would stop: that of the run itself."""


@click.group(
    cls=Group,
    examples=["tidegate schema infer pipelines.yml -p events", "tidegate schema diff pipelines.yml -p events"],
)
def schema() -> None:
    """Look at columns, and replace those of a table."""


@schema.command(
    examples=[
        "tidegate schema infer pipelines.yml -p events",
        "tidegate schema infer pipelines.yml -p events --sample 10000 --json",
        "tidegate schema infer pipelines.yml -p events --update --yes",
    ]
)
@config_argument
@pipeline_option(required=True)
@click.option("-s", "--source", metavar="SOURCE", help="The source to look at (default: the first).")
@click.option(
    "--sample",
    metavar="N",
    type=click.IntRange(min=1),
    default=1000,
    help="Lines of each of up to ten files (default: 1000).",
)
@click.option("--update", is_flag=True, help="Add new fields to the remembered schema.")
@confirm_options
@json_option
@click.pass_obj
def infer(
    invocation: Invocation,
    config: Path,
    pipeline: str,
    source: str | None,
    sample: int,
    update: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Look at files: their fields and types.

    Tells how often each was seen, and how sure its type is, and prints columns to paste into the configuration.
    Touches nothing without --update, and starts no Spark.
    """
    from tidegate.cli.schema_view import render_inference, render_inference_end

    asking = Asking(invocation, dry_run or not update, yes)
    confirm = asking.about("Add these fields to the remembered schema?", render_inference)
    report: SchemaInference = invocation.functions().infer_schema(
        config, pipeline, source, sample=sample, update=update, confirm=confirm
    )
    if as_json:
        print_json(report.to_json())
    else:
        page = render_inference_end(report, update=update)
        invocation.show(page if asking.asked else (*render_inference(report), *page))
        if not update:
            click.echo("\n" + report.yaml)
    return asking.exit_code


@schema.command(examples=["tidegate schema show pipelines.yml -p events"])
@config_argument
@pipeline_option(required=True)
@json_option
@click.pass_obj
def show(invocation: Invocation, config: Path, pipeline: str, as_json: bool) -> None:
    """Show all known columns side by side.

    Those that are declared, those remembered from an inference, and those of the table.
    """
    view = invocation.functions().show_schema(config, pipeline)
    if as_json:
        return print_json(view.to_json())
    from tidegate.cli.schema_view import render_schema

    return invocation.show(render_schema(view))


@schema.command(examples=["tidegate schema diff pipelines.yml -p events"])
@config_argument
@pipeline_option(required=True)
@json_option
@click.pass_obj
def diff(invocation: Invocation, config: Path, pipeline: str, as_json: bool) -> int:
    """Show what the next run would change.

    That is what it would do about the columns of its table. Ends with 0 if it would go on, with or without changes,
    and with 5 if it would stop.
    """
    found = invocation.functions().diff_schema(config, pipeline)
    if as_json:
        print_json(found.to_json())
    else:
        from tidegate.cli.schema_view import render_diff

        invocation.show(render_diff(found))
    return 0 if found.ok else STOPS


@schema.command(
    examples=[
        "tidegate schema replace pipelines.yml -p events --dry-run",
        "tidegate schema replace pipelines.yml -p events --yes",
    ]
)
@config_argument
@pipeline_option(required=True)
@confirm_options
@json_option
@click.pass_obj
def replace(invocation: Invocation, config: Path, pipeline: str, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Replace the table's columns; its rows go.

    For schema_evolution: overwrite. One commit; the position stays, so files that were read are not read again.
    """
    asking = Asking(invocation, dry_run, yes)
    call = partial(invocation.functions().replace_schema, config, pipeline)
    return rewrite(asking, "Take these rows out of the table?", call, as_json=as_json)


def rewrite(asking: Asking, question: str, call: Callable[..., TableRewrite], *, as_json: bool) -> int:
    """Change the columns of a table: show what that means, ask, call, tell."""
    from tidegate.cli.schema_view import render_rewrite, render_rewrite_end

    report = call(confirm=asking.about(question, render_rewrite))
    if as_json:
        print_json(report.to_json())
    else:
        page = render_rewrite_end(report)
        asking.invocation.show(page if asking.asked else (*render_rewrite(report), *page))
    return asking.exit_code
