"""``tidegate config import``: the properties file of an older system as a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegate.cli.invocation import Invocation, print_json
from tidegate.cli.options import Command, json_option
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate.reports.staging import PropertiesImport


@click.command(
    "import",
    cls=Command,
    examples=[
        "tidegate config import surveys.pull",
        "tidegate config import surveys.pull --out surveys.yml",
        "tidegate config import surveys.pull --strict --json",
    ],
)
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--out", metavar="FILE", type=click.Path(path_type=Path), help="Write the configuration to a new file.")
@click.option("--strict", is_flag=True, help="End with 1 if something could not be carried over.")
@json_option
@click.pass_obj
def import_command(invocation: Invocation, file: Path, out: Path | None, strict: bool, as_json: bool) -> int:
    """Carry a properties file over.

    Prints the configuration, and on standard error what of the file is not in it, line by line. Secrets are not
    copied: they become variables of the environment.
    """
    report = invocation.functions().import_properties(file)
    if out is not None:
        _write(out, report.yaml)
    if as_json:
        print_json(report.to_json())
    else:
        if out is None:
            click.echo(report.yaml, nl=False)
        for line in told(report):
            click.echo(line, err=True)
    return int(strict and bool(report.left))


def _write(out: Path, text: str) -> None:
    """A new file; one that is there stays as it is."""
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError((f"{out}: is there already; allowed: another file, or remove it",)) from None
    except OSError as exc:
        raise ConfigError((f"{out}: cannot be written: {exc.strerror}",)) from None


def told(report: PropertiesImport) -> Iterator[str]:
    """What is not in the configuration, and what has to be set for it."""
    for note in report.left:
        yield f"{report.origin}:{note.line}: not carried over: {note.name}: {note.reason}"
    for note in report.not_needed:
        yield f"{report.origin}:{note.line}: not needed: {note.name}: {note.reason}"
    if report.variables:
        yield f"set before use: {', '.join(report.variables)}"
    yield (
        f"{len(report.carried):,} carried over, {len(report.left):,} not carried over, "
        f"{len(report.not_needed):,} not needed"
    )
