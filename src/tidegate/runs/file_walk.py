"""The walk over a file source: discover, plan, read, and commit whenever due, until nothing new is left.

Tasks read groups of files; they begin one after the other, a few at once, and continue while the driver commits. Their
results are gathered until a commit is due; then everything finished goes into it. So a slow task delays no other, and a
killed run repeats at most what waited for a commit and what was under way. Bad records, and given-up files, are dead
letters of the same commit.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from time import monotonic
from typing import Any

from tidegate.core.files.discovery import Reason
from tidegate.core.files.plan import FileGroup, FileSlice, GivenUp, Plan
from tidegate.core.files.state import Changed, Covered, Failed, FileOutcome, NotReached, Refused
from tidegate.errors import LimitReached, RunStopped, StateError, TidegateError
from tidegate.failpoints import failpoint
from tidegate.observe import events
from tidegate.parquet.parquet_file import uuid7
from tidegate.protocol.change import (
    Change,
    Coverage,
    LetterFiles,
    NextState,
    NoRows,
    StagedStep,
    Write,
    Written,
    write_files,
)
from tidegate.protocol.dead_letters import debt
from tidegate.protocol.position import Position, schema_debt
from tidegate.reports.wording import count
from tidegate.runs.engine import FileTasks, Tasks
from tidegate.runs.file_source import FileSource, SourceState, Step, Steps, plan_files
from tidegate.runs.lanes import FrameLane, TableColumnsPlan, as_read, resolve_columns
from tidegate.runs.pass_ import Pass
from tidegate.runs.staged import step_json
from tidegate.schema.inference import Inference
from tidegate.storage.port import UploadCounts
from tidegate.tasks.dead_letters import DeadLetterTarget, DeadLetterWriter
from tidegate.tasks.read_task import (
    CommitLimits,
    FinishedGroup,
    FinishedResults,
    GroupResult,
    Hear,
    ReadTask,
    TaskActivity,
)

# A file that somebody keeps writing would otherwise hold the pass for ever; the next poll finds it again.
ROUNDS_FOR_CHANGED_FILES = 3
FRACTION_FROM = 100
"""Lines from which the share of bad ones is meaningful."""

# What ``check_changes`` allows; a larger batch becomes two commits instead of an error.
ADDS_PER_COMMIT = 10_000

Progress = Callable[[int, int, int], None]


class FileWalk:
    """One pass over a file source. Other walks override ``plan``, ``advance``, ``task``, ``rest`` and ``count``."""

    def __init__(self, run: Pass) -> None:
        self.run = run
        self.source: FileSource = run.source
        self.tracker = self.source.tracker
        self.names = run.names
        self.run_id = uuid7()
        self._shown = None if run.previous is None else type(run.previous.watermark).__name__
        self._limits = Limits(self.source)
        self._steps: tuple[Plan, Steps] | None = None
        self._frames: FrameLane | None = None
        self._inferred: Inference | None = None

    def go(self, position: Position) -> Position:
        """Plan and carry out until nothing is left; returns the position reached."""
        changed_rounds = 0
        while not self.run.stop.is_set():
            plan = self.plan(position, self.run.clock())
            if plan.given_up:
                position = self._give_up(position, plan)
                continue
            if not plan.groups:
                return self.rest(position, plan)
            before = position.version
            position, again, changed = self._carry_out(position, plan)
            changed_rounds += changed
            if changed and changed_rounds < ROUNDS_FOR_CHANGED_FILES:
                continue
            if position.version == before or (plan.complete and not again):
                break
        return position

    def plan(self, position: Position, now: datetime) -> Plan:
        """What to read on top of ``position``."""
        started = time.monotonic()
        run = self.run
        plan = plan_files(self.source, run.state, position.version, now, polls=run.polls)
        self._tell_plan(plan, time.monotonic() - started)
        failpoint("runs.planned")
        return plan

    def advance(self, plan: Plan, outcomes: Sequence[FileOutcome]) -> Step:
        """The state once the rows of ``outcomes`` are committed."""
        if self._steps is None or self._steps[0] is not plan:
            self._steps = plan, self.tracker.steps(plan)
        return self._steps[1](self.run.state, outcomes)

    def task(self, columns: TableColumnsPlan) -> ReadTask:
        """The settings of every task of a plan."""
        return columns.task(self.source.pipeline, self.source.source, self.source.source.interval_secs, self.run_id)

    def rest(self, position: Position, plan: Plan) -> Position:
        """Without anything to read, fix the cold start, or show in the mirror that a run looked."""
        run, tracker = self.run, self.tracker
        if plan.opens is not None:
            # Nothing can be committed yet, and the bound must not move with the clock from run to run.
            if position.first_run and position.table_version < 0:
                fixed = self.source.positions.put_cold_start(tracker.encode(plan.opens))
                run.state = tracker.decode(fixed)
            else:
                position = self.commit(position, tracker.advance(run.state, plan, ()), plan, (), None)
        elif not run.totals.commits and not run.totals.staged:
            before = run.state
            run.state = before if plan.waits else tracker.idle(before, plan.any_files)
            self._tell_state(before)
            position = run.idle(position, tracker.encode(run.state))
        return position

    def count(self, change: Change, results: Sequence[GroupResult]) -> None:
        """Count the results of a commit."""
        totals = self.run.totals
        totals.files += sum(1 for each in change.coverage if each.eof)
        totals.bytes += sum(each.size for each in change.coverage if each.eof)
        totals.bad_records += sum(each.bad for each in change.coverage if not each.given_up)
        self._tell_letters(change, results)
        for result in results:
            totals.unknown_fields.update(dict(sorted(result.unknown_fields.items())))
            totals.lacks_native |= result.lacks_native

    def commit(
        self,
        position: Position,
        step: Step,
        plan: Plan | None,
        results: Sequence[GroupResult],
        columns: TableColumnsPlan | None,
        letters: LetterFiles | None = None,
    ) -> Position:
        """Commit results with the state that follows from them."""
        # Before the document: a state must never refer to a segment that is not there.
        written = self.tracker.write_state(step)
        state = self.tracker.encode(written)
        letters = letters or letters_of(results)
        before = self.run.state
        schema_debts = () if self._inferred is None else (schema_debt(self._inferred),)
        change = Change(
            NextState(state, self.source.abridge(state)),
            self._write(position, results, columns),
            coverage=coverage_of(results),
            letters=letters,
            debts=(*schema_debts, *letter_debts(letters, self.source, position)),
            action=self.run.action,
            staged=self._staged_step(before, plan, results) if self.source.positions.staged else None,
        )
        after = self.run.commit(position, change, written)
        if self._frames is not None:
            self._frames.release()
        self._inferred = None
        self.count(change, results)
        self._tell_step(before, step)
        return after

    def _write(self, position: Position, results: Sequence[GroupResult], columns: TableColumnsPlan | None) -> Write:
        """How the rows of results get into the table."""
        if columns is None:
            return NoRows()
        files = tuple(file for result in results for file in result.data_files)
        if self._frames is not None:
            return self._frames.write_files(files, position, columns)
        return write_files([Written(columns.table, columns.partition_columns, files)])

    def _staged_step(self, before: SourceState, plan: Plan | None, results: Sequence[GroupResult]) -> StagedStep:
        step = {} if plan is None else step_json(before, plan, outcomes_of(results))
        return StagedStep(self.run_id, step, _ranges(results))

    def _tell_plan(self, plan: Plan, seconds: float) -> None:
        emit = self.run.emit
        emit(events.Listed(*self.names, plan.files, plan.bytes, plan.list_requests, plan.listed_keys, seconds))
        for each in plan.skipped:
            example = each.examples[0] if each.examples else ""
            emit(events.FileFiltered(*self.names, each.reason.value, each.count, example))
        self.run.totals.empty = not plan.any_files
        # Only the first plan of a first run counts what it leaves out; the report of the run keeps that.
        kept = {reason: number for reason, number in self.run.totals.skipped.items() if reason == Reason.BEFORE_START}
        self.run.totals.skipped = {**kept, **{each.reason.value: each.count for each in plan.skipped}}
        for seal in plan.future_seals:
            below = f"{seal.below:%Y-%m-%dT%H:%M:%SZ}"
            emit(events.FutureSealFound(*self.names, str(seal), seal.prefix, below, seal.folder))
        for note in (*(() if plan.left_out is None else (str(plan.left_out),)), *plan.notes):
            self.run.notice(note)
        if plan.late:
            emit(events.LateFilesFound(*self.names, len(plan.late), plan.late[0]))
        if plan.groups:
            emit(events.PlanMade(*self.names, len(plan.groups), plan.files, plan.bytes))

    def _give_up(self, position: Position, plan: Plan) -> Position:
        """Make given-up files dead letters, and let the watermark pass them."""
        letters, outcomes = give_up_files(self.source, self.run_id, plan.given_up)
        step = self.advance(plan, outcomes)
        after = self.commit(position, step, plan, (GroupResult(0, outcomes),), None, letters)
        totals = self.run.totals
        totals.dead_files += letters.opened
        # ``count`` took them for read files, since their coverage ends with eof.
        totals.files -= letters.opened
        totals.bytes -= sum(each.slice.size for each in plan.given_up)
        return after

    def _carry_out(self, position: Position, plan: Plan) -> tuple[Position, bool, bool]:
        """Read and commit the plan's groups; returns the position, whether to plan again, whether files changed."""
        run, source = self.run, self.source
        # Before the engine starts: a schema that does not fit costs no JVM.
        columns = resolve_columns(source, as_read(source, position), plan, run.emit, may_grow=True)
        self._inferred = columns.inferred
        self._frames = FrameLane.of(source, run.engine, position, run.clock())
        run.engine.prepare()
        run.emit(events.WaveStarted(*self.names, len(plan.groups), plan.files, plan.bytes))
        queue = self._queue(plan, self.task(columns))
        progressed = changed = False
        started = time.monotonic()
        try:
            # Closed even when a commit is lost: tasks still under way would write files that nobody takes.
            with closing(queue.batches(run.engine)) as batches:
                for results in batches:
                    run.emit(_wave_finished(*self.names, results, time.monotonic() - started))
                    failpoint("runs.read")
                    outcomes = outcomes_of(results)
                    self._tell_outcomes(outcomes, plan.groups)
                    # Before the commit: what exceeds the limit must not become visible, and what was committed before
                    # stays.
                    self._limits.check(outcomes)
                    changed = changed or any(isinstance(outcome, Changed) for outcome in outcomes)
                    progressed = progressed or any(isinstance(outcome, Covered) for outcome in outcomes)
                    position, queue.is_full = self._settle(position, plan, columns, results)
                    started = time.monotonic()
        finally:
            if self._frames is not None:
                self._frames.drop()
        return position, (queue.is_full and progressed) or self._some_are_given_up(), changed

    def _queue(self, plan: Plan, task: ReadTask) -> GroupQueue:
        run, source, sink, frames = self.run, self.source.source, self.source.pipeline.sink, self._frames
        tasks = len(plan.groups)
        return GroupQueue(
            plan.groups,
            (lambda group: task) if frames is None else (lambda group: frames.task(task)),
            at_once=self.source.slots,
            limits=CommitLimits(sink.commit_batch_files, source.interval_files, source.interval_secs),
            uncommitted=source.max_islands,
            stop=run.stop,
            take=(lambda done: done.results) if frames is None else frames.take,
            progress=lambda done, *read: run.emit(events.WaveProgressed(*self.names, done, max(done, tasks), *read)),
            hear=_activity_events(self.names, run.emit),
        )

    def _some_are_given_up(self) -> bool:
        """Whether a file has failed for the last time: the next plan makes it a dead letter."""
        failed = (each for _, each in self.run.state.find_unfinished() if isinstance(each, Failed))
        return any(each.attempts >= self.source.source.max_attempts for each in failed)

    def _settle(
        self, position: Position, plan: Plan, columns: TableColumnsPlan, results: Sequence[GroupResult]
    ) -> tuple[Position, bool]:
        """Commit one group of results with the state that follows from them."""
        outcomes = outcomes_of(results)
        step = self.advance(plan, outcomes)
        if step.changed:
            position = self.commit(position, step, plan, results, columns)
        self._limits.keep(outcomes)
        return position, step.full

    def _tell_letters(self, change: Change, results: Sequence[GroupResult]) -> None:
        if not change.letters.opened:
            return
        bad = [each for each in change.coverage if each.bad and not each.given_up]
        records = sum(each.bad for each in bad)
        example = (bad or list(change.coverage))[0].file
        kinds = sum((Counter(result.bad_kinds) for result in results), Counter[str]())
        letters, given_up = self.tracker.letters.uri, change.letters.opened - records
        self.run.emit(events.DeadLetters(*self.names, records, given_up, example, letters, dict(kinds)))

    def _tell_outcomes(self, outcomes: Iterable[FileOutcome], units: Sequence[FileGroup]) -> None:
        attempts: dict[str, int] = {}
        for outcome in outcomes:
            match outcome:
                case Refused(path=path, reason=reason):
                    attempts = attempts or {each.path: each.attempts for unit in units for each in unit.slices}
                    tried = attempts.get(path, 0) + 1
                    again = tried < self.source.source.max_attempts
                    self.run.emit(events.FileRefused(*self.names, path, reason, tried, again))
                case Changed(path=path):
                    self.run.emit(events.FileChanged(*self.names, path))
                case _:
                    pass

    def _tell_step(self, before: SourceState, step: Step) -> None:
        for partition, old, new in step.advanced:
            self.run.emit(events.PartitionAdvanced(*self.names, partition, old, new))
        for partition in step.sealed:
            self.run.emit(events.PartitionSealed(*self.names, partition))
        self._tell_state(before)

    def _tell_state(self, before: SourceState) -> None:
        state = self.run.state
        old, new = self._shown or type(before.watermark).__name__, type(state.watermark).__name__
        self._shown = new
        if old != new:
            self.run.emit(events.WatermarkStateChanged(*self.names, old, new, state.value))


