"""``tidegate commit``: what staged runs and foreign writers left becomes visible; ``--adopt`` adds what lies there."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegate.cli.confirming import Asking, confirm_options
from tidegate.cli.invocation import Invocation, Mode, print_json
from tidegate.cli.options import Command, config_argument, json_option, pipeline_option
from tidegate.cli.problems import INTERRUPTED

if TYPE_CHECKING:
    from tidegate.reports.staging import CommitReport


@click.command(
    cls=Command,
    examples=[
        "tidegate commit pipelines.yml",
        "tidegate commit pipelines.yml -p events --continuous",
        "tidegate commit pipelines.yml -p events --adopt imported/2026 --dry-run",
    ],
)
@config_argument
@pipeline_option()
@click.option("--once", is_flag=True, help="Commit what waits now, then end (default).")
@click.option("--continuous", is_flag=True, help="Look every staging.poll_interval_secs until stopped.")
@click.option("--adopt", metavar="PREFIX", help="Instead: add the Parquet files below PREFIX that are not in the log.")
@confirm_options
@json_option
@click.pass_obj
def commit(
    invocation: Invocation,
    config: Path,
    pipeline: str | None,
    once: bool,
    continuous: bool,
    adopt: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Commit what staged runs left.

    Takes the units of all writers below the tables of the YAML file CONFIG in order, and the metas of foreign
    writers. Ends with 0 only if nothing was rejected and everything that could be taken is committed.
    """
    if once and continuous:
        raise click.UsageError("--once and --continuous exclude each other")
    if adopt is not None:
        if once or continuous:
            raise click.UsageError("--adopt is done once: give it without --once and --continuous")
        if not {"", ".", ".."}.isdisjoint(adopt.strip("/").split("/")):
            raise click.UsageError(f"--adopt {adopt!r}: give a folder below the table, such as imported/2026")
        return _adopt(invocation, config, pipeline, adopt, Asking(invocation, dry_run, yes), as_json=as_json)
    if dry_run:
        raise click.UsageError("--dry-run belongs to --adopt; `tidegate status` shows what waits")
    stop = threading.Event()
    mode: Mode = "continuous" if continuous else "once"
    with invocation.listening(result_follows=mode == "once") as emit:
        report = invocation.functions().commit(config, pipeline, mode=mode, emit=emit, stop=stop)
    if as_json:
        print_json(report.to_json())
    else:
        from tidegate.cli.commit_view import render_commit

        invocation.show(render_commit(report))
    return _exit_code(report, cut_short=stop.is_set() and mode == "once")


def _adopt(
    invocation: Invocation, config: Path, pipeline: str | None, prefix: str, asking: Asking, *, as_json: bool
) -> int:
    from tidegate.cli.commit_view import render_adoption

    confirm = asking.about("Add these files to the table?", render_adoption)
    report = invocation.functions().adopt_files(config, pipeline, prefix=prefix, confirm=confirm)
    if as_json:
        print_json(report.to_json())
    else:
        invocation.show(render_adoption(report))
    return asking.exit_code or int(any(file.refused for file in report.files))


def _exit_code(report: CommitReport, *, cut_short: bool) -> int:
    """0 if all went well; the code that all errors share, else 1; 130 if it was only cut short."""
    codes = {table.exit_code for table in report.tables if table.exit_code}
    codes |= {1 for table in report.tables if table.rejected}
    if not codes and cut_short:
        return INTERRUPTED
    if report.ok or not codes:
        return int(not report.ok)
    return codes.pop() if len(codes) == 1 else 1
