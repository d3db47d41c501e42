"""``tidegate status`` and ``serve``: state, lag and backlog of the sources, in a table or over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote

import click

import tidegate
from tidegate.cli.invocation import Command, Invocation, print_text, target, with_json
from tidegate.reports.page import (
    Block,
    Cell,
    Fact,
    Gap,
    Line,
    Page,
    Row,
    Style,
    cell,
    facts,
    line,
    moment,
    more,
    page,
    position,
    source_name,
    tabulate,
)
from tidegate.reports.status import FailedFile, SourceStatus, WorkProgress
from tidegate.reports.wording import count, duration, size

FAILED_SHOWN = 5
_STATE_STYLES = {"Active": Style.GOOD, "Initial": Style.DIM, "Empty": Style.WARN, "Unknown": Style.WARN}


@click.command(
    cls=Command,
    examples=[
        "tidegate status pipelines.yml",
        "tidegate status pipelines.yml -p events",
        "tidegate status pipelines.yml --json | jq '.sources[] | {source, lag_seconds}'",
    ],
)
@target(pipeline="all")
@with_json
def status(invocation: Invocation, config: Path, pipeline: str | None) -> int:
    """Show state, watermark, lag and backlog of every source.

    Reads the recorded state of the pipelines in the YAML file CONFIG and lists what is new. Does not start Spark.
    """
    statuses = tidegate.status(config, pipeline)
    invocation.give_each(
        "sources", statuses, lambda each: render_status(each, quote(str(config)), verbose=invocation.verbose)
    )
    return int(any(each.error for each in statuses))


@click.command(
    cls=Command,
    examples=["tidegate serve pipelines.yml", "tidegate serve pipelines.yml --address 0.0.0.0:9191 --every 60"],
)
@target(pipeline="all")
@click.option("--address", metavar="HOST:PORT", help="Where to listen (default: metrics.address in CONFIG).")
@click.option(
    "--every",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=15.0,
    help="Look at the sources at most this often (default: 15).",
)
@click.pass_obj
def serve(invocation: Invocation, config: Path, pipeline: str | None, address: str | None, every: float) -> None:
    """Serve metrics and health over HTTP, without running anything.

    Serves what `tidegate status` knows at /metrics, /health and /ready, until Ctrl-C or SIGTERM. Continuous runs serve
    their own.
    """

    def started(where: str) -> None:
        if not invocation.quiet:
            print_text(f"serving http://{where}/metrics, /health and /ready", to_stderr=True)

    tidegate.serve(config, pipeline, address=address, every=every, started=started, stop=threading.Event())


def render_status(statuses: Sequence[SourceStatus], config: str = "CONFIG", *, verbose: bool = False) -> Page:
    """All sources; hints name commands for ``config``."""
    return _blocks(statuses, config, verbose) if statuses else (line("nothing to show: no source was selected"),)


@page
def _blocks(statuses: Sequence[SourceStatus], config: str, verbose: bool) -> Iterator[Block]:
    yield tabulate(("~source", "state", ">lag", ">backlog", ">failed"), map(_row, statuses))
    for status in statuses:
        name = source_name(status)
        yield Gap()
        yield facts(*_details(status, config, verbose))
        yield from failed_lines(name, status.failed)
        yield from (line(f"{name}: {note}", label="note") for note in status.notes)
        if status.error:
            yield line(f"{name}: {status.error}", Style.BAD, "error")


def _row(status: SourceStatus) -> Row:
    failed = len(status.failed) + (status.work_units.failed if status.work_units else 0)
    return (
        Cell(source_name(status), Style.STRONG),
        state_cell(status.state),
        _lag(status),
        _backlog(status),
        cell(failed, Style.BAD if failed else Style.DIM),
    )


def _lag(status: SourceStatus) -> Cell | str | None:
    if status.future_seals:
        return Cell("?", Style.WARN)
    return None if status.lag_seconds is None else duration(status.lag_seconds)


def _backlog(status: SourceStatus) -> Cell:
    unknown = status.future_seals and not status.backlog_files
    if status.error or unknown or status.tracking == "columns":
        return Cell("?", Style.WARN if status.error or unknown else Style.DIM)
    if status.work_units is not None:
        waiting = status.work_units.open
        return Cell(count(waiting, "work unit"), Style.WARN) if waiting else Cell("0", Style.DIM)
    if status.backlog_complete and not status.backlog_files:
        return Cell("0", Style.DIM)
    least = "" if status.backlog_complete else "≥ "
    return Cell(f"{least}{count(status.backlog_files, 'file')}, {size(status.backlog_bytes)}", Style.WARN)


def _details(status: SourceStatus, config: str, verbose: bool) -> Iterator[Fact]:
    yield source_name(status), Cell(status.table_uri, Style.DIM)
    yield "last read" if status.tracking == "set" else "watermark", status.watermark
    yield "last commit", _last_commit(status)
    if status.empty:
        yield "location", Cell("empty: it holds no file at all, read or not", Style.WARN)
    waiting = f", {count(status.in_progress, 'file')} in progress" if status.in_progress else ""
    yield "tracking", f"{_tracking(status)}{waiting}"
    if status.work_units is not None:
        yield "work units", _work_units(status.work_units)
        if status.work_units.failed:
            hint = f"tidegate units list {config} -p {status.pipeline} --failed"
            yield "failed", Cell(f"{count(status.work_units.failed, 'work unit')} ({hint})", Style.BAD)
    if status.pending_units:
        waits = "" if status.pending_seconds is None else f", the oldest for {duration(status.pending_seconds)}"
        files = count(status.pending_files, "Parquet file")
        text = f"{count(status.pending_units, 'unit')} with {files} wait for `tidegate commit`{waits}"
        yield "staged", Cell(text, Style.WARN)
    if status.open_letters:
        hint = f"tidegate dlq list {config} -p {status.pipeline}"
        yield "dead letters", Cell(f"{status.open_letters:,} open ({hint})", Style.WARN)
    if verbose:
        yield "position", position(status.version)
        yield "read from", "no state yet" if status.shown_from == "none" else f"the {status.shown_from}"


def _tracking(status: SourceStatus) -> str:
    match status.tracking:
        case "columns":
            return "greatest value per column"
        case "units":
            return "time ranges and units"
        case "set":
            return f"{count(status.remembered, 'path')} remembered, every poll lists the whole source"
        case _:
            return f"{count(status.open_partitions, 'open partition')}, {status.sealed:,} sealed"


def _work_units(work: WorkProgress) -> str:
    rest = ((work.retired, "retired"), (work.unfinished, "not caught up"))
    parts = [f"{work.done:,} done", f"{work.open:,} open", *(f"{number:,} {name}" for number, name in rest if number)]
    return ", ".join(parts) + (f"; next from {work.next_eligible} on" if work.next_eligible else "")


def _last_commit(status: SourceStatus) -> str:
    if not status.version:
        return "none yet"
    table = "" if status.table_version is None else f"table version {status.table_version}"
    when = status.last_commit_at or status.updated
    return ", ".join(filter(None, (moment(when) if when else "", table)))


def state_cell(state: str) -> Cell:
    """A state in its colour."""
    return Cell(state, _STATE_STYLES.get(state, Style.NORMAL))


def failed_lines(name: str, failed: Sequence[FailedFile]) -> Iterator[Line]:
    """One line per failed file, for the first few."""
    for file in failed[:FAILED_SHOWN]:
        yield line(f"{name}: {file.path}: {file.reason} ({count(file.attempts, 'attempt')})", Style.BAD, "failed")
    if left := more(len(failed) - FAILED_SHOWN, "failed file"):
        yield line(f"{name}: {left}", Style.BAD, "failed")
