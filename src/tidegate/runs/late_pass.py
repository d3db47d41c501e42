"""Reads what came late, exactly once, by the ordinary walk: compare → read → commit.

A late file is one that the position already passes over, so its commit changes nothing in the state: no run would
read the file before, and none does after. What keeps it from being read again is the ledger, which has it from the
same commit on. Whoever else committed meanwhile (a run, another ``reconcile``) makes this commit lose; then what they
committed is read from the ledger, and everything compared again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tidegate.observe import events
from tidegate.planning.discovery import PathListing
from tidegate.planning.grouping import Sizing, grouped
from tidegate.planning.plan import Plan
from tidegate.runs.columns import Columns
from tidegate.runs.comparison import Compared, Comparison
from tidegate.runs.lanes import Lane
from tidegate.runs.place import FILES_PER_PLAN, UNIT_BYTES, Place
from tidegate.runs.source_pass import SourcePass
from tidegate.runs.tracking import SourceState, Step
from tidegate.sink.task import ReadTask, UnitResult
from tidegate.state.files import Change
from tidegate.state.opened import Opened
from tidegate.watermarks.advance import Advance
from tidegate.watermarks.outcomes import Covered, FileOutcome, Refused
from tidegate.watermarks.path_state import PathState, Seal


@dataclass(frozen=True, slots=True)
class _Unmoved:
    """A step that leaves the state as it is."""

    state: SourceState
    changed: bool
    advanced: tuple[tuple[str, str | None, str], ...] = ()
    sealed: tuple[str, ...] = ()
    full: bool = False


class LatePass(SourcePass):
    """One pass over the late files of a source.

    ``compared`` is what was found, ``finished`` how many of it were read since, ``refused`` what could not be read.
    """

    action = "reconcile"

    def __init__(self, place: Place, lane: Lane, database: sqlite3.Connection, **settings: Any) -> None:
        super().__init__(place, lane, **settings)
        self.compared: Compared | None = None
        self.refused: dict[str, str] = {}
        self.finished = 0
        self._comparison = Comparison(place, database, self._emit, self._stop)
        self._polled = PathListing(())
        self._planned_up_to = ""

    def _from_position(self, opened: Opened) -> Opened:
        if not self._comparison.is_listed:
            self._polled = self._place.discover(self._place.opened_state(opened), self._clock(), polls=0)
            self._comparison.list_source()
            opened = self._place.positions.open()
        self.compared = self._comparison.at(opened)
        self._planned_up_to, self.finished = "", 0
        self.refused.clear()
        return self._recount(super()._from_position(opened))

    def _planned(self, opened: Opened, now: datetime) -> Plan:
        """The next late files, by path; the comparison stays true as long as nobody else commits."""
        assert self.compared is not None
        slices = self.compared.late_slices(self._planned_up_to, FILES_PER_PLAN)
        self._planned_up_to = slices[-1].path if slices else self._planned_up_to
        plan = Plan(
            pipeline=self._place.pipeline.name,
            source=self._place.source.name,
            version=opened.version,
            now=now,
            units=grouped(slices, Sizing(UNIT_BYTES, self._place.source.interval_files, self._place.parallelism)),
            complete=len(slices) < FILES_PER_PLAN,
        )
        if plan.units:
            self._emit(events.PlanMade(*self._names, len(plan.units), plan.files, plan.bytes))
        return plan

    def _nothing_to_read(self, opened: Opened, plan: Plan) -> Opened:
        return opened

    def _task(self, columns: Columns) -> ReadTask:
        """Whole files only: the state does not say how far a late file was read."""
        return replace(super()._task(columns), whole_files=True)

    def _advanced(self, plan: Plan, outcomes: Sequence[FileOutcome]) -> Step:
        self.refused.update((each.path, each.reason) for each in outcomes if isinstance(each, Refused))
        return _Unmoved(self.state, changed=any(isinstance(each, Covered) for each in outcomes))

    def _count(self, change: Change, results: Sequence[UnitResult], after: Opened) -> None:
        super()._count(change, results, after)
        assert self.compared is not None
        finished = [each.file for each in change.coverage if each.eof]
        self.compared.finish(finished)
        self.finished += len(finished)

    def _recount(self, opened: Opened) -> Opened:
        """With nothing late left, the late directories that polls tell about are accounted for: count them in.

        They were counted before everything was listed, so a directory that came later goes on being noticed.
        """
        assert self.compared is not None
        if not isinstance(self.state, PathState):
            return opened
        polled = self._polled
        sealed = {
            prefix: Seal(seal.below, polled.directories.sealed[prefix])
            for prefix, seal in self.state.sealed.items()
            if (seal.directories or 0) < polled.directories.sealed.get(prefix, 0) and seal.directories is not None
        }
        if not sealed or not polled.complete or self._stop.is_set() or self.compared.late().count:
            return opened
        step = Advance(replace(self.state, sealed={**self.state.sealed, **sealed}), changed=True)
        return self._commit(opened, step, None, (), None)
