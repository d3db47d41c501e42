"""How an adoption is shown: what was read, what it becomes, and what the old program may have left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from tidegate.cli.pages import Block, Cell, Column, Facts, Gap, Heading, Line, Page, Style, Table, cell
from tidegate.cli.status_view import moment, state_cell
from tidegate.observe.wording import count
from tidegate.reports.run import Adoption

ROWS_SHOWN = 20
_STYLES = {"ok": Style.NORMAL, "warn": Style.WARN, "fail": Style.BAD}


def render_adoptions(reports: Sequence[Adoption]) -> Page:
    """All sources, one section each."""
    sections = [tuple(_section(each)) for each in reports]
    return tuple(chain(sections[0], *((Gap(), *section) for section in sections[1:])))


def _section(report: Adoption) -> Iterator[Block]:
    yield Heading(f"{report.pipeline}/{report.source}")
    if report.trace:
        yield Facts(
            (
                ("found", Cell(report.trace)),
                ("form", Cell(report.form)),
                ("written", cell(moment(report.written) if report.written else None)),
                ("state", state_cell(report.state)),
                ("watermark", cell(report.watermark, Style.STRONG)),
                ("finished up to", cell(report.last_committed_file)),
                ("read next", Cell(count(report.next_files, "file"))),
            )
        )
        yield from _table("partition", "finished up to", dict(sorted(report.partitions.items(), reverse=True)))
        read = {path: f"{count(records, 'record')} read" for path, records in report.in_progress.items()}
        yield from _table("file", "in progress", read)
    if report.findings:
        yield Gap()
    for each in report.findings:
        remedy = f"; {each.remedy}" if each.remedy else ""
        yield Line(Cell(f"{each.detail}{remedy}", _STYLES[each.verdict]), each.name)
    yield Gap()
    yield _end(report)


def _table(first: str, second: str, entries: dict[str, str]) -> Iterator[Block]:
    if not entries:
        return
    shown = tuple((cell(name or "(top level)"), Cell(text)) for name, text in list(entries.items())[:ROWS_SHOWN])
    left = len(entries) - len(shown)
    yield Gap()
    yield Table((Column(first), Column(second)), shown, f"… and {left:,} more; --json lists all" if left else "")


def _end(report: Adoption) -> Line:
    if report.error:
        return Line(Cell(report.error, Style.BAD), "not taken over")
    if report.adopted:
        text = f"taken over as position {report.version}, table version {report.table_version}; no row was touched"
        return Line(Cell(text, Style.GOOD))
    if report.version:
        return Line(Cell("nothing to do", Style.GOOD))
    return Line(Cell("nothing was written yet", Style.WARN))
