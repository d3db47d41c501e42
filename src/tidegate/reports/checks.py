"""Checks of a machine or a configuration, and positions taken over from an older program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from tidegate.reports.page import (
    Block,
    Cell,
    Columns,
    Gap,
    Heading,
    Line,
    Style,
    after_gap,
    cell,
    facts,
    line,
    sections,
    source_name,
    table,
)
from tidegate.reports.report import Report, View
from tidegate.reports.status import state_cell
from tidegate.reports.watermark import StateTable
from tidegate.reports.wording import count

Verdict = Literal["ok", "warn", "fail"]

_STYLES = {"ok": Style.GOOD, "warn": Style.WARN, "fail": Style.BAD}


@dataclass(frozen=True, slots=True)
class Check(Report):
    """One check of ``doctor``; ``remedy`` is empty if all is well."""

    name: str
    verdict: Verdict
    detail: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Checks(Report):
    """Checks of one command; ``ok`` if none failed."""

    ok: bool = field(init=False)
    checks: tuple[Check, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "ok", all(check.verdict != "fail" for check in self.checks))

    def code(self, *, stopped: bool = False) -> int:
        """Return 1 if a check failed; warnings are no failure."""
        return int(not self.ok)

    def describe(self, view: View) -> Iterator[Block]:
        """Yield all checks, then the remedies, then the totals."""
        yield table(COLUMNS, self.checks)
        problems = [check for check in self.checks if check.verdict != "ok"]
        if problems:
            yield Gap()
        yield from (line(check.remedy, _STYLES[check.verdict], check.name) for check in problems if check.remedy)
        yield Gap()
        failed = sum(check.verdict == "fail" for check in problems)
        warned = len(problems) - failed
        if failed:
            yield line(f"{count(failed, 'check')} failed, {count(warned, 'warning')}", Style.BAD)
        elif warned:
            yield line(f"nothing failed, {count(warned, 'warning')}", Style.WARN)
        else:
            yield line("no problems found", Style.GOOD)


COLUMNS: Columns[Check] = {
    "status": lambda check: Cell(check.verdict, _STYLES[check.verdict]),
    "~check": lambda check: check.name,
    "=found": lambda check: check.detail,
}
"""The table of ``tidegate doctor``."""


@dataclass(frozen=True, slots=True)
class Adoption(Report):
    """The position that an older program left for one source, and whether it was taken over.

    ``trace`` is where it was found and ``form`` its format; both are empty without one. ``findings`` are what the old
    program may have left out or doubled; they are only reported. ``next_files`` is the number of files that the next
    run reads. ``adopted`` and ``version`` are what was written, ``error`` why nothing was.
    """

    pipeline: str
    source: str
    table_uri: str
    trace: str = ""
    form: str = ""
    written: datetime | None = None
    state: str = "Initial"
    watermark: str | None = None
    partitions: Mapping[str, str] = field(default_factory=dict)
    in_progress: Mapping[str, int] = field(default_factory=dict)
    last_committed_file: str | None = None
    findings: tuple[Check, ...] = ()
    next_files: int = 0
    adopted: bool = False
    version: int = 0
    table_version: int | None = None
    error: str | None = None

    def describe(self, view: View) -> Iterator[Block]:
        """Yield what was found, what the next run reads, and whether it was taken over."""
        yield Heading(source_name(self))
        if self.trace:
            yield facts(
                ("found", self.trace),
                ("form", self.form),
                ("written", self.written),
                ("state", state_cell(self.state)),
                ("watermark", cell(self.watermark, Style.STRONG)),
                ("finished up to", self.last_committed_file),
                ("read next", count(self.next_files, "file")),
            )
            newest_first = dict(sorted(self.partitions.items(), reverse=True))
            yield from after_gap(StateTable("partition", "finished up to", newest_first, "partition").blocks())
            read = {path: f"{count(records, 'record')} read" for path, records in self.in_progress.items()}
            yield from after_gap(StateTable("file", "in progress", read, "file").blocks())
        yield from after_gap(map(_describe_finding, self.findings))
        yield Gap()
        if self.error:
            yield line(self.error, Style.BAD, "not taken over")
        elif self.adopted:
            yield line(f"taken over in table version {self.table_version}; no row changed", Style.GOOD)
        elif self.version:
            yield line("nothing to do", Style.GOOD)
        else:
            yield line("nothing written yet", Style.WARN)


@dataclass(frozen=True, slots=True)
class Adoptions(Report):
    """The positions of several sources, taken over or not."""

    adoptions: tuple[Adoption, ...]

    def code(self, *, stopped: bool = False) -> int:
        """Return 1 if a source was refused."""
        return int(any(adoption.error for adoption in self.adoptions))

    def describe(self, view: View) -> Iterator[Block]:
        """Yield one section per source."""
        yield from sections(adoption.describe(view) for adoption in self.adoptions)


def _describe_finding(check: Check) -> Line:
    remedy = f"; {check.remedy}" if check.remedy else ""
    style = Style.NORMAL if check.verdict == "ok" else _STYLES[check.verdict]
    return line(f"{check.detail}{remedy}", style, check.name)