def coverage_of(results: Iterable[GroupResult]) -> tuple[Coverage, ...]:
    """The record ranges of these results."""
    return list_coverage(outcomes_of(results))


def list_coverage(outcomes: Iterable[FileOutcome]) -> tuple[Coverage, ...]:
    """The record ranges of these outcomes."""
    return tuple(
        Coverage(each.path, each.size, each.etag, each.start, each.end, each.eof, each.rows, each.bad)
        for each in outcomes
        if isinstance(each, Covered)
    )


def _ranges(results: Sequence[GroupResult]) -> dict[str, tuple[Coverage, ...]]:
    """The coverage of each data file's task; only metas of staged files have it."""
    covered = [(result, coverage_of([result])) for result in results]
    return {file.path: ranges for result, ranges in covered for file in result.data_files}


def _activity_events(names: tuple[str, str], emit: events.Emit) -> Hear:
    """A callback that emits changes of the tasks' activity."""
    before = TaskActivity()

    def hear(now: TaskActivity) -> None:
        nonlocal before
        if (now.files, now.parts) != (before.files, before.parts):
            emit(events.UploadsChanged(*names, now.files, now.parts))
        if (now.bytes, now.rows) != (before.bytes, before.rows):
            emit(events.TasksReading(*names, now.bytes, now.rows))
        before = now

    return hear


