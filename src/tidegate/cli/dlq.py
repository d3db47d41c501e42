"""``tidegate dlq``: show dead letters, read them again, or close them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

import tidegate
from tidegate.cli.invocation import Confirmation, Group, Invocation, confirm_options, print_json, target, with_json
from tidegate.reports.page import (
    Block,
    Cell,
    Gap,
    Heading,
    Page,
    Style,
    cell,
    facts,
    line,
    moment,
    more,
    page,
    sections,
    source_name,
    tabulate,
)
from tidegate.reports.replay import LettersReport
from tidegate.reports.wording import count

if TYPE_CHECKING:
    from tidegate.schema.dead_letter import Letter

SHOWN = 50
_STILL_BAD_SHOWN = 10
_TEXT_SHOWN = 4000


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
def list_(
    invocation: Invocation, /, config: Path, pipeline: str, source: str | None, limit: int, **choice: Any
) -> None:
    """List open dead letters, oldest first."""
    letters = tidegate.list_letters(config, pipeline, source, limit=limit + 1, **choice)
    if invocation.as_json:
        return print_json({"letters": [each.to_json() for each in letters[:limit]], "more": len(letters) > limit})
    return invocation.show((*render_letters(letters, limit), *_next_steps(letters, quote(str(config)), pipeline)))


@dlq.command(examples=["tidegate dlq show pipelines.yml -p events 3f9a"])
@target()
@click.argument("letter", metavar="ID")
@with_json
def show(invocation: Invocation, /, config: Path, letter: str, pipeline: str) -> int:
    """Show one dead letter in full."""
    letters = tidegate.list_letters(config, pipeline, ids=(letter,))
    invocation.give_each("letters", letters, lambda letters: render_letter(letter, letters))
    return int(not letters)


@dlq.command(
    examples=[
        "tidegate dlq retry pipelines.yml -p events",
        "tidegate dlq retry pipelines.yml -p events --reason fraction",
    ],
)
@target(source="all")
@_choice
@click.option("--dry-run", is_flag=True, help="Show which letters are meant; change nothing.")
@click.option("--yes", is_flag=True, expose_value=False, help="For scripts; this command never asks.")
@with_json
def retry(
    invocation: Invocation, /, config: Path, pipeline: str, source: str | None, dry_run: bool, **choice: Any
) -> int:
    """Read dead letters again with today's schema.

    Commits the rows that are good now, exactly once. The other letters stay open. Files that were given up are read on
    from where reading stopped. Exits with 1 if letters are still bad.
    """
    if dry_run:
        invocation.give_each("letters", tidegate.list_letters(config, pipeline, source, **choice), render_letters)
        return 0
    with invocation.emitter() as emit:
        reports = tidegate.retry_letters(config, pipeline, source, emit=emit, **choice)
    return _give(invocation, reports, "read again")


@dlq.command(examples=["tidegate dlq discard pipelines.yml -p events --id 3f9a"])
@target(source="all")
@_choice
@confirm_options
@with_json
def discard(
    invocation: Invocation,
    /,
    config: Path,
    pipeline: str,
    source: str | None,
    dry_run: bool,
    yes: bool,
    **choice: Any,
) -> int:
    """Close dead letters without reading them.

    They stay in the dead-letter table, marked as closed, and `tidegate dlq list` no longer shows them.
    """
    confirm: Confirmation[Sequence[Letter]] = Confirmation(invocation, "", render_letters, dry_run, yes)
    letters = tidegate.list_letters(config, pipeline, source, **choice)
    confirm.question = f"Discard {count(len(letters), 'dead letter')}?"
    if letters and not confirm(letters):
        if dry_run:
            invocation.give_each("letters", letters, render_letters)
        return confirm.exit_code
    return _give(invocation, tidegate.discard_letters(config, pipeline, source, **choice), "discarded")


def _give(invocation: Invocation, reports: Sequence[LettersReport], verb: str) -> int:
    invocation.give_each("sources", reports, lambda reports: render_answers(reports, verb))
    return int(any(each.still_bad for each in reports))


def render_letters(letters: Sequence[Letter], limit: int = SHOWN) -> Page:
    """The first open letters of a pipeline."""
    if not letters:
        return (line("no open dead letter matches", Style.GOOD),)
    rows = tuple(
        (
            Cell(each.id, Style.STRONG),
            each.source,
            each.file,
            (each.line or None) if each.kind == "record" else Cell("file", Style.WARN),
            each.reason,
            Cell(moment(each.at), Style.DIM),
        )
        for each in letters[:limit]
    )
    footnote = "… and more; --limit shows them" if len(letters) > limit else ""
    return (tabulate(("id", "?source", "~file", ">line", "=reason", "?at"), rows, footnote),)


def _next_steps(letters: Sequence[Letter], config: str, pipeline: str) -> Iterator[Block]:
    """What to do about the letters: correct the configuration or the data."""
    if letters:
        yield Gap()
        yield line(f"tidegate dlq retry {config} -p {pipeline}", label="once the configuration takes them")
        yield line(f"tidegate dlq discard {config} -p {pipeline}", label="once a new file has them right")


def render_letter(wanted: str, letters: Sequence[Letter]) -> Page:
    """One letter in full; several if more than one id begins like that."""
    if not letters:
        return (line(f"no open dead letter has an id that begins with {wanted}", Style.BAD),)
    return sections(map(_letter, letters))


def _letter(letter: Letter) -> Iterator[Block]:
    yield Heading(f"{source_name(letter)}: letter {letter.id}")
    yield facts(
        ("file", letter.file),
        ("from line" if letter.kind == "file" else "line", letter.line or None),
        ("reason", cell(letter.reason, Style.BAD)),
        ("stage", letter.stage),
        ("at", moment(letter.at)),
        ("run", letter.run),
        ("schema", letter.schema_fingerprint),
        ("size, etag", f"{letter.size or 0:,} bytes, {letter.etag or '-'}"),
    )
    if letter.kind == "record":
        text = letter.content.decode(errors="backslashreplace")
        cut = f" … ({len(text) - _TEXT_SHOWN:,} more characters; --json has all)" if len(text) > _TEXT_SHOWN else ""
        yield Gap()
        yield from map(line, (text[:_TEXT_SHOWN] + cut).split("\n"))


@page
def render_answers(reports: Sequence[LettersReport], verb: str) -> Iterator[Block]:
    """The fate of the letters."""
    for report in reports:
        name = source_name(report)
        if not report.letters:
            yield line(f"{name}: no open dead letter matches")
            continue
        rows = f", {count(report.rows, 'row')} committed" if report.rows else ""
        new = f", {count(report.new_letters, 'new letter')}" if report.new_letters else ""
        at = f" as table version {report.table_version}" if report.table_version is not None else ""
        text = f"{name}: {report.answered:,} of {count(report.letters, 'letter')} {verb}{rows}{new}{at}"
        yield line(text, Style.WARN if report.still_bad else Style.GOOD)
        for letter, file, reason in report.still_bad[:_STILL_BAD_SHOWN]:
            yield line(f"{letter} of {file}: {reason}", Style.BAD, "still bad")
        if left := more(len(report.still_bad) - _STILL_BAD_SHOWN, "letter"):
            yield line(left, Style.BAD, "still bad")
