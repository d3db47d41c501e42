"""``tidegate chaos``: the proof that nothing is lost or doubled, on the user's own storage."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from tidegate.cli.invocation import Invocation, print_json
from tidegate.cli.options import Command, json_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegate.reports.chaos import ChaosProgress

_PERIOD = 5.0


@click.command(
    cls=Command,
    examples=[
        "tidegate chaos scratch/chaos",
        "tidegate chaos s3://bucket/scratch --failures 500 --minutes 5",
        "tidegate chaos scratch/chaos --failures 0 --kills 50 --seed 7",
    ],
)
@click.argument("uri", metavar="URI")
@click.option("--failures", type=click.IntRange(0), default=1000, metavar="N", help="Failures inside this process.")
@click.option("--kills", type=click.IntRange(0), default=10, metavar="N", help="Worker processes to kill.")
@click.option("--spark-kills", type=click.IntRange(0), default=0, metavar="N", help="Runs with Spark to kill.")
@click.option("--seed", type=int, metavar="S", help="Repeat the experiment of that seed (default: a new one).")
@click.option("--minutes", type=click.FloatRange(0.01), default=10.0, metavar="M", help="End after this time.")
@click.option("-o", "--option", multiple=True, metavar="KEY=VALUE", help="A storage option of URI. May be repeated.")
@click.option("--keep", is_flag=True, help="Leave the tables and their sources there.")
@json_option
@click.pass_obj
def chaos(
    invocation: Invocation,
    uri: str,
    failures: int,
    kills: int,
    spark_kills: int,
    seed: int | None,
    minutes: float,
    option: tuple[str, ...],
    keep: bool,
    as_json: bool,
) -> int:
    """Try to make Tidegate lose or double a row.

    Makes scratch tables below URI, which must be empty, and ingests made-up files into them while everything
    goes wrong: crashes and lost answers at every failpoint, rivals, foreign writers, killed processes. Then
    compares. Ends with 1 if a row is missing or doubled. Secrets of the storage come from the environment.
    """
    report = invocation.functions().chaos(
        uri,
        failures=failures,
        kills=kills,
        spark_kills=spark_kills,
        seed=seed,
        minutes=minutes,
        keep=keep,
        options=dict(map(_pair, option)),
        show=_quiet if invocation.quiet else now_and_then(),
    )
    if as_json:
        print_json(report.to_json())
    else:
        from tidegate.cli.chaos_view import render_chaos

        invocation.show(render_chaos(report))
    return int(not report.ok)


def _pair(text: str) -> tuple[str, str]:
    key, found, value = text.partition("=")
    if not found or not key:
        raise click.UsageError(f"--option {text!r} is not KEY=VALUE")
    return key, value


def _quiet(progress: ChaosProgress) -> None:
    """Nothing to show."""


def now_and_then(clock: Callable[[], float] = time.monotonic) -> Callable[[ChaosProgress], None]:
    """Shows how far the experiment is, as a line on standard error every few seconds."""
    last = clock()

    def show(progress: ChaosProgress) -> None:
        nonlocal last
        if clock() - last < _PERIOD:
            return
        last = clock()
        from tidegate.cli.chaos_view import progress_line

        sys.stderr.write(f"chaos: {progress_line(progress)}\n")
        sys.stderr.flush()

    return show
