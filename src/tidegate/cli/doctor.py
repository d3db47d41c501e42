"""``tidegate doctor`` and ``recover``: one line per check, and remedies for those that fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

import tidegate
from tidegate.cli.invocation import Command, Invocation, target, with_json
from tidegate.reports.checks import Check
from tidegate.reports.page import Block, Cell, Gap, Line, Style, line, page, tabulate
from tidegate.reports.wording import count

_STYLES = {"ok": Style.GOOD, "warn": Style.WARN, "fail": Style.BAD}


@click.command(
    cls=Command,
    examples=["tidegate doctor", "tidegate doctor pipelines.yml", "tidegate doctor pipelines.yml --secrets"],
)
@click.argument("config", type=click.Path(path_type=Path), metavar="[CONFIG]", required=False)
@click.option("--secrets", is_flag=True, help="Search state, YAML files and kept logs for secrets of CONFIG instead.")
@with_json
def doctor(invocation: Invocation, config: Path | None, secrets: bool) -> int:
    """Check this machine and a configuration.

    With the YAML file CONFIG, also checks its sources and tables. Exits with 1 if a check fails. Warnings alone exit
    with 0.
    """
    if secrets and config is None:
        raise click.UsageError("--secrets needs CONFIG, which has the secrets to search for")
    if secrets and config is not None:
        return _give(invocation, tidegate.search_secrets(config))
    return _give(invocation, tidegate.doctor(config))


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
def recover(invocation: Invocation, config: Path, pipeline: str, source: str | None, accept: tuple[str, ...]) -> int:
    """Explain why a source is stopped, and let it continue.

    If the recorded state cannot be read, shows what is left of it. Without --accept it only looks. With --accept, an
    empty commit records the position anew: no row is read, written or removed. Exits with 1 if a source is still
    stopped.
    """
    return _give(invocation, tidegate.recover(config, pipeline, source, accept=accept))


def _give(invocation: Invocation, checks: Sequence[Check]) -> int:
    """Print the checks and return the exit code, 1 if one failed."""
    failed = any(each.verdict == "fail" for each in checks)
    invocation.give_each("checks", checks, render_checks, ok=not failed)
    return int(failed)


@page
def render_checks(checks: Sequence[Check]) -> Iterator[Block]:
    """All checks, then the remedies, then the totals."""
    rows = tuple((Cell(each.verdict, _STYLES[each.verdict]), each.name, each.detail) for each in checks)
    yield tabulate(("verdict", "~check", "=found"), rows)
    ill = [each for each in checks if each.verdict != "ok"]
    if ill:
        yield Gap()
    yield from (line(each.remedy, _STYLES[each.verdict], each.name) for each in ill if each.remedy)
    yield Gap()
    yield _sum(checks)


def _sum(checks: Sequence[Check]) -> Line:
    failed = sum(each.verdict == "fail" for each in checks)
    warned = sum(each.verdict == "warn" for each in checks)
    if failed:
        return line(f"{count(failed, 'check')} failed, {count(warned, 'warning')}", Style.BAD)
    if warned:
        return line(f"nothing failed, {count(warned, 'warning')}", Style.WARN)
    return line("all is well", Style.GOOD)
