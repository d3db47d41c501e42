"""``tidegate commit``: commit what staged runs and foreign writers left; ``--adopt`` adds other files."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import click

import tidegate
from tidegate.cli.invocation import (
    Command,
    Confirmation,
    Invocation,
    confirm_options,
    exit_code,
    mode_of,
    target,
    with_json,
)
from tidegate.reports.commit import CommitReport, FileAdoption, TableCommit
from tidegate.reports.page import Block, Cell, Gap, Heading, Line, Style, cell, facts, line, page, source_name, tabulate
from tidegate.reports.wording import count, duration, size

FILES_SHOWN = 100


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
    invocation: Invocation,
    config: Path,
    pipeline: str | None,
    once: bool,
    continuous: bool,
    adopt: str | None,
    dry_run: bool,
    yes: bool,
) -> int:
    """Commit what staged runs left.

    Commits the staged units of all writers in order, and the metas of foreign writers, for every table in the YAML file
    CONFIG. Exits with 0 only if nothing was rejected and everything that could be committed is.
    """
    mode = mode_of(once, continuous)
    if adopt is not None:
        if once or continuous:
            raise click.UsageError("--adopt works by itself: give it without --once and --continuous")
        if not {"", ".", ".."}.isdisjoint(adopt.strip("/").split("/")):
            raise click.UsageError(f"--adopt {adopt!r}: give a folder below the table, such as imported/2026")
        confirm = Confirmation(invocation, "Add these files to the table?", render_adoption, dry_run, yes)
        adoption = tidegate.adopt_files(config, pipeline, prefix=adopt, confirm=confirm)
        invocation.give(adoption, render_adoption)
        return confirm.exit_code or int(any(file.refused for file in adoption.files))
    if dry_run:
        raise click.UsageError("--dry-run works only with --adopt; `tidegate status` shows what waits")
    stop = threading.Event()
    with invocation.emitter(result_follows=mode == "once") as emit:
        report = tidegate.commit(config, pipeline, mode=mode, emit=emit, stop=stop)
    invocation.give(report, render_commit)
    cut_short = stop.is_set() and mode == "once"
    codes = {table.exit_code for table in report.tables if table.exit_code}
    codes |= {1 for table in report.tables if table.rejected}
    return exit_code(ok=report.ok and not cut_short, codes=codes, stopped=cut_short)


@page
def render_commit(report: CommitReport) -> Iterator[Block]:
    """The whole report."""
    for table in report.tables:
        yield from _table(table)
        yield Gap()
    rows = count(sum(table.rows for table in report.tables), "row")
    commits = count(sum(table.commits for table in report.tables), "commit")
    done = f"{rows} by {commits} in {duration(report.seconds)}"
    result = Cell(done, Style.GOOD) if report.ok else Cell(f"not everything was committed; {done}", Style.BAD)
    yield facts(("result", result))


def _table(table: TableCommit) -> Iterator[Block]:
    yield Heading(table.table_uri)
    if table.sources:
        rows = tuple(
            (
                Cell(source_name(each), Style.STRONG),
                each.position,
                each.units,
                each.rows,
                cell(each.waiting or None, Style.WARN),
            )
            for each in table.sources
        )
        yield tabulate(("~source", ">commits", ">units", ">rows", ">waiting"), rows)
    yield from _notes(table)


def _notes(table: TableCommit) -> Iterator[Line]:
    counted = (
        (table.foreign, "file", "of other writers committed"),
        (table.duplicates, "meta", "dropped: another meta already names the same files"),
        (table.dropped, "unit", "dropped: already committed"),
        (table.unknown, "unit", "left alone: the source is not in the configuration"),
        (table.aging, "unit", "waited so long that a VACUUM may remove their files"),
    )
    for many, noun, text in counted:
        if many:
            yield line(f"{count(many, noun)} {text}", label="note")
    for each in table.rejected:
        yield line(f"{each.path}: {each.reason}", Style.BAD, "rejected")
    for source in table.sources:
        if source.error:
            yield line(f"{source_name(source)}: {source.error}", Style.BAD, "error")
    if table.error:
        yield line(table.error, Style.BAD, "error")


@page
def render_adoption(report: FileAdoption) -> Iterator[Block]:
    """The files below a prefix and their fate."""
    if not report.files:
        known = f"; {count(report.known, 'file')} there in its log" if report.known else ""
        yield line(f"nothing to add: no new Parquet file below {report.prefix!r} of {report.table_uri}{known}")
        return
    rows = tuple(
        (file.path, size(file.size), file.etag, file.rows, cell(file.refused, Style.BAD))
        for file in report.files[:FILES_SHOWN]
    )
    left = len(report.files) - len(rows)
    taken = [file for file in report.files if file.refused is None]
    done = Cell("not added", Style.DIM)
    if report.adopted:
        done = Cell(f"added in table version {report.table_version}", Style.GOOD)
    yield Heading(f"{report.table_uri}: files below {report.prefix!r} that are not in its log")
    yield tabulate(("~file", ">size", "?etag", ">rows", "=refused"), rows, f"and {left:,} more" if left else "")
    yield Gap()
    yield facts(
        ("files", f"{len(taken):,} of {len(report.files):,}"),
        ("size", size(sum(file.size for file in taken))),
        ("rows", sum(file.rows for file in taken)),
        ("in the log already", report.known),
        ("result", done),
    )
