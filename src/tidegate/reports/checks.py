"""Checks of a machine or a configuration, and positions taken over from an older program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from tidegate.reports.page import (
    FEW_TABLES,
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
    names,
    sections,
    source_name,
    table,
)
from tidegate.reports.report import Report, View, hide_from_json
from tidegate.reports.status import state_cell
from tidegate.reports.watermark import StateTable
from tidegate.reports.wording import count

Verdict = Literal["ok", "warn", "fail"]
Result = Literal["passed", "warning", "failed", "not tried"]

NOT_TRIED: Result = "not tried"
NAMES_SHOWN = 3
_RESULTS: Mapping[Verdict, Result] = {"ok": "passed", "warn": "warning", "fail": "failed"}
_STYLES: Mapping[Result, Style] = {
    "passed": Style.GOOD,
    "not tried": Style.WARN,
    "warning": Style.WARN,
    "failed": Style.BAD,
}
"""The worst comes last."""


@dataclass(frozen=True, slots=True)
class Check(Report):
    """One check of ``doctor``; ``remedy`` is empty if all is well.

    ``result`` follows from ``verdict``, unless the check was not tried: then it is a warning, and ``remedy`` says how
    to have it tried. ``block`` is the block of tables that its ``pipeline`` came from.
    """

    name: str
    verdict: Verdict
    detail: str
    remedy: str = ""
    result: Result = "passed"
    block: str | None = None
    pipeline: str = hide_from_json("")

    def __post_init__(self) -> None:
        if self.result != NOT_TRIED:
            object.__setattr__(self, "result", _RESULTS[self.verdict])


def not_tried(name: str, why: str, remedy: str = "") -> Check:
    """Make the check of something that was not tried; ``remedy`` says how to have it tried."""
    return Check(name, "warn", why, remedy, NOT_TRIED)


@dataclass(frozen=True, slots=True)
class CheckProgress:
    """How far checks are; ``waiting`` are the names of those under way."""

    done: int
    total: int
    waiting: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.total:
            return "this machine and the configuration"
        waits = f", waiting for {names(self.waiting, 1)}" if self.waiting else ""
        return f"{self.done:,} of {count(self.total, 'check')} done{waits}"


@dataclass(frozen=True, slots=True)
class Checks(Report):
    """Checks of one command; ``ok`` if none failed."""

    ok: bool = field(init=False)
    checks: tuple[Check, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "ok", all(check.verdict != "fail" for check in self.checks))

    def code(self, *, stopped: bool = False) -> int:
        """Return 1 if a check failed; warnings are no failure, and neither is what was not tried."""
        return int(not self.ok)

    def describe(self, view: View) -> Iterator[Block]:
        """Yield all checks, then the remedies, then the totals; a block of many tables is one row and its failures."""
        yield table(COLUMNS, self.checks if view.verbose else _fold_blocks(self.checks))
        yield from after_gap(_describe_remedies(self.checks))
        yield Gap()
        found = {result: sum(check.result == result for check in self.checks) for result in _STYLES}
        warned = [count(found["warning"], "warning")] if found["warning"] or found["failed"] else []
        left = [f"{found[NOT_TRIED]:,} not tried"] if found[NOT_TRIED] else []
        if found["failed"]:
            yield line(", ".join((f"{count(found['failed'], 'check')} failed", *warned, *left)), Style.BAD)
        elif warned:
            yield line(", ".join(("nothing failed", *warned, *left)), Style.WARN)
        elif left:
            yield line(f"no problems found in what was tried; {left[0]}", Style.WARN)
        else:
            yield line("no problems found", Style.GOOD)


def _fold_blocks(checks: Sequence[Check]) -> list[Check]:
    """Put one row in the place of the checks of a block with many tables, and those that did not pass after it."""
    blocks: dict[str, list[Check]] = {}
    for check in checks:
        if check.block is not None:
            blocks.setdefault(check.block, []).append(check)
    folded = {name: _add_up(name, own) for name, own in blocks.items() if _count_tables(own) > FEW_TABLES}
    shown: list[Check] = []
    for check in checks:
        if check.block not in folded:
            shown.append(check)
        elif check is blocks[check.block][0]:
            shown += [folded[check.block], *(each for each in blocks[check.block] if each.result != "passed")]
    return shown


def _count_tables(checks: Sequence[Check]) -> int:
    return len({check.pipeline for check in checks})


def _add_up(block: str, checks: Sequence[Check]) -> Check:
    """One row for all checks of a block."""
    worst = next(each for result in reversed(tuple(_STYLES)) for each in checks if each.result == result)
    counted = ((sum(each.result == result for each in checks), result) for result in _STYLES)
    told = ", ".join(f"{number:,} {result}" for number, result in counted if number)
    name = f"{block} ({count(_count_tables(checks), 'table')})"
    return Check(name, worst.verdict, f"{count(len(checks), 'check')}: {told}", result=worst.result)


def _describe_remedies(checks: Sequence[Check]) -> Iterator[Line]:
    """One line per remedy, with the names of the first checks that it is for."""
    found: dict[tuple[str, Result], list[str]] = {}
    for check in checks:
        if check.remedy and check.result != "passed":
            found.setdefault((check.remedy, check.result), []).append(check.name)
    for (remedy, result), owners in found.items():
        yield line(remedy, _STYLES[result], names(tuple(dict.fromkeys(owners)), NAMES_SHOWN))


def _shown_status(check: Check) -> Cell:
    return Cell(NOT_TRIED if check.result == NOT_TRIED else check.verdict, _STYLES[check.result])


COLUMNS: Columns[Check] = {
    "status": _shown_status,
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
    style = Style.NORMAL if check.verdict == "ok" else _STYLES[check.result]
    return line(f"{check.detail}{remedy}", style, check.name)
