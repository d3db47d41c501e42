"""``tidegate dlq``: look at dead letters, read them again, or be done with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidegate.cli.confirming import Asking, confirm_options
from tidegate.cli.dlq_view import render_answers, render_letter, render_letters
from tidegate.cli.invocation import Invocation, print_json
from tidegate.cli.options import Group, config_argument, json_option, pipeline_option
from tidegate.cli.pages import Page
from tidegate.observe.wording import count

if TYPE_CHECKING:
    from tidegate.schema.dead_letter import Letter

SHOWN = 50


def _choice(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options that say which letters are meant."""
    for option in (
        click.option("--reason", metavar="TEXT", help="Only letters whose reason contains this."),
        click.option("--file", metavar="GLOB", help="Only letters of files that match (*, ?, [..], **)."),
        click.option("--id", "ids", metavar="ID", multiple=True, help="Only this letter; a beginning will do."),
        click.option("-s", "--source", metavar="SOURCE", help="Only this source (default: all of the pipeline)."),
    ):
        command = option(command)
    return command


@click.group(
    cls=Group,
    examples=["tidegate dlq list pipelines.yml -p events", "tidegate dlq retry pipelines.yml -p events"],
)
def dlq() -> None:
    """Look at dead letters, read them again."""


@dlq.command(
    "list",
    examples=[
        "tidegate dlq list pipelines.yml -p events",
        "tidegate dlq list pipelines.yml -p events --file 'date=2026-01-28/*' --json",
    ],
)
@config_argument
@pipeline_option(required=True)
@_choice
@click.option("--limit", type=click.IntRange(1), default=SHOWN, show_default=True, help="At most so many.")
@json_option
@click.pass_obj
def list_(
    invocation: Invocation,
    /,
    config: Path,
    pipeline: str,
    source: str | None,
    limit: int,
    as_json: bool,
    **choice: Any,
) -> None:
    """List the letters that nobody has answered, oldest first."""
    letters = invocation.functions().list_letters(config, pipeline, source, limit=limit + 1, **choice)
    if as_json:
        return print_json({"letters": [each.to_json() for each in letters[:limit]], "more": len(letters) > limit})
    return invocation.show(render_letters(letters[:limit], more=len(letters) > limit))


@dlq.command(examples=["tidegate dlq show pipelines.yml -p events 3f9a"])
@config_argument
@click.argument("letter", metavar="ID")
@pipeline_option(required=True)
@json_option
@click.pass_obj
def show(invocation: Invocation, /, config: Path, letter: str, pipeline: str, as_json: bool) -> int:
    """Show one letter in full."""
    letters = invocation.functions().list_letters(config, pipeline, ids=(letter,))
    if as_json:
        print_json({"letters": [each.to_json() for each in letters]})
    else:
        invocation.show(render_letter(letter, letters))
    return int(not letters)


@dlq.command(
    examples=[
        "tidegate dlq retry pipelines.yml -p events",
        "tidegate dlq retry pipelines.yml -p events --reason fraction",
    ],
)
@config_argument
@pipeline_option(required=True)
@_choice
@json_option
@click.pass_obj
def retry(
    invocation: Invocation, /, config: Path, pipeline: str, source: str | None, as_json: bool, **choice: Any
) -> int:
    """Read letters again with today's schema.

    What is good now is committed to the table, exactly once; the rest stays. Files that were given up are read on from
    where they had stopped. Ends with 1 if letters are still bad.
    """
    with invocation.listening() as emit:
        reports = invocation.functions().retry_letters(config, pipeline, source, emit=emit, **choice)
    return _answered(invocation, reports, "read again", as_json=as_json)


@dlq.command(examples=["tidegate dlq discard pipelines.yml -p events --id 3f9a"])
@config_argument
@pipeline_option(required=True)
@_choice
@confirm_options
@json_option
@click.pass_obj
def discard(
    invocation: Invocation,
    /,
    config: Path,
    pipeline: str,
    source: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    **choice: Any,
) -> int:
    """Be done with letters without reading them.

    They stay in the dead-letter table, answered, and are not listed any more.
    """
    functions = invocation.functions()
    asking = Asking(invocation, dry_run, yes)
    letters = functions.list_letters(config, pipeline, source, **choice)
    if letters and not asking.about(f"Discard {count(len(letters), 'dead letter')}?", _some)(letters):
        if asking.dry_run and as_json:
            print_json({"letters": [each.to_json() for each in letters]})
        elif asking.dry_run:
            invocation.show(_some(letters))
        return asking.exit_code
    reports = functions.discard_letters(config, pipeline, source, **choice)
    return _answered(invocation, reports, "discarded", as_json=as_json)


def _some(letters: Sequence[Letter]) -> Page:
    """The first letters."""
    return render_letters(letters[:SHOWN], more=len(letters) > SHOWN)


def _answered(invocation: Invocation, reports: Any, verb: str, *, as_json: bool) -> int:
    if as_json:
        print_json({"sources": [each.to_json() for each in reports]})
    else:
        invocation.show(render_answers(reports, verb))
    return int(any(each.still_bad for each in reports))
