"""``tidegate files``: the ledger of ingested files, its export and its compaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

import tidegate
from tidegate.cli.invocation import Command, Invocation, Moment, limit_option, target, with_json
from tidegate.reports.ledger import FileRange, FilesReport, IngestedFile, LedgerCompaction, LedgerExport, LedgerGap
from tidegate.reports.page import Block, Cell, Gap, Page, Row, Style, Table, cell, line, page, source_name, tabulate
from tidegate.reports.wording import count, size

_COMMIT = ("~file", "?committed", "?>commit", "?>table version", "?action")
_NUMBERS = ("?>records", ">rows", ">bad")


@click.command(
    cls=Command,
    examples=[
        "tidegate files pipelines.yml -p events",
        "tidegate files pipelines.yml -p events --match 'date=2026-01-28/*'",
        "tidegate files pipelines.yml -p events --since 24h --limit 0 --json",
        "tidegate files pipelines.yml -p events --export ledger.parquet",
    ],
)
@target(source="all")
@click.option("--match", metavar="GLOB", help="Only files that match (*, ?, [..], **).")
@click.option("--since", metavar="MOMENT", type=Moment(), help="Committed since: a date, a time, 90m, 12h, 7d.")
@click.option("--position", metavar="N", type=click.IntRange(min=1), help="Only files of this commit.")
@limit_option(50)
@click.option("--ranges", is_flag=True, help="Show each range of a file on a row of its own.")
@click.option(
    "--export",
    "target",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the whole ledger to a Parquet file.",
)
@click.option("--compact", is_flag=True, help="Gather old documents of the ledger into blocks now.")
@with_json
def files(
    invocation: Invocation,
    /,
    config: Path,
    pipeline: str,
    source: str | None,
    ranges: bool,
    target: Path | None,
    compact: bool,
    **query: Any,
) -> None:
    """Show which file was ingested when, and by which commit.

    Newest first, with the number of records, rows and dead letters. Does not start Spark or list the source.
    """
    if (target or compact) and (_narrows(query) or ranges or (target and compact)):
        raise click.UsageError("--export and --compact work on the whole ledger: give them alone")
    if target is not None:
        invocation.give(tidegate.export_ledger(config, pipeline, source, to=target), _export)
    elif compact:
        invocation.give_each("sources", tidegate.compact_ledger(config, pipeline, source), _compaction)
    else:
        report = tidegate.files(config, pipeline, source, **query)
        invocation.give(report, lambda report: render_files(report, ranges=ranges))


def _narrows(query: dict[str, Any]) -> bool:
    return any(query[each] is not None for each in ("match", "since", "position"))


@page
def render_files(report: FilesReport, *, ranges: bool = False) -> Iterator[Block]:
    """The files of a ledger; with ``ranges`` one row for each range that was committed separately."""
    several = len({source_name(each) for each in report.files}) > 1
    if report.files:
        yield _range_table(report.files, several) if ranges else _file_table(report.files, several)
        yield Gap()
    yield line(_totals(report), Style.STRONG)
    if not report.complete:
        yield line("older files omitted; --limit 0 shows all", label="note")
    yield from (line(_gap(each), Style.WARN, "gap") for each in report.gaps)
    yield from (line(note, Style.WARN, "note") for note in report.notes)


def _totals(report: FilesReport) -> str:
    totals = report.totals
    if not totals.files:
        return "no files"
    bad = f", {totals.bad:,} bad" if totals.bad else ""
    return (
        f"{count(totals.files, 'file')} ({size(totals.bytes)}) in {count(totals.commits, 'commit')}: "
        f"{count(totals.records, 'record')}, {count(totals.rows, 'row')}{bad}"
    )


def _gap(gap: LedgerGap) -> str:
    span = f"commit {gap.first}" if gap.first == gap.last else f"commits {gap.first} to {gap.last}"
    return f"{source_name(gap)}: files of {span} unknown: {gap.reason}"


def _file_table(files: Sequence[IngestedFile], several: bool) -> Table:
    rows = tuple(
        (_name(each, several), *_commit(each), _progress(each), *_numbers(each.records, each.rows, each.bad))
        for each in files
    )
    return tabulate((*_COMMIT, "=read", *_NUMBERS), rows)


def _range_table(files: Sequence[IngestedFile], several: bool) -> Table:
    rows = tuple(
        (
            _name(file, several),
            *_commit(each),
            each.start,
            f"{each.end:,}" + ("" if each.eof else " …"),
            *_numbers(each.end - each.start, each.rows, each.bad),
        )
        for file in files
        for each in reversed(file.ranges)
    )
    return tabulate((*_COMMIT, ">from", ">to", *_NUMBERS), rows)


def _name(file: IngestedFile, several: bool) -> Cell:
    return Cell(f"{file.source}: {file.file}" if several else file.file)


def _commit(made: IngestedFile | FileRange) -> Row:
    version = None if made.table_version is None else str(made.table_version)
    return made.committed_at, made.position, version, action_cell(made.action)


def action_cell(action: str) -> Cell:
    """The kind of commit; anything but an ordinary run stands out."""
    return Cell(action, Style.DIM if action == "run" else Style.NORMAL)


def _progress(file: IngestedFile) -> Cell:
    rounds = f" in {count(len(file.ranges), 'round')}" if len(file.ranges) > 1 else ""
    if file.finished:
        return Cell(f"whole{rounds}")
    newest, oldest = file.ranges[-1], file.ranges[0]
    if file.given_up:
        return Cell(f"given up at record {newest.end:,}" if newest.end else "given up", Style.BAD)
    if newest.eof:
        return Cell(f"from record {oldest.start:,}{rounds}")
    return Cell(f"up to record {newest.end:,}{rounds}", Style.WARN)


def _numbers(records: int, rows: int, bad: int) -> Row:
    return records, rows, cell(bad, Style.BAD if bad else Style.DIM)


def _export(export: LedgerExport) -> Page:
    text = f"{export.path}: {count(export.rows, 'row')}, the ledger of {count(export.sources, 'source')}"
    return (line(text, Style.GOOD),)


@page
def _compaction(done: Sequence[LedgerCompaction]) -> Iterator[Block]:
    for each in done:
        what = f"{count(each.blocks, 'block')} written, {count(each.removed, 'object')} removed, now in blocks"
        yield line(f"{source_name(each)}: {what if each.blocks or each.removed else 'nothing to do'}")
