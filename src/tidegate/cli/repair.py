"""``tidegate dlq``, ``replay``, ``reconcile``, ``recover`` and ``adopt``: put right what a run could not read,
read twice, missed or stopped at.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any

import click

import tidegate
from tidegate.cli.invocation import (
    Age,
    Command,
    Confirmation,
    Decorated,
    Group,
    Invocation,
    confirm_options,
    engine_option,
    target,
    with_json,
)
from tidegate.reports.checks import Adoptions, Checks
from tidegate.reports.replay import Answers
from tidegate.reports.report import ChangeReport, Sections
from tidegate.reports.wording import count
from tidegate.schema.dead_letter import SHOWN, Letters, OpenLetters

_RANGE = (
    click.option("--start", metavar="VALUE", help="First value of the range."),
    click.option("--end", metavar="VALUE", help="End of the range; this value is not included."),
    click.option("--chunk", metavar="UNIT=N", help="Size of a chunk: months=1, days=7, hours=6, step=100000 ..."),
    click.option("--chunk-column", metavar="COLUMN", help="Column of --start and --end, if not the watermark's."),
    click.option("--save-watermark", is_flag=True, help="Let runs continue where the finished chunks end."),
    click.option("--skip-gap", is_flag=True, help="With --save-watermark: even if no run read the rows below --start."),
    click.option("--allow-overlap", is_flag=True, help="Even if the next run would append these rows again."),
    click.option("--into", metavar="TABLE_URI", help="Write into another table."),
    click.option(
        "--workers",
        metavar="N",
        type=click.IntRange(1, 64),
        default=1,
        show_default=True,
        help="Chunks to read at once.",
    ),
    click.option("--fresh", is_flag=True, help="Start over instead of continuing an unfinished replay."),
    click.option("--again", is_flag=True, help="With --save-watermark: repeat a finished replay, skip no chunk."),
)


def _range_options(command: Decorated) -> Decorated:
    for option in reversed(_RANGE):
        command = option(command)
    return command


def _choice(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select letters."""
    for option in (
        click.option("--reason", metavar="TEXT", help="Only letters whose reason contains TEXT."),
        click.option("--file", metavar="GLOB", help="Only letters of files that match (*, ?, [..], **)."),
        click.option(
            "--id", "ids", metavar="ID", multiple=True, help="Only this letter; its first characters will do."
        ),
    ):
        command = option(command)
    return command


@click.group(
    cls=Group,
    examples=["tidegate dlq list pipelines.yml -p events", "tidegate dlq retry pipelines.yml -p events"],
)
def dlq() -> None:
    """Show dead letters, read them again, or discard them."""


@dlq.command(
    "list",
    examples=[
        "tidegate dlq list pipelines.yml -p events",
        "tidegate dlq list pipelines.yml -p events --file 'date=2026-01-28/*' --json",
    ],
)
@target(source="all")
@_choice
@click.option("--limit", metavar="N", type=click.IntRange(1), default=SHOWN, show_default=True, help="Show at most N.")
@with_json
def list_letters(invocation: Invocation, /, limit: int, **given: Any) -> int:
    """List open dead letters, oldest first."""
    # One more than is shown, to know whether there are more.
    letters = tidegate.list_letters(limit=limit + 1, **given)
    return invocation.give(OpenLetters(letters, limit))


@dlq.command("show", examples=["tidegate dlq show pipelines.yml -p events 3f9a"])
@target()
@click.argument("letter", metavar="ID")
@with_json
def show_letter(invocation: Invocation, /, letter: str, **given: Any) -> int:
    """Show one dead letter in full."""
    letters = tidegate.list_letters(ids=(letter,), **given)
    invocation.give(Sections("letters", letters, f"no open dead letter has an id that begins with {letter}"))
    return int(not letters)


