"""Staged delivery, the writer's side: runs leave numbered units, and the committer of the table commits them.

A unit has everything that ``Tracker.advance`` needs, so that writer and committer come to the same state without
listing the source again. A long listing is cut to what the unit covers; such a step seals nothing, a later one does.

What is pending counts as done: the position is the committed one plus every pending unit. A change becomes the next
unit. Its signal is written last and only if there is none with that number, so one writer wins each number; the second
one plans again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tidegate.core.files.paths import SourceFile, sort_key, split
from tidegate.core.files.plan import Plan
from tidegate.core.files.state import Covered, FileOutcome, Refused
from tidegate.errors import ObjectMissing, OutcomeUnknown, StateError, StorageUnavailable, TidegateError
from tidegate.failpoints import failpoint
from tidegate.observe.events import CommitContested, Staged
from tidegate.protocol.change import Change, Coverage, DataFile, StagedStep, State
from tidegate.protocol.commit import commit_lost, measure
from tidegate.protocol.open import Accept
from tidegate.protocol.position import Deadline, Position, TableContext
from tidegate.protocol.staging import Meta, StagedUnit, meta_path, pending_of, signals_of, unit_path
from tidegate.protocol.store import PositionStore
from tidegate.protocol.table import schema_json
from tidegate.protocol.table_checks import check_changes
from tidegate.runs.file_source import FileSource, FileTracker, SourceState, Step
from tidegate.tasks.read_task import outcome_from_json, outcome_to_json

PROPERTY = "delta.deletedFileRetentionDuration"
DEFAULT = timedelta(days=7)
_PART = re.compile(r"(\d+)\s+(microsecond|millisecond|second|minute|hour|day|week)s?", re.IGNORECASE)


def retention(properties: Mapping[str, str]) -> timedelta:
    """After what time a VACUUM removes files; a week if the table does not say.

    >>> retention({PROPERTY: "interval 1 week 2 days"}).days, retention({}).days
    (9, 7)
    """
    parts = _PART.findall(properties.get(PROPERTY, ""))
    total = sum((timedelta(**{f"{unit.lower()}s": int(number)}) for number, unit in parts), timedelta())
    return total if parts else DEFAULT


# The unit carries the listing, so that the committer need not list the source; a long one would outweigh the rest.
LISTED_IN_FULL = 10_000


def step_json(state: SourceState, plan: Plan, outcomes: Sequence[FileOutcome]) -> dict[str, Any]:
    """The arguments of a step from ``state``; ``after_step`` repeats it."""
    whole = len(plan.listed) <= LISTED_IN_FULL
    shown = replace(
        plan,
        groups=(),
        skipped=(),
        late=(),
        notes=(),
        remarks=(),
        given_up=(),
        future_seals=(),
        left_out=None,
        listed=plan.listed if whole else _up_to(plan.listed, outcomes),
        # A cut listing proves nothing about what lies beyond it, so the step must not seal.
        complete=plan.complete and whole,
    )
    return {
        "plan": shown.to_json(),
        "outcomes": [outcome_to_json(each) for each in outcomes],
        "unfinished": sorted(path for path, _ in state.find_unfinished()),
    }


def step_of(step: Mapping[str, Any]) -> tuple[Plan, tuple[FileOutcome, ...]]:
    """Decode the arguments of a step; ``StateError`` if they are wrong."""
    try:
        return Plan.from_json(step["plan"]), tuple(outcome_from_json(each) for each in step["outcomes"])
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(f"a staged step cannot be read ({error!r})", "let the writer plan again") from error


def after_step(tracker: FileTracker, state: SourceState, step: Mapping[str, Any]) -> Step:
    """The state once the rows of the step are committed on top of ``state``.

    That may be another state than the writer had: an earlier unit may have been rejected, and its files are unfinished
    again. They keep the watermark below them although the writer's listing does not have them. ``StateError`` if the
    step does not fit: something it covers is finished already, or was not begun where it continues.
    """
    plan, outcomes = step_of(step)
    known = dict(state.find_unfinished())
    _check_not_finished(tracker, state, plan, [each for each in outcomes if isinstance(each, Covered)])
    listed = {file.path: file for file in plan.listed}
    for path in known.keys() - set(step["unfinished"]):
        listed.setdefault(path, SourceFile(path, known[path].size or 0, known[path].etag))
    files = tuple(sorted(listed.values(), key=lambda file: sort_key(file.path)))
    return tracker.advance(state, replace(plan, listed=files), outcomes)


def without_step(tracker: FileTracker, state: SourceState, step: Mapping[str, Any]) -> SourceState | None:
    """The state once it is clear that the step will not be taken: every file of it is unfinished.

    The watermark stays below them, and the next plan reads them. None for a step without files: its purpose cannot be
    kept.
    """
    plan, outcomes = step_of(step)
    told = [each for each in outcomes if isinstance(each, Covered | Refused)]
    known = {path for path, _ in state.find_unfinished()}
    new = [SourceFile(each.path, each.size, each.etag) for each in told if each.path not in known]
    return tracker.reopen(state, tracker.sort_files(state, new, plan.now).due) if told else None


def _check_not_finished(tracker: FileTracker, state: SourceState, plan: Plan, taken: Sequence[Covered]) -> None:
    known = {path for path, _ in state.find_unfinished()}
    files = [SourceFile(each.path, each.size, each.etag) for each in taken if each.path not in known]
    for file in tracker.sort_files(state, files, plan.now).finished:
        raise StateError(f"{file.path} is finished already", "its rows will not be committed a second time")


def _up_to(listed: Sequence[SourceFile], outcomes: Sequence[FileOutcome]) -> tuple[SourceFile, ...]:
    """The listed files of each partition up to the last one with an outcome."""
    last: dict[str, str] = {}
    for outcome in outcomes:
        partition, name = split(outcome.path)
        last[partition] = max(name, last.get(partition, ""))
    return tuple(file for file in listed if split(file.path)[1] <= last.get(split(file.path)[0], ""))


THE_WAY_ON = "run `tidegate commit CONFIG --once`, which decides"


def stage(bound: FileSource) -> FileSource:
    """The source for runs with staged delivery: their commits become staged batches for ``tidegate commit``."""
    bound = with_memory_of_pending(bound)
    return replace(bound, positions=StagedPositions(bound))


def with_memory_of_pending(bound: FileSource) -> FileSource:
    """The same source with a tracker that remembers what pending units finished, if its state cannot."""
    return replace(bound, tracker=bound.tracker.keep_pending())


def read_group_at_once(site: TableContext, seq: int) -> StagedUnit:
    """One pending unit; ``StateError`` if it is invalid or another's, ``ObjectMissing`` if it is gone."""
    path = unit_path(site.key, seq)
    content = site.store.get(path)
    try:
        unit = StagedUnit.from_bytes(content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StateError(f"{site.uri}/{path} cannot be read as a unit ({error!r})", THE_WAY_ON) from error
    changes = site.identity.differences(unit.identity)
    if changes or (unit.key, unit.seq) != (site.key, seq):
        found = "; ".join(changes) or f"it says that it is unit {unit.seq} of {unit.key}"
        raise StateError(f"{site.uri}/{path} is about another source: {found}", THE_WAY_ON)
    return unit


def fold_units(bound: FileSource, state: SourceState, units: Iterable[StagedUnit]) -> SourceState:
    """The state once ``units`` are committed on top of ``state``; ``bound`` is one that is ``remembering``."""
    tracker = bound.tracker
    tracker.forget_pending()
    for unit in units:
        try:
            state = tracker.write_state(after_step(tracker, state, unit.step))
        except StateError as error:
            site = bound.positions.site
            path = unit_path(unit.key, unit.seq)
            raise StateError(f"{site.uri}/{path} does not fit: {error.problem}", THE_WAY_ON) from error
    return state


# A committer that removes units while they are listed leaves holes that the next listing does not have.
LISTINGS = 5


def units_pending(opened: Position) -> int:
    """The number of units between the committed position and the opened one."""
    return opened.version - (0 if opened.parent is None else opened.parent.version)


class StagedPositions(PositionStore):
    """The position of the source of ``bound``, pending units included."""

    staged = True

    def __init__(self, bound: FileSource) -> None:
        self.site = bound.positions.site
        self._bound = bound

    def open(self, accept: Collection[Accept] = (), *, read_only: bool = False) -> Position:
        """The committed position plus everything pending. Writes nothing: follow-ups are the committer's."""
        deadline = self.site.pace.start()
        for _ in range(LISTINGS):
            # Listed before OPEN: a unit that is committed in between is then below the position, instead of missing
            # above it.
            listed = [signal.seq for signal in signals_of(self.site.store, self.site.key)]
            committed = super().open(accept, read_only=True)
            above = [seq for seq in listed if seq > committed.version]
            if above == list(range(committed.version + 1, committed.version + 1 + len(above))):
                try:
                    units = [read_group_at_once(self.site, seq) for seq in above]
                except ObjectMissing:
                    continue
                return self._fold(replace(committed, unpaid=False), units)
            deadline.pause()
        raise StateError(
            f"{self.site.key}: units are missing in {self.site.uri}/{pending_of(self.site.key)}: position "
            f"{committed.version} is committed, and those that wait are {_number_text(above)}",
            "put the missing ones back; or remove those that wait, and the next run reads their rows again",
        )

    def is_current(self, opened: Position) -> bool:
        """Whether nothing was committed to the table and no unit was added since ``opened``."""
        return super().is_current(opened) and not self._exists(unit_path(self.site.key, opened.version + 1))

    def idle(self, opened: Position, state: State) -> Position:
        """Show in the mirror that a poll found nothing, if the source is there."""
        return replace(opened, state=state) if units_pending(opened) else super().idle(opened, state)

    def commit(self, opened: Position, change: Change) -> Position:
        """Leave ``change`` as the next unit; ``CommitLost`` if there is one with that number."""
        assert change.staged is not None, "a committer must be able to repeat the step"
        check_changes([(change, opened.data_files)])
        deadline = self.site.pace.start()
        unit = self._unit(opened, change, change.staged)
        measure(self.site, unit.data_files)
        # Metas before the signal: whoever sees the signal finds everything that it names.
        for file in unit.data_files:
            failpoint("staging.meta.before")
            meta = _meta(unit, file, change.staged.ranges.get(file.path, ()))
            self.site.store.put(meta_path(file.path), meta.to_bytes())
            failpoint("staging.meta.after")
        self._signal(unit, deadline)
        # Put-if-absent cannot see a unit that was committed and removed before; then ours would wait for ever.
        self._check_not_overtaken(opened, unit)
        self.site.emit(_event(unit, deadline))
        return replace(opened, version=unit.seq, state=change.next.complete, letters=opened.letters + unit.letters)

    def _fold(self, opened: Position, units: Sequence[StagedUnit]) -> Position:
        state = fold_units(self._bound, self._bound.state_of(opened), units)
        if not units:
            return opened
        letters = opened.letters + sum(unit.letters for unit in units)
        return replace(opened, version=units[-1].seq, state=self._bound.tracker.encode(state), letters=letters)

    def _unit(self, opened: Position, change: Change, staged: StagedStep) -> StagedUnit:
        written = next(iter(change.write.groups), None)
        return StagedUnit(
            key=self.site.key,
            seq=opened.version + 1,
            attempt=self.site.attempts(),
            identity=self.site.identity,
            run=staged.run,
            written_at=self.site.pace.now().isoformat(),
            base=opened.table_version,
            step=staged.step,
            coverage=change.coverage,
            data_files=change.write.data_files,
            rows=change.write.rows,
            schema_json=None if written is None else schema_json(written.schema),
            partition_columns=() if written is None else written.partition_columns,
            letter_files=change.letters.files,
            letters=change.letters.opened,
            letters_uri=self._bound.tracker.letters.uri if change.letters.files else None,
            action=change.action,
        )

    def _signal(self, unit: StagedUnit, deadline: Deadline) -> None:
        """Write the signal until it is there. An error does not mean that it is not: it is read back."""
        path, content = unit_path(unit.key, unit.seq), unit.to_bytes()
        while True:
            problem: Exception
            try:
                failpoint("staging.unit.before")
                self.site.store.put_if_absent(path, content)
                failpoint("staging.unit.after")
                return
            # Whatever it says: a lost response raises, too, and only reading the object back shows whose it is.
            except Exception as error:
                problem = error
            try:
                if self.site.store.get(path) == content:
                    return
                raise self._lost(unit, "another writer")
            except ObjectMissing:
                unclear = False
            except StorageUnavailable:
                unclear = True
            if deadline.passed:
                raise _too_late(unit, path, deadline, problem, unclear) from problem
            deadline.pause()

    def _check_not_overtaken(self, opened: Position, unit: StagedUnit) -> None:
        """Stop if the number was committed and removed before the signal came: such a unit counts for nothing."""
        if not super().is_current(opened) and self.position() >= unit.seq:
            raise self._lost(unit, "a commit")

    def _lost(self, unit: StagedUnit, by: str) -> TidegateError:
        detail = f"position {unit.seq} was taken by {by}"
        self.site.emit(CommitContested(unit.key.pipeline, unit.key.source, detail))
        return commit_lost(self.site, unit.seq - 1, by)

    def _exists(self, path: str) -> bool:
        try:
            self.site.store.head(path)
        except ObjectMissing:
            return False
        return True


def _meta(unit: StagedUnit, file: DataFile, ranges: tuple[Coverage, ...]) -> Meta:
    """The meta of one file of a unit."""
    return Meta(
        filename=file.path,
        size=file.size,
        record_count=file.record_count,
        partition_values=file.partition_values,
        source_file=getattr(file, "source_file", None),
        pipeline=unit.key.pipeline,
        source=unit.key.source,
        attempt=unit.attempt,
        ranges=ranges,
        stats=file.stats,
        schema_json=unit.schema_json,
    )


def _event(unit: StagedUnit, deadline: Deadline) -> Staged:
    files = {item.file: item.size for item in unit.coverage}
    return Staged(
        unit.key.pipeline,
        unit.key.source,
        position=unit.seq,
        source_files=len(files),
        source_bytes=sum(files.values()),
        data_files=len(unit.data_files),
        rows=unit.rows,
        seconds=deadline.seconds,
    )


def _too_late(unit: StagedUnit, path: str, deadline: Deadline, problem: Exception, unclear: bool) -> TidegateError:
    waited = f"after {deadline.seconds:.0f} s"
    if unclear:
        return OutcomeUnknown(
            f"{unit.key}: {waited} it is unknown whether {path} was written ({problem})",
            "run again when the storage responds: the next run finds out and continues from there",
        )
    return StorageUnavailable(
        f"{unit.key}: {path} could not be written; given up {waited} (last problem: {problem})",
        "nothing was lost: run again; to retry for longer, raise global.commit_deadline_secs",
    )


def _number_text(numbers: list[int]) -> str:
    more = f" and {len(numbers) - 10} more" if len(numbers) > 10 else ""
    return ", ".join(map(str, numbers[:10])) + more
