"""``watermark set`` and ``watermark reset``: a person moves a watermark, after seeing what that means."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegate.cli.confirming import Asking, confirm_options
from tidegate.cli.invocation import Invocation, print_json
from tidegate.cli.options import Command, config_argument, json_option, pipeline_option

if TYPE_CHECKING:
    from tidegate.reports.correction import WatermarkMove

_QUESTION = "Move the watermark?"
_source_option = click.option(
    "-s", "--source", metavar="SOURCE", help="The source; may be left out if the pipeline has one."
)


@click.command(
    "set",
    cls=Command,
    examples=[
        "tidegate watermark set t.yml -p events --to date=2026-01-28/0007.json",
        "tidegate watermark set t.yml -p events --partition 2026-01-28 --name 0007.json",
        "tidegate watermark set t.yml -p orders --value updated_at=2026-01-28T00:00:00Z",
    ],
)
@config_argument
@pipeline_option(required=True)
@_source_option
@click.option("--to", metavar="PATH", help="The file up to which its partition counts as finished.")
@click.option(
    "--value",
    "values",
    metavar="COLUMN=VALUE",
    multiple=True,
    help="Instead, of a source that is followed by columns: the greatest value that counts as read.",
)
@click.option("--inclusive", is_flag=True, help="With --value: rows at that value are read again.")
@click.option("--partition", metavar="DIR", help="Instead of --to: its directory ...")
@click.option("--name", metavar="NAME", help="... and its name.")
@confirm_options
@json_option
@click.pass_obj
def set_watermark(
    invocation: Invocation,
    config: Path,
    pipeline: str,
    source: str | None,
    to: str | None,
    partition: str | None,
    name: str | None,
    values: tuple[str, ...],
    inclusive: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Set the watermark of one partition, or of columns.

    Up: files or rows that it passes over are never read. Down: those above it are read again, and their rows are in
    the table twice. Shows which, asks, and commits the new position. No row is touched.
    """
    path = None if values else _path(to, partition, name)
    asking = Asking(invocation, dry_run, yes)
    from tidegate.cli.correction_view import render_move

    confirm = asking.about(_QUESTION, render_move)
    move = invocation.functions().set_watermark(
        config, pipeline, source, to=path, values=_values(values), inclusive=inclusive, confirm=confirm
    )
    return _show(invocation, move, asking, as_json=as_json)


def _values(given: tuple[str, ...]) -> dict[str, str] | None:
    """By column; None where none is given."""
    wrong = [each for each in given if "=" not in each.strip("=")]
    if wrong:
        raise click.UsageError(f"--value {wrong[0]}: give COLUMN=VALUE")
    return {name: value for name, _, value in (each.partition("=") for each in given)} or None


def _path(to: str | None, partition: str | None, name: str | None) -> str:
    if to is not None and partition is None and name is None:
        return to
    if to is None and partition is not None and name is not None:
        directory = partition.strip("/")
        return f"{directory}/{name}" if directory else name
    raise click.UsageError("give --to PATH, or --partition DIR and --name NAME, or --value COLUMN=VALUE")


@click.command(
    "reset",
    cls=Command,
    examples=[
        "tidegate watermark reset pipelines.yml -p events --partition date=2026-01-28",
        "tidegate watermark reset pipelines.yml -p events -s asia --all --dry-run",
    ],
)
@config_argument
@pipeline_option(required=True)
@_source_option
@click.option("--partition", metavar="DIR", help="Forget this partition ('' is the top level).")
@click.option("--all", "everything", is_flag=True, help="Forget the whole source.")
@confirm_options
@json_option
@click.pass_obj
def reset_watermark(
    invocation: Invocation,
    config: Path,
    pipeline: str,
    source: str | None,
    partition: str | None,
    everything: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Forget the position of a partition or a source.

    Its files are all read again by the next run, and rows that are in the table are then in it twice. Shows
    which, asks, and commits the new position. No row is touched.
    """
    if everything == (partition is not None):
        raise click.UsageError("give --partition DIR or --all")
    asking = Asking(invocation, dry_run, yes)
    from tidegate.cli.correction_view import render_move

    confirm = asking.about(_QUESTION, render_move)
    move = invocation.functions().reset_watermark(config, pipeline, source, partition=partition, confirm=confirm)
    return _show(invocation, move, asking, as_json=as_json)


def _show(invocation: Invocation, move: WatermarkMove, asking: Asking, *, as_json: bool) -> int:
    if as_json:
        print_json(move.to_json())
    else:
        from tidegate.cli.correction_view import render_move, render_move_end

        page = render_move_end(move)
        invocation.show(page if asking.asked else (*render_move(move), *page))
    return asking.exit_code
