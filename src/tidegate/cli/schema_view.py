"""How columns are shown: what was seen of them, what is known, what changes."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.cli.correction_view import noted
from tidegate.cli.pages import Block, Cell, Column, Facts, Gap, Heading, Line, Page, Style, Table, cell
from tidegate.observe.wording import count, duration, size
from tidegate.reports.schema import ColumnSeen, SchemaChange, SchemaDiff, SchemaInference, SchemaView, TableRewrite

_SURE = {"high": Style.GOOD, "low": Style.WARN, "none": Style.BAD}


def render_inference(report: SchemaInference) -> Page:
    """What a sample says."""
    return tuple(_inference(report))


def _inference(report: SchemaInference) -> Iterator[Block]:
    yield Heading(
        f"{report.pipeline}/{report.source}: {count(report.records, 'record')} of {count(report.files, 'file')}"
    )
    titles = (Column("field"), Column("type"), Column("sure"), Column("values", right=True), Column("null", right=True))
    yield Table((*titles, Column("absent", right=True), Column("seen as")), tuple(map(_seen, report.columns)))
    for problem in report.problems:
        yield Line(Cell(problem, Style.BAD), "problem")
    if report.unreadable:
        yield Line(Cell(f"not readable in the sample: {count(report.unreadable, 'record')}", Style.WARN), "note")
    if report.new:
        yield Line(Cell(f"not in the remembered schema: {', '.join(report.new)}", Style.WARN), "note")


def _example(column: ColumnSeen, kind: str) -> str:
    return f" ({column.examples[kind]})" if kind in column.examples else ""


def _seen(column: ColumnSeen) -> tuple[Cell, ...]:
    kinds = ", ".join(f"{number:,} {kind}{_example(column, kind)}" for kind, number in column.kinds.items())
    note = f"; {column.note}" if column.note and len(column.kinds) < 2 else ""
    return (
        Cell(column.path, Style.STRONG),
        Cell(column.type),
        Cell(column.confidence, _SURE[column.confidence]),
        Cell(f"{column.seen:,}"),
        Cell(f"{column.nulls:,}"),
        Cell(f"{column.absent:,}"),
        Cell((kinds or "never a value") + note),
    )


def render_inference_end(report: SchemaInference, *, update: bool) -> Page:
    """What came of it."""
    if not update:
        return ()
    if report.applied:
        added = f"{count(len(report.new), 'field')} added to the remembered schema"
        text = f"{added if report.new else 'the schema is remembered'}; the next run writes it"
        return (Gap(), Line(Cell(text, Style.GOOD)))
    return (Gap(), Line(Cell("nothing was changed" if report.new else "there is no new field", Style.DIM)))


def render_schema(view: SchemaView) -> Page:
    """Columns side by side."""
    version = "no table yet" if view.table_version is None else f"version {view.table_version}"
    rows = tuple(
        (Cell(each.path, Style.STRONG), cell(each.declared), cell(each.remembered), cell(each.table))
        for each in view.columns
    )
    return (
        Heading(f"{view.pipeline}: columns"),
        Facts((("table", Cell(f"{view.table_uri} ({version})")), ("schema_evolution", Cell(view.evolution)))),
        Gap(),
        Table((Column("column"), Column("declared"), Column("remembered"), Column("table")), rows),
        *noted(view.notes),
    )


def render_diff(found: SchemaDiff) -> Page:
    """What the next run would do."""
    return (
        Heading(f"{found.pipeline}: what the next run would do about columns"),
        Facts((("table", Cell(found.table_uri)), ("schema_evolution", Cell(found.evolution)))),
        *_changes(found.changes),
        *noted(found.notes),
        Gap(),
        _verdict(found),
    )


def _verdict(found: SchemaDiff) -> Block:
    if not found.ok:
        return Line(Cell("the next run would stop", Style.BAD))
    if found.changes:
        return Line(Cell(f"the next run would go on: {count(len(found.changes), 'difference')}", Style.GOOD))
    return Line(Cell("nothing to compare" if found.notes else "nothing differs", Style.GOOD))


def _changes(changes: tuple[SchemaChange, ...]) -> Iterator[Block]:
    if not changes:
        return
    rows = tuple(
        (
            Cell(each.path, Style.STRONG),
            cell(each.table),
            cell(each.written),
            Cell(each.error or each.effect, Style.BAD if each.error else Style.NORMAL),
        )
        for each in changes
    )
    yield Gap()
    yield Table((Column("column"), Column("table"), Column("pipeline"), Column("what happens")), rows)


def render_rewrite(report: TableRewrite) -> Page:
    """What a rewrite means."""
    label = "rows that leave" if report.action == "schema replace" else "rows written again"
    return (
        Heading(f"{report.pipeline}: {report.action}"),
        Facts(
            (
                ("table", Cell(report.table_uri)),
                (label, Cell(f"{report.rows:,}", Style.STRONG)),
                ("data files", Cell(f"{report.data_files:,}, {size(report.bytes)}")),
            )
        ),
        *_changes(report.changes),
        *noted(report.notes),
    )


def render_rewrite_end(report: TableRewrite) -> Page:
    """What came of it."""
    if not report.applied:
        return (Gap(), Line(Cell(f"nothing was changed; table version {report.table_version}", Style.DIM)))
    done = "left the table" if report.action == "schema replace" else "written again"
    text = f"committed: {count(report.rows, 'row')} {done} in {duration(report.seconds)}"
    return (Gap(), Line(Cell(f"{text}; table version {report.table_version}", Style.GOOD)))
