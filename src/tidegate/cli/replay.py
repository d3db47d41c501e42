"""``tidegate replay``: read chosen files, or a range of values, again and replace their rows."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import click

import tidegate
from tidegate.cli.invocation import Command, Confirmation, Decorated, Invocation, confirm_options, target, with_json
from tidegate.cli.watermark import fates
from tidegate.reports.page import (
    Block,
    Cell,
    Gap,
    Heading,
    Page,
    Style,
    facts,
    line,
    more,
    notes,
    page,
    source_name,
    tabulate,
)
from tidegate.reports.replay import ColumnReplayReport, ReplayReport
from tidegate.reports.wording import count, duration

CHUNKS_SHOWN = 12
_STYLES = {"done": Style.GOOD, "failed": Style.BAD, "skipped": Style.DIM, "planned": Style.NORMAL}

_RANGE = (
    click.option("--start", metavar="VALUE", help="First value of the range."),
    click.option("--end", metavar="VALUE", help="End of the range; this value is not included."),
    click.option("--chunk", metavar="UNIT=N", help="Size of a chunk: months=1, days=7, hours=6, step=100000 ..."),
    click.option("--chunk-column", metavar="COLUMN", help="Column of --start and --end, if not the watermark's."),
    click.option("--save-watermark", is_flag=True, help="Let runs continue where the finished chunks end."),
    click.option("--skip-gap", is_flag=True, help="With --save-watermark: even if no run read the rows below --start."),
    click.option("--allow-overlap", is_flag=True, help="Even if the next run would append these rows again."),
    click.option("--into", metavar="TABLE_URI", help="Write into another table."),
    click.option(
        "--workers",
        metavar="N",
        type=click.IntRange(1, 64),
        default=1,
        show_default=True,
        help="Chunks to read at once.",
    ),
    click.option("--fresh", is_flag=True, help="Start over instead of continuing an unfinished replay."),
    click.option("--again", is_flag=True, help="With --save-watermark: repeat a finished replay, skip no chunk."),
)


def _range_options(command: Decorated) -> Decorated:
    for option in reversed(_RANGE):
        command = option(command)
    return command


@click.command(
    cls=Command,
    examples=[
        "tidegate replay t.yml -p events --files 'date=2026-01-28/**/*.gz' --dry-run",
        "tidegate replay t.yml -p events --files date=2026-01-28/0007.ndjson.gz",
        "tidegate replay t.yml -p events -s asia --partition date=2026-01-28 --yes",
        "tidegate replay t.yml -p orders --start 2026-01-01 --end 2026-04-01",
    ],
)
@target(source="one")
@click.option("--files", metavar="PATTERN", help="Files that match this pattern (*, ?, [..], **).")
@click.option("--partition", metavar="DIR", help="Instead: all files below this directory of the source.")
@click.option("--drop-missing", is_flag=True, help="Also remove the rows of files that are gone.")
@_range_options
@confirm_options
@with_json
def replay(
    invocation: Invocation,
    /,
    config: Path,
    pipeline: str,
    source: str | None,
    dry_run: bool,
    yes: bool,
    files: str | None,
    partition: str | None,
    drop_missing: bool,
    **span: Any,
) -> int:
    """Read files or a range of values again and replace their rows.

    Files: one commit removes the old rows of these files and adds the new ones. It finds the old rows by the column
    _source_file (sink.metadata_columns). If a file cannot be read, nothing changes.

    A range, for column sources: from --start up to --end, in chunks, one commit per chunk. The same command continues
    an unfinished replay, and starts a finished one over; with --save-watermark it skips what the watermark covers.
    """
    if span["start"] is not None or span["end"] is not None:
        if files is not None or partition is not None:
            raise click.UsageError("give files or a range, not both")
        if span["start"] is None or span["end"] is None:
            raise click.UsageError("give both --start and --end")
        span["chunk"] = _interval(span["chunk"])
        span["max_workers"] = span.pop("workers")
        asked = Confirmation(invocation, "Read these chunks again?", render_range, dry_run, yes)
        with asked.progress() as (confirm, emit):
            chunks = tidegate.replay_range(
                config, pipeline, source, confirm=confirm, emit=emit, stop=threading.Event(), **span
            )
        return asked.give(chunks, render_range_end) or int(chunks.applied and not chunks.ok)
    if (files is None) == (partition is None):
        raise click.UsageError("give --files PATTERN or --partition DIR, or --start and --end")
    confirmation = Confirmation(invocation, "Replace these rows?", render_replay, dry_run, yes)
    with confirmation.progress() as (agrees, emit):
        chosen: dict[str, Any] = {"files": files, "partition": partition, "drop_missing": drop_missing}
        report = tidegate.replay(config, pipeline, source, confirm=agrees, emit=emit, stop=threading.Event(), **chosen)
    return confirmation.give(report, render_replay_end)


def _interval(text: str | None) -> dict[str, int | Decimal] | None:
    if text is None:
        return None
    unit, _, number = text.partition("=")
    try:
        size = Decimal(number)
    except InvalidOperation:
        raise click.UsageError(f"--chunk {text}: give UNIT=N, such as months=1") from None
    return {unit: int(size) if size == size.to_integral_value() else size}


# Files


@page
def render_replay(report: ReplayReport) -> Iterator[Block]:
    """The consequences of a replay of files."""
    yield Heading(f"{source_name(report)}: replay of {report.selected}")
    yield facts(("table", report.table_uri), ("rows to remove", f"{report.rows_removed:,}"))
    yield Gap()
    yield fates(
        ("read again: rows replaced", report.replayed, Style.STRONG),
        ("unfinished: left to the next run", report.left_to_run, Style.WARN),
        ("gone: rows removed" if report.drop_missing else "gone: rows kept", report.missing, Style.WARN),
    )
    yield from notes(report.notes)


def render_replay_end(report: ReplayReport) -> Page:
    """The result of a replay of files."""
    if not report.applied:
        return (Gap(), line("nothing was changed", Style.DIM))
    written = count(report.rows_written or 0, "row")
    text = (
        f"committed: {count(report.rows_removed, 'row')} replaced by {written} in {duration(report.seconds)}; "
        f"table version {report.table_version}"
    )
    return (Gap(), line(text, Style.GOOD))


# A range


@page
def render_range(report: ColumnReplayReport) -> Iterator[Block]:
    """The consequences of a replay of a range."""
    chunks = report.chunks
    finished = sum(each.fate == "skipped" for each in chunks)
    yield Heading(f"{source_name(report)}: replay of {report.column}")
    yield facts(
        ("table", report.table_uri),
        ("from", Cell(chunks[0].low, Style.STRONG)),
        ("up to", Cell(f"{chunks[-1].high} (not included)", Style.STRONG)),
        ("reads", report.predicate),
        ("chunks", f"{len(chunks):,}" + (f", {finished:,} already finished" if finished else "")),
    )
    rows = tuple((each.low, each.high, Cell(each.fate, _STYLES[each.fate])) for each in chunks[:CHUNKS_SHOWN])
    yield Gap()
    yield tabulate(("from", "up to", "state"), rows, more(len(chunks) - CHUNKS_SHOWN, "chunk"))
    yield from notes(report.notes)


@page
def render_range_end(report: ColumnReplayReport) -> Iterator[Block]:
    """The result of a replay of a range."""
    yield Gap()
    if not report.applied:
        yield line("nothing was changed", Style.DIM)
        return
    for each in report.chunks:
        if each.error:
            yield line(f"{each.low} to {each.high}: {each.error}", Style.BAD, "failed")
    fates = Counter(each.fate for each in report.chunks)
    rows = count(sum(each.rows for each in report.chunks), "row")
    text = f"{count(fates['done'], 'chunk')} committed, {rows}, in {duration(report.seconds)}"
    if fates["skipped"]:
        text = f"{text}; {count(fates['skipped'], 'chunk')} skipped"
    left = fates["failed"] + fates["planned"]
    if left:
        yield line(f"{text}; {count(left, 'chunk')} left: run the same replay again", Style.WARN)
    else:
        yield line(text, Style.GOOD)
    if report.saved is not None:
        yield line(f"runs continue at {report.saved}", Style.GOOD)
