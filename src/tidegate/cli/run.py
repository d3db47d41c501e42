"""``tidegate plan``, ``run`` and ``commit``: show what a run would read, read it, and commit what staged runs left."""

from __future__ import annotations

from typing import Any

import click

import tidegate
from tidegate.cli.invocation import (
    Command,
    Invocation,
    at_option,
    confirm_options,
    engine_option,
    mode_of,
    target,
    with_json,
)
from tidegate.reports.plan import Plans


@click.command(
    cls=Command,
    examples=[
        "tidegate plan pipelines.yml",
        "tidegate plan pipelines.yml -p events",
        "tidegate plan pipelines.yml -p responses --at 2026-03-02T06:00:00Z",
        "tidegate plan pipelines.yml --json | jq '.plans[].plan.list_requests'",
    ],
)
@target(pipeline="all")
@at_option("Plan as if it were then, with today's files and state.")
@click.option(
    "--accept-new-partitions",
    is_flag=True,
    help="Plan even if work units are now partitioned differently than when they were read.",
)
@engine_option
@with_json
def plan(invocation: Invocation, /, **given: Any) -> int:
    """Show what a run would read, and change nothing.

    Lists the sources in the YAML file CONFIG above their watermarks. Explains what a run would skip, and why.
    """
    return invocation.give(Plans(tidegate.plan(**given)))


@click.command(
    cls=Command,
    examples=[
        "tidegate run pipelines.yml",
        "tidegate run pipelines.yml -p events --continuous",
        "tidegate run pipelines.yml --engine local",
        "tidegate run pipelines.yml -p responses --at 2026-03-02T06:00:00Z",
        "tidegate run pipelines.yml --json --log-format json 2>> run.log",
    ],
)
@target(pipeline="all")
@click.option("--once", is_flag=True, help="Read what is new, then stop (the default).")
@click.option("--continuous", is_flag=True, help="Keep polling until Ctrl-C or SIGTERM.")
@click.option(
    "--accept-new-partitions",
    is_flag=True,
    help="Run even if work units are now partitioned differently. What was read stays read.",
)
@click.option("--fail-fast", is_flag=True, help="Stop the other sources as soon as one fails.")
@at_option("Run as if it were then, a moment in the past: read nothing that is newer.")
@engine_option
@with_json
def run(invocation: Invocation, /, once: bool, continuous: bool, **given: Any) -> int:
    """Read what is new into the tables.

    Each commit makes rows and the watermark of their source visible together. Exits with 0 only if everything that was
    planned is committed.
    """
    mode = mode_of(once, continuous)
    report, stopped = invocation.perform(tidegate.run, result_follows=mode == "once", mode=mode, **given)
    return invocation.give(report, stopped=stopped)


@click.command(
    cls=Command,
    examples=[
        "tidegate commit pipelines.yml",
        "tidegate commit pipelines.yml -p events --continuous",
        "tidegate commit pipelines.yml -p events --adopt imported/2026 --dry-run",
    ],
)
@target(pipeline="all")
@click.option("--once", is_flag=True, help="Commit what waits now, then stop (the default).")
@click.option(
    "--continuous", is_flag=True, help="Keep committing, every staging.poll_interval_secs, until Ctrl-C or SIGTERM."
)
@click.option("--adopt", metavar="PREFIX", help="Instead: add Parquet files below PREFIX that the log does not name.")
@confirm_options
@with_json
def commit(
    invocation: Invocation, /, once: bool, continuous: bool, adopt: str | None, dry_run: bool, yes: bool, **given: Any
) -> int:
    """Commit what staged runs left.

    Commits the staged units of all writers in order, and the metas of foreign writers, for every table in the YAML file
    CONFIG. Exits with 0 only if nothing was rejected and everything that could be committed is.
    """
    mode = mode_of(once, continuous)
    if adopt is not None:
        if once or continuous:
            raise click.UsageError("--adopt works by itself: give it without --once and --continuous")
        # The whole table as a prefix would take whatever lies there, uncommitted files of runs included.
        if not {"", ".", ".."}.isdisjoint(adopt.strip("/").split("/")):
            raise click.UsageError(f"--adopt {adopt!r}: give a folder below the table, such as imported/2026")
        question = "Add these files to the table?"
        return invocation.change(tidegate.adopt_files, question, dry_run=dry_run, yes=yes, prefix=adopt, **given)
    if dry_run:
        raise click.UsageError("--dry-run works only with --adopt; `tidegate status` shows what waits")
    report, stopped = invocation.perform(tidegate.commit, result_follows=mode == "once", mode=mode, **given)
    # A committer that runs until it is stopped has done its work when it is.
    return invocation.give(report, stopped=stopped and mode == "once")