@dlq.command(
    "retry",
    examples=[
        "tidegate dlq retry pipelines.yml -p events",
        "tidegate dlq retry pipelines.yml -p events --reason fraction",
    ],
)
@target(source="all")
@_choice
@click.option("--dry-run", is_flag=True, help="Show which letters are meant; change nothing.")
@click.option("--yes", is_flag=True, expose_value=False, help="For scripts; this command never asks.")
@engine_option
@with_json
def retry_letters(invocation: Invocation, /, dry_run: bool, engine: str | None, **given: Any) -> int:
    """Read dead letters again with today's schema.

    Commits the rows that are good now, exactly once. The other letters stay open. Files that were given up are read on
    from where reading stopped. Exits with 1 if letters are still bad.
    """
    if dry_run:
        return invocation.give(Letters(tidegate.list_letters(**given)))
    with invocation.emitter() as emit:
        reports = tidegate.retry_letters(emit=emit, engine=engine, **given)
    return invocation.give(Answers(reports, "read again"))


@dlq.command("discard", examples=["tidegate dlq discard pipelines.yml -p events --id 3f9a"])
@target(source="all")
@_choice
@confirm_options
@with_json
def discard_letters(invocation: Invocation, /, dry_run: bool, yes: bool, **given: Any) -> int:
    """Close dead letters without reading them.

    They stay in the dead-letter table, marked as closed, and `tidegate dlq list` no longer shows them.
    """
    confirm = Confirmation(invocation, "", dry_run, yes)
    letters = tidegate.list_letters(**given)
    confirm.question = f"Discard {count(len(letters), 'dead letter')}?"
    if letters and not confirm(Letters(letters)):
        return invocation.give(Letters(letters)) if dry_run else 1
    return invocation.give(Answers(tidegate.discard_letters(**given), "discarded"))


@click.command(
    cls=Command,
    examples=[
        "tidegate replay t.yml -p events --files 'date=2026-01-28/**/*.gz' --dry-run",
        "tidegate replay t.yml -p events --files date=2026-01-28/0007.ndjson.gz",
        "tidegate replay t.yml -p events -s asia --partition date=2026-01-28 --yes",
        "tidegate replay t.yml -p orders --start 2026-01-01 --end 2026-04-01",
    ],
)
@target(source="one")
@click.option("--files", metavar="PATTERN", help="Files that match this pattern (*, ?, [..], **).")
@click.option("--partition", metavar="DIR", help="Instead: all files below this directory of the source.")
@click.option("--drop-missing", is_flag=True, help="Also remove the rows of files that are gone.")
@click.option("--widen", is_flag=True, help="Also the other files with rows in the same data files.")
@_range_options
@confirm_options
@engine_option
@with_json
def replay(
    invocation: Invocation,
    /,
    dry_run: bool,
    yes: bool,
    files: str | None,
    partition: str | None,
    drop_missing: bool,
    widen: bool,
    **span: Any,
) -> int:
    """Read files or a range of values again and replace their rows.

    Files: one commit removes the old rows of these files and adds the new ones. It finds the old rows by the column
    _source_file (sink.metadata_columns); without it by the ledger, whole data files at a time. If a file cannot be
    read, nothing changes.

    A range, for column sources: from --start up to --end, in chunks, one commit per chunk. The same command continues
    an unfinished replay, and starts a finished one over; with --save-watermark it skips what the watermark covers.
    """
    where = {name: span.pop(name) for name in ("config", "pipeline", "source", "engine")}
    call: Callable[..., ChangeReport]
    if span["start"] is not None or span["end"] is not None:
        if files is not None or partition is not None:
            raise click.UsageError("give files or a range, not both")
        if span["start"] is None or span["end"] is None:
            raise click.UsageError("give both --start and --end")
        span["chunk"] = _interval(span["chunk"])
        span["max_workers"] = span.pop("workers")
        question, call = "Read these chunks again?", partial(tidegate.replay_range, **span)
    elif (files is None) == (partition is None):
        raise click.UsageError("give --files PATTERN or --partition DIR, or --start and --end")
    else:
        question = "Replace these rows?"
        call = partial(tidegate.replay, files=files, partition=partition, drop_missing=drop_missing, widen=widen)
    confirmation = Confirmation(invocation, question, dry_run, yes)
    with confirmation.progress() as (confirm, emit):
        report = call(confirm=confirm, emit=emit, stop=threading.Event(), **where)
    return confirmation.give(report)


def _interval(text: str | None) -> dict[str, int | Decimal] | None:
    if text is None:
        return None
    unit, _, number = text.partition("=")
    try:
        size = Decimal(number)
    except InvalidOperation:
        raise click.UsageError(f"--chunk {text}: give UNIT=N, such as months=1") from None
    return {unit: int(size) if size == size.to_integral_value() else size}


