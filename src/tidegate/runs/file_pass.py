"""One pass over a file source: open, discover, plan, read, commit, until nothing new is left.

Results count only once they are committed. When another run of the same source was first, everything read since
is forgotten and the pass begins again from the new position.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import accumulate
from typing import Any

from tidegate.core.files.plan import FileGroup, FileSlice, Plan
from tidegate.core.files.state import Changed, Covered, Failed, FileOutcome, NotReached, Refused
from tidegate.errors import ColumnsChanged, CommitLost, ObjectChanged, ObjectMissing, TidegateError
from tidegate.failpoints import failpoint
from tidegate.observe import events
from tidegate.observe.events import WaveFinished
from tidegate.protocol import notes
from tidegate.protocol.change import Change, Coverage
from tidegate.protocol.notes import Attempts
from tidegate.protocol.position import Position
from tidegate.runs.bound_source import Clock, Place, utc_now
from tidegate.runs.engine import FrameCommit, Lane, as_read, deadline_in, deal, raise_failures
from tidegate.runs.presence import attempts_before
from tidegate.runs.source_report import DeadLetters, Limits, given_up
from tidegate.runs.staged import step_json
from tidegate.runs.table_columns import TableColumnsPlan, resolve_columns
from tidegate.runs.tracker import SourceState, Step
from tidegate.schema.inference import Inference
from tidegate.sink.parquet_file import uuid7
from tidegate.sink.read_task import GroupResult, ReadTask
from tidegate.storage.uploads import UploadCounts

ADDS_PER_COMMIT = 10_000


def in_commits(results: Iterable[GroupResult]) -> Iterator[tuple[GroupResult, ...]]:
    """Whole results in the order of their units, together as long as a commit does not grow too large."""
    group: list[GroupResult] = []
    adds = 0
    for result in sorted(results, key=lambda result: result.number):
        if group and adds + len(result.data_files) > ADDS_PER_COMMIT:
            yield tuple(group)
            group, adds = [], 0
        group.append(result)
        adds += len(result.data_files)
    if group:
        yield tuple(group)


def first_files(units: Sequence[FileGroup], files: int) -> tuple[FileGroup, ...]:
    """The first units with at most ``files`` files together, at least one: what may fail at once is bounded."""
    total = accumulate(unit.files for unit in units)
    return tuple(unit for unit, so_far in zip(units, total, strict=True) if so_far <= files) or tuple(units[:1])


def coverage_of(results: Iterable[GroupResult]) -> tuple[Coverage, ...]:
    """The record ranges that these results hold."""
    return tuple(
        Coverage(each.path, each.size, each.etag, each.start, each.end, each.eof, each.rows, each.bad)
        for result in results
        for each in result.outcomes
        if isinstance(each, Covered)
    )


def left_of(units: Sequence[FileGroup], outcomes: Iterable[FileOutcome]) -> tuple[FileGroup, ...]:
    """The units that are still to be read: files that were not reached, and the rest of those read in part."""
    by_path = {outcome.path: outcome for outcome in outcomes}
    left = (
        FileGroup(unit.number, tuple(rest for each in unit.slices if (rest := _rest(each, by_path.get(each.path)))))
        for unit in units
    )
    return tuple(unit for unit in left if unit.slices)


def _rest(each: FileSlice, outcome: FileOutcome | None) -> FileSlice | None:
    match outcome:
        case None | NotReached():
            return each
        case Covered(eof=False, end=end):
            return replace(each, start_record=end, rounds=each.rounds + 1)
        case _:
            return None


def wave_finished(pipeline: str, source: str, results: Sequence[GroupResult], seconds: float) -> WaveFinished:
    """What tasks brought, for whoever listens."""
    files = [file for result in results for file in result.data_files]
    uploads = sum((result.uploads for result in results), UploadCounts())
    return WaveFinished(
        pipeline,
        source,
        units=len(results),
        failed_units=sum(result.failure is not None for result in results),
        data_files=len(files),
        bytes_written=sum(file.size for file in files),
        write_seconds=tuple(file.write_seconds for file in files),
        uploads=uploads.files,
        multipart_uploads=uploads.multipart,
        most_uploads=uploads.most_files,
        most_parts=uploads.most_parts,
        seconds=seconds,
    )


def kinds_of(results: Sequence[GroupResult]) -> dict[str, int]:
    """How many bad lines of each kind the results hold."""
    kinds: Counter[str] = Counter()
    for result in results:
        kinds.update(result.bad_kinds)
    return dict(kinds)


TRIES_AGAINST_OTHERS = 20
ROUNDS_FOR_CHANGED_FILES = 3
SLOTS_PER_CORE = 2


@dataclass(slots=True)
class Totals:
    """What a pass has done so far."""

    files: int = 0
    bytes: int = 0
    rows: int = 0
    commits: int = 0
    staged: int = 0
    table_version: int | None = None
    skipped: tuple[tuple[str, int], ...] = ()
    unknown_fields: dict[str, int] = field(default_factory=dict)
    bad_records: int = 0
    dead_files: int = 0


class SourcePass:
    """Carries one source as far as it goes now; ``state`` and ``totals`` tell how far that was."""

    action = "run"
    """What its commits say made them."""

    def __init__(
        self,
        place: Place,
        lane: Lane,
        *,
        emit: events.Emit = events.ignore,
        stop: threading.Event | None = None,
        clock: Clock = utc_now,
        polls: int = 0,
        slots: int | None = None,
        since: SourcePass | None = None,
    ) -> None:
        self.totals = Totals()
        self.state = place.state_of(None)
        self.opened: Position | None = None if since is None else since.opened
        self.is_first = False
        self.before: Attempts | None = None
        self._shown = None if since is None else type(since.state.watermark).__name__
        self._place = place.at_poll(polls)
        self._tracker = place.tracker
        self._lane = lane
        self._emit = emit
        self._stop = stop or threading.Event()
        self._clock = clock
        self._polls = polls
        self._slots = slots or place.parallelism * SLOTS_PER_CORE
        self._names = (place.pipeline.name, place.source.name)
        self._stalled = False
        self._run = uuid7()
        self._limits = Limits(place)
        self._frames: FrameCommit | None = None
        self._inferred: Inference | None = None

    def run(self) -> None:
        """Raises what stopped it; everything committed until then stays."""
        for attempt in range(TRIES_AGAINST_OTHERS):
            try:
                self.opened = self._from_position(self._open())
                return
            except (CommitLost, ColumnsChanged, ObjectMissing, ObjectChanged):
                if attempt + 1 == TRIES_AGAINST_OTHERS or self._stop.is_set():
                    raise

    def _open(self) -> Position:
        """The position; the one the pass before ended at, if nothing was committed to the table since."""
        before, self.opened = self.opened, None
        if before is not None and self._place.positions.is_current(before):
            return replace(before, warnings=())
        return self._place.positions.open()

    @property
    def state_files(self) -> int:
        """How many files the state names one by one."""
        return self._tracker.told(self.state).files

    @property
    def failed(self) -> tuple[tuple[str, Failed], ...]:
        """The files that could not be read, by path."""
        return tuple((path, each) for path, each in self.state.unfinished() if isinstance(each, Failed))

    def _from_position(self, opened: Position) -> Position:
        """Plan and carry out until nothing is left; the position reached."""
        for warning in opened.warnings:
            self._emit(events.Notice(*self._names, warning))
        self._emit(events.PollStarted(*self._names, opened.version, opened.table_version))
        self.is_first, self.before = opened.first_run, attempts_before(self._place, opened)
        self.state = self._place.opened_state(opened)
        self.totals.table_version = opened.table_version if opened.table_version >= 0 else None
        changed_rounds = 0
        while not self._stop.is_set():
            plan = self._planned(opened, self._clock())
            if plan.given_up:
                opened = self._give_up(opened, plan)
                continue
            if not plan.units:
                return self._nothing_to_read(opened, plan)
            before = opened.version
            opened, again, changed = self._carry_out(opened, plan)
            changed_rounds += changed
            if changed and changed_rounds < ROUNDS_FOR_CHANGED_FILES:
                continue
            if opened.version == before or (plan.complete and not again):
                break
        return opened

    def _planned(self, opened: Position, now: datetime) -> Plan:
        started = time.monotonic()
        listing = self._place.discover(self.state, now, self._polls)
        plan = self._place.plan(self.state, opened.version, listing, now)
        self._tell_plan(plan, time.monotonic() - started)
        failpoint("runs.planned")
        return plan

    def _tell_plan(self, plan: Plan, seconds: float) -> None:
        self._emit(events.Listed(*self._names, plan.files, plan.bytes, plan.list_requests, plan.listed_keys, seconds))
        for each in plan.skipped:
            example = each.examples[0] if each.examples else ""
            self._emit(events.FileFiltered(*self._names, each.reason.value, each.count, example))
        self.totals.skipped = tuple((each.reason.value, each.count) for each in plan.skipped)
        for note in plan.notes:
            self._emit(events.Notice(*self._names, note))
        if plan.late:
            self._emit(events.LateFilesFound(*self._names, len(plan.late), plan.late[0]))
        if plan.units:
            self._emit(events.PlanMade(*self._names, len(plan.units), plan.files, plan.bytes))

    def _nothing_to_read(self, opened: Position, plan: Plan) -> Position:
        if plan.opens is not None:
            if opened.first_run and opened.table_version < 0:
                fixed = self._place.positions.put_cold_start(self._tracker.encode(plan.opens))
                self.state = self._place.state_of(fixed)
            else:
                opened = self._commit(opened, self._tracker.advance(self.state, plan, ()), plan, (), None)
        elif not self.totals.commits and not self.totals.staged:
            before = self.state
            self.state = before if plan.waits else self._tracker.idle(before, plan.any_files)
            self._tell_state(before)
            opened = self._place.positions.idle(opened, self._tracker.encode(self.state))
        return opened

    def _give_up(self, opened: Position, plan: Plan) -> Position:
        """Files that are not read on become dead letters, and the watermark passes them."""
        letters, outcomes = given_up(self._place, self._run, plan.given_up)
        step = self._advanced(plan, outcomes)
        after = self._commit(opened, step, plan, (GroupResult(0, outcomes),), None, letters)
        self.totals.dead_files += letters.count
        self.totals.files -= letters.count
        self.totals.bytes -= sum(each.slice.size for each in plan.given_up)
        return after

    def _carry_out(self, opened: Position, plan: Plan) -> tuple[Position, bool, bool]:
        """Read and commit the plan's units; the position reached, whether to plan again, whether files changed."""
        columns = resolve_columns(self._place, as_read(self._place, opened), plan, self._emit)
        self._inferred = columns.inferred
        left: tuple[FileGroup, ...] = plan.units
        changed = False
        while left and not self._stop.is_set():
            self._frames = FrameCommit.of(self._place, self._lane, opened, self._clock())
            results = self._wave(columns, first_files(left, self._place.source.max_islands))
            outcomes = [outcome for result in results for outcome in result.outcomes]
            self._tell_outcomes(outcomes, left)
            self._limits.check(outcomes)
            changed = changed or any(isinstance(outcome, Changed) for outcome in outcomes)
            for group in [results] if self._frames else in_commits(results):
                opened, full = self._settle(opened, plan, columns, group)
                if full:
                    return opened, any(isinstance(outcome, Covered) for outcome in outcomes), changed
            raise_failures(results)
            left = self._left(left, outcomes)
        return opened, self._some_are_given_up(), changed

    def _some_are_given_up(self) -> bool:
        """Whether a file has failed for the last time: the next plan makes it a dead letter."""
        return any(each.attempts >= self._place.source.max_attempts for _, each in self.failed)

    def _left(self, units: tuple[FileGroup, ...], outcomes: Sequence[FileOutcome]) -> tuple[FileGroup, ...]:
        left = left_of(units, outcomes)
        if left == units and self._stalled:
            raise TidegateError(
                f"{'/'.join(self._names)}: two waves in a row read nothing of {len(units)} units",
                "look at the tasks' log; nothing was committed",
            )
        self._stalled = left == units
        return left

    def _wave(self, columns: TableColumnsPlan, units: Sequence[FileGroup]) -> tuple[GroupResult, ...]:
        self._lane.prepare()
        slots = deal(units, self._slots)
        files, size = sum(unit.files for unit in units), sum(unit.bytes for unit in units)
        self._emit(events.WaveStarted(*self._names, len(slots), files, size))
        task = self._task(columns) if self._frames is None else self._frames.task(self._task(columns))
        progressed = lambda done: self._emit(events.WaveProgressed(*self._names, done, len(slots)))  # noqa: E731
        started = time.monotonic()
        results = self._lane.execute(task, slots, progressed)
        self._emit(wave_finished(*self._names, results, time.monotonic() - started))
        failpoint("runs.read")
        return results

    def _task(self, columns: TableColumnsPlan) -> ReadTask:
        seconds = self._place.source.interval_secs
        deadline = None if self._stalled else deadline_in(seconds)
        return columns.task(self._place.pipeline, self._place.source, deadline, self._run)

    def _settle(
        self, opened: Position, plan: Plan, columns: TableColumnsPlan, results: Sequence[GroupResult]
    ) -> tuple[Position, bool]:
        """Commit one group of results with the state that follows from them."""
        outcomes = [outcome for result in results for outcome in result.outcomes]
        step = self._advanced(plan, outcomes)
        if step.changed:
            opened = self._commit(opened, step, plan, results, columns)
        self._limits.keep(outcomes)
        return opened, step.full

    def _advanced(self, plan: Plan, outcomes: Sequence[FileOutcome]) -> Step:
        """The state that follows once the rows of ``outcomes`` are committed."""
        return self._tracker.advance(self.state, plan, outcomes)

    def _commit(
        self,
        opened: Position,
        step: Step,
        plan: Plan | None,
        results: Sequence[GroupResult],
        columns: TableColumnsPlan | None,
        letters: DeadLetters | None = None,
    ) -> Position:
        written = self._tracker.written(step)
        state = self._tracker.encode(written)
        coverage = coverage_of(results)
        letters = letters or DeadLetters.of(results)
        outcomes = [outcome for result in results for outcome in result.outcomes]
        staged = self._place.positions.staged
        change = Change(
            state=state,
            embedded=self._tracker.embedded(state),
            coverage=coverage,
            data_files=tuple(file for result in results for file in result.data_files),
            rows=sum(result.rows for result in results),
            schema=None if columns is None else columns.table,
            partition_columns=() if columns is None else columns.partition_columns,
            dead_letter_files=letters.files,
            debts=(*self._schema_debts(), *letters.debts(self._place, opened)),
            letters=letters.count,
            action=self.action,
            step=step_json(self.state, plan, outcomes) if plan and staged else None,
            run=self._run,
            ranges=_ranges(results) if staged else {},
        )
        frames = self._frames if columns is not None else None
        try:
            change = change if frames is None or columns is None else frames.change(change, opened, columns)
            failpoint("runs.commit.before")
            after = self._place.positions.commit(opened, change)
        except TidegateError:
            if frames is not None:
                frames.drop()
            raise
        failpoint("runs.commit.after")
        self._inferred = None
        before, self.state = self.state, written
        self._count(change, results, after)
        self._tell_step(before, step)
        return after

    def _schema_debts(self) -> tuple[dict[str, Any], ...]:
        """Inferred columns are remembered after the first commit that was written with them."""
        return () if self._inferred is None else (notes.debt(self._inferred),)

    def _count(self, change: Change, results: Sequence[GroupResult], after: Position) -> None:
        totals = self.totals
        totals.commits += change.step is None
        totals.staged += change.step is not None
        totals.rows += after.rows if change.step is None else change.rows
        totals.files += sum(1 for each in change.coverage if each.eof)
        totals.bytes += sum(each.size for each in change.coverage if each.eof)
        totals.table_version = after.table_version if after.table_version >= 0 else None
        totals.bad_records += sum(each.bad for each in change.coverage if not each.given_up)
        self._tell_letters(change, results)
        for result in results:
            for name, count in sorted(result.unknown_fields.items()):
                totals.unknown_fields[name] = totals.unknown_fields.get(name, 0) + count

    def _tell_letters(self, change: Change, results: Sequence[GroupResult]) -> None:
        if not change.letters:
            return
        bad = [each for each in change.coverage if each.bad and not each.given_up]
        records = sum(each.bad for each in bad)
        example = (bad or list(change.coverage))[0].file
        files = change.letters - records
        kinds = kinds_of(results)
        self._emit(events.DeadLetters(*self._names, records, files, example, self._place.letters.uri, kinds))

    def _tell_outcomes(self, outcomes: Iterable[FileOutcome], units: Sequence[FileGroup]) -> None:
        attempts = {each.path: each.attempts for unit in units for each in unit.slices}
        for outcome in outcomes:
            match outcome:
                case Refused(path=path, reason=reason):
                    tried = attempts.get(path, 0) + 1
                    again = tried < self._place.source.max_attempts
                    self._emit(events.FileRefused(*self._names, path, reason, tried, again))
                case Changed(path=path):
                    self._emit(events.FileChanged(*self._names, path))
                case _:
                    pass

    def _tell_step(self, before: SourceState, step: Step) -> None:
        for partition, old, new in step.advanced:
            self._emit(events.PartitionAdvanced(*self._names, partition, old, new))
        for partition in step.sealed:
            self._emit(events.PartitionSealed(*self._names, partition))
        self._tell_state(before)

    def _tell_state(self, before: SourceState) -> None:
        old, new = self._shown or type(before.watermark).__name__, type(self.state.watermark).__name__
        self._shown = new
        if old != new:
            self._emit(events.WatermarkStateChanged(*self._names, old, new, self.state.value))


def _ranges(results: Sequence[GroupResult]) -> dict[str, tuple[Coverage, ...]]:
    """By data file, what its task covered; only metas of staged files tell it."""
    covered = [(result, coverage_of([result])) for result in results]
    return {file.path: ranges for result, ranges in covered for file in result.data_files}
