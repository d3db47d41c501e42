"""``tidegate reconcile``: everything in the sources and below the tables against what was committed."""

from __future__ import annotations

import re
import threading
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegate.cli.invocation import Invocation, print_json
from tidegate.cli.options import Command, config_argument, json_option, pipeline_option
from tidegate.cli.problems import INTERRUPTED

if TYPE_CHECKING:
    from tidegate.reports.correction import ReconcileReport

_DURATION = re.compile(r"(\d{1,6})\s*([smhd])", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def age(context: click.Context, parameter: click.Parameter, value: str) -> timedelta:
    """The duration that an option such as ``24h`` or ``7d`` means."""
    found = _DURATION.fullmatch(value.strip().lower())
    if found is None:
        raise click.BadParameter(f"{value!r} is not a duration; give a number with s, m, h or d, such as 24h or 7d")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


@click.command(
    cls=Command,
    examples=[
        "tidegate reconcile pipelines.yml",
        "tidegate reconcile pipelines.yml -p events -s asia --ingest",
        "tidegate reconcile pipelines.yml --clean --older-than 7d",
        "tidegate reconcile pipelines.yml --json | jq '.sources[].late'",
    ],
)
@config_argument
@pipeline_option()
@click.option("-s", "--source", metavar="SOURCE", help="Only this source (default: all).")
@click.option("--ingest", is_flag=True, help="Read the late files, each exactly once.")
@click.option("--clean", is_flag=True, help="Remove orphaned data files of the tables.")
@click.option(
    "--older-than",
    callback=age,
    default="24h",
    metavar="DURATION",
    help="Orphans are at least this old, such as 36h or 7d (default: 24h).",
)
@click.option("--force", is_flag=True, help="With --clean: allow an age below 24h.")
@json_option
@click.pass_obj
def reconcile(
    invocation: Invocation,
    config: Path,
    pipeline: str | None,
    source: str | None,
    ingest: bool,
    clean: bool,
    older_than: timedelta,
    force: bool,
    as_json: bool,
) -> int:
    """Compare everything with what was committed.

    Lists the sources and tables of the YAML file CONFIG completely. Finds files that came late, that changed
    after they were read, and data files that no commit names. Without --ingest and --clean nothing is written.
    Ends with 0 if nothing was found or all of it was repaired, else with 1.
    """
    if ingest and clean:
        raise click.UsageError("--ingest and --clean exclude each other: do one after the other")
    if force and not clean:
        raise click.UsageError("--force is about --clean")
    stop = threading.Event()
    with invocation.listening(result_follows=True) as emit:
        report = invocation.functions().reconcile(
            config,
            pipeline,
            source,
            ingest=ingest,
            clean=clean,
            older_than=older_than,
            force=force,
            emit=emit,
            stop=stop,
        )
    if as_json:
        print_json(report.to_json())
    else:
        from tidegate.cli.reconcile_view import render_reconcile

        invocation.show(render_reconcile(report))
    return exit_code(report, stopped=stop.is_set())


def exit_code(report: ReconcileReport, *, stopped: bool) -> int:
    """0 if all is well; the code that all errors share, else 1; 130 if it was only cut short."""
    if report.ok:
        return 0
    codes = {each.exit_code or 1 for each in report.sources if each.needs_someone}
    codes |= {each.exit_code or 1 for each in report.tables if each.needs_someone}
    if stopped and not codes:
        return INTERRUPTED
    return codes.pop() if len(codes) == 1 else 1
