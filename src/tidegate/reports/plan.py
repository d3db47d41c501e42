"""What a run would read and why it skips the rest: files, columns, or work units.

Moments are ISO 8601 in UTC, ranges ``[low, high)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.reports.report import Report

if TYPE_CHECKING:
    from tidegate.core.files.plan import Plan


Span = tuple[str, str]


@dataclass(frozen=True, slots=True)
class SourcePlan(Report):
    """What a run would do for one source; ``notes`` concern table and lane, the plan has its own.

    ``pending_units`` wait for ``tidegate commit``; the plan is made on top of them.
    """

    pipeline: str
    source: str
    plan: Plan
    table_uri: str
    lane: str = "arrow"
    notes: tuple[str, ...] = ()
    pending_units: int = 0

    @property
    def position(self) -> int:
        """The position of the plan."""
        return self.plan.version


@dataclass(frozen=True, slots=True)
class ColumnSourcePlan(Report):
    """What a run would read of one column source.

    ``stored`` is the watermark by column, as text, ``effective`` where the read begins after look-back; both are empty
    on a first run. ``predicate`` is the condition in the language of the source. The run fixes the upper bounds;
    ``cap`` says how.
    """

    pipeline: str
    source: str
    table_uri: str
    kind: str
    source_uri: str
    load_type: str
    position: int
    stored: Mapping[str, str | None]
    effective: Mapping[str, str | None]
    predicate: str
    full: bool
    cap: str
    window: bool = False
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The fields, with ``tracking: columns``, which distinguishes these plans from those of files."""
        return Report.to_json(self) | {"tracking": "columns"}


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
