"""Work units: the units of a source, one unit, and units that are retried or read again.

Moments are ISO 8601 in UTC, ranges ``[low, high)``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.reports.page import (
    Block,
    Cell,
    Columns,
    Fact,
    Gap,
    Heading,
    Style,
    facts,
    line,
    names,
    notes,
    source_name,
    table,
)
from tidegate.reports.plan import REASONS, ROWS_SHOWN, local_time, older, unit_name
from tidegate.reports.report import Report, View
from tidegate.reports.status import failures_cell
from tidegate.reports.watermark import MoveReport
from tidegate.reports.wording import count

Span = tuple[str, str]


NAMES_SHOWN = 12
_STATES = {"failed": Style.BAD, "retired": Style.WARN, "open": Style.STRONG, "done": Style.GOOD}


@dataclass(frozen=True, slots=True)
class UnitLine(Report):
    """The status of one unit: its work units that are ``done``, ``open`` (run or wait), and ``failed`` at the last try.

    ``state`` is ``done``, ``open``, ``failed``, ``retired`` or ``stale``; ``read_up_to`` is its greatest high
    watermark, ``reason`` why it failed or was retired, ``next_eligible`` when it may run again.
    """

    unit: str
    state: str
    done: int = 0
    open: int = 0
    failed: int = 0
    read_up_to: str | None = None
    next_eligible: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class UnitList(Report):
    """The first ``units`` of a source, out of ``total``."""

    pipeline: str
    source: str
    position: int
    zone: str
    grid: str
    partitions: int
    total: int
    units: tuple[UnitLine, ...]
    input_version: str | None = None
    notes: tuple[str, ...] = ()

    def describe(self, view: View) -> Iterator[Block]:
        """Yield one row per unit; failed ones come first."""
        yield Heading(source_name(self))
        numbers = f"{count(self.total, 'unit')} × {count(self.partitions, 'partition')}"
        yield facts(("units", numbers), ("partitions", f"{self.grid} ({self.zone})"))
        if self.units:
            columns: Columns[UnitLine] = {
                "~unit": lambda unit: unit_name(unit.unit),
                "state": lambda unit: _state(unit.state),
                ">done": lambda unit: unit.done,
                ">open": lambda unit: unit.open,
                ">failed": lambda unit: failures_cell(unit.failed),
                "?read up to": lambda unit: unit.read_up_to and local_time(unit.read_up_to, self.zone),
                "=reason, or next try": lambda unit: (
                    unit.reason or (unit.next_eligible and f"from {local_time(unit.next_eligible, self.zone)} on")
                ),
            }
            left = self.total - len(self.units)
            footnote = f"… and {count(left, 'more unit')}; --limit 0 shows all" if left else ""
            yield Gap()
            yield table(columns, self.units, footnote)
        yield from notes(self.notes)


@dataclass(frozen=True, slots=True)
class WorkUnitLine(Report):
    """One partition of a unit: why it would run or not, the range to read, and its failures so far.

    ``high_watermark`` is the end of what was read without a gap.
    """

    start: str
    end: str
    nominal_end: str | None
    why: str
    low: str | None = None
    high: str | None = None
    high_watermark: str | None = None
    eligible: str | None = None
    failures: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class UnitView(Report):
    """One unit with all its work units.

    ``coverage`` was read; ``left`` was forgotten on request, and the table may have its rows. ``variables`` fill
    requests; secret ones are not shown.
    """

    pipeline: str
    source: str
    unit: str
    state: str
    position: int
    zone: str
    grid: str
    coverage: tuple[Span, ...]
    left: tuple[Span, ...]
    work_units: tuple[WorkUnitLine, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    retired: str | None = None
    notes: tuple[str, ...] = ()

    def describe(self, view: View) -> Iterator[Block]:
        """Yield what was read of the unit, then one row per partition, and why it failed."""
        yield Heading(f"{source_name(self)}: unit {unit_name(self.unit)}")
        yield facts(*_unit_facts(self))
        if self.work_units:

            def why(work: WorkUnitLine) -> Cell:
                until = f" until {local_time(work.eligible, self.zone)}" if work.eligible else ""
                style = REASONS[work.why][1] if work.why in REASONS else Style.NORMAL
                return Cell(work.why.replace("_", " ") + until, style)

            columns: Columns[WorkUnitLine] = {
                "partition": lambda work: local_time(work.start, self.zone),
                "=why": why,
                "would read from": lambda work: work.low and local_time(work.low, self.zone),
                "to": lambda work: work.high and local_time(work.high, self.zone),
                "?high watermark": lambda work: work.high_watermark and local_time(work.high_watermark, self.zone),
                ">failures": lambda work: failures_cell(work.failures),
            }
            newest = self.work_units[-ROWS_SHOWN:]
            yield Gap()
            yield table(columns, newest, older(len(self.work_units) - len(newest), "partition"))
            for work in newest:
                if work.reason:
                    yield line(f"from {local_time(work.start, self.zone)}: {work.reason}", Style.BAD, "failed")
        yield from notes(self.notes)


@dataclass(frozen=True, slots=True)
class UnitsMove(MoveReport):
    """Units whose failures or reads a person lets Tidegate forget.

    ``units`` change: ``failures`` are forgotten, ``retired`` ones are planned again, ``ranges`` are read again.
    ``version`` is the position after the commit if ``applied``, else the one looked at.
    """

    pipeline: str
    source: str
    action: str
    partition: str | None
    units: tuple[str, ...]
    failures: int
    retired: int
    ranges: int
    notes: tuple[str, ...]
    version: int
    table_version: int
    applied: bool = False

    def consequences(self, view: View) -> Iterator[Block]:
        """Yield the units, and what is forgotten of them."""
        if self.action == "units reset":
            what = ("read again", count(self.ranges, "range"))
        else:
            retired = f", {self.retired:,} retired" if self.retired else ""
            what = ("forgotten", f"{count(self.failures, 'failure')}{retired}")
        yield Heading(f"{source_name(self)}: {self.action}")
        yield facts(
            ("units", Cell(names(tuple(map(unit_name, self.units)), NAMES_SHOWN) or "none", Style.STRONG)),
            ("partition", "all" if self.partition is None else self.partition),
            what,
        )
        yield from notes(self.notes)


def _state(state: str) -> Cell:
    return Cell(state, _STATES.get(state, Style.DIM))


def _unit_facts(view: UnitView) -> Iterator[Fact]:
    yield "state", _state(view.state)
    yield "read", _ranges(view.coverage, view.zone)
    if view.left:
        yield "to be replaced", _ranges(view.left, view.zone)
    if view.variables:
        yield "variables", ", ".join(f"{name}={value}" for name, value in view.variables.items())
    if view.retired:
        yield "retired", Cell(view.retired, Style.WARN)


def _ranges(ranges: Sequence[tuple[str, str]], zone: str) -> str:
    return ", ".join(f"{local_time(low, zone)} to {local_time(high, zone)}" for low, high in ranges)
