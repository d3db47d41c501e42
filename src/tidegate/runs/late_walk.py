"""Reads what came late, exactly once, by the walk over files: compare, read, commit.

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

from tidegate.core.files.advance import Advance
from tidegate.core.files.discovery import PathListing
from tidegate.core.files.plan import Plan
from tidegate.core.files.planner import grouped
from tidegate.core.files.state import Covered, FileOutcome, PathState, Refused, Seal
from tidegate.observe import events
from tidegate.protocol.change import Change
from tidegate.protocol.position import Position
from tidegate.runs.comparison import Compared, Comparison
from tidegate.runs.file_source import FILES_PER_PLAN, SourceState, Step, discover_files, sizing_of
from tidegate.runs.file_walk import FileWalk
from tidegate.runs.pass_ import Pass
from tidegate.runs.table_columns import TableColumnsPlan
from tidegate.sink.read_task import GroupResult, ReadTask


@dataclass(frozen=True, slots=True)
class _SameState:
    """A step that leaves the state as it is."""

    state: SourceState
    changed: bool
    advanced: tuple[tuple[str, str | None, str], ...] = ()
    sealed: tuple[str, ...] = ()
    full: bool = False


class LateWalk(FileWalk):
    """One pass over the late files of a source.

    ``compared`` is what was found, ``finished`` how many of it were read since, ``refused`` what could not be read.
    """

    def __init__(self, run: Pass, database: sqlite3.Connection) -> None:
        super().__init__(run)
        self.compared: Compared | None = None
        self.refused: dict[str, str] = {}
        self.finished = 0
        self._comparison = Comparison(self.source, database, run.emit, run.stop)
        self._polled = PathListing(())
        self._planned_up_to = ""

    def go(self, position: Position) -> Position:
        """Compare at ``position``, then read what is late."""
        if not self._comparison.is_listed:
            self._polled = discover_files(self.source, self.run.state, self.run.clock())
            self._comparison.list_source()
            position = self.source.open()
            self.run.begin_at(position)
        self.compared = self._comparison.at(position)
        self._planned_up_to, self.finished = "", 0
        self.refused.clear()
        return self._recount(super().go(position))

    def plan(self, position: Position, now: datetime) -> Plan:
        """The next late files, by path; the comparison stays true as long as nobody else commits."""
        assert self.compared is not None
        slices = self.compared.late_slices(self._planned_up_to, FILES_PER_PLAN)
        self._planned_up_to = slices[-1].path if slices else self._planned_up_to
        plan = Plan(
            *self.names,
            version=position.version,
            now=now,
            units=grouped(slices, sizing_of(self.source)),
            complete=len(slices) < FILES_PER_PLAN,
        )
        if plan.units:
            self.run.emit(events.PlanMade(*self.names, len(plan.units), plan.files, plan.bytes))
        return plan

    def rest(self, position: Position, plan: Plan) -> Position:
        """Nothing late is left."""
        return position

    def task(self, columns: TableColumnsPlan) -> ReadTask:
        """Whole files only: the state does not say how far a late file was read."""
        return replace(super().task(columns), whole_files=True)

    def advance(self, plan: Plan, outcomes: Sequence[FileOutcome]) -> Step:
        """The state stays as it is."""
        self.refused.update((each.path, each.reason) for each in outcomes if isinstance(each, Refused))
        return _SameState(self.run.state, changed=any(isinstance(each, Covered) for each in outcomes))

    def count(self, change: Change, results: Sequence[GroupResult]) -> None:
        """Finished files are not late any more."""
        super().count(change, results)
        assert self.compared is not None
        finished = [each.file for each in change.coverage if each.eof]
        self.compared.finish(finished)
        self.finished += len(finished)

    def _recount(self, position: Position) -> Position:
        """With nothing late left, the late directories that polls tell about are accounted for: count them in.

        They were counted before everything was listed, so a directory that came later goes on being noticed.
        """
        assert self.compared is not None
        state = self.run.state
        if not isinstance(state, PathState):
            return position
        polled = self._polled
        sealed = {
            prefix: Seal(seal.below, polled.directories.sealed[prefix])
            for prefix, seal in state.sealed.items()
            if (seal.directories or 0) < polled.directories.sealed.get(prefix, 0) and seal.directories is not None
        }
        if not sealed or not polled.complete or self.run.stop.is_set() or self.compared.late().count:
            return position
        step = Advance(replace(state, sealed={**state.sealed, **sealed}), changed=True)
        return self.commit(position, step, None, (), None)
