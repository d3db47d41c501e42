"""``tidegate units``: the work units of a source, listed, looked at, tried again, forgotten."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegate.cli.confirming import Asking, confirm_options
from tidegate.cli.invocation import Invocation, print_json
from tidegate.cli.options import Group, config_argument, json_option, pipeline_option

if TYPE_CHECKING:
    from tidegate.reports.units import UnitsMove

_source_option = click.option(
    "-s", "--source", metavar="SOURCE", help="The source; may be left out if the pipeline has one."
)
_names_option = click.option("--unit", "names", metavar="UNIT", multiple=True, help="This unit; may be repeated.")
_partition_option = click.option("--partition", metavar="START", help="Only the partition that begins then.")


@click.group(
    cls=Group,
    examples=[
        "tidegate units list pipelines.yml -p responses --failed",
        "tidegate units reset pipelines.yml -p responses --unit id3 --dry-run",
    ],
)
def units() -> None:
    """Look at work units, try them again, or have them read anew."""


@units.command(
    "list",
    examples=[
        "tidegate units list pipelines.yml -p responses",
        "tidegate units list pipelines.yml -p responses --failed --json",
        "tidegate units list pipelines.yml -p responses --partition 2026-02-01",
    ],
)
@config_argument
@pipeline_option(required=True)
@click.option("-s", "--source", metavar="SOURCE", help="Only this source (default: all of the pipeline).")
@_names_option
@_partition_option
@click.option("--failed", is_flag=True, help="Only units that failed or are retired.")
@click.option(
    "--limit", metavar="N", type=click.IntRange(min=0), default=50, help="At most so many; 0: all (default: 50)."
)
@json_option
@click.pass_obj
def list_units(
    invocation: Invocation,
    config: Path,
    pipeline: str,
    source: str | None,
    names: tuple[str, ...],
    partition: str | None,
    failed: bool,
    limit: int,
    as_json: bool,
) -> None:
    """Show the units of a pipeline and how far they are.

    Those that failed come first. Reads the secondary inputs; starts no Spark and asks no server.
    """
    found = invocation.functions().units(
        config, pipeline, source, names=names, partition=partition, failed=failed, limit=limit
    )
    if as_json:
        return print_json({"sources": [each.to_json() for each in found]})
    from tidegate.cli.unit_view import render_units

    return invocation.show(render_units(found))


@units.command(
    "show",
    examples=[
        "tidegate units show pipelines.yml -p responses --unit id3",
        "tidegate units show pipelines.yml -p responses --unit id3 --json",
    ],
)
@config_argument
@pipeline_option(required=True)
@_source_option
@click.option("--unit", "name", metavar="UNIT", default="", help="The unit; left out for a source without units.")
@json_option
@click.pass_obj
def show_unit(
    invocation: Invocation, config: Path, pipeline: str, source: str | None, name: str, as_json: bool
) -> None:
    """Show one unit, partition by partition.

    What was read of it, what would run now and why, and why it failed.
    """
    view = invocation.functions().unit(config, pipeline, name, source)
    if as_json:
        return print_json(view.to_json())
    from tidegate.cli.unit_view import render_unit

    return invocation.show(render_unit(view))


@units.command(
    "retry",
    examples=[
        "tidegate units retry pipelines.yml -p responses --failed",
        "tidegate units retry pipelines.yml -p responses --unit id3 --unit id4 --yes",
    ],
)
@config_argument
@pipeline_option(required=True)
@_source_option
@_names_option
@_partition_option
@click.option("--failed", "everything", is_flag=True, help="Every unit that failed or is retired.")
@confirm_options
@json_option
@click.pass_obj
def retry_units(
    invocation: Invocation,
    config: Path,
    pipeline: str,
    source: str | None,
    names: tuple[str, ...],
    partition: str | None,
    everything: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Forget that units failed or were retired.

    The next run tries them again, before they have waited their turn. Commits the new state; no row is touched.
    """
    _check(names, partition, everything, "--failed")
    asking = Asking(invocation, dry_run, yes)
    from tidegate.cli.unit_view import render_units_move

    confirm = asking.about("Try them again?", render_units_move)
    move = invocation.functions().retry_units(
        config, pipeline, source, names=names, partition=partition, confirm=confirm
    )
    return _show(invocation, move, asking, as_json=as_json)


@units.command(
    "reset",
    examples=[
        "tidegate units reset pipelines.yml -p responses --unit id3",
        "tidegate units reset t.yml -p responses --partition 2026-02-01 --dry-run",
        "tidegate units reset pipelines.yml -p responses --all --yes",
    ],
)
@config_argument
@pipeline_option(required=True)
@_source_option
@_names_option
@_partition_option
@click.option("--all", "everything", is_flag=True, help="Every unit, in every partition.")
@confirm_options
@json_option
@click.pass_obj
def reset_units(
    invocation: Invocation,
    config: Path,
    pipeline: str,
    source: str | None,
    names: tuple[str, ...],
    partition: str | None,
    everything: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Forget what was read of units.

    The next run reads it again and replaces the rows, which stay until then. Commits the new state; no row is
    touched by this.
    """
    _check(names, partition, everything, "--all")
    asking = Asking(invocation, dry_run, yes)
    from tidegate.cli.unit_view import render_units_move

    confirm = asking.about("Have them read again?", render_units_move)
    move = invocation.functions().reset_units(
        config, pipeline, source, names=names, partition=partition, confirm=confirm
    )
    return _show(invocation, move, asking, as_json=as_json)


def _check(names: tuple[str, ...], partition: str | None, everything: bool, option: str) -> None:
    if everything == bool(names or partition is not None):
        raise click.UsageError(f"give --unit UNIT, --partition START or both; or {option}")


def _show(invocation: Invocation, move: UnitsMove, asking: Asking, *, as_json: bool) -> int:
    if as_json:
        print_json(move.to_json())
    else:
        from tidegate.cli.correction_view import render_move_end
        from tidegate.cli.unit_view import render_units_move

        page = render_move_end(move)
        invocation.show(page if asking.asked else (*render_units_move(move), *page))
    return asking.exit_code
