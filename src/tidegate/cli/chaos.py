"""``tidegate chaos``: test on the user's own storage that no row is lost or doubled."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import click

import tidegate
from tidegate.cli.invocation import Command, Invocation, with_json
from tidegate.reports.chaos import ChaosProgress, ChaosReport, PlaceFailures
from tidegate.reports.page import Block, Cell, Fact, Gap, Row, Style, after_gap, facts, line, page, tabulate
from tidegate.reports.wording import count, duration

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
    report = tidegate.chaos(uri, options=dict(map(_pair, option)), show=show, **limits)
    invocation.give(report, render_chaos)
    return int(not report.ok)


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


@page
def render_chaos(report: ChaosReport) -> Iterator[Block]:
    """Failures by place, then the findings."""
    yield tabulate(("failpoint", ">crashes", ">lost answers", ">kills"), map(_row, report.places))
    yield Gap()
    yield facts(*_facts(report))
    yield from after_gap(line(problem, Style.BAD, "found") for problem in report.problems)


def _row(place: PlaceFailures) -> Row:
    return (place.place, *(each or None for each in (place.raised, place.lost, place.killed)))


def _facts(report: ChaosReport) -> Iterator[Fact]:
    yield "injected failures", report.failures
    yield "killed processes", f"{report.kills:,}, and {count(report.spark_kills, 'run')} with Spark"
    rivals = count(report.rival_passes, "pass", "passes")
    foreign = count(report.foreign_appends, "foreign append")
    yield "meanwhile", f"{rivals} of a rival, {foreign}, {report.optimizes:,} OPTIMIZE"
    yield "passes", f"{report.passes:,} in {count(report.rounds, 'round')}"
    yield "commits", f"{report.commits:,}, {report.contested:,} lost to a rival"
    yield "produced", f"{count(report.rows, 'row')} in {count(report.files, 'file')}"
    yield "comparisons", f"{report.comparisons:,}, each by a batch and by a streaming reader"
    yield "seed", str(report.seed)
    late = "" if report.finished else "; time was up before everything was done"
    yield "time", duration(report.seconds) + late
    verdict = f"{report.lost:,} lost, {report.doubled:,} doubled"
    yield "result", Cell(verdict if report.ok else f"{verdict}: WRONG", Style.GOOD if report.ok else Style.BAD)
