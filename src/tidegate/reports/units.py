"""Results of commands on work units: the plan with its grid, the units, one unit, and changes.

Moments are ISO 8601 in UTC, ranges ``[low, high)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.reports.run import Report

Span = tuple[str, str]


@dataclass(frozen=True, slots=True)
class PlannedUnits(Report):
    """Work units of one partition with the same decision: the range to read for each of ``units``, and why.

    ``before`` is how far they were read, ``segments`` are the parts to read one by one. ``replaces``: the table may
    have rows of them, which are replaced; ``failures`` is the number of failures in a row.
    """

    start: str
    nominal_end: str | None
    units: tuple[str, ...]
    low: str
    high: str
    why: str
    before: str | None
    segments: tuple[Span, ...]
    replaces: bool
    failures: int


@dataclass(frozen=True, slots=True)
class SkippedWork(Report):
    """Work units skipped for one reason: all ``units`` in ``partitions`` consecutive partitions.

    ``first`` and ``last`` are the starts of the first and the last one; ``eligible`` is when they may run.
    """

    why: str
    units: tuple[str, ...]
    partitions: int
    first: str
    last: str
    eligible: str | None


@dataclass(frozen=True, slots=True)
class PartitionLine(Report):
    """One partition of the plan: ``[start, end)``, its end when it is full, and its work units by reason."""

    start: str
    end: str
    nominal_end: str | None
    reasons: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class UnitSourcePlan(Report):
    """What a run would read of one source of work units.

    ``partitions`` times ``units`` are all ``work_units``; each is either in ``runs`` or in ``skipped``, and ``reasons``
    counts both. ``job_cutoff`` is the greatest high watermark minus the grace period, None if nothing was read.
    ``grid`` is what the identities of work units depend on, ``stale`` are units that were read but no longer exist.
    ``input_version`` is the version of the secondary inputs; of their rows, ``repeated`` gave a unit again and
    ``filtered`` gave none. ``replace`` is what a unit that is read again replaces; without ``requests_by_time`` the
    requests do not contain the range, so that each read gets all rows of its unit.
    """

    pipeline: str
    source: str
    table_uri: str
    kind: str
    source_uri: str
    position: int
    now: str
    zone: str
    grid: str
    run: int
    replace: str
    work_units: int
    would_run: int
    reasons: Mapping[str, int]
    job_cutoff: str | None
    partitions: tuple[PartitionLine, ...]
    units: tuple[str, ...]
    runs: tuple[PlannedUnits, ...]
    skipped: tuple[SkippedWork, ...]
    stale: tuple[str, ...] = ()
    input_version: str | None = None
    repeated: int = 0
    filtered: int = 0
    notes: tuple[str, ...] = ()
    requests_by_time: bool = True

    def to_json(self) -> dict[str, Any]:
        """The fields, with ``tracking: units``, which distinguishes these plans from others."""
        return Report.to_json(self) | {"tracking": "units"}


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
