"""``tidegate setup``, ``doctor`` and ``chaos``: prepare this machine, check it, and test its storage."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

import tidegate
from tidegate.cli.invocation import Command, Invocation, engine_option, is_terminal, print_text, with_json
from tidegate.errors import EnvironmentProblem
from tidegate.reports.chaos import ChaosProgress
from tidegate.reports.checks import Checks
from tidegate.reports.wording import count, duration
from tidegate.specs.masking import recall_mask

_PERIOD = 5.0
"""Seconds between two lines about the progress of an experiment."""


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
        if not (yes or invocation.can_ask()):
            raise click.UsageError(f"not a terminal, so this cannot prompt; pass --yes ({question})")
        return yes or click.confirm(question, default=True, err=True)

    def tell(text: str) -> None:
        if not invocation.quiet:
            print_text(f"{text} …", to_stderr=True)

    checks = Checks(tidegate.set_up(config, ask=ask, tell=tell))
    return EnvironmentProblem.exit_code if invocation.give(checks) else 0


@click.command(
    cls=Command,
    examples=[
        "tidegate doctor",
        "tidegate doctor pipelines.yml",
        "tidegate doctor pipelines.yml -p orders --deep",
        "tidegate doctor pipelines.yml --secrets",
    ],
)
@click.argument("config", type=click.Path(path_type=Path), metavar="[CONFIG]", required=False)
@click.option("-p", "--pipeline", metavar="NAME", help="Only this pipeline (default: all).")
@click.option("--deep", is_flag=True, help="Start Spark for databases that cannot be asked without it.")
@click.option("--secrets", is_flag=True, help="Search state, YAML files and kept logs for secrets of CONFIG instead.")
@engine_option
@with_json
def doctor(
    invocation: Invocation, config: Path | None, pipeline: str | None, deep: bool, secrets: bool, engine: str | None
) -> int:
    """Check this machine and a configuration.

    With the YAML file CONFIG, also connects to its sources and tables: logs in to databases, sends each API one
    request, writes a probe to each table and deletes it. Exits with 1 if a check fails. Warnings, and what was not
    tried, exit with 0.
    """
    if config is None and (secrets or pipeline or deep):
        option = "--secrets" if secrets else "-p" if pipeline else "--deep"
        raise click.UsageError(f"{option} needs CONFIG")
    if not secrets:
        with _show_progress(invocation) as show:
            found = tidegate.doctor(config, pipeline, engine=engine, deep=deep, show=show)
        return invocation.give(Checks(found))
    assert config is not None
    return invocation.give(Checks(tidegate.search_secrets(config)))


@contextmanager
def _show_progress(invocation: Invocation) -> Iterator[Callable[[object], None]]:
    """A line on a terminal that shows what is waited for, and goes with the result."""
    if invocation.quiet or not is_terminal(sys.stderr):
        yield lambda progress: None
        return
    from tidegate.cli.terminal import console_for, watch

    with watch(console_for(sys.stderr, colour=invocation.uses_colour())) as show:
        yield lambda progress: show(recall_mask()(f"checking: {progress}"))


@click.command(
    cls=Command,
    examples=[
        "tidegate chaos scratch/chaos",
        "tidegate chaos s3://bucket/scratch --failures 500 --minutes 5",
        "tidegate chaos scratch/chaos --failures 0 --kills 50 --seed 7",
    ],
)
@click.argument("uri", metavar="URI")
@click.option(
    "--failures", type=click.IntRange(0), default=1000, metavar="N", help="Failures in this process (default: 1000)."
)
@click.option(
    "--kills", type=click.IntRange(0), default=10, metavar="N", help="Worker processes to kill (default: 10)."
)
@click.option(
    "--spark-kills", type=click.IntRange(0), default=0, metavar="N", help="Runs with Spark to kill (default: 0)."
)
@click.option("--seed", type=int, metavar="S", help="Repeat the experiment with this seed (default: a new one).")
@click.option(
    "--minutes", type=click.FloatRange(0.01), default=10.0, metavar="M", help="Stop after M minutes (default: 10)."
)
@click.option("-o", "--option", multiple=True, metavar="KEY=VALUE", help="A storage option for URI. May be repeated.")
@click.option("--keep", is_flag=True, help="Keep the tables and their sources.")
@with_json
def chaos(invocation: Invocation, /, uri: str, option: tuple[str, ...], **limits: Any) -> int:
    """Try to make Tidegate lose or double a row.

    Creates scratch tables below URI, which must be empty, and ingests generated files while everything goes wrong:
    crashes and lost answers at every failpoint, rivals, foreign writers, killed processes. Then compares. Exits with 1
    if a row is missing or doubled. Takes the secrets of the storage from the environment.
    """
    show = (lambda progress: None) if invocation.quiet else _now_and_then()
    return invocation.give(tidegate.chaos(uri, options=dict(map(_pair, option)), show=show, **limits))


def _pair(text: str) -> tuple[str, str]:
    key, found, value = text.partition("=")
    if not found or not key:
        raise click.UsageError(f"--option {text!r} is not KEY=VALUE")
    return key, value


def _now_and_then(clock: Callable[[], float] = time.monotonic) -> Callable[[ChaosProgress], None]:
    """A progress callback that prints a line on standard error every few seconds."""
    last = clock()

    def show(progress: ChaosProgress) -> None:
        nonlocal last
        if clock() - last < _PERIOD:
            return
        last = clock()
        sys.stderr.write(
            f"chaos: {progress.done:,} of {progress.wanted:,} {progress.doing}, {count(progress.commits, 'commit')}, "
            f"nothing lost or doubled so far ({duration(progress.seconds)})\n"
        )
        sys.stderr.flush()

    return show
