"""``tidegate adopt``: show what another system left in a table, ask, and continue from there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import click

import tidegate
from tidegate.cli.invocation import Command, Confirmation, Invocation, confirm_options, target, with_json
from tidegate.cli.status import state_cell
from tidegate.reports.checks import Adoption, Check
from tidegate.reports.page import (
    Block,
    Gap,
    Heading,
    Line,
    Page,
    Style,
    after_gap,
    cell,
    facts,
    line,
    sections,
    source_name,
    tabulate,
)
from tidegate.reports.wording import count

ROWS_SHOWN = 20
_STYLES = {"ok": Style.NORMAL, "warn": Style.WARN, "fail": Style.BAD}


@click.command(
    cls=Command,
    examples=[
        "tidegate adopt pipelines.yml -p events --dry-run",
        "tidegate adopt pipelines.yml -p events -s asia --yes",
        "tidegate adopt pipelines.yml -p events --yes --quiet-for 3600 --json",
    ],
)
@target(source="all")
@confirm_options
@click.option(
    "--quiet-for",
    type=click.FloatRange(min=0),
    default=600.0,
    metavar="SECONDS",
    help="How long the other system must have been idle (default: 600).",
)
@click.option("--read-skipped", is_flag=True, help="Read files that it skipped in partitions without an entry.")
@click.option("--fresh", is_flag=True, help="It never read this source: start at the beginning.")
@with_json
def adopt(invocation: Invocation, /, dry_run: bool, yes: bool, **given: Any) -> int:
    """Take over the position that another system left in a table.

    Shows what it read, and what it may have skipped or doubled. Then an empty commit takes it over.
    No row changes. Refuses while it is still running. Exits with 1 if a source could not be taken over.
    """
    confirm: Confirmation[Sequence[Adoption]] = Confirmation(
        invocation, "Take it over?", render_adoptions, dry_run, yes
    )
    call = partial(tidegate.adopt, **given)
    reports = call(dry_run=dry_run or not yes)
    if not (dry_run or yes):
        if _refused(reports):
            invocation.show(render_adoptions(reports))
            return 1
        if not confirm(reports):
            return 1
        reports = call(dry_run=False)
    invocation.give_each("adoptions", reports, render_adoptions)
    return int(_refused(reports))


def _refused(reports: Sequence[Adoption]) -> bool:
    return any(each.error for each in reports)


def render_adoptions(reports: Sequence[Adoption]) -> Page:
    """One section per source."""
    return sections(map(_section, reports))


def _section(report: Adoption) -> Iterator[Block]:
    yield Heading(source_name(report))
    if report.trace:
        yield facts(
            ("found", report.trace),
            ("form", report.form),
            ("written", report.written),
            ("state", state_cell(report.state)),
            ("watermark", cell(report.watermark, Style.STRONG)),
            ("finished up to", report.last_committed_file),
            ("read next", count(report.next_files, "file")),
        )
        yield from _table("partition", "finished up to", dict(sorted(report.partitions.items(), reverse=True)))
        read = {path: f"{count(records, 'record')} read" for path, records in report.in_progress.items()}
        yield from _table("file", "in progress", read)
    yield from after_gap(map(_finding, report.findings))
    yield Gap()
    yield _end(report)


def _finding(each: Check) -> Line:
    remedy = f"; {each.remedy}" if each.remedy else ""
    return line(f"{each.detail}{remedy}", _STYLES[each.verdict], each.name)


def _table(first: str, second: str, entries: dict[str, str]) -> Iterator[Block]:
    if entries:
        rows = tuple((name or "(top level)", text) for name, text in list(entries.items())[:ROWS_SHOWN])
        left = len(entries) - len(rows)
        yield Gap()
        yield tabulate((f"~{first}", f"={second}"), rows, f"… and {left:,} more; --json lists all" if left else "")


def _end(report: Adoption) -> Line:
    if report.error:
        return line(report.error, Style.BAD, "not taken over")
    if report.adopted:
        text = f"taken over in table version {report.table_version}; no row changed"
        return line(text, Style.GOOD)
    return line("nothing to do", Style.GOOD) if report.version else line("nothing written yet", Style.WARN)
