"""``tidegate setup``: find or install Java and fetch the jars, after a question."""

from __future__ import annotations

import sys
from pathlib import Path

import click

import tidegate
from tidegate.cli.doctor import render_checks
from tidegate.cli.invocation import Command, Invocation, print_text, with_json
from tidegate.errors import EnvironmentProblem


@click.command(
    cls=Command,
    examples=["tidegate setup", "tidegate setup --yes", "tidegate setup pipelines.yml --yes"],
)
@click.argument("config", type=click.Path(path_type=Path), metavar="[CONFIG]", required=False)
@click.option("--yes", is_flag=True, help="Do not ask; for scripts.")
@with_json
def setup(invocation: Invocation, config: Path | None, yes: bool) -> int:
    """Find or install Java, and fetch the jars that Spark needs.

    Asks before it installs or fetches anything. With CONFIG it also fetches the drivers of its databases, and what its
    tables on S3 need. Exits with 3 if something is still missing.
    """

    def ask(question: str) -> bool:
        if yes:
            return True
        if invocation.as_json or not sys.stdin.isatty():
            raise click.UsageError(f"nobody can answer here: give --yes ({question})")
        return click.confirm(question, default=True, err=True)

    def tell(text: str) -> None:
        if not invocation.quiet:
            print_text(f"{text} …", to_stderr=True)

    checks = tidegate.set_up(config, ask=ask, tell=tell)
    ok = all(each.verdict != "fail" for each in checks)
    invocation.give_each("checks", checks, render_checks, ok=ok)
    return 0 if ok else EnvironmentProblem.exit_code
