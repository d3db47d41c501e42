"""``tidegate schema``: the columns of files and tables, and how the next run would change them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import tidegate
from tidegate.cli.invocation import Confirmation, Group, Invocation, confirm_options, print_yaml, target, with_json
from tidegate.reports.page import (
    Block,
    Cell,
    Gap,
    Heading,
    Line,
    Page,
    Row,
    Style,
    cell,
    facts,
    line,
    notes,
    page,
    source_name,
    tabulate,
)
from tidegate.reports.table import ColumnSeen, SchemaChange, SchemaDiff, SchemaInference, SchemaView, TableRewrite
from tidegate.reports.wording import count, duration, size

STOPS = 5
"""The exit code of ``diff`` if the next run would stop: the same as the run's."""
_SURE = {"high": Style.GOOD, "low": Style.WARN, "none": Style.BAD}


@click.group(
    cls=Group,
    examples=["tidegate schema infer pipelines.yml -p events", "tidegate schema diff pipelines.yml -p events"],
)
def schema() -> None:
    """Infer and compare columns, and replace those of a table."""


@schema.command(
    examples=[
        "tidegate schema infer pipelines.yml -p events",
        "tidegate schema infer pipelines.yml -p events --sample 10000 --json",
        "tidegate schema infer pipelines.yml -p events --update --yes",
    ]
)
@target()
@click.option("-s", "--source", metavar="SOURCE", help="The source to sample (default: the first).")
@click.option(
    "--sample",
    metavar="N",
    type=click.IntRange(min=1),
    default=1000,
    help="Lines to read of each of up to ten files (default: 1000).",
)
@click.option("--update", is_flag=True, help="Add new fields to the remembered schema.")
@confirm_options
@with_json
def infer(invocation: Invocation, /, update: bool, dry_run: bool, yes: bool, **given: Any) -> int:
    """Infer fields and types from a sample of files.

    Shows how often each field occurs and how certain its type is. Prints columns to paste into the configuration.
    Changes nothing without --update. Does not start Spark.
    """
    question = "Add these fields to the remembered schema?"
    confirm = Confirmation(invocation, question, render_inference, dry_run or not update, yes)
    report = tidegate.infer_schema(update=update, confirm=confirm, **given)
    code = confirm.give(report, lambda report: _inference_end(report) if update else ())
    if not (update or invocation.as_json):
        print_yaml("\n" + report.yaml)
    return code


@schema.command(examples=["tidegate schema show pipelines.yml -p events"])
@target()
@with_json
def show(invocation: Invocation, config: Path, pipeline: str) -> None:
    """Show all known columns side by side.

    The declared columns, those remembered from an inference, and those of the table.
    """
    invocation.give(tidegate.show_schema(config, pipeline), render_schema)


@schema.command(examples=["tidegate schema diff pipelines.yml -p events"])
@target()
@with_json
def diff(invocation: Invocation, config: Path, pipeline: str) -> int:
    """Show how the next run would change the columns of the table.

    Exits with 0 if the run would go on, with or without changes, and with 5 if it would stop.
    """
    found = tidegate.diff_schema(config, pipeline)
    invocation.give(found, render_diff)
    return 0 if found.ok else STOPS


@schema.command(
    examples=[
        "tidegate schema replace pipelines.yml -p events --dry-run",
        "tidegate schema replace pipelines.yml -p events --yes",
    ]
)
@target()
@confirm_options
@with_json
def replace(invocation: Invocation, config: Path, pipeline: str, dry_run: bool, yes: bool) -> int:
    """Replace the columns of the table and remove its rows.

    For schema_evolution: overwrite. Makes one commit. The position stays: no run reads finished files again.
    """
    confirm = Confirmation(invocation, "Remove these rows from the table?", render_rewrite, dry_run, yes)
    return confirm.give(tidegate.replace_schema(config, pipeline, confirm=confirm), render_rewrite_end)


