"""What a replay of a column source gives back: its chunks, and what became of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tidegate.reports import Report

Fate = Literal["planned", "skipped", "done", "failed"]


@dataclass(frozen=True, slots=True)
class ChunkReport(Report):
    """Values from ``low`` up to and not including ``high``, and what became of them.

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
    """A replay of one source. ``predicate`` is what the source is asked for, over all chunks. ``saved`` is the
    watermark that production goes on from, where that was moved.

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
