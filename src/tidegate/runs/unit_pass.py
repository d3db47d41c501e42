"""One pass over a source of work units: open, plan, and wave after wave read, write and commit.

The rows of a group of work units and the coverage that says so become visible in one commit. A unit that fails is
absent from it and holds up nobody.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tidegate.errors import ColumnsChanged, CommitLost, RunStopped, StorageError
from tidegate.failpoints import failpoint
from tidegate.observe import events
from tidegate.observe.wording import count
from tidegate.planning.unit_deciding import failure_start
from tidegate.planning.unit_plan import UnitPlan, WorkUnit
from tidegate.planning.unit_planner import plan_units
from tidegate.planning.unit_progress import progressed
from tidegate.reports import FailedUnit
from tidegate.runs.first_attempts import attempts_before
from tidegate.runs.place import Clock, utc_now
from tidegate.runs.telling import ANOTHER_RUN
from tidegate.runs.unit_change import Group, UnitChange
from tidegate.runs.unit_lane import UnitLane
from tidegate.runs.unit_outcomes import Outcomes, sorted_out
from tidegate.runs.unit_place import UnitPlace, encoded
from tidegate.runs.unit_waves import Breaker, Waves
from tidegate.sources.units.inputs import read_units
from tidegate.sources.units.work import UnitWork
from tidegate.state.attempts import Attempts
from tidegate.state.files import Change, State
from tidegate.state.opened import Opened
from tidegate.state.work_areas import clean_old
from tidegate.unit_specs import UnitSource
from tidegate.watermarks.unit_state import UnitState
from tidegate.watermarks.units import Units

TRIES_AGAINST_OTHERS = 50
"""In a row. Each is lost to another run that has committed work units of the same plan, so that fewer are left."""

SHORTEST_PAUSE, LONGEST_PAUSE = 0.2, 60.0
"""Seconds before a run that lost begins again, so that two do not ask for the same again and again."""

MOST_COMMITS = 1000
"""About so many for a partition of all units: each has the state of all of them, so groups grow with their number."""

ReadUnits = Callable[[UnitSource], Units]


@dataclass(slots=True)
class UnitTotals:
    """What a pass has done so far."""

    rows: int = 0
    commits: int = 0
    units: int = 0
    planned: int = 0
    table_version: int | None = None
    failed: list[FailedUnit] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    unknown_fields: Counter[str] = field(default_factory=Counter)


class UnitPass:
    """Carries one source of work units as far as it goes now; ``state`` and ``totals`` tell how far that was."""

    def __init__(
        self,
        place: UnitPlace,
        lane: UnitLane,
        *,
        emit: events.Emit = events.ignore,
        stop: threading.Event | None = None,
        clock: Clock = utc_now,
        polls: int = 0,
        breaker: Breaker | None = None,
        accept_new_partitions: bool = False,
        units: ReadUnits = read_units,
    ) -> None:
        self.totals = UnitTotals()
        self.state: UnitState | None = None
        self.opened: Opened | None = None
        self.is_first = False
        self.before: Attempts | None = None
        self.unsaved: State | None = None
        self._place = place.at_poll(polls)
        self._lane = lane
        self._emit = emit
        self._stop = stop or threading.Event()
        self._clock = clock
        self._breaker = breaker or Breaker(place.source.work.breaker_failures)
        self._accept = accept_new_partitions
        self._read_units = units
        self._names = (place.pipeline.name, place.source.name)
        self._failed: list[tuple[WorkUnit, str]] = []
        self._tried: set[tuple[str, int]] = set()
        self._failing: set[str] = set()
        self._first: UnitPlan | None = None
        self._losses = 0
        self._since = 0.0

    def run(self) -> None:
        """Raises what stopped it; then what was committed is durable and complete, and the rest is as it was."""
        while True:
            self._since = time.monotonic()
            try:
                self.opened = self._from_position(self._place.open())
                return
            except (CommitLost, ColumnsChanged) as error:
                self._losses += 1
                if self._losses == TRIES_AGAINST_OTHERS or self._stop.is_set():
                    raise
                if isinstance(error, CommitLost):
                    self._back_off()

    def _back_off(self) -> None:
        """Leave the source to whoever won, longer after each loss in a row, measured by what this run did in vain."""
        wasted = max(SHORTEST_PAUSE, time.monotonic() - self._since)
        self._stop.wait(min(LONGEST_PAUSE, wasted * 2.0 ** (self._losses - 1)) * (0.5 + random.random() / 2))

    def _from_position(self, opened: Opened) -> Opened:
        for warning in opened.warnings:
            self._notice(warning)
        self._emit(events.PollStarted(*self._names, opened.version, opened.table_version))
        self.is_first, self.before = opened.first_run, attempts_before(self._place, opened)
        self.state = self._place.state_of(opened) or self._place.attempted(self.before)
        self.totals.table_version = opened.table_version if opened.table_version >= 0 else None
        units = self._read_units(self._place.source)
        plan = self._planned(opened, units)
        if plan.settles and not plan.count and opened.table_version >= 0:
            return self._noted(opened, progressed(self.state, plan, []))
        if not plan.count:
            return opened if opened.state is None else self._place.positions.idle(opened, opened.state)
        with suppress(StorageError):
            clean_old(self._place.table_store, self._place.key, plan.now)
        return self._carried_out(opened, plan, units)

    def _planned(self, opened: Opened, units: Units) -> UnitPlan:
        source = self._place.source
        plan = plan_units(
            self._names[0],
            source,
            self.state,
            units,
            opened.version,
            self._clock(),
            accept_new_partitions=self._accept,
        )
        for note in plan.notes:
            self._notice(note)
        skipped = Counter[str]()
        for each in plan.skipped:
            skipped[each.why.value] += each.count
        left = Counter({each: number for each, number in self.totals.skipped.items() if each not in skipped})
        self.totals.skipped = skipped + left
        self.totals.planned = self.totals.units + plan.count
        self._emit(events.WorkUnitsPlanned(*self._names, plan.count, skipped.total(), plan.run))
        failpoint("runs.planned")
        return plan

    def _carried_out(self, opened: Opened, plan: UnitPlan, units: Units) -> Opened:
        self._lane.prepare()
        work = self._place.source.work
        works = self._works(plan)
        self._failing |= {unit for unit, _ in self.state.failures} if self.state else set()
        most = 1 if work.pacing_seconds else max(work.group_units, len(plan.units) // MOST_COMMITS)
        waves = Waves(works, most, work.group_seconds, failing=self._failing)
        started = -work.pacing_seconds
        while not self._breaker.is_open:
            if self._stop.wait(max(0.0, started + work.pacing_seconds - time.monotonic())):
                self._failures_saved(opened, plan)
                raise RunStopped("stopped; work units that are not committed are read by the next run")
            wave = waves.next(self._breaker.left)
            if not wave:
                break
            started = time.monotonic()
            opened = self._wave(opened, plan, wave, units)
            waves.took(len(wave), time.monotonic() - started)
        else:
            self._broken(waves.left())
        return self._failures_saved(opened, plan)

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
            self.totals.skipped[ANOTHER_RUN] = len(left) - len(works)
        self.totals.planned = self.totals.units + len(works)
        return iter(works)

    def _wave(self, opened: Opened, plan: UnitPlan, wave: Sequence[WorkUnit], units: Units) -> Opened:
        """One group, from its requests to its commit."""
        change = UnitChange(self._place, self._lane, opened, plan)
        try:
            group = change.read(wave, [_work_of(each, units) for each in wave])
            failpoint("runs.read")
            outcomes = sorted_out(self._place.source, wave, group.results, plan.now)
            self._told(outcomes)
            opened = self._committed(opened, plan, change, group, outcomes)
            self._tried.update(_identity(work) for work, _ in outcomes.done)
            self._left_out(outcomes)
        finally:
            change.clean()
        return opened

    def _committed(
        self, opened: Opened, plan: UnitPlan, change: UnitChange, group: Group, outcomes: Outcomes
    ) -> Opened:
        self._failed += outcomes.failed
        if not outcomes.done and not outcomes.retired:
            return opened
        done = [work for work, _ in outcomes.done]
        state = progressed(self.state, plan, done, self._failed, outcomes.retired)
        prepared = change.prepared(group, outcomes.done, encoded(state))
        if prepared is None:
            self._notice(
                f"{count(len(done), 'work unit')} without rows, and no column is known yet: nothing is saved, they are"
                " read again next time (declare the schema to save them)"
            )
            return opened
        return self._saved(opened, prepared, state, len(done))

    def _saved(self, opened: Opened, change: Change, state: UnitState, done: int) -> Opened:
        failpoint("runs.commit.before")
        after = self._place.positions.commit(opened, change)
        failpoint("runs.commit.after")
        self.state = state
        self._failed = []
        self._losses, self._since = 0, time.monotonic()
        totals = self.totals
        totals.commits += 1
        totals.rows += after.rows
        totals.units += done
        totals.table_version = after.table_version if after.table_version >= 0 else None
        self._emit(events.WorkUnitsFinished(*self._names, totals.units, len(totals.failed), totals.planned))
        return after

    def _failures_saved(self, opened: Opened, plan: UnitPlan) -> Opened:
        """What failed since the last commit is noted: in the table or, where there is none, beside it."""
        if not self._failed:
            return opened
        state = progressed(self.state, plan, [], self._failed)
        if opened.table_version < 0:
            self.unsaved = encoded(state)
            return opened
        return self._noted(opened, state)

    def _noted(self, opened: Opened, state: UnitState) -> Opened:
        """A state that comes without rows."""
        document = encoded(state)
        return self._saved(opened, Change(state=document, embedded=document), state, 0)

    def _told(self, outcomes: Outcomes) -> None:
        """Failures are counted and told, and not tried again by this run."""
        for work, reason in outcomes.failed:
            failed = FailedUnit(work.unit, _shown(work.start), reason, work.failures + 1)
            self.totals.failed.append(failed)
            self._failing.add(work.unit)
            self._fallen(work, "failed", reason, work.failures + 1)
            self._breaker.note(failed=True)
        for outcome, fallen in (("retired", outcomes.retired_works), ("thin", outcomes.thin)):
            self.totals.skipped.update([outcome] * len(fallen))
            for work, reason in fallen:
                self._fallen(work, outcome, reason, work.failures)
        if outcomes.done:
            self._breaker.note(failed=False)

    def _left_out(self, outcomes: Outcomes) -> None:
        """What of the rows is not in the table, once the others are."""
        for work, result in outcomes.done:
            self.totals.unknown_fields.update(result.unknown_fields)
            if result.left_out:
                self.totals.skipped["outside_range"] += result.left_out
                column = self._place.source.time_column or ""
                self._emit(events.RowsLeftOut(*self._names, f"outside_range of {work.unit!r}", result.left_out, column))

    def _fallen(self, work: WorkUnit, outcome: str, reason: str, failures: int) -> None:
        self._tried.add(_identity(work))
        self._emit(events.WorkUnitFailed(*self._names, work.unit, _shown(work.start), outcome, reason, failures))

    def _broken(self, left: int) -> None:
        """Too many failures in a row: the rest waits."""
        if left:
            self.totals.skipped["breaker"] += left
            limit = self._place.source.work.breaker_failures
            self._notice(f"{count(limit, 'work unit')} failed in a row: {left:,} are left for the next run (breaker)")

    def _notice(self, text: str) -> None:
        self._emit(events.Notice(*self._names, text))


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
