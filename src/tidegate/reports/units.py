"""Work units: the units of a source, one unit, and units that are retried or read again.

Moments are ISO 8601 in UTC, ranges ``[low, high)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.reports.report import Report

Span = tuple[str, str]


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


@dataclass(frozen=True, slots=True)
class UnitsMove(Report):
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
