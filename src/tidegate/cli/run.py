"""``tidegate run``: read what is new into the tables, then show one row per source, and the errors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import datetime
from itertools import chain, islice
from pathlib import Path
from shlex import quote

import click

import tidegate
from tidegate.cli.invocation import Command, Invocation, at_option, exit_code, mode_of, target, with_json
from tidegate.cli.status import failed_lines, state_cell
from tidegate.core.files.discovery import Reason
from tidegate.core.units.plan import WhySkipped
from tidegate.reports.page import (
    Block,
    Cell,
    Gap,
    Line,
    Page,
    Row,
    Style,
    after_gap,
    cell,
    facts,
    line,
    page,
    source_name,
    tabulate,
)
from tidegate.reports.run import RunReport, SourceReport
from tidegate.reports.wording import count, duration, size

FIELDS_SHOWN = 5
NORMAL = frozenset(
    {Reason.INTERNAL, Reason.TABLE, Reason.MARKER, Reason.PATTERN, Reason.EXCLUDED, Reason.SEALED, Reason.READ}
    | {Reason.BELOW, Reason.PENDING, WhySkipped.DONE, WhySkipped.UP_TO_DATE, WhySkipped.ABSTINENT}
)
"""Reasons to skip that need no attention."""
UNITS_SHOWN = 10
SOURCES_SHOWN = 3


@click.command(
    cls=Command,
    examples=[
        "tidegate run pipelines.yml",
        "tidegate run pipelines.yml -p events --continuous",
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
@at_option("Run as if it were then, a moment in the past: read nothing that is newer.")
@with_json
def run(
    invocation: Invocation,
    config: Path,
    pipeline: str | None,
    once: bool,
    continuous: bool,
    accept_new_partitions: bool,
    now: datetime | None,
) -> int:
    """Read what is new into the tables.

    Each commit makes rows and the watermark of their source visible together. Exits with 0 only if everything that was
    planned is committed.
    """
    mode = mode_of(once, continuous)
    stop = threading.Event()
    with invocation.emitter(result_follows=mode == "once") as emit:
        report = tidegate.run(
            config, pipeline, mode=mode, emit=emit, stop=stop, accept_new_partitions=accept_new_partitions, now=now
        )
    invocation.give(report, lambda each: render_run(each, quote(str(config)), verbose=invocation.verbose))
    return code_of(report, stop)


def code_of(report: RunReport, stop: threading.Event) -> int:
    """The exit code of a run."""
    codes = {source.exit_code or 1 for source in report.sources if source.error}
    codes |= {1 for source in report.sources if source.failed or source.failed_units}
    return exit_code(ok=report.ok, codes=codes, stopped=stop.is_set())


@page
def _blocks(report: RunReport, config: str, verbose: bool) -> Iterator[Block]:
    titles = ("~source", "state", ">files", ">size", ">rows", "?>commits", ">failed", ">time")
    yield tabulate(titles, map(_row, report.sources))
    yield Gap()
    watermarks = [(f"watermark of {source_name(each)}", each.watermark) for each in report.sources if verbose]
    yield facts(*watermarks, ("result", _result(report)))
    troubles = (trouble for source in report.sources for trouble in _troubles(source, config, verbose))
    yield from after_gap(chain(troubles, _errors(report)))


def render_run(report: RunReport, config: str = "CONFIG", *, verbose: bool = False) -> Page:
    """The whole report; hints name commands for ``config``. With ``verbose`` also normal skips."""
    return _blocks(report, config, verbose) if report.sources else (line("nothing to run: no source was selected"),)


def _row(source: SourceReport) -> Row:
    is_units = bool(source.work_units or source.failed_units)
    return (
        Cell(source_name(source), Style.STRONG),
        Cell("failed", Style.BAD) if source.error else state_cell(source.state),
        count(source.work_units, "unit") if is_units else source.files,
        None if is_units else size(source.bytes),
        source.rows,
        f"{source.staged:,} staged" if source.staged else source.commits,
        cell(len(source.failed) + len(source.failed_units) or None, Style.BAD),
        duration(source.seconds),
    )


def _result(report: RunReport) -> Cell:
    done = f"{count(sum(source.rows for source in report.sources), 'row')} in {duration(report.seconds)}"
    return Cell(done, Style.GOOD) if report.ok else Cell(f"not everything succeeded; {done}", Style.BAD)


def _troubles(source: SourceReport, config: str, verbose: bool) -> Iterator[Line]:
    name = source_name(source)
    yield from failed_lines(name, source.failed)
    yield from _failed_units(source, config)
    if source.bad_records or source.dead_files:
        letters = [(source.bad_records, "bad record"), (source.dead_files, "file")]
        what = " and ".join(count(number, word) for number, word in letters if number)
        hint = f"tidegate dlq list {config} -p {source.pipeline}"
        became = "became a dead letter" if source.bad_records + source.dead_files == 1 else "became dead letters"
        yield line(f"{name}: {what} {became} ({hint})", Style.WARN, "note")
    if source.staged:
        yield line(
            f"{name}: {count(source.staged, 'unit')} staged, waiting for `tidegate commit {config}`", label="note"
        )
    if source.unknown_fields:
        fields = count(len(source.unknown_fields), "field")
        most = ", ".join(islice(source.unknown_fields, FIELDS_SHOWN))
        yield line(f"{name}: {fields} without a column, e.g. {most}", label="note")
    for reason, skipped in ((reason, number) for reason, number in source.skipped if verbose or reason not in NORMAL):
        what = "left to another active run" if reason == "another_run" else f"{skipped:,} skipped: {reason}"
        yield line(f"{name}: {what}", label="note")


def _errors(report: RunReport) -> Iterator[Line]:
    """The errors, each once with all sources that it stopped."""
    errors: dict[str, list[str]] = {}
    for source in report.sources:
        if source.error:
            errors.setdefault(source.error, []).append(source_name(source))
    for error, names in errors.items():
        shown = names if len(names) <= SOURCES_SHOWN else [*names[:SOURCES_SHOWN], f"{len(names) - SOURCES_SHOWN} more"]
        yield line(f"{', '.join(shown)}: {error}", Style.BAD, "error")


def _failed_units(source: SourceReport, config: str) -> Iterator[Line]:
    for each in source.failed_units[:UNITS_SHOWN]:
        unit = f"{each.unit} from {each.start}" if each.unit else f"from {each.start}"
        tries = f" ({each.failures:,} times in a row)" if each.failures > 1 else ""
        yield line(f"{source_name(source)}: work unit {unit} failed{tries}: {each.reason}", Style.BAD, "error")
    left = len(source.failed_units) - UNITS_SHOWN
    if left > 0:
        hint = f"tidegate units list {config} -p {source.pipeline} --failed"
        yield line(f"{source_name(source)}: {left:,} more work units failed ({hint})", Style.BAD, "error")