def _wave_finished(pipeline: str, source: str, results: Sequence[GroupResult], seconds: float) -> events.WaveFinished:
    """The event for results that are committed together."""
    files = [file for result in results for file in result.data_files]
    uploads = sum((result.uploads for result in results), UploadCounts())
    return events.WaveFinished(
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


class Limits:
    """How much may go wrong in one pass; :meth:`check` raises before the commit that would exceed it."""

    def __init__(self, bound: FileSource) -> None:
        self._handling = bound.pipeline.error_handling
        self._name = f"{bound.pipeline.name}/{bound.source.name}"
        self._failures = 0
        self._bad = 0
        self._lines = 0

    def check(self, outcomes: Sequence[FileOutcome]) -> None:
        """Raise if these, with what was committed before, are too many."""
        handling = self._handling
        failures, bad, lines = self._with(outcomes)
        wrong = [
            each.path for each in outcomes if isinstance(each, Refused) or (isinstance(each, Covered) and each.bad)
        ]
        last = wrong[-1] if wrong else "an earlier file"
        if handling.max_failures and failures > handling.max_failures:
            raise self._exceed(f"{failures} files could not be read", "max_failures", handling.max_failures, last)
        if handling.max_bad_records and bad > handling.max_bad_records:
            raise self._exceed(f"{bad} bad records", "max_bad_records", handling.max_bad_records, last)
        share = handling.max_bad_fraction
        if share and lines >= FRACTION_FROM and bad > share * lines:
            raise self._exceed(f"{bad} of {lines} records are bad", "max_bad_fraction", share, last)

    def keep(self, outcomes: Sequence[FileOutcome]) -> None:
        """Count committed outcomes."""
        self._failures, self._bad, self._lines = self._with(outcomes)

    def _with(self, outcomes: Sequence[FileOutcome]) -> tuple[int, int, int]:
        covered = [each for each in outcomes if isinstance(each, Covered)]
        return (
            self._failures + sum(isinstance(each, Refused) for each in outcomes),
            self._bad + sum(each.bad for each in covered),
            self._lines + sum(each.end - each.start for each in covered),
        )

    def _exceed(self, found: str, key: str, limit: float, example: str) -> LimitReached:
        return LimitReached(
            f"{self._name}: {found} in this run, error_handling.{key} is {limit:g}; e.g. in {example}",
            f"nothing above the limit was committed; correct the files or the schema, or raise {key}",
        )


def letters_of(results: Iterable[GroupResult]) -> LetterFiles:
    """The letters that tasks wrote."""
    files = tuple(file for result in results for file in result.letter_files)
    return LetterFiles(files, sum(file.record_count for file in files))


def letter_debts(letters: LetterFiles, bound: FileSource, opened: Position) -> tuple[dict[str, Any], ...]:
    """The commit's debt to the dead-letter table, after checking that it may owe it."""
    if not letters.files:
        return ()
    bound.tracker.letters.check(letters.files)
    _check_not_ahead(bound, opened)
    return (debt(bound.tracker.letters.uri, letters.files),)


def _check_not_ahead(bound: FileSource, opened: Position) -> None:
    """Stop if the dead-letter table is ahead of the table: new letters would count as known ones.

    A rival that moved the source meanwhile is no such case: then the table is ahead, too, and the commit is lost.
    """
    ahead = bound.tracker.letters.position(opened)
    if ahead > opened.version and bound.positions.position() == opened.version:
        raise StateError(
            f"{bound.key}: dead-letter table {bound.tracker.letters.uri} is at position {ahead}, and its table at "
            f"{opened.version}: one of them was put back from a copy; new letters would be taken for known ones",
            "set error_handling.dlq_path to a new place",
        )


def give_up_files(bound: FileSource, run: str, files: Sequence[GivenUp]) -> tuple[LetterFiles, tuple[Covered, ...]]:
    """Write letters for given-up files; returns the outcomes that let the watermark pass them."""
    letters = letter_writer(bound, run)
    with contextlib.closing(letters):
        for each in files:
            letters.add_file(each.slice, each.reason, each.stage.value)
        finished = letters.cut()
    outcomes = tuple(
        Covered(one.path, one.size, one.etag, one.start_record, one.start_record, eof=True, bad=1)
        for one in (each.slice for each in files)
    )
    return LetterFiles(finished, len(files)), outcomes


def letter_writer(bound: FileSource, run: str, fingerprint: str = "") -> DeadLetterWriter:
    """A writer for letters of the driver."""
    target = bound.pipeline.dead_letters
    return DeadLetterWriter(DeadLetterTarget(target, bound.pipeline.name, bound.source.name, run, fingerprint))


class GroupQueue:
    """The groups of a plan: those that wait, those that tasks are reading, and finished uncommitted results.

    ``task`` makes the task of a group, ``at_once`` is the most tasks at a time. At most ``uncommitted`` files are under
    way or finished at once, and at least one group: that bounds memory, and what may fail together. ``take`` may change
    results as they come in; ``progress`` gets the number of finished tasks, and their uncommitted bytes and rows;
    ``hear`` gets their activity, from any thread.
    """

    def __init__(
        self,
        groups: Sequence[FileGroup],
        task: Callable[[FileGroup], ReadTask],
        *,
        at_once: int,
        limits: CommitLimits | None = None,
        uncommitted: int | None = None,
        stop: threading.Event | None = None,
        take: Callable[[FinishedGroup], tuple[GroupResult, ...]] = lambda done: done.results,
        progress: Progress = lambda done, size, rows: None,
        hear: Hear = lambda now: None,
    ) -> None:
        self.left = list(groups)
        self.is_full = False
        self._task = task
        self._at_once = at_once
        self._limits = limits or CommitLimits()
        self._uncommitted = uncommitted
        self._stop = stop or threading.Event()
        self._take = take
        self._progress = progress
        self._hear = hear
        self._finished = FinishedResults()
        self._under_way = 0
        self._done = 0
        self._failures: list[TidegateError] = []
        self._last = monotonic()

    def batches(self, engine: FileTasks) -> Generator[list[GroupResult]]:
        """Results that are due for a commit, until nothing is left or nothing more may be read.

        Set ``is_full`` in between to begin no further group. Raises what ended a task, or failed a group, after
        everything finished was handed over.
        """
        with engine.tasks(self._at_once, self._limits, self._hear) as tasks:
            problem: TidegateError | None = None
            while problem is None:
                self._submit(tasks)
                if not tasks.count:
                    break
                try:
                    for done in tasks.take_finished(self._patience()):
                        self._receive(done)
                # Kept until everything finished is handed over: one task's failure must not cost the work of the
                # others.
                except TidegateError as error:
                    problem = error
                if self._is_due():
                    yield from self._hand_over()
            yield from self._hand_over()
            if problem or self._failures:
                raise problem or self._failures[0]

    def _submit(self, tasks: Tasks) -> None:
        if self._stop.is_set() or self.is_full or len(self._failures) >= self._at_once:
            withdrawn = tasks.withdraw()
            self._under_way -= sum(group.files for group in withdrawn)
            self.left[:0] = withdrawn
            return
        while self.left and not self._failures and self._has_room(self.left[0]):
            group = self.left.pop(0)
            self._under_way += group.files
            tasks.submit(self._task(group), group)

    def _has_room(self, group: FileGroup) -> bool:
        waiting = self._under_way + self._finished.files
        return self._uncommitted is None or not waiting or waiting + group.files <= self._uncommitted

    def _is_due(self) -> bool:
        return self._limits.are_reached(self._finished, monotonic() - self._last)

    def _patience(self) -> float | None:
        """Seconds to wait for the next task before a commit is due."""
        if not self._finished.results or self._limits.seconds is None:
            return None
        return max(0.0, self._last + self._limits.seconds - monotonic())

    def _receive(self, done: FinishedGroup) -> None:
        self._done += 1
        self._under_way -= done.group.files
        results = self._take(done)
        for result in results:
            self._finished.add(result)
        failures = [result.failure for result in results if result.failure is not None]
        self._failures.extend(failures)
        if not failures:
            rest = find_unread((done.group,), outcomes_of(results))
            # Handing the same group out again and again would look like work and never end.
            if rest == (done.group,):
                raise TidegateError(
                    f"a task read nothing of {count(done.group.files, 'file')}, {done.group.slices[0].path} first",
                    "look at the log of the tasks; nothing was committed",
                )
            # At the front: the watermark waits for the smallest name.
            self.left[:0] = rest
        rows = sum(result.rows for result in self._finished.results)
        self._progress(self._done, self._finished.source_bytes, rows)

    def _hand_over(self) -> Iterator[list[GroupResult]]:
        """Everything finished, in as few commits as the limits allow."""
        finished, self._finished = self._finished, FinishedResults()
        yield from in_commits(finished.results, self._limits)
        self._last = monotonic()


def read_all(
    engine: FileTasks,
    task: ReadTask,
    groups: Sequence[FileGroup],
    *,
    at_once: int,
    stop: threading.Event | None = None,
    check: Callable[[Sequence[FileOutcome]], None] = lambda outcomes: None,
    progress: Progress = lambda done, size, rows: None,
) -> tuple[GroupResult, ...]:
    """All results of ``groups``; raises if a part of them could not be read, or ``stop`` was set before.

    ``check`` gets the outcomes of each task, and may raise.
    """

    def take(done: FinishedGroup) -> tuple[GroupResult, ...]:
        check(outcomes_of(done.results))
        return done.results

    engine.prepare()
    queue = GroupQueue(groups, lambda group: task, at_once=at_once, stop=stop, take=take, progress=progress)
    results = tuple(result for batch in queue.batches(engine) for result in batch)
    if queue.left:
        raise RunStopped("stopped while files were read again; nothing was changed")
    return results


def in_commits(results: Iterable[GroupResult], limits: CommitLimits | None = None) -> Iterator[list[GroupResult]]:
    """Whole results in the order of their groups, combined as long as no commit exceeds the limits."""
    limits = limits or CommitLimits()
    files = min(ADDS_PER_COMMIT, limits.data_files or ADDS_PER_COMMIT)
    group = FinishedResults()
    # By number, not by finish: then a commit that is split passes the watermark over the smaller names first.
    for result in sorted(results, key=lambda result: result.number):
        alone = FinishedResults()
        alone.add(result)
        sources = group.source_files + alone.source_files
        is_over = limits.source_files is not None and sources > limits.source_files
        if group.results and (is_over or group.data_files + alone.data_files > files):
            yield group.results
            group = FinishedResults()
        group.add(result)
    if group.results:
        yield group.results


def outcomes_of(results: Iterable[GroupResult]) -> list[FileOutcome]:
    """The outcome of each file."""
    return [outcome for result in results for outcome in result.outcomes]


def find_unread(groups: Sequence[FileGroup], outcomes: Iterable[FileOutcome]) -> tuple[FileGroup, ...]:
    """What is left to read: unreached files, and the rest of those read in part."""
    by_path = {outcome.path: outcome for outcome in outcomes}
    left = (
        FileGroup(group.number, tuple(rest for each in group.slices if (rest := _rest(each, by_path.get(each.path)))))
        for group in groups
    )
    return tuple(group for group in left if group.slices)


def _rest(each: FileSlice, outcome: FileOutcome | None) -> FileSlice | None:
    match outcome:
        case None | NotReached():
            return each
        case Covered(eof=False, end=end):
            return replace(each, start_record=end, rounds=each.rounds + 1)
        case _:
            return None
