"""The position of a source whose runs commit nothing: they leave numbered units for the committer of the table.

What is pending counts as done: the position is the committed one with every pending unit folded into it. A change
becomes the next unit. Its signal is written last and only where there is none of that number, so one writer wins
each number; whoever comes second plans again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from tidegate.errors import ObjectMissing, OutcomeUnknown, StateError, StorageUnavailable, TidegateError
from tidegate.failpoints import failpoint
from tidegate.observe.events import CommitContested, Staged
from tidegate.runs.place import Place
from tidegate.runs.staged_pending import folded, read_unit, remembering
from tidegate.specs import Delivery
from tidegate.state.arrow import schema_json
from tidegate.state.files import Change, Coverage, DataFile, State
from tidegate.state.fitting import check_changes
from tidegate.state.opened import Opened
from tidegate.state.opening import Accept
from tidegate.state.pace import Deadline
from tidegate.state.pending import signals_of
from tidegate.state.preparing import measured
from tidegate.state.resolving import lost
from tidegate.state.staging import Meta, StagedUnit, meta_path, pending_of, unit_path
from tidegate.state.store import PositionStore

LISTINGS = 5


def delivering(place: Place) -> Place:
    """The place as a run uses it: where delivery is staged, its commits become units."""
    if place.pipeline.delivery is Delivery.DIRECT:
        return place
    place = remembering(place)
    return replace(place, positions=StagedPositions(place))


def units_pending(opened: Opened) -> int:
    """How many units lie between the committed position and the opened one."""
    return opened.version - (0 if opened.parent is None else opened.parent.version)


class StagedPositions(PositionStore):
    """The position of the source of ``place``, pending units included."""

    staged = True

    def __init__(self, place: Place) -> None:
        self.site = place.positions.site
        self._place = place

    def open(self, accept: Collection[Accept] = (), *, read_only: bool = False) -> Opened:
        """The committed position and everything that is pending on top of it. Writes nothing: what is owed after a
        commit is the committer's.
        """
        deadline = self.site.pace.start()
        for _ in range(LISTINGS):
            listed = [signal.seq for signal in signals_of(self.site.store, self.site.key)]
            committed = super().open(accept, read_only=True)
            above = [seq for seq in listed if seq > committed.version]
            if above == list(range(committed.version + 1, committed.version + 1 + len(above))):
                try:
                    units = [read_unit(self.site, seq) for seq in above]
                except ObjectMissing:
                    continue
                return self._folded(replace(committed, unpaid=False), units)
            deadline.pause()
        raise StateError(
            f"{self.site.key}: units are missing in {self.site.uri}/{pending_of(self.site.key)}: position "
            f"{committed.version} is committed, and those that wait are {_shown(above)}",
            "put the missing ones back; or remove those that wait, and what they hold is read again",
        )

    def is_current(self, opened: Opened) -> bool:
        """Whether nothing was committed to the table and no unit was added since ``opened``."""
        return super().is_current(opened) and not self._exists(unit_path(self.site.key, opened.version + 1))

    def idle(self, opened: Opened, state: State) -> Opened:
        """A poll found nothing: shown in the mirror, if that is where the source is."""
        return replace(opened, state=state) if units_pending(opened) else super().idle(opened, state)

    def commit(self, opened: Opened, change: Change) -> Opened:
        """Leave ``change`` as the next unit; ``CommitLost`` when there is one of that number."""
        check_changes([(change, opened.data_files)])
        deadline = self.site.pace.start()
        unit = self._unit(opened, change)
        measured(self.site, change.data_files)
        for file in change.data_files:
            failpoint("staging.meta.before")
            meta = _meta(unit, file, change.ranges.get(file.path, ()))
            self.site.store.put(meta_path(file.path), meta.to_bytes())
            failpoint("staging.meta.after")
        self._signal(unit, deadline)
        self._check_not_overtaken(opened, unit)
        self.site.emit(_event(unit, deadline))
        return replace(opened, version=unit.seq, state=change.state, letters=opened.letters + unit.letters)

    def _folded(self, opened: Opened, units: Sequence[StagedUnit]) -> Opened:
        state = folded(self._place, self._place.opened_state(opened), units)
        if not units:
            return opened
        letters = opened.letters + sum(unit.letters for unit in units)
        return replace(opened, version=units[-1].seq, state=self._place.tracker.encode(state), letters=letters)

    def _unit(self, opened: Opened, change: Change) -> StagedUnit:
        return StagedUnit(
            key=self.site.key,
            seq=opened.version + 1,
            attempt=self.site.attempts(),
            identity=self.site.identity,
            run=change.run,
            written_at=self.site.pace.now().isoformat(),
            base=opened.table_version,
            step=change.step or {},
            coverage=change.coverage,
            data_files=change.data_files,
            rows=change.rows,
            schema_json=None if change.schema is None else schema_json(change.schema),
            partition_columns=change.partition_columns,
            letter_files=change.dead_letter_files,
            letters=change.letters,
            letters_uri=self._place.letters.uri if change.dead_letter_files else None,
            action=change.action,
        )

    def _signal(self, unit: StagedUnit, deadline: Deadline) -> None:
        """Write the signal until it is there. An error never means that it is not: it is read back."""
        path, content = unit_path(unit.key, unit.seq), unit.to_bytes()
        while True:
            problem: Exception
            try:
                failpoint("staging.unit.before")
                self.site.store.put_if_absent(path, content)
                failpoint("staging.unit.after")
                return
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

    def _check_not_overtaken(self, opened: Opened, unit: StagedUnit) -> None:
        """Stop where the number was committed and removed before the signal came: such a unit counts for nothing."""
        if not super().is_current(opened) and self.position() >= unit.seq:
            raise self._lost(unit, "a commit")

    def _lost(self, unit: StagedUnit, by: str) -> TidegateError:
        detail = f"position {unit.seq} was taken by {by}"
        self.site.emit(CommitContested(unit.key.pipeline, unit.key.source, detail))
        return lost(self.site, unit.seq - 1, by)

    def _exists(self, path: str) -> bool:
        try:
            self.site.store.head(path)
        except ObjectMissing:
            return False
        return True


def _meta(unit: StagedUnit, file: DataFile, ranges: tuple[Coverage, ...]) -> Meta:
    """What is said about one file of a unit."""
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
            f"{unit.key}: {waited} it is unknown whether {path} is written ({problem})",
            "run again when the storage answers: the next run finds out and goes on from there",
        )
    return StorageUnavailable(
        f"{unit.key}: {path} could not be written; given up {waited} (last problem: {problem})",
        "nothing was lost: run again; for more patience raise global.commit_deadline_secs",
    )


def _shown(numbers: list[int]) -> str:
    more = f" and {len(numbers) - 10} more" if len(numbers) > 10 else ""
    return ", ".join(map(str, numbers[:10])) + more
