"""How the ledger is shown: files with their commits, totals, and what is not known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from tidegate.cli.pages import Block, Cell, Column, Gap, Line, Page, Style, Table, cell
from tidegate.cli.status_view import moment
from tidegate.observe.wording import count, size
from tidegate.reports.ledger import FileRange, FilesReport, IngestedFile, LedgerCompaction, LedgerExport, LedgerGap

_COMMIT = (
    Column("committed"),
    Column("position", right=True),
    Column("table version", right=True),
    Column("action"),
)
_NUMBERS = (Column("records", right=True), Column("rows", right=True), Column("bad", right=True))


def render_files(report: FilesReport, *, ranges: bool = False) -> Page:
    """The files of a ledger; with ``ranges`` a line for each range that was committed by itself."""
    return tuple(_blocks(report, ranges))


def _blocks(report: FilesReport, ranges: bool) -> Iterator[Block]:
    several = len({(line.pipeline, line.source) for line in report.files}) > 1
    if report.files:
        yield _range_table(report.files, several) if ranges else _file_table(report.files, several)
        yield Gap()
    yield Line(Cell(_totals(report), Style.STRONG))
    if not report.complete:
        yield Line(Cell("older files are left out; --limit 0 shows all"), "note")
    yield from (Line(Cell(gap_text(each), Style.WARN), "gap") for each in report.gaps)
    yield from (Line(Cell(note, Style.WARN), "note") for note in report.notes)


def _totals(report: FilesReport) -> str:
    totals = report.totals
    if not totals.files:
        return "no file"
    bad = f", {totals.bad:,} bad" if totals.bad else ""
    return (
        f"{count(totals.files, 'file')} ({size(totals.bytes)}) in {count(totals.commits, 'commit')}: "
        f"{count(totals.records, 'record')}, {count(totals.rows, 'row')}{bad}"
    )


def gap_text(gap: LedgerGap) -> str:
    """What is not known, in words."""
    span = f"position {gap.first}" if gap.first == gap.last else f"positions {gap.first} to {gap.last}"
    return f"{gap.pipeline}/{gap.source}: what {span} covered is unknown: {gap.reason}"


def _file_table(files: Sequence[IngestedFile], several: bool) -> Table:
    columns = (Column("file"), *_COMMIT, Column("read"), *_NUMBERS)
    rows = tuple(
        (_name(line, several), *_commit(line), _progress(line), *_numbers(line.records, line.rows, line.bad))
        for line in files
    )
    return Table(columns, rows)


def _range_table(files: Sequence[IngestedFile], several: bool) -> Table:
    columns = (Column("file"), *_COMMIT, Column("from", right=True), Column("to", right=True), *_NUMBERS)
    rows = tuple(
        (
            _name(line, several),
            *_commit(each),
            Cell(f"{each.start:,}"),
            Cell(f"{each.end:,}" + ("" if each.eof else " …")),
            *_numbers(each.end - each.start, each.rows, each.bad),
        )
        for line in files
        for each in reversed(line.ranges)
    )
    return Table(columns, rows)


def _name(line: IngestedFile, several: bool) -> Cell:
    return Cell(f"{line.source}: {line.file}" if several else line.file)


def _commit(made: IngestedFile | FileRange) -> tuple[Cell, ...]:
    return (
        committed(made.committed_at),
        Cell(f"{made.position:,}"),
        cell(made.table_version),
        action(made.action),
    )


def committed(time: datetime | None) -> Cell:
    """When a commit was made."""
    return cell(moment(time) if time else None)


def action(name: str) -> Cell:
    """What made a commit; everything but an ordinary run stands out."""
    return Cell(name, Style.DIM if name == "run" else Style.NORMAL)


def _progress(line: IngestedFile) -> Cell:
    rounds = f" in {count(len(line.ranges), 'round')}" if len(line.ranges) > 1 else ""
    if line.finished:
        return Cell(f"whole{rounds}")
    newest, oldest = line.ranges[-1], line.ranges[0]
    if line.given_up:
        return Cell(f"given up at record {newest.end:,}" if newest.end else "given up", Style.BAD)
    if newest.eof:
        return Cell(f"from record {oldest.start:,}{rounds}")
    return Cell(f"up to record {newest.end:,}{rounds}", Style.WARN)


def _numbers(records: int, rows: int, bad: int) -> tuple[Cell, ...]:
    return Cell(f"{records:,}"), Cell(f"{rows:,}"), Cell(f"{bad:,}", Style.BAD if bad else Style.DIM)


def render_export(export: LedgerExport) -> Page:
    """What was written where."""
    text = f"{export.path}: {count(export.rows, 'row')}, the ledger of {count(export.sources, 'source')}"
    return (Line(Cell(text, Style.GOOD)),)


def render_compaction(done: Sequence[LedgerCompaction]) -> Page:
    """What the compaction did, per source."""
    return tuple(
        Line(
            Cell(
                f"{each.pipeline}/{each.source}: {count(each.blocks, 'block')} written, "
                f"{count(each.removed, 'object')} removed that a block holds"
                if each.blocks or each.removed
                else f"{each.pipeline}/{each.source}: nothing is due"
            )
        )
        for each in done
    )
