"""``tidegate reconcile``: compare all files of sources and tables with what was committed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import click

import tidegate
from tidegate.cli.invocation import Age, Command, Invocation, exit_code, target, with_json
from tidegate.reports.page import (
    Block,
    Cell,
    Gap,
    Heading,
    Line,
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
from tidegate.reports.reconcile import FoundDataFiles, FoundFiles, ReconcileReport, SourceComparison, TableComparison
from tidegate.reports.wording import count, duration, size

SHOWN = 20

_SOURCES = ("~source", ">listed", ">ingested", ">late", ">changed", ">waiting", "?>unfinished", "?>given up", "?>gone")
_TABLES = ("~table", ">data files", ">orphans", "?>size", "?>oldest", "?>young", "?>removed")


@click.command(
    cls=Command,
    examples=[
        "tidegate reconcile pipelines.yml",
        "tidegate reconcile pipelines.yml -p events -s asia --ingest",
        "tidegate reconcile pipelines.yml --clean --older-than 7d",
        "tidegate reconcile pipelines.yml --json | jq '.sources[].late'",
    ],
)
@target(pipeline="all", source="all")
@click.option("--ingest", is_flag=True, help="Read the late files, each exactly once.")
@click.option("--clean", is_flag=True, help="Remove orphaned data files of the tables.")
@click.option(
    "--older-than",
    type=Age(),
    default="24h",
    metavar="DURATION",
    help="Age from which a data file is an orphan, such as 36h or 7d (default: 24h).",
)
@click.option("--force", is_flag=True, help="With --clean: allow an age below 24h.")
@with_json
def reconcile(invocation: Invocation, /, ingest: bool, clean: bool, force: bool, **given: Any) -> int:
    """Compare all files with what was committed.

    Lists every source and table in the YAML file CONFIG completely. Finds files that came late, files that changed
    after they were read, and data files that no commit names. Writes nothing without --ingest or --clean. Exits with 0
    if everything is in order or was repaired, else with 1.
    """
    if ingest and clean:
        raise click.UsageError("--ingest and --clean do not work together: run one after the other")
    if force and not clean:
        raise click.UsageError("--force works only with --clean")
    stop = threading.Event()
    with invocation.emitter(result_follows=True) as emit:
        report = tidegate.reconcile(ingest=ingest, clean=clean, force=force, emit=emit, stop=stop, **given)
    invocation.give(report, render_reconcile)
    compared: tuple[SourceComparison | TableComparison, ...] = (*report.sources, *report.tables)
    codes = {each.exit_code or 1 for each in compared if each.needs_someone}
    return exit_code(ok=report.ok, codes=codes, stopped=stop.is_set())


@page
def render_reconcile(report: ReconcileReport) -> Iterator[Block]:
    """The sources, the tables, then the findings by name with their remedies."""
    now = datetime.now(UTC)
    yield tabulate(_SOURCES, map(_source_row, report.sources))
    yield Gap()
    yield tabulate(_TABLES, (_table_row(each, now) for each in report.tables))
    for source in report.sources:
        yield from _source_details(source)
    for table in report.tables:
        yield from _table_details(table, now)
    yield Gap()
    took = f"compared in {duration(report.seconds)}"
    well = Cell(f"all is well; {took}", Style.GOOD)
    yield facts(("result", well if report.ok else Cell(f"something needs attention; {took}", Style.BAD)))


def _source_row(source: SourceComparison) -> Row:
    name = Cell(source_name(source), Style.STRONG)
    if source.error or not source.compared:
        word = Cell("failed", Style.BAD) if source.error else "not compared"
        return (name, word, *[None] * len(_SOURCES[2:]))
    return (
        name,
        source.listed.count,
        source.ingested,
        cell(source.late.count or None, Style.BAD),
        cell(source.changed.count or None, Style.BAD),
        source.waiting.count or None,
        cell(source.unfinished.count or None, Style.WARN),
        cell(source.given_up.count + source.repaired.count or None, Style.WARN),
        source.gone.count or None,
    )


def _table_row(table: TableComparison, now: datetime) -> Row:
    name = Cell(table.table_uri, Style.STRONG)
    if table.error:
        return (name, Cell("failed", Style.BAD), *[None] * len(_TABLES[2:]))
    orphans = table.orphans
    return (
        name,
        table.data_files,
        cell(orphans.count or None, Style.WARN),
        size(orphans.bytes) if orphans.count else None,
        orphans.oldest and _age(orphans.oldest, now),
        table.young.count or None,
        cell(table.removed.count or None, Style.GOOD),
    )


def _age(moment: datetime, now: datetime) -> str:
    return duration((now - moment).total_seconds())


def _source_details(source: SourceComparison) -> Iterator[Block]:
    name = source_name(source)
    if source.ingested_files or source.commits:
        read = f"{count(source.ingested_files, 'late file')} read, {count(source.ingested_rows, 'row')}"
        yield Gap()
        yield line(f"{name}: {read} in {count(source.commits, 'commit')}", Style.GOOD)
    yield from _named(f"{name}: late, not read by any run", source.late, "read them with --ingest")
    remedy = "the table has their old rows; replay the files, or leave them"
    yield from _named(f"{name}: changed after they were read", source.changed, remedy)
    remedy = (
        "`tidegate dlq retry` reads them as they are now; where a part is in the table, `tidegate replay` replaces it"
    )
    yield from _named(f"{name}: changed after they were given up", source.repaired, remedy)
    yield from _named(f"{name}: the ledger does not say whether they were read", source.unexplained)
    yield from after_gap(_source_lines(source, name))


def _source_lines(source: SourceComparison, name: str) -> Iterator[Line]:
    yield from (line(f"{name}: {each.path}: {each.reason}", Style.BAD, "failed") for each in source.failed[:SHOWN])
    if source.excluded.count:
        files = count(source.excluded.count, "file")
        yield line(f"{name}: {files} older than the start that partition_filter set", label="note")
    yield from (line(f"{name}: {note}", Style.WARN, "note") for note in (*map(str, source.future_seals), *source.notes))
    if source.error:
        yield line(f"{name}: {source.error}", Style.BAD, "error")


def _named(title: str, found: FoundFiles, remedy: str = "") -> Iterator[Block]:
    if found.count:
        yield from _found(title, found, (line(name) for name in found.names[:SHOWN]), remedy)


def _found(title: str, found: FoundFiles | FoundDataFiles, shown: Iterator[Block], remedy: str) -> Iterator[Block]:
    """A heading, examples of the files, how many more there are, and the remedy."""
    yield Gap()
    yield Heading(f"{title}: {count(found.count, 'file')}, {size(found.bytes)}")
    yield from shown
    if found.count > SHOWN:
        yield line(f"… and {found.count - SHOWN:,} more; --json names up to 10,000", Style.DIM)
    if remedy:
        yield line(remedy, label="remedy")


def _table_details(table: TableComparison, now: datetime) -> Iterator[Block]:
    yield from _listed(f"{table.table_uri}: orphans, in no commit", table.orphans, now, "remove them with --clean")
    yield from _listed(f"{table.table_uri}: removed", table.removed, now)
    lines = [line(note, label="note") for note in table.notes]
    if table.fenced:
        lines.append(line(f"fenced by an empty commit: {', '.join(table.fenced)}", label="note"))
    if table.error:
        lines.append(line(table.error, Style.BAD, "error"))
    yield from after_gap(lines)


def _listed(title: str, found: FoundDataFiles, now: datetime, remedy: str = "") -> Iterator[Block]:
    if found.count:
        rows = tuple((each.path, size(each.size), _age(each.modified, now)) for each in found.files[:SHOWN])
        yield from _found(title, found, iter((tabulate(("~file", ">size", ">age"), rows),)), remedy)
