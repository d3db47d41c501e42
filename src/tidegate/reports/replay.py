"""Rows that are read again: replayed files, replayed ranges of values, retried dead letters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tidegate.reports.report import Report
from tidegate.reports.watermark import FileSet


@dataclass(frozen=True, slots=True)
class ReplayReport(Report):
    """Files whose rows were replaced, or would be.

    ``rows_removed`` are the rows of ``replayed`` (and, with ``drop_missing``, of ``missing``) in the table,
    ``rows_written`` those that replaced them: None unless ``applied``. ``left_to_run`` are unfinished files,
    ``missing`` are in the table but no longer in the source.
    """

    pipeline: str
    source: str
    table_uri: str
    selected: str
    replayed: FileSet
    left_to_run: FileSet
    missing: FileSet
    drop_missing: bool
    rows_removed: int
    rows_written: int | None
    notes: tuple[str, ...]
    version: int
    table_version: int
    applied: bool = False
    seconds: float = 0.0


Fate = Literal["planned", "skipped", "done", "failed"]


@dataclass(frozen=True, slots=True)
class ChunkReport(Report):
    """Values ``low <= v < high`` and their fate.

    ``planned``: to be read; ``skipped``: finished by an earlier start of the same replay; ``done``: committed now, with
    ``rows``; ``failed``: nothing of it was committed, ``error`` says why.
    """

    low: str
    high: str
    fate: Fate
    rows: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ColumnReplayReport(Report):
    """A replay of one source. ``predicate`` is the condition over all chunks, ``saved`` the watermark that production
    continues from, if it was moved.

    ``resumed``: an earlier start of the same replay had finished some chunks. ``ok`` only if every chunk is finished.
    """

    pipeline: str
    source: str
    table_uri: str
    column: str
    chunks: tuple[ChunkReport, ...]
    predicate: str = ""
    resumed: bool = False
    saved: str | None = None
    notes: tuple[str, ...] = ()
    ok: bool = True
    applied: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class LettersReport(Report):
    """The fate of dead letters: ``answered`` of the selected ``letters`` are done.

    ``still_bad`` has the id, the file and today's reason of each other one; ``position`` is that of the commit, None if
    there was nothing to commit.
    """

    pipeline: str
    source: str
    table_uri: str
    letters: int
    answered: int = 0
    rows: int = 0
    new_letters: int = 0
    still_bad: tuple[tuple[str, str, str], ...] = ()
    position: int | None = None
    table_version: int | None = None
