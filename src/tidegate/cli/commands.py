"""The commands: each calls one public function and shows what it gives back."""

from __future__ import annotations

import threading
from datetime import datetime
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from tidegate.cli.invocation import Invocation, Mode, print_json, width
from tidegate.cli.moments import Moment
from tidegate.cli.options import Command, config_argument, json_option, pipeline_option
from tidegate.cli.problems import INTERRUPTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.reports.run import Check, DemoStep, RunReport


@click.command(
    cls=Command,
    examples=[
        "tidegate plan pipelines.yml",
        "tidegate plan pipelines.yml -p events",
        "tidegate plan pipelines.yml -p responses --at 2026-03-02T06:00:00Z",
        "tidegate plan pipelines.yml --json | jq '.plans[].plan.list_requests'",
    ],
)
@config_argument
@pipeline_option()
@click.option("--at", metavar="MOMENT", type=Moment(), help="What would be read then (default: now), as of today.")
@click.option(
    "--accept-new-partitions",
    is_flag=True,
    help="Plan work units although they are cut in another way than those that were read.",
)
@json_option
@click.pass_obj
def plan(
    invocation: Invocation,
    config: Path,
    pipeline: str | None,
    at: datetime | None,
    accept_new_partitions: bool,
    as_json: bool,
) -> None:
    """Show what a run would read.

    Lists the sources of the YAML file CONFIG above their watermarks, and says why what is skipped is skipped.
    Touches nothing.
    """
    plans = invocation.functions().plan(config, pipeline, now=at, accept_new_partitions=accept_new_partitions)
    if as_json:
        return print_json({"plans": [each.to_json() for each in plans]})
    from tidegate.cli.plan_view import render_plan

    return invocation.show(render_plan(plans, width()))


@click.command(
    cls=Command,
    examples=[
        "tidegate run pipelines.yml",
        "tidegate run pipelines.yml -p events --continuous",
        "tidegate run pipelines.yml --json --log-format json 2>> run.log",
    ],
)
@config_argument
@pipeline_option()
@click.option("--once", is_flag=True, help="Read what is new, then end (the default).")
@click.option("--continuous", is_flag=True, help="Go on polling until stopped (Ctrl-C or SIGTERM).")
@click.option(
    "--accept-new-partitions",
    is_flag=True,
    help="Go on although work units are cut in another way: what was read counts as read.",
)
@json_option
@click.pass_obj
def run(
    invocation: Invocation,
    config: Path,
    pipeline: str | None,
    once: bool,
    continuous: bool,
    accept_new_partitions: bool,
    as_json: bool,
) -> int:
    """Read what is new into the tables.

    Rows and watermark of each source of the YAML file CONFIG become visible in one commit. Ends with 0 only
    if everything that was planned is committed.
    """
    if once and continuous:
        raise click.UsageError("--once and --continuous exclude each other")
    stop = threading.Event()
    mode: Mode = "continuous" if continuous else "once"
    with invocation.listening(result_follows=mode == "once") as emit:
        report = invocation.functions().run(
            config, pipeline, mode=mode, emit=emit, stop=stop, accept_new_partitions=accept_new_partitions
        )
    if as_json:
        print_json(report.to_json())
    else:
        from tidegate.cli.run_view import render_run

        invocation.show(render_run(report, quote(str(config))))
    return run_exit_code(report, stopped=stop.is_set())


def run_exit_code(report: RunReport, *, stopped: bool) -> int:
    """0 if all went well; the code that all errors share, else 1; 130 if the run was only cut short."""
    if report.ok:
        return 0
    codes = {source.exit_code or 1 for source in report.sources if source.error}
    codes |= {1 for source in report.sources if source.failed or source.failed_units}
    if stopped and not codes:
        return INTERRUPTED
    return codes.pop() if len(codes) == 1 else 1


@click.command(
    cls=Command,
    examples=[
        "tidegate status pipelines.yml",
        "tidegate status pipelines.yml -p events",
        "tidegate status pipelines.yml --json | jq '.sources[] | {source, lag_seconds}'",
    ],
)
@config_argument
@pipeline_option()
@json_option
@click.pass_obj
def status(invocation: Invocation, config: Path, pipeline: str | None, as_json: bool) -> int:
    """Show state, watermark, lag and backlog of every source.

    Reads the recorded state of the pipelines in the YAML file CONFIG and lists what is new; starts no Spark.
    """
    statuses = invocation.functions().status(config, pipeline)
    if as_json:
        print_json({"sources": [each.to_json() for each in statuses]})
    else:
        from tidegate.cli.status_view import render_status

        invocation.show(render_status(statuses, quote(str(config))))
    return int(any(each.error for each in statuses))


