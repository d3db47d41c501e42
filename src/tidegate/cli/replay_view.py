"""How a replay of a range is shown: its chunks before, and what became of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tidegate.cli.correction_view import noted
from tidegate.cli.pages import Block, Cell, Column, Facts, Gap, Heading, Line, Page, Style, Table, cell
from tidegate.observe.wording import count, duration
from tidegate.reports.correction import ChunkReport, ColumnReplayReport

CHUNKS_SHOWN = 12
_STYLES = {"done": Style.GOOD, "failed": Style.BAD, "skipped": Style.DIM, "planned": Style.NORMAL}


def render_range(report: ColumnReplayReport) -> Page:
    """What a replay means."""
    return tuple(_planned(report))


def _planned(report: ColumnReplayReport) -> Iterator[Block]:
    yield Heading(f"{report.pipeline}/{report.source}: replay of {report.column}")
    first, last = report.chunks[0], report.chunks[-1]
    counted = Counter(each.fate for each in report.chunks)
    finished = f", {counted['skipped']:,} of them finished before" if counted["skipped"] else ""
    yield Facts(
        (
            ("table", Cell(report.table_uri)),
            ("from", Cell(first.low, Style.STRONG)),
            ("up to", Cell(f"{last.high} (not included)", Style.STRONG)),
            ("reads", Cell(report.predicate)),
            ("chunks", Cell(f"{len(report.chunks):,}{finished}")),
        )
    )
    yield Gap()
    yield _table(report.chunks)
    yield from noted(report.notes)


def render_range_end(report: ColumnReplayReport) -> Page:
    """What came of it."""
    if not report.applied:
        return (Gap(), Line(Cell("nothing was changed", Style.DIM)))
    return tuple(_end(report))


def _end(report: ColumnReplayReport) -> Iterator[Block]:
    counted = Counter(each.fate for each in report.chunks)
    rows = count(sum(each.rows for each in report.chunks), "row")
    yield Gap()
    for each in report.chunks:
        if each.error:
            yield Line(Cell(f"{each.low} to {each.high}: {each.error}", Style.BAD), "failed")
    text = f"{count(counted['done'], 'chunk')} committed, {rows}, in {duration(report.seconds)}"
    left = counted["failed"] + counted["planned"]
    if left:
        yield Line(Cell(f"{text}; {count(left, 'chunk')} left: run the same replay again", Style.WARN))
    else:
        yield Line(Cell(text, Style.GOOD))
    if report.saved is not None:
        yield Line(Cell(f"production goes on at {report.saved}", Style.GOOD))


def _table(chunks: tuple[ChunkReport, ...]) -> Table:
    shown = chunks[:CHUNKS_SHOWN]
    rows = tuple((cell(each.low), cell(each.high), Cell(each.fate, _STYLES[each.fate])) for each in shown)
    left = len(chunks) - len(shown)
    footnote = f"… and {count(left, 'more chunk')}; --json lists all" if left else ""
    return Table((Column("from"), Column("up to"), Column("state")), rows, footnote)
