"""``tidegate watermark`` and ``units``: show the recorded state of sources, and change it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

import tidegate
from tidegate.cli.invocation import Group, Invocation, at_option, confirm_options, limit_option, target, with_json
from tidegate.reports.report import Report, Sections

_names_option = click.option("--unit", "names", metavar="UNIT", multiple=True, help="This unit. May be repeated.")
_partition_option = click.option("--partition", metavar="START", help="Only the partition that begins then.")


@click.group(
    cls=Group,
    examples=[
        "tidegate watermark show pipelines.yml -p events",
        "tidegate watermark reset pipelines.yml -p events --all --dry-run",
    ],
)
def watermark() -> None:
    """Show the recorded watermarks, and move them."""


@watermark.command(
    "show",
    examples=[
        "tidegate watermark show pipelines.yml -p events",
        "tidegate watermark show pipelines.yml -p events -s asia --json",
    ],
)
@target(source="all")
@with_json
def show_watermarks(invocation: Invocation, /, **given: Any) -> int:
    """Show the recorded state of a pipeline's sources.

    The watermark, the open partitions, and the files that are not finished.
    """
    return invocation.give(Sections("watermarks", tidegate.show_watermarks(**given)))


@watermark.command(
    examples=[
        "tidegate watermark history pipelines.yml -p events",
        "tidegate watermark history pipelines.yml -p events -s asia --limit 0 --json",
    ],
)
@target(source="all")
@limit_option(20)
@with_json
def history(invocation: Invocation, /, **given: Any) -> int:
    """Show the commits of a source and the watermark after each.

    Newest first, with what made the commit, its files and its rows.
    """
    return invocation.give(Sections("sources", tidegate.watermark_history(**given)))


@watermark.command(
    "set",
    examples=[
        "tidegate watermark set t.yml -p events --to date=2026-01-28/0007.json",
        "tidegate watermark set t.yml -p events --partition 2026-01-28 --name 0007.json",
        "tidegate watermark set t.yml -p orders --value updated_at=2026-01-28T00:00:00Z",
    ],
)
@target(source="one")
@click.option("--to", metavar="PATH", help="The last file of its partition that counts as read.")
@click.option(
    "--value",
    "values",
    metavar="COLUMN=VALUE",
    multiple=True,
    help="For column sources: the greatest value that counts as read. May be repeated.",
)
@click.option("--inclusive", is_flag=True, help="With --value: read rows with that value again.")
@click.option("--partition", metavar="DIR", help="Instead of --to: the directory of the file ...")
@click.option("--name", metavar="NAME", help="... and its name.")
@confirm_options
@with_json
def set_watermark(
    invocation: Invocation,
    /,
    to: str | None,
    partition: str | None,
    name: str | None,
    values: tuple[str, ...],
    **given: Any,
) -> int:
    """Set the watermark of a partition or of columns.

    Moved up, it skips files or rows: no run ever reads them. Moved down, the next run reads those above it again, and
    their rows are in the table twice. Shows which files, asks, and commits the new watermark. No row changes.
    """
    path = None if values else _path(to, partition, name)
    return invocation.change(tidegate.set_watermark, "Move the watermark?", to=path, values=_values(values), **given)


def _values(given: tuple[str, ...]) -> dict[str, str] | None:
    """Values by column; None without values."""
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


@watermark.command(
    "reset",
    examples=[
        "tidegate watermark reset pipelines.yml -p events --partition date=2026-01-28",
        "tidegate watermark reset pipelines.yml -p events -s asia --all --dry-run",
    ],
)
@target(source="one")
@click.option("--partition", metavar="DIR", help="Forget this partition ('' for the top level).")
@click.option("--all", "everything", is_flag=True, help="Forget the whole source.")
@confirm_options
@with_json
def reset_watermark(invocation: Invocation, /, partition: str | None, everything: bool, **given: Any) -> int:
    """Forget what was read of a partition or a source.

    The next run reads all its files again. Rows that are in the table already are then in it twice. Shows which files,
    asks, and commits the new watermark. No row changes.
    """
    if everything == (partition is not None):
        raise click.UsageError("give --partition DIR or --all")
    return invocation.change(tidegate.reset_watermark, "Move the watermark?", partition=partition, **given)


@click.group(
    cls=Group,
    examples=[
        "tidegate units list pipelines.yml -p responses --failed",
        "tidegate units reset pipelines.yml -p responses --unit id3 --dry-run",
    ],
)
def units() -> None:
    """Show work units, retry them, or read them again."""


@units.command(
    "list",
    examples=[
        "tidegate units list pipelines.yml -p responses",
        "tidegate units list pipelines.yml -p responses --failed --json",
        "tidegate units list pipelines.yml -p responses --partition 2026-02-01",
        "tidegate units list pipelines.yml -p responses --at 2026-03-02T06:00:00Z",
    ],
)
@target(source="all")
@_names_option
@_partition_option
@click.option("--failed", is_flag=True, help="Only units that failed or are retired.")
@at_option("List as if it were then.")
@limit_option(50)
@with_json
def list_units(invocation: Invocation, /, **given: Any) -> int:
    """Show the units of a pipeline and how far they are.

    Failed units come first. Reads the secondary inputs. Does not start Spark or ask the server.
    """
    return invocation.give(Sections("sources", tidegate.units(**given)))


@units.command(
    "show",
    examples=[
        "tidegate units show pipelines.yml -p responses --unit id3",
        "tidegate units show pipelines.yml -p responses --unit id3 --json",
    ],
)
@target(source="one")
@click.option("--unit", "name", metavar="UNIT", default="", help="The unit; omit it for a source without units.")
@at_option("Show as if it were then.")
@with_json
def show_unit(invocation: Invocation, /, name: str, **given: Any) -> int:
    """Show one unit, partition by partition.

    What was read of it, what would run now and why, and why it failed.
    """
    return invocation.give(tidegate.unit(name=name, **given))


@units.command(
    "retry",
    examples=[
        "tidegate units retry pipelines.yml -p responses --failed",
        "tidegate units retry pipelines.yml -p responses --unit id3 --unit id4 --yes",
    ],
)
@target(source="one")
@_names_option
@_partition_option
@click.option("--failed", "everything", is_flag=True, help="Every unit that failed or is retired.")
@confirm_options
@with_json
def retry_units(invocation: Invocation, /, **given: Any) -> int:
    """Forget that units failed or were retired.

    The next run retries them without waiting. Commits the new state. No row changes.
    """
    return _change_units(invocation, tidegate.retry_units, "Try them again?", "--failed", **given)


@units.command(
    "reset",
    examples=[
        "tidegate units reset pipelines.yml -p responses --unit id3",
        "tidegate units reset t.yml -p responses --partition 2026-02-01 --dry-run",
        "tidegate units reset pipelines.yml -p responses --all --yes",
    ],
)
@target(source="one")
@_names_option
@_partition_option
@click.option("--all", "everything", is_flag=True, help="Every unit, in every partition.")
@confirm_options
@with_json
def reset_units(invocation: Invocation, /, **given: Any) -> int:
    """Forget what was read of units.

    The next run reads it again and replaces the rows; until then they stay. Commits the new state. No row changes now.
    """
    return _change_units(invocation, tidegate.reset_units, "Read them again?", "--all", **given)


def _change_units(
    invocation: Invocation, call: Callable[..., Report], question: str, option: str, *, everything: bool, **given: Any
) -> int:
    """Show the selected units, ask, and forget; ``option`` is the one that selects all."""
    if everything == bool(given["names"] or given["partition"] is not None):
        raise click.UsageError(f"give --unit UNIT, --partition START or both; or {option}")
    return invocation.change(call, question, **given)