def _show_checks(invocation: Invocation, checks: Sequence[Check], *, as_json: bool) -> int:
    """Show what was looked at; 1 if a check failed."""
    failed = any(each.verdict == "fail" for each in checks)
    if as_json:
        print_json({"ok": not failed, "checks": [each.to_json() for each in checks]})
    else:
        from tidegate.cli.doctor_view import render_doctor

        invocation.show(render_doctor(checks))
    return int(failed)


@click.command(
    cls=Command,
    examples=["tidegate doctor", "tidegate doctor pipelines.yml", "tidegate doctor pipelines.yml --json"],
)
@click.argument("config", type=click.Path(path_type=Path), metavar="[CONFIG]", required=False)
@json_option
@click.pass_obj
def doctor(invocation: Invocation, config: Path | None, as_json: bool) -> int:
    """Check this machine and a configuration.

    With the YAML file CONFIG, the sources and tables that it names are looked at too. Ends with 1 if a check
    failed; warnings alone end with 0.
    """
    checks = invocation.functions().doctor(config)
    return _show_checks(invocation, checks, as_json=as_json)


@click.command(
    cls=Command,
    examples=[
        "tidegate recover pipelines.yml -p events",
        "tidegate recover pipelines.yml -p events -s asia --accept restore",
        "tidegate recover pipelines.yml -p events --accept previous --accept doubles",
    ],
)
@config_argument
@pipeline_option(required=True)
@click.option("-s", "--source", metavar="SOURCE", help="Only this source (default: all of the pipeline).")
@click.option(
    "--accept",
    type=click.Choice(["identity", "restore", "mirror", "previous", "doubles", "set"]),
    metavar="WHAT",
    multiple=True,
    help="Go on past this stop: identity (a changed source_uri or pattern), restore (a RESTORE of the table), set (a "
    "lost part of a set of paths, rebuilt from the documents); or from this state: mirror, previous (an earlier "
    "position; with doubles also where rows may be doubled). May be repeated.",
)
@json_option
@click.pass_obj
def recover(
    invocation: Invocation, config: Path, pipeline: str, source: str | None, accept: tuple[str, ...], as_json: bool
) -> int:
    """Explain what stops a source, and go on past it.

    Where the recorded state cannot be read, it says what is left of it. Without --accept it only looks. With it, the
    position is recorded anew by an empty commit; no row is read, written or removed. Ends with 1 if a source is
    still stopped.
    """
    checks = invocation.functions().recover(config, pipeline, source, accept=accept)
    return _show_checks(invocation, checks, as_json=as_json)


@click.command(
    cls=Command,
    examples=["tidegate demo", "tidegate demo /tmp/my-demo", "tidegate demo --json -q"],
)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), metavar="[FOLDER]", required=False)
@json_option
@click.pass_obj
def demo(invocation: Invocation, folder: Path | None, as_json: bool) -> int:
    """See a first run that needs nothing.

    Makes data, ingests it, shows the table and the status. Everything is put below FOLDER (default:
    tidegate-demo).
    """
    from tidegate.cli.demo_view import render_demo_end, render_demo_step

    numbers = iter(range(1, 1000))

    def show(step: DemoStep) -> None:
        if not as_json:
            invocation.show(render_demo_step(next(numbers), step))

    with invocation.listening() as emit:
        report = invocation.functions().demo(folder, emit, show)
    if as_json:
        print_json(report.to_json())
    else:
        invocation.show(render_demo_end(report))
    return int(not report.ok)


@click.command(cls=Command, examples=["tidegate version", "tidegate version --json"])
@json_option
@click.pass_obj
def version(invocation: Invocation, as_json: bool) -> None:
    """Show the versions of Tidegate and of what it stands on."""
    import platform
    from importlib.metadata import version as installed

    names = ("tidegate", "pyspark", "deltalake", "obstore", "pyarrow")
    versions = {name: installed(name) for name in names} | {"python": platform.python_version()}
    if as_json:
        return print_json(versions)
    from tidegate.cli.pages import Cell, Facts

    return invocation.show((Facts(tuple((name, Cell(text)) for name, text in versions.items())),))
