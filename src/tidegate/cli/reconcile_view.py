"""How a comparison is shown: the sources, the tables, then what was found by name and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from tidegate.cli.pages import Block, Cell, Column, Facts, Gap, Heading, Line, Page, Style, Table, cell
from tidegate.observe.wording import count, duration, size
from tidegate.reports.correction import FoundDataFiles, FoundFiles, ReconcileReport, SourceComparison, TableComparison

SHOWN = 20

_SOURCES = (
    Column("source"),
    Column("listed", right=True),
    Column("ingested", right=True),
    Column("late", right=True),
    Column("changed", right=True),
    Column("waiting", right=True),
    Column("unfinished", right=True),
    Column("given up", right=True),
    Column("gone", right=True),
)
_TABLES = (
    Column("table"),
    Column("data files", right=True),
    Column("orphans", right=True),
    Column("size", right=True),
    Column("oldest", right=True),
    Column("young", right=True),
    Column("removed", right=True),
)


def render_reconcile(report: ReconcileReport, now: datetime | None = None) -> Page:
    """The whole report."""
    return tuple(_blocks(report, now or datetime.now(UTC)))


def _blocks(report: ReconcileReport, now: datetime) -> Iterator[Block]:
    yield Table(_SOURCES, tuple(map(_source_row, report.sources)))
    yield Gap()
    yield Table(_TABLES, tuple(_table_row(each, now) for each in report.tables))
    for source in report.sources:
        yield from _source_details(source)
    for table in report.tables:
        yield from _table_details(table, now)
    yield Gap()
    yield Facts((("result", _result(report)),))


def _source_row(source: SourceComparison) -> tuple[Cell, ...]:
    name = Cell(f"{source.pipeline}/{source.source}", Style.STRONG)
    if source.error:
        return (name, Cell("failed", Style.BAD), *(cell(None) for _ in _SOURCES[2:]))
    if not source.compared:
        return (name, Cell("not compared"), *(cell(None) for _ in _SOURCES[2:]))
    return (
        name,
        Cell(f"{source.listed.count:,}"),
        Cell(f"{source.ingested:,}"),
        _number(source.late.count, Style.BAD),
        _number(source.changed.count, Style.BAD),
        _number(source.waiting.count),
        _number(source.unfinished.count, Style.WARN),
        _number(source.given_up.count + source.repaired.count, Style.WARN),
        _number(source.gone.count),
    )


def _table_row(table: TableComparison, now: datetime) -> tuple[Cell, ...]:
    name = Cell(table.table_uri, Style.STRONG)
    if table.error:
        return (name, Cell("failed", Style.BAD), *(cell(None) for _ in _TABLES[2:]))
    orphans = table.orphans
    return (
        name,
        Cell(f"{table.data_files:,}"),
        _number(orphans.count, Style.WARN),
        cell(size(orphans.bytes) if orphans.count else None),
        cell(_age(orphans.oldest, now) if orphans.oldest else None),
        _number(table.young.count),
        _number(table.removed.count, Style.GOOD),
    )


def _number(number: int, style: Style = Style.NORMAL) -> Cell:
    return Cell(f"{number:,}", style) if number else cell(None)


def _age(moment: datetime, now: datetime) -> str:
    return duration((now - moment).total_seconds())


def _source_details(source: SourceComparison) -> Iterator[Block]:
    name = f"{source.pipeline}/{source.source}"
    if source.ingested_files or source.commits:
        read = f"{count(source.ingested_files, 'late file')} read, {count(source.ingested_rows, 'row')}"
        yield Gap()
        yield Line(Cell(f"{name}: {read} in {count(source.commits, 'commit')}", Style.GOOD))
    yield from _named(f"{name}: late, and read by no run", source.late, "read them with --ingest")
    yield from _named(
        f"{name}: changed after they were read",
        source.changed,
        "the table has what they were; replay them, or leave it",
    )
    yield from _named(
        f"{name}: changed after they were given up",
        source.repaired,
        "`tidegate dlq retry` reads them as they are now; where a part is in the table, `tidegate replay` replaces it",
    )
    yield from _named(f"{name}: the ledger cannot tell whether they are in", source.unexplained, "")
    lines = [Line(Cell(f"{name}: {path.path}: {path.reason}", Style.BAD), "failed") for path in source.failed[:SHOWN]]
    if source.excluded.count:
        told = f"{name}: {count(source.excluded.count, 'file')} older than where partition_filter let this source begin"
        lines.append(Line(Cell(told), "note"))
    lines.extend(Line(Cell(f"{name}: {note}", Style.WARN), "note") for note in source.notes)
    if source.error:
        lines.append(Line(Cell(f"{name}: {source.error}", Style.BAD), "error"))
    if lines:
        yield Gap()
        yield from lines


def _named(title: str, found: FoundFiles, remedy: str) -> Iterator[Block]:
    if not found.count:
        return
    yield Gap()
    yield Heading(f"{title}: {count(found.count, 'file')}, {size(found.bytes)}")
    yield from (Line(Cell(name)) for name in found.names[:SHOWN])
    yield from _rest(found.count, remedy)


def _rest(number: int, remedy: str) -> Iterator[Block]:
    if number > SHOWN:
        yield Line(Cell(f"… and {number - SHOWN:,} more; --json names up to 10,000", Style.DIM))
    if remedy:
        yield Line(Cell(remedy), "remedy")


def _table_details(table: TableComparison, now: datetime) -> Iterator[Block]:
    remedy = "remove them with --clean"
    yield from _listed(f"{table.table_uri}: orphans, in no commit", table.orphans, now, remedy)
    yield from _listed(f"{table.table_uri}: removed", table.removed, now, "")
    notes: Sequence[Line] = [Line(Cell(note), "note") for note in table.notes]
    if table.fenced:
        notes = [*notes, Line(Cell(f"fenced by an empty commit: {', '.join(table.fenced)}"), "note")]
    if table.error:
        notes = [*notes, Line(Cell(table.error, Style.BAD), "error")]
    if notes:
        yield Gap()
        yield from notes


def _listed(title: str, files: FoundDataFiles, now: datetime, remedy: str) -> Iterator[Block]:
    if not files.count:
        return
    yield Gap()
    yield Heading(f"{title}: {count(files.count, 'file')}, {size(files.bytes)}")
    rows = tuple(
        (Cell(each.path), Cell(size(each.size)), Cell(_age(each.modified, now))) for each in files.files[:SHOWN]
    )
    yield Table((Column("file"), Column("size", right=True), Column("age", right=True)), rows)
    yield from _rest(files.count, remedy)


def _result(report: ReconcileReport) -> Cell:
    took = duration(report.seconds)
    if report.ok:
        return Cell(f"all is well; compared in {took}", Style.GOOD)
    return Cell(f"something needs you; compared in {took}", Style.BAD)
