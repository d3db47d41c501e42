"""The status of sources: state, lag, backlog, and what failed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from tidegate.reports.report import Report

if TYPE_CHECKING:
    from tidegate.core.files.discovery import FutureSeal, LeftOut


@dataclass(frozen=True, slots=True)
class FailedFile(Report):
    """A file that could not be read; the watermark of its partition waits below it."""

    path: str
    reason: str
    attempts: int


@dataclass(frozen=True, slots=True)
class FailedUnit(Report):
    """A work unit that failed: its unit, the start of its partition, the reason, and the failures in a row."""

    unit: str
    start: str
    reason: str
    failures: int


@dataclass(frozen=True, slots=True)
class WorkProgress(Report):
    """The work units of a source: ``done``, ``open`` (they run or wait), ``failed`` at the last try.

    ``retired`` units are no longer asked for, ``unfinished`` ones are not caught up. If none runs now,
    ``next_eligible`` is when one may run again.
    """

    done: int = 0
    open: int = 0
    failed: int = 0
    retired: int = 0
    unfinished: int = 0
    next_eligible: str | None = None


@dataclass(frozen=True, slots=True)
class SourceStatus(Report):
    """The status of one source: its position, its lag and backlog, and where that was read from.

    ``version`` is the position (the number of commits of this source). ``backlog_complete`` is false if the listing was
    cut off, so that the backlog is a lower bound. ``open_letters`` are unanswered dead letters. ``remembered`` is the
    number of paths in a path set. ``pending_units`` with ``pending_files`` Parquet files wait for ``tidegate commit``,
    the oldest for ``pending_seconds``; they are not part of the backlog. ``state_files`` is the number of files that
    the state names. ``work_units`` is the progress of work units. ``empty``: the location has no file at all, read or
    not. ``updated`` is when the newest state was planned, ``last_commit_at`` when it was committed; ``lag_seconds``
    counts from there. ``future_seals`` are seals that a clock set that was ahead once: backlog and lag are then
    unknown. ``left_out`` is what ``partition_filter`` leaves out of a first run that is still to come.
    """

    pipeline: str
    source: str
    table_uri: str
    state: str
    watermark: str | None
    version: int
    table_version: int | None
    updated: datetime | None
    lag_seconds: float | None
    backlog_files: int
    backlog_bytes: int
    backlog_complete: bool
    in_progress: int
    failed: tuple[FailedFile, ...] = ()
    open_partitions: int = 0
    sealed: int = 0
    shown_from: Literal["mirror", "document", "none"] = "none"
    open_letters: int = 0
    notes: tuple[str, ...] = ()
    error: str | None = None
    tracking: str = "watermark"
    remembered: int = 0
    pending_units: int = 0
    pending_files: int = 0
    pending_seconds: float | None = None
    state_files: int = 0
    work_units: WorkProgress | None = None
    empty: bool = False
    last_commit_at: datetime | None = None
    future_seals: tuple[FutureSeal, ...] = ()
    left_out: LeftOut | None = None


def shown_state(recorded: str, empty: bool) -> str:
    """The state of a source as people see it: an emptied location is neither active nor idle.

    >>> shown_state("Idle", empty=True), shown_state("Initial", empty=True)
    ('Empty', 'Initial')
    """
    return "Empty" if empty and recorded in ("Active", "Idle") else recorded
