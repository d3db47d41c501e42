"""How corrections are shown: what moving a watermark or replaying files means, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.cli.pages import Block, Cell, Column, Facts, Gap, Heading, Line, Page, Style, Table, cell
from tidegate.observe.wording import count, duration, size
from tidegate.reports.correction import FileSet, ReplayReport, WatermarkMove
from tidegate.reports.units import UnitsMove

_COLUMNS = (Column("what becomes of them"), Column("files", right=True), Column("size", right=True), Column("such as"))


def render_move(move: WatermarkMove) -> Page:
    """What a moved watermark means."""
    return tuple(_move(move))


def _move(move: WatermarkMove) -> Iterator[Block]:
    yield Heading(f"{move.pipeline}/{move.source}: {move.action}")
    where = "the whole source" if move.partition is None else move.partition or "(top level)"
    yield Facts(
        (
            ("partition", Cell(where, Style.STRONG)),
            ("watermark", cell(move.before)),
            ("becomes", cell(move.after, Style.STRONG)),
        )
    )
    if move.tracking == "columns":
        yield from noted(move.notes)
        return
    yield Gap()
    yield Table(
        _COLUMNS,
        (
            _row("read again: doubled, if their rows are in the table", move.read_again, Style.BAD),
            _row("passed over: never read", move.never_read, Style.BAD),
        ),
    )
    yield from noted(move.notes)


def render_move_end(move: WatermarkMove | UnitsMove) -> Page:
    """What came of it."""
    if move.applied:
        text = f"committed: position {move.version}, table version {move.table_version}; no row was touched"
        return (Gap(), Line(Cell(text, Style.GOOD)))
    return (Gap(), Line(Cell(f"nothing was changed; position {move.version}", Style.DIM)))


def render_replay(report: ReplayReport) -> Page:
    """What a replay means."""
    return tuple(_replay(report))


def _replay(report: ReplayReport) -> Iterator[Block]:
    yield Heading(f"{report.pipeline}/{report.source}: replay of {report.selected}")
    yield Facts((("table", Cell(report.table_uri)), ("rows that leave", Cell(f"{report.rows_removed:,}"))))
    yield Gap()
    gone = "gone: rows removed" if report.drop_missing else "gone: rows stay"
    yield Table(
        _COLUMNS,
        (
            _row("read again: rows replaced", report.replayed, Style.STRONG),
            _row("not finished: left to run", report.left_to_run, Style.WARN),
            _row(gone, report.missing, Style.WARN),
        ),
    )
    yield from noted(report.notes)


def render_replay_end(report: ReplayReport) -> Page:
    """What came of it."""
    if not report.applied:
        return (Gap(), Line(Cell(f"nothing was changed; position {report.version}", Style.DIM)))
    written = count(report.rows_written or 0, "row")
    text = (
        f"committed: {count(report.rows_removed, 'row')} replaced by {written} in {duration(report.seconds)}; "
        f"position {report.version}, table version {report.table_version}"
    )
    return (Gap(), Line(Cell(text, Style.GOOD)))


def _row(label: str, found: FileSet, style: Style) -> tuple[Cell, ...]:
    if not found.files:
        return Cell(label), cell(None), cell(None), cell(None)
    more = ", ..." if found.files > len(found.examples) else ""
    bytes_ = Cell(size(found.bytes)) if found.bytes else cell(None)
    return Cell(label), Cell(f"{found.files:,}", style), bytes_, Cell(", ".join(found.examples) + more)


def noted(notes: tuple[str, ...]) -> Iterator[Block]:
    """Remarks below a page."""
    if notes:
        yield Gap()
    yield from (Line(Cell(note, Style.WARN), "note") for note in notes)
