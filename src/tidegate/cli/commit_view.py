"""How a committer's report and a list of files to adopt are shown."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.cli.pages import Block, Cell, Column, Facts, Gap, Heading, Line, Page, Style, Table, cell
from tidegate.observe.wording import count, duration, size
from tidegate.reports.staging import CommitReport, FileAdoption, TableCommit

SHOWN_FILES = 100

_COLUMNS = (
    Column("source"),
    Column("position", right=True),
    Column("units", right=True),
    Column("rows", right=True),
    Column("waiting", right=True),
)
_FILES = (Column("file"), Column("size", right=True), Column("etag"), Column("rows", right=True), Column("refused"))


def render_commit(report: CommitReport) -> Page:
    """The whole report."""
    blocks = (block for table in report.tables for block in _table(table))
    return (*blocks, Facts((("result", _result(report)),)))


def _result(report: CommitReport) -> Cell:
    rows = count(sum(table.rows for table in report.tables), "row")
    commits = count(sum(table.commits for table in report.tables), "commit")
    told = f"{rows} by {commits} in {duration(report.seconds)}"
    return Cell(told, Style.GOOD) if report.ok else Cell(f"not everything was committed; {told}", Style.BAD)


def _table(table: TableCommit) -> Iterator[Block]:
    yield Heading(table.table_uri)
    if table.sources:
        rows = (
            (
                Cell(f"{each.pipeline}/{each.source}", Style.STRONG),
                Cell(f"{each.position:,}"),
                Cell(f"{each.units:,}"),
                Cell(f"{each.rows:,}"),
                Cell(f"{each.waiting:,}", Style.WARN) if each.waiting else cell(None),
            )
            for each in table.sources
        )
        yield Table(_COLUMNS, tuple(rows))
    yield from _notes(table)
    yield Gap()


def _notes(table: TableCommit) -> Iterator[Line]:
    told = (
        (table.foreign, "file", "of foreign writers committed"),
        (table.duplicates, "meta", "dropped: others name the same files, or did before"),
        (table.dropped, "unit", "dropped: their numbers were committed before"),
        (table.unknown, "unit", "left alone: the configuration does not have their source"),
        (table.aging, "unit", "had waited so long that a VACUUM could take their files"),
    )
    for number, noun, text in told:
        if number:
            yield Line(Cell(f"{count(number, noun)} {text}"), "note")
    for each in table.rejected:
        yield Line(Cell(f"{each.path}: {each.reason}", Style.BAD), "rejected")
    for source in table.sources:
        if source.error:
            yield Line(Cell(f"{source.pipeline}/{source.source}: {source.error}", Style.BAD), "error")
    if table.error:
        yield Line(Cell(table.error, Style.BAD), "error")


def render_adoption(report: FileAdoption) -> Page:
    """The files below a prefix, and what became of them."""
    shown = report.files[:SHOWN_FILES]
    more = len(report.files) - len(shown)
    rows = tuple(
        (
            Cell(file.path),
            Cell(size(file.size)),
            cell(file.etag),
            Cell(f"{file.rows:,}"),
            cell(file.refused, Style.BAD),
        )
        for file in shown
    )
    taken = [file for file in report.files if file.refused is None]
    if not report.files:
        known = f"; {count(report.known, 'file')} there in its log" if report.known else ""
        return (Line(Cell(f"no Parquet file below {report.prefix!r} of {report.table_uri} to add{known}")),)
    done = Cell("not added", Style.DIM)
    if report.adopted:
        done = Cell(f"added in table version {report.table_version}", Style.GOOD)
    return (
        Heading(f"{report.table_uri}: files below {report.prefix!r} that are not in its log"),
        Table(_FILES, rows, f"and {more:,} more" if more else ""),
        Gap(),
        Facts(
            (
                ("files", Cell(f"{len(taken):,} of {len(report.files):,}")),
                ("size", Cell(size(sum(file.size for file in taken)))),
                ("rows", Cell(f"{sum(file.rows for file in taken):,}")),
                ("in the log already", Cell(f"{report.known:,}")),
                ("result", done),
            )
        ),
    )
