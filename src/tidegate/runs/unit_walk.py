"""The walk over work units: plan, then read, write and commit wave after wave.

The rows of a group of work units and their coverage become visible in one commit. A unit that fails is absent from it
and delays nobody.

A wave is as large as can be read in the time of a group. Tasks that fetch watch the clock themselves, and what they do
not begin in time is in the next wave. Databases and functions, which read many work units by one statement, go by the
duration of earlier waves. Units that may have rows in the table and units without do not share a wave: they are
committed in different ways. Failing units come last, so that they delay no other when the breaker opens.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from tidegate.core.calendar import milliseconds, shift, zone_named
from tidegate.core.columns.planner import one_response_note
from tidegate.core.units.plan import UnitPlan, WorkUnit
from tidegate.core.units.planner import advance_units, failure_start, plan_units
from tidegate.core.units.state import Units, UnitState
from tidegate.errors import RunStopped
from tidegate.failpoints import failpoint
from tidegate.observe import events
from tidegate.protocol.change import Change, DataFile, NextState, RowCount, State, Written, write_files
from tidegate.protocol.position import Position
from tidegate.reports.status import FailedUnit
from tidegate.reports.wording import count
from tidegate.runs.engine import UnitRunner
from tidegate.runs.pass_ import ANOTHER_RUN, Lane, Pass
from tidegate.runs.schedule import give_place
from tidegate.runs.tracker import UnitBound
from tidegate.sources.connection_slots import connection_slots
from tidegate.sources.units.inputs import read_units
from tidegate.sources.units.work import UnitFailure, UnitWave, UnitWork, UnitWritten
from tidegate.specs.locations import Location
from tidegate.specs.masking import Mask
from tidegate.specs.table import Evolution
from tidegate.specs.units import NotFound, Replace, UnitSource
from tidegate.tasks.row_task import Batch
from tidegate.tasks.unit_task import ReplacedUnit, declare_unit_columns

if TYPE_CHECKING:
    import pyarrow as pa

# Nothing is known of the server yet: a few, whose duration sizes the next wave.
FIRST = 8
# A wave that was quick by luck must not be followed by one that takes an hour.
GROWTH = 8
MOST_NAMED = 5
MOST_COMMITS = 1000
"""About so many commits per pass: each has the state of all units, so groups grow with their number."""


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
        """Plan and carry out; what was committed is durable and complete, and the rest is unchanged."""
        run = self._run
        units = read_units(self._source.source)
        plan = self._plan(position, units)
        if plan.settles and not plan.count and position.table_version >= 0:
            return self._note(position, advance_units(run.state, plan, []))
        if not plan.count:
            return run.idle(position)
        again = sum(work.replaces for work in plan.works())
        reset = [f"{count(again, 'work unit')} would replace rows of the table"] if again else []
        run.engine.check_write(str(self._source.key), reset)
        self._source.clean_work(plan.now)
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
        if plan.refusal is not None:
            raise plan.refusal
        for note in plan.notes:
            run.notice(note)
        for note in one_response_note(self._source.source.read):
            run.notice_once(note)
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
        # Their tasks stop by the clock and hand back the rest (decision 0027); a statement of Spark cannot.
        is_timed = self._source.source.read.is_fetched
        waves = Waves(works, most, None if is_timed else work.group_seconds, failing=self._failing)
        started = -work.pacing_seconds
        while not self._breaker.is_open:
            if run.stop.wait(max(0.0, started + work.pacing_seconds - time.monotonic())):
                # A stopped run must not forget its failures: they decide how often a unit is tried.
                self._save_failures(position, plan)
                raise RunStopped("stopped; the next run reads the work units that are not committed")
            wave = waves.next(self._breaker.left)
            if not wave:
                break
            started = time.monotonic()
            position, left = self._wave(position, plan, wave, units)
            waves.took(len(wave), time.monotonic() - started, left)
        else:
            self._tell_broken(waves.count_left())
        return self._save_failures(position, plan)

    def _works(self, plan: UnitPlan) -> Iterator[WorkUnit]:
        """What is left of the plan for this pass: neither its own finished units nor those that another run read.

        The grace period would let both read them again, after every commit of another run.
        """
        if self._first is None:
            self._first = plan
            return plan.works()
        before = {_identity(work): work.before for work in self._first.works()}
        left = [work for work in plan.works() if _identity(work) not in self._tried]
        # Another run has read it since our first plan: within the grace period both would read it again and again.
        works = [work for work in left if work.before in (None, before.get(_identity(work), work.before))]
        if len(works) < len(left):
            self._run.totals.skipped.pop(ANOTHER_RUN, None)
            self._skip(ANOTHER_RUN, len(left) - len(works))
        self._planned = self._run.totals.work_units + len(works)
        return iter(works)

    def _wave(
        self, position: Position, plan: UnitPlan, wave: Sequence[WorkUnit], units: Units
    ) -> tuple[Position, list[WorkUnit]]:
        """One group, from its requests to its commit; also returns its work units that were not begun."""
        change = UnitChange(self._source, self._run.engine, position, plan)
        try:
            works = [UnitWork.of(each, units) for each in wave]
            with self._run.take_server_turn(), self._take_connections(works):
                group = change.read(wave, works, self._breaker.limit)
            failpoint("runs.read")
            begun = [(work, result) for work, result in zip(wave, group.results, strict=True) if result is not None]
            outcomes = sort_outcomes(self._source.source, begun, plan.now)
            self._tell(outcomes)
            position = self._commit_group(position, plan, change, group, outcomes)
            change.lane.release()
            self._tried.update(_identity(work) for work, _ in outcomes.done)
            self._leave_out(outcomes)
            self._tell_emptied(outcomes.emptied)
        finally:
            change.lane.drop()
        return position, [work for work, result in zip(wave, group.results, strict=True) if result is None]

    @contextmanager
    def _take_connections(self, works: Sequence[UnitWork]) -> Iterator[None]:
        """While inside, the connections of these work units count among those of their database."""
        stop = self._run.stop
        with connection_slots(self._source.source.read, stop, partial(give_place, stop)) as slots:
            slots.resize(min(sum(len(each.segments) for each in works), self._source.parallelism))
            yield

    def _commit_group(
        self, position: Position, plan: UnitPlan, change: UnitChange, group: UnitGroup, outcomes: Outcomes
    ) -> Position:
        self._failed += outcomes.failed
        # A commit for failures alone would make a table version per wave while a server is down; they are saved at the
        # end.
        if not outcomes.done and not outcomes.retired:
            return position
        done = [work for work, _ in outcomes.done]
        state = advance_units(self._run.state, plan, done, self._failed, outcomes.retired)
        prepared = change.prepare(group, outcomes.done, self._source.tracker.encode(state))
        if prepared is None:
            self._run.notice(
                f"{count(len(done), 'work unit')} without rows, and no column is known yet: nothing is saved, and the "
                "next run reads them again (declare the schema to save them)"
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
        """Record failures since the last commit: in the table or, without one, beside it."""
        if not self._failed:
            return position
        state = advance_units(self._run.state, plan, [], self._failed)
        if position.table_version < 0:
            self._run.unsaved = self._source.tracker.encode(state)
            return position
        return self._note(position, state)

    def _note(self, position: Position, state: UnitState) -> Position:
        """Commit a state without rows."""
        document = self._source.tracker.encode(state)
        return self._save(position, Change(NextState.of(document)), state, 0)

    def _tell(self, outcomes: Outcomes) -> None:
        """Count and report failures; this run does not retry them."""
        totals = self._run.totals
        for work, reason in outcomes.failed:
            totals.failed_units.append(FailedUnit(work.unit, _moment_text(work.start), reason, work.failures + 1))
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
        """Report rows that are left out of the table, once the others are in."""
        for work, result in outcomes.done:
            self._run.totals.unknown_fields.update(result.unknown_fields)
            if result.left_out:
                self._skip("outside_range", result.left_out)
                column = self._source.source.time_column or ""
                reason = f"outside_range of {work.unit!r}"
                self._run.emit(events.RowsLeftOut(*self._names, reason, result.left_out, column))

    def _tell_emptied(self, works: Sequence[WorkUnit]) -> None:
        """Name units that the server does not know any more, once their rows are out of the table."""
        if not works:
            return
        named = ", ".join(repr(work.unit or _moment_text(work.start)) for work in works[:MOST_NAMED])
        more = f" and {count(len(works) - MOST_NAMED, 'other')}" if len(works) > MOST_NAMED else ""
        self._run.notice(
            f"not found at the source: {named}{more}. That counts as no rows (not_found: empty), so the rows that the "
            "table had of them were removed; not_found: fail or retire keeps such rows"
        )

    def _tell_fallen(self, work: WorkUnit, outcome: str, reason: str, failures: int) -> None:
        self._tried.add(_identity(work))
        self._run.emit(
            events.WorkUnitFailed(*self._names, work.unit, _moment_text(work.start), outcome, reason, failures)
        )

    def _tell_broken(self, left: int) -> None:
        """Report that too many failures in a row stopped the rest."""
        if left:
            self._skip("breaker", left)
            limit = self._source.source.work.breaker_failures
            self._run.notice(
                f"{count(limit, 'work unit')} failed in a row: the next run gets the {left:,} left (breaker_failures)"
            )


def breaker_of(source: UnitSource, shared: dict[str, object]) -> Breaker:
    """The breaker of a connection, shared by its sources as long as the run lasts; others have their own."""
    named = source.request.connection if source.request else ""
    # By connection: what one source found out about a server holds for the others, and for the next poll.
    breaker = shared.setdefault(f"breaker of {named or source.uri}", Breaker(source.work.breaker_failures))
    assert isinstance(breaker, Breaker)
    breaker.begin()
    return breaker


def _identity(work: WorkUnit) -> tuple[str, int]:
    return work.unit, failure_start(work.start, work.nominal_end)


def _moment_text(moment: int) -> str:
    return datetime.fromtimestamp(moment / 1000, UTC).isoformat().replace("+00:00", "Z")


class Waves:
    """Yields the next wave; :meth:`took` learns how long one took. ``failing`` are units, and more may be added.

    ``seconds`` is the time limit of a wave; None if its tasks watch the time.
    """

    def __init__(
        self,
        works: Iterable[WorkUnit],
        most: int,
        seconds: float | None,
        first: int = FIRST,
        failing: Collection[str] = (),
    ) -> None:
        self._failing = failing
        self._works = _failing_last(works, failing)
        self._most = most
        self._seconds = seconds
        self._size = most if seconds is None else min(first, most)
        self._waiting: dict[bool, deque[WorkUnit]] = {False: deque(), True: deque()}

    def next(self, at_most: int | None = None) -> tuple[WorkUnit, ...]:
        """The next work units; none at the end."""
        size = max(1, min(self._size, at_most or self._size))
        fuller = self._fuller(size)
        return tuple(fuller.popleft() for _ in range(min(size, len(fuller))))

    def took(self, units: int, seconds: float, left: Sequence[WorkUnit] = ()) -> None:
        """Size the next wave to fit into the time, and not much larger than this one.

        What is ``left`` of this one comes first or, if its units fail, last.
        """
        for work in reversed(left):
            if work.unit not in self._failing:
                self._waiting[work.replaces].appendleft(work)
        self._works = chain(self._works, [work for work in left if work.unit in self._failing])
        if self._seconds is None:
            return
        fits = self._most if seconds <= 0 else int(units * self._seconds / seconds)
        self._size = max(1, min(self._most, fits, units * GROWTH))

    def count_left(self) -> int:
        """Take the number of remaining work units; none can be taken afterwards."""
        waiting = sum(map(len, self._waiting.values()))
        return waiting + sum(1 for _ in self._works)

    def _fuller(self, size: int) -> deque[WorkUnit]:
        full = next((waiting for waiting in self._waiting.values() if len(waiting) >= size), None)
        if full is not None:
            return full
        for work in self._works:
            waiting = self._waiting[work.replaces]
            waiting.append(work)
            if len(waiting) >= size:
                return waiting
        return max(self._waiting.values(), key=len)


def _failing_last(works: Iterable[WorkUnit], failing: Collection[str]) -> Iterator[WorkUnit]:
    """Work units in order, but failing units after all others, fewest failures first."""
    put_off = []
    for work in works:
        if work.unit in failing:
            put_off.append(work)
        else:
            yield work
    yield from sorted(put_off, key=lambda work: work.failures)


class Breaker:
    """Opens after so many failures in a row: then this run sends nothing more to that server."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._streak = 0
        self._lock = threading.Lock()

    @property
    def is_open(self) -> bool:
        """Whether the rest is left for the next run."""
        return bool(self._limit) and self._streak >= self._limit

    @property
    def left(self) -> int | None:
        """How many more may fail before it opens; None while nothing fails."""
        return self._limit - self._streak if self._limit and self._streak else None

    @property
    def limit(self) -> int | None:
        """The failures in a row that stop the rest; None if it never opens."""
        return max(1, self._limit - self._streak) if self._limit else None

    def begin(self) -> None:
        """Begin another source: if the breaker is open, one more failure is enough, and a success closes it."""
        with self._lock:
            if self.is_open:
                # One try, not none: the server may have come back since.
                self._streak = self._limit - 1

    def note(self, *, failed: bool) -> None:
        """Count one work unit."""
        with self._lock:
            self._streak = self._streak + 1 if failed else 0