@click.command(
    cls=Command,
    examples=[
        "tidegate reconcile pipelines.yml",
        "tidegate reconcile pipelines.yml -p events -s asia --ingest",
        "tidegate reconcile pipelines.yml --clean --older-than 7d",
        "tidegate reconcile pipelines.yml --json | jq '.sources[].late'",
    ],
)
@target(pipeline="all", source="all")
@click.option("--ingest", is_flag=True, help="Read the late files, each exactly once.")
@click.option("--clean", is_flag=True, help="Remove orphaned data files of the tables.")
@click.option(
    "--older-than",
    type=Age(),
    default="24h",
    metavar="DURATION",
    help="Age from which a data file is an orphan, such as 36h or 7d (default: 24h).",
)
@click.option("--force", is_flag=True, help="With --clean: allow an age below 24h.")
@engine_option
@with_json
def reconcile(invocation: Invocation, /, ingest: bool, clean: bool, force: bool, **given: Any) -> int:
    """Compare all files with what was committed.

    Lists every source and table in the YAML file CONFIG completely. Finds files that came late, files that changed
    after they were read, and data files that no commit names. Writes nothing without --ingest or --clean. Exits with 0
    if everything is in order or was repaired, else with 1.
    """
    if ingest and clean:
        raise click.UsageError("--ingest and --clean do not work together: run one after the other")
    if force and not clean:
        raise click.UsageError("--force works only with --clean")
    report, stopped = invocation.perform(tidegate.reconcile, ingest=ingest, clean=clean, force=force, **given)
    return invocation.give(report, stopped=stopped)


@click.command(
    cls=Command,
    examples=[
        "tidegate recover pipelines.yml -p events",
        "tidegate recover pipelines.yml -p events -s asia --accept restore",
        "tidegate recover pipelines.yml -p events --accept previous --accept doubles",
    ],
)
@target(source="all")
@click.option(
    "--accept",
    type=click.Choice(["identity", "restore", "mirror", "previous", "doubles", "set"]),
    metavar="WHAT",
    multiple=True,
    help="Continue after a stop: identity (source_uri or pattern changed), restore (the table was restored), set (part "
    "of a path set is lost; rebuilds it from the documents). Or continue from another state: mirror, previous (an "
    "earlier position; add doubles if rows may be doubled). May be repeated.",
)
@with_json
def recover(invocation: Invocation, /, **given: Any) -> int:
    """Explain why a source is stopped, and let it continue.

    If the recorded state cannot be read, shows what is left of it. Without --accept it only looks. With --accept, an
    empty commit records the position anew: no row is read, written or removed. Exits with 1 if a source is still
    stopped.
    """
    return invocation.give(Checks(tidegate.recover(**given)))


@click.command(
    cls=Command,
    examples=[
        "tidegate adopt pipelines.yml -p events --dry-run",
        "tidegate adopt pipelines.yml -p events -s asia --yes",
        "tidegate adopt pipelines.yml -p events --yes --quiet-for 3600 --json",
    ],
)
@target(source="all")
@confirm_options
@click.option(
    "--quiet-for",
    type=click.FloatRange(min=0),
    default=600.0,
    metavar="SECONDS",
    help="How long the other system must have been idle (default: 600).",
)
@click.option("--read-skipped", is_flag=True, help="Read files that it skipped in partitions without an entry.")
@click.option("--fresh", is_flag=True, help="It never read this source: start at the beginning.")
@with_json
def adopt(invocation: Invocation, /, dry_run: bool, yes: bool, **given: Any) -> int:
    """Take over the position that another system left in a table.

    Shows what it read, and what it may have skipped or doubled. Then an empty commit takes it over.
    No row changes. Refuses while it is still running. Exits with 1 if a source could not be taken over.
    """
    confirm = Confirmation(invocation, "Take it over?", dry_run, yes)
    adoptions = Adoptions(tidegate.adopt(dry_run=dry_run or not yes, **given))
    # A refusal is shown without a question: there is nothing to agree to.
    if not (dry_run or yes or adoptions.code()):
        if not confirm(adoptions):
            return 1
        adoptions = Adoptions(tidegate.adopt(dry_run=False, **given))
    return invocation.give(adoptions)