@page
def render_inference(report: SchemaInference) -> Iterator[Block]:
    """The columns found in a sample."""
    yield Heading(f"{source_name(report)}: {count(report.records, 'record')} of {count(report.files, 'file')}")
    titles = ("~field", "~type", "confidence", ">values", "?>null", "?>absent", "=seen as")
    yield tabulate(titles, map(_seen, report.columns))
    for problem in report.problems:
        yield line(problem, Style.BAD, "problem")
    if report.unreadable:
        yield line(f"{count(report.unreadable, 'record')} of the sample unreadable", Style.WARN, "note")
    if report.new:
        yield line(f"not in the remembered schema: {', '.join(report.new)}", Style.WARN, "note")


def _seen(column: ColumnSeen) -> Row:
    examples = {kind: f" ({example})" for kind, example in column.examples.items()}
    kinds = ", ".join(f"{number:,} {kind}{examples.get(kind, '')}" for kind, number in column.kinds.items())
    note = f"; {column.note}" if column.note and len(column.kinds) < 2 else ""
    return (
        Cell(column.path, Style.STRONG),
        column.type,
        Cell(column.confidence, _SURE[column.confidence]),
        column.seen,
        column.nulls,
        column.absent,
        (kinds or "never a value") + note,
    )


def _inference_end(report: SchemaInference) -> Page:
    if report.applied:
        added = f"{count(len(report.new), 'field')} added to the remembered schema"
        text = f"{added if report.new else 'the schema is remembered'}; the next run writes it"
        return (Gap(), line(text, Style.GOOD))
    return (Gap(), line("nothing was changed" if report.new else "no new field", Style.DIM))


@page
def render_schema(view: SchemaView) -> Iterator[Block]:
    """Columns side by side."""
    version = "no table yet" if view.table_version is None else f"version {view.table_version}"
    rows = tuple((Cell(each.path, Style.STRONG), each.declared, each.remembered, each.table) for each in view.columns)
    yield Heading(f"{view.pipeline}: columns")
    yield facts(("table", f"{view.table_uri} ({version})"), ("schema_evolution", view.evolution))
    yield Gap()
    yield tabulate(("~column", "=declared", "=remembered", "=table"), rows)
    yield from notes(view.notes)


@page
def render_diff(found: SchemaDiff) -> Iterator[Block]:
    """What the next run would do."""
    yield Heading(f"{found.pipeline}: how the next run would change columns")
    yield facts(("table", found.table_uri), ("schema_evolution", found.evolution))
    yield from _changes(found.changes)
    yield from notes(found.notes)
    yield Gap()
    yield _verdict(found)


def _verdict(found: SchemaDiff) -> Line:
    if not found.ok:
        return line("the next run would stop", Style.BAD)
    if found.changes:
        return line(f"the next run would continue: {count(len(found.changes), 'difference')}", Style.GOOD)
    return line("nothing to compare" if found.notes else "nothing differs", Style.GOOD)


def _changes(changes: tuple[SchemaChange, ...]) -> Iterator[Block]:
    if not changes:
        return
    rows = tuple(
        (
            Cell(each.path, Style.STRONG),
            each.table,
            each.written,
            Cell(each.error or each.effect, Style.BAD if each.error else Style.NORMAL),
        )
        for each in changes
    )
    yield Gap()
    yield tabulate(("~column", "=table", "=pipeline", "=what happens"), rows)


@page
def render_rewrite(report: TableRewrite) -> Iterator[Block]:
    """The consequences of a rewrite of the table."""
    label = "rows to remove" if report.action == "schema replace" else "rows to rewrite"
    yield Heading(f"{report.pipeline}: {report.action}")
    yield facts(
        ("table", report.table_uri),
        (label, cell(report.rows, Style.STRONG)),
        ("data files", f"{report.data_files:,}, {size(report.bytes)}"),
    )
    yield from _changes(report.changes)
    yield from notes(report.notes)


def render_rewrite_end(report: TableRewrite) -> Page:
    """The result of a rewrite."""
    if not report.applied:
        return (Gap(), line(f"nothing was changed; table version {report.table_version}", Style.DIM))
    done = "removed" if report.action == "schema replace" else "rewritten"
    text = f"committed: {count(report.rows, 'row')} {done} in {duration(report.seconds)}"
    return (Gap(), line(f"{text}; table version {report.table_version}", Style.GOOD))