@dataclass(slots=True)
class Outcomes:
    """``done`` with what was written, ``failed`` and ``thin`` with the reason, ``retired`` units with theirs.

    ``emptied`` are done as well: the server does not know them any more, and the table may have rows of them.
    """

    done: list[tuple[WorkUnit, UnitWritten]] = field(default_factory=list)
    failed: list[tuple[WorkUnit, str]] = field(default_factory=list)
    thin: list[tuple[WorkUnit, str]] = field(default_factory=list)
    retired: dict[str, str] = field(default_factory=dict)
    retired_works: list[tuple[WorkUnit, str]] = field(default_factory=list)
    emptied: list[WorkUnit] = field(default_factory=list)


def sort_outcomes(
    source: UnitSource, results: Sequence[tuple[WorkUnit, UnitWritten | UnitFailure]], now: datetime
) -> Outcomes:
    """Sort work units by outcome."""
    found = Outcomes()
    for work, result in results:
        if isinstance(result, UnitFailure):
            _sort_failure(source, work, result, found)
        elif result.rows < source.work.min_records:
            _sort_thin(source, work, result.rows, now, found)
        else:
            found.done.append((work, result))
    return found


def _sort_failure(source: UnitSource, work: WorkUnit, result: UnitFailure, found: Outcomes) -> None:
    reason = f"{result.problem}; {result.remedy}" if result.remedy else result.problem
    if not result.not_found or source.work.not_found is NotFound.FAIL:
        found.failed.append((work, reason))
    elif source.work.not_found is NotFound.EMPTY:
        found.done.append((work, UnitWritten()))
        if work.replaces and source.replace is not Replace.MERGE_KEYS:
            found.emptied.append(work)
    else:
        found.retired[work.unit] = reason
        found.retired_works.append((work, reason))


