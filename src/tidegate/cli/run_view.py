"""How a run's report is shown: one row per source, then what failed and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from tidegate.cli.pages import Block, Cell, Column, Facts, Gap, Line, Page, Style, Table, cell
from tidegate.cli.status_view import failed_lines, state_cell
from tidegate.observe.wording import count, duration, size
from tidegate.reports.run import RunReport, SourceReport

FIELDS_SHOWN = 5
UNITS_SHOWN = 10
_COLUMNS = (
    Column("source"),
    Column("state"),
    Column("files", right=True),
    Column("size", right=True),
    Column("rows", right=True),
    Column("commits", right=True),
    Column("failed", right=True),
    Column("time", right=True),
)


def render_run(report: RunReport, config: str = "CONFIG") -> Page:
    """The whole report; hints name the commands for this configuration."""
    if not report.sources:
        return (Line(Cell("nothing to run: no source was selected")),)
    return tuple(_blocks(report, config))


def _blocks(report: RunReport, config: str) -> Iterator[Block]:
    yield Table(_COLUMNS, tuple(map(_row, report.sources)))
    yield Gap()
    yield Facts(
        (
            *((f"watermark of {_name(each)}", cell(each.watermark)) for each in report.sources),
            ("result", _result(report)),
        )
    )
    troubles = tuple(_troubles(report.sources, config))
    if troubles:
        yield Gap()
        yield from troubles


def _name(source: SourceReport) -> str:
    return f"{source.pipeline}/{source.source}"


def _row(source: SourceReport) -> tuple[Cell, ...]:
    number = len(source.failed) + len(source.failed_units)
    failed = Cell(f"{number:,}", Style.BAD) if number else cell(None)
    is_units = bool(source.work_units or source.failed_units)
    return (
        Cell(_name(source), Style.STRONG),
        Cell("failed", Style.BAD) if source.error else state_cell(source.state),
        Cell(count(source.work_units, "unit") if is_units else f"{source.files:,}"),
        cell(None) if is_units else Cell(size(source.bytes)),
        Cell(f"{source.rows:,}"),
        Cell(f"{source.staged:,} staged" if source.staged else f"{source.commits:,}"),
        failed,
        Cell(duration(source.seconds)),
    )


def _result(report: RunReport) -> Cell:
    took = duration(report.seconds)
    rows = count(sum(source.rows for source in report.sources), "row")
    if report.ok:
        return Cell(f"{rows} in {took}", Style.GOOD)
    return Cell(f"not everything succeeded; {rows} in {took}", Style.BAD)


def _troubles(sources: Sequence[SourceReport], config: str) -> Iterator[Line]:
    for source in sources:
        yield from failed_lines(_name(source), source.failed)
        yield from _failed_units(source, config)
        if source.bad_records or source.dead_files:
            letters = [(source.bad_records, "bad record"), (source.dead_files, "file")]
            told = " and ".join(count(number, word) for number, word in letters if number)
            hint = f"tidegate dlq list {config} -p {source.pipeline}"
            yield Line(Cell(f"{_name(source)}: {told} became dead letters ({hint})", Style.WARN), "note")
        if source.staged:
            hint = f"tidegate commit {config}"
            yield Line(Cell(f"{_name(source)}: {count(source.staged, 'unit')} staged, waiting for `{hint}`"), "note")
        if source.unknown_fields:
            fields = count(len(source.unknown_fields), "field")
            most = ", ".join(islice(source.unknown_fields, FIELDS_SHOWN))
            yield Line(Cell(f"{_name(source)}: {fields} that fit no column, e.g. {most}"), "note")
        for reason, number in source.skipped:
            told = "left to another run that is at work" if reason == "another_run" else f"{number:,} skipped: {reason}"
            yield Line(Cell(f"{_name(source)}: {told}"), "note")
        if source.error:
            yield Line(Cell(f"{_name(source)}: {source.error}", Style.BAD), "error")


def _failed_units(source: SourceReport, config: str) -> Iterator[Line]:
    for each in source.failed_units[:UNITS_SHOWN]:
        unit = f"{each.unit} from {each.start}" if each.unit else f"from {each.start}"
        tries = f" ({each.failures:,} times in a row)" if each.failures > 1 else ""
        yield Line(Cell(f"{_name(source)}: work unit {unit} failed{tries}: {each.reason}", Style.BAD), "error")
    left = len(source.failed_units) - UNITS_SHOWN
    if left > 0:
        hint = f"tidegate units list {config} -p {source.pipeline} --failed"
        yield Line(Cell(f"{_name(source)}: {left:,} more work units failed ({hint})", Style.BAD), "error")
