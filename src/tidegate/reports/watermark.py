"""Watermarks: the recorded state of a source, its history, and a watermark moved by a person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from tidegate.reports.report import Report
from tidegate.reports.status import FailedUnit


@dataclass(frozen=True, slots=True)
class WatermarkView(Report):
    """The complete recorded state of one source; ``remembered`` is the number of paths in its set, if it has one.

    For work units, ``partitions`` has by unit what was read; ``failed_units`` and ``retired`` ones follow. ``updated``
    is when the state was planned, ``last_commit_at`` when it was committed.
    """

    pipeline: str
    source: str
    version: int
    state: str
    value: str | None
    partitions: Mapping[str, str]
    files: Mapping[str, Any]
    sealed: Mapping[str, Any]
    last_committed_file: str | None
    updated: datetime | None
    tracking: str = "watermark"
    remembered: int = 0
    failed_units: tuple[FailedUnit, ...] = ()
    retired: Mapping[str, str] = field(default_factory=dict)
    last_commit_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class PositionView(Report):
    """One position of a source: when and by what it was committed, and the watermark after it.

    ``gap`` is None, or says why nothing else is known.
    """

    position: int
    committed_at: datetime | None
    action: str
    files: int
    records: int
    rows: int
    bad: int
    data_files: int
    table_version: int | None
    state: str | None
    watermark: str | None
    gap: str | None = None


@dataclass(frozen=True, slots=True)
class WatermarkHistory(Report):
    """The positions of one source, newest first; ``complete`` is false if a limit left some out."""

    pipeline: str
    source: str
    positions: tuple[PositionView, ...]
    complete: bool
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileSet(Report):
    """Some source files: their number, total size, and up to three examples."""

    files: int = 0
    bytes: int = 0
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WatermarkMove(Report):
    """A watermark set or forgotten by a person, and the consequences for the files.

    ``partition`` is None for the whole source, ``before`` and ``after`` are None without a watermark. ``read_again``
    are finished files that the next run would read again, which doubles their rows unless they were not in the table;
    ``never_read`` are unread files that it would skip. ``letters`` are the open dead letters of files that are read
    from their start again; the move answers them. ``version`` is the position after the commit if ``applied``, else the
    one looked at. ``tracking`` is ``columns`` for a column source: it has no partition, and the notes say what happens
    to rows.
    """

    pipeline: str
    source: str
    action: str
    partition: str | None
    before: str | None
    after: str | None
    read_again: FileSet
    never_read: FileSet
    notes: tuple[str, ...]
    version: int
    table_version: int
    applied: bool = False
    letters: int = 0
    tracking: Literal["files", "columns"] = "files"