def _sort_thin(source: UnitSource, work: WorkUnit, rows: int, now: datetime, found: Outcomes) -> None:
    """Count too few rows as a failure, unless the partition may still be incomplete."""
    reason = f"{count(rows, 'row')}, but min_records is {source.work.min_records:,}"
    after = source.work.min_records_after
    end = work.nominal_end
    if after is None:
        found.failed.append((work, reason))
    elif end is None or shift(end, zone_named(source.timezone), later=after) > milliseconds(now):
        found.thin.append((work, f"{reason}; it may still be incomplete (min_records_after)"))
    else:
        found.failed.append((work, f"{reason}, and its time is over (min_records_after)"))


@dataclass(frozen=True, slots=True)
class UnitGroup:
    """The results of a wave, in order; ``straight``: its files are in the table's folder already."""

    results: tuple[UnitWritten | UnitFailure | None, ...]
    columns: pa.Schema | None
    partition_columns: tuple[str, ...]
    straight: bool


def _mask_result(result: UnitWritten | UnitFailure | None, mask: Mask) -> UnitWritten | UnitFailure | None:
    """The same without secrets in messages; its files keep their names."""
    if not isinstance(result, UnitWritten):
        return mask.deep(result)
    return replace(result, unknown_fields=mask.deep(dict(result.unknown_fields))) if result.unknown_fields else result


