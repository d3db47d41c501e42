"""The walk over work units: plan, and wave after wave read, write and commit.

The rows of a group of work units and the coverage that says so become visible in one commit. A unit that fails is
absent from it and holds up nobody.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from tidegate.core.units.plan import UnitPlan, WorkUnit
from tidegate.core.units.planner import failure_start, plan_units, progressed
from tidegate.core.units.state import Units, UnitState
from tidegate.errors import RunStopped, StorageError
from tidegate.failpoints import failpoint
from tidegate.observe import events
from tidegate.observe.wording import count
from tidegate.protocol.change import Change
from tidegate.protocol.follow_ups import remove_old_work
from tidegate.protocol.position import Position
from tidegate.reports.run import FailedUnit
from tidegate.runs.bound_source import UnitBound
from tidegate.runs.pass_ import Pass
from tidegate.runs.source_report import ANOTHER_RUN
from tidegate.runs.unit_source import attempted
from tidegate.runs.unit_waves import Breaker, Outcomes, UnitChange, UnitGroup, Waves, sorted_out
from tidegate.sources.units.inputs import read_units
from tidegate.sources.units.work import UnitWork
from tidegate.specs.columns import HttpRead, JdbcRead
from tidegate.specs.units import FileRead, UnitSource

MOST_COMMITS = 1000
"""About so many for a partition of all units: each has the state of all of them, so groups grow with their number."""


class UnitWalk:
    """One pass over a source of work units."""

    def __init__(self, run: Pass) -> None:
        self._run = run
        self._source: UnitBound = run.source
        self._names = run.names
        self._breaker = breaker_of(self._source.source, run.shared)
        self._failed: list[tuple[WorkUnit, str]] = []
        self._tried: set[tuple[str, int]] = set()
        self._failing: set[str] = set()
        self._first: UnitPlan | None = None
        self._planned = 0

    def go(self, position: Position) -> Position:
        """Plan and carry out; what was committed is durable and complete, and the rest is as it was."""
        run = self._run
        run.state = run.state or attempted(self._source, run.before)
        units = read_units(self._source.source)
        plan = self._plan(position, units)
        if plan.settles and not plan.count and position.table_version >= 0:
            return self._note(position, progressed(run.state, plan, []))
        if not plan.count:
            return position if position.state is None else run.idle(position, position.state)
        with suppress(StorageError):
            remove_old_work(self._source.table_store, self._source.key, plan.now)
        return self._carry_out(position, plan, units)

    def _plan(self, position: Position, units: Units) -> UnitPlan:
        run, totals = self._run, self._run.totals
        plan = plan_units(
            self._names[0],
            self._source.source,
            run.state,
            units,
            position.version,
            run.clock(),
            accept_new_partitions=run.accept_new_partitions,
        )
        for note in plan.notes:
            run.notice(note)
        skipped = Counter[str]()
        for each in plan.skipped:
            skipped[each.why.value] += each.count
        totals.skipped = dict(sorted((totals.skipped | skipped).items()))
        self._planned = totals.work_units + plan.count
        run.emit(events.WorkUnitsPlanned(*self._names, plan.count, skipped.total(), plan.run))
        failpoint("runs.planned")
        return plan

    def _carry_out(self, position: Position, plan: UnitPlan, units: Units) -> Position:
        run = self._run
        run.engine.prepare()
        work = self._source.source.work
        works = self._works(plan)
        self._failing |= {unit for unit, _ in run.state.failures} if run.state else set()
        most = 1 if work.pacing_seconds else max(work.group_units, len(plan.units) // MOST_COMMITS)
        waves = Waves(works, most, work.group_seconds, failing=self._failing)
        started = -work.pacing_seconds
        while not self._breaker.is_open:
            if run.stop.wait(max(0.0, started + work.pacing_seconds - time.monotonic())):
                self._save_failures(position, plan)
                raise RunStopped("stopped; work units that are not committed are read by the next run")
            wave = waves.next(self._breaker.left)
            if not wave:
                break
            started = time.monotonic()
            position = self._wave(position, plan, wave, units)
            waves.took(len(wave), time.monotonic() - started)
        else:
            self._tell_broken(waves.left())
        return self._save_failures(position, plan)

    def _works(self, plan: UnitPlan) -> Iterator[WorkUnit]:
        """What the plan has left for this pass: not what it has dealt with, nor what another run read meanwhile.

        The grace period would have both of them read again, after every commit of another run.
        """
        if self._first is None:
            self._first = plan
            return plan.works()
        before = {_identity(work): work.before for work in self._first.works()}
        left = [work for work in plan.works() if _identity(work) not in self._tried]
        works = [work for work in left if work.before in (None, before.get(_identity(work), work.before))]
        if len(works) < len(left):
            self._run.totals.skipped.pop(ANOTHER_RUN, None)
            self._skip(ANOTHER_RUN, len(left) - len(works))
        self._planned = self._run.totals.work_units + len(works)
        return iter(works)

    def _wave(self, position: Position, plan: UnitPlan, wave: Sequence[WorkUnit], units: Units) -> Position:
        """One group, from its requests to its commit."""
        change = UnitChange(self._source, self._run.engine, position, plan)
        try:
            group = change.read(wave, [_work_of(each, units) for each in wave])
            failpoint("runs.read")
            outcomes = sorted_out(self._source.source, wave, group.results, plan.now)
            self._tell(outcomes)
            position = self._commit_group(position, plan, change, group, outcomes)
            self._tried.update(_identity(work) for work, _ in outcomes.done)
            self._leave_out(outcomes)
        finally:
            change.clean()
        return position

    def _commit_group(
        self, position: Position, plan: UnitPlan, change: UnitChange, group: UnitGroup, outcomes: Outcomes
    ) -> Position:
        self._failed += outcomes.failed
        if not outcomes.done and not outcomes.retired:
            return position
        done = [work for work, _ in outcomes.done]
        state = progressed(self._run.state, plan, done, self._failed, outcomes.retired)
        prepared = change.prepared(group, outcomes.done, self._source.tracker.encode(state))
        if prepared is None:
            self._run.notice(
                f"{count(len(done), 'work unit')} without rows, and no column is known yet: nothing is saved, they are"
                " read again next time (declare the schema to save them)"
            )
            return position
        return self._save(position, prepared, state, len(done))

    def _save(self, position: Position, change: Change, state: UnitState, done: int) -> Position:
        after = self._run.commit(position, change, state)
        self._failed = []
        totals = self._run.totals
        totals.work_units += done
        failed = len(totals.failed_units)
        self._run.emit(events.WorkUnitsFinished(*self._names, totals.work_units, failed, self._planned))
        return after

    def _save_failures(self, position: Position, plan: UnitPlan) -> Position:
        """What failed since the last commit is noted: in the table or, where there is none, beside it."""
        if not self._failed:
            return position
        state = progressed(self._run.state, plan, [], self._failed)
        if position.table_version < 0:
            self._run.unsaved = self._source.tracker.encode(state)
            return position
        return self._note(position, state)

    def _note(self, position: Position, state: UnitState) -> Position:
        """A state that comes without rows."""
        document = self._source.tracker.encode(state)
        return self._save(position, Change(state=document, embedded=document), state, 0)

    def _tell(self, outcomes: Outcomes) -> None:
        """Failures are counted and told, and not tried again by this run."""
        totals = self._run.totals
        for work, reason in outcomes.failed:
            totals.failed_units.append(FailedUnit(work.unit, _shown(work.start), reason, work.failures + 1))
            self._failing.add(work.unit)
            self._tell_fallen(work, "failed", reason, work.failures + 1)
            self._breaker.note(failed=True)
        for outcome, fallen in (("retired", outcomes.retired_works), ("thin", outcomes.thin)):
            self._skip(outcome, len(fallen))
            for work, reason in fallen:
                self._tell_fallen(work, outcome, reason, work.failures)
        if outcomes.done:
            self._breaker.note(failed=False)

    def _skip(self, reason: str, number: int) -> None:
        if number:
            skipped = self._run.totals.skipped
            self._run.totals.skipped = dict(sorted({**skipped, reason: skipped.get(reason, 0) + number}.items()))

    def _leave_out(self, outcomes: Outcomes) -> None:
        """What of the rows is not in the table, once the others are."""
        for work, result in outcomes.done:
            self._run.totals.unknown_fields.update(result.unknown_fields)
            if result.left_out:
                self._skip("outside_range", result.left_out)
                column = self._source.source.time_column or ""
                reason = f"outside_range of {work.unit!r}"
                self._run.emit(events.RowsLeftOut(*self._names, reason, result.left_out, column))

    def _tell_fallen(self, work: WorkUnit, outcome: str, reason: str, failures: int) -> None:
        self._tried.add(_identity(work))
        self._run.emit(events.WorkUnitFailed(*self._names, work.unit, _shown(work.start), outcome, reason, failures))

    def _tell_broken(self, left: int) -> None:
        """Too many failures in a row: the rest waits."""
        if left:
            self._skip("breaker", left)
            limit = self._source.source.work.breaker_failures
            self._run.notice(
                f"{count(limit, 'work unit')} failed in a row: {left:,} are left for the next run (breaker)"
            )


def breaker_of(source: UnitSource, shared: dict[str, object]) -> Breaker:
    """One for all sources of a connection within a run; a source without one has its own."""
    read = source.read.http if isinstance(source.read, FileRead) else source.read
    named = read.connection if isinstance(read, HttpRead | JdbcRead) else ""
    breaker = shared.setdefault(f"breaker of {named or source.uri}", Breaker(source.work.breaker_failures))
    assert isinstance(breaker, Breaker)
    breaker.begin()
    return breaker


def _work_of(work: WorkUnit, units: Units) -> UnitWork:
    """A work unit with all that its task must know."""
    return UnitWork(
        unit=work.unit,
        start=work.start,
        segments=work.segments,
        variables=units.variables.get(work.unit, {}),
        secrets={**units.shared, **units.secrets.get(work.unit, {})},
    )


def _identity(work: WorkUnit) -> tuple[str, int]:
    return work.unit, failure_start(work.start, work.nominal_end)


def _shown(moment: int) -> str:
    return datetime.fromtimestamp(moment / 1000, UTC).isoformat().replace("+00:00", "Z")