class UnitChange:
    """One group on its way into the table; its ``lane`` has one work area, for downloads and for rows."""

    def __init__(self, source: UnitBound, engine: UnitRunner, opened: Position, plan: UnitPlan) -> None:
        self._source = source
        self._engine = engine
        self._opened = opened
        self._plan = plan
        self.lane = Lane(source)
        self._area = self.lane.new_area()

    def read(self, wave: Sequence[WorkUnit], works: Sequence[UnitWork], failures: int | None) -> UnitGroup:
        """Read and write the work units, until so many fail in a row; nothing of it is visible yet."""
        straight = self._is_straight(wave)
        done = self._engine.carry_out(
            UnitWave(
                pipeline=self._source.pipeline,
                source=self._source.source,
                works=tuple(works),
                scratch=self._locate("fetched"),
                now=self._plan.now,
                place=None if straight else self._locate("rows"),
                table=self._opened.schema() if self._source.pipeline.transform is None else None,
                seconds=self._source.source.work.group_seconds,
                failures=failures,
            )
        )
        mask = Mask.around(self._source.pipeline, [each.secrets for each in works])
        results = tuple(_mask_result(each, mask) for each in done.results)
        return UnitGroup(results, done.columns, done.partition_columns, straight)

    def prepare(self, group: UnitGroup, done: Sequence[tuple[WorkUnit, UnitWritten]], state: State) -> Change | None:
        """The change that makes ``done`` visible; None without a table and columns to create one."""
        opened = self._opened
        # Small work units share files (decision 0027): each file counts once.
        files = tuple({file.path: file for _, written in done for file in written.data_files}.values())
        columns = group.columns or opened.schema() or self._bare()
        if columns is None:
            return None
        by_keys = self._source.source.replace is Replace.MERGE_KEYS
        read_again = [work for work, _ in done if work.replaces]
        replaced = [] if by_keys else [ReplacedUnit(work.unit, work.low, work.high) for work in read_again]
        if group.straight or not (files or replaced):
            written = Written(columns, group.partition_columns, files)
            return Change(NextState.of(state), write_files([written] if files or opened.table_id is None else []))
        rows = sum(result.rows for _, result in done)
        return self._frame_change(group, files, rows, columns, replaced, state, again=bool(read_again))

    def _bare(self) -> pa.Schema | None:
        """The columns of a table without rows that gets others with the first; None if it cannot."""
        import pyarrow as pa

        pipeline = self._source.pipeline
        grows = pipeline.schema.evolution is not Evolution.STRICT and pipeline.sink.partition_by is None
        own = declare_unit_columns(self._source.source, ()) if grows else []
        return pa.schema(own) if own else None

    def _frame_change(
        self,
        group: UnitGroup,
        files: Sequence[DataFile],
        rows: int,
        columns: pa.Schema,
        replaced: Sequence[ReplacedUnit],
        state: State,
        *,
        again: bool,
    ) -> Change:
        opened, source = self._opened, self._source
        is_transformed = bool(files) and source.pipeline.transform is not None
        batch = Batch(
            source.pipeline if is_transformed else replace(source.pipeline, transform=None),
            self._locate("rows"),
            tuple(file.path for file in files),
            columns,
            group.partition_columns,
            tuple(file.size for file in files),
            rows,
            source.source.rows,
            again,
        )
        frame = self._engine.replace_units(batch, source.source, replaced)
        keys = group.partition_columns if opened.table_id is None else opened.partition_columns
        write = self.lane.write(frame, opened, keys, rows, RowCount.GATHERED)
        return Change(NextState.of(state), write)

    def _is_straight(self, wave: Sequence[WorkUnit]) -> bool:
        """Whether files are written straight into the table's folder: nothing is replaced, the Arrow lane commits."""
        pipeline, source = self._source.pipeline, self._source.source
        plain = pipeline.transform is None and source.replace is not Replace.MERGE_KEYS
        return plain and not self._opened.needs_frames and not any(work.replaces for work in wave)

    def _locate(self, name: str) -> Location:
        return replace(self._area.location, uri=f"{self._area.location.uri}/{name}")
