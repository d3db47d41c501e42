"""The units of one source on their way into a commit: each is checked and repeated on top of those before it.

A unit that cannot be taken is rejected and the others go on. Where it is known which files it would have covered, they
become unfinished again, so that no watermark passes them and the next plan reads them. Where that is not known, nothing
after it is taken: units that were planned on top of it could pass files that nobody knows of. They are told by the
table version that they were planned on, and their writer plans again from what is committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegate.errors import ObjectMissing, StateError, TableError
from tidegate.runs.dead_lettering import Letters
from tidegate.runs.place import Place
from tidegate.runs.staged_columns import TableColumns
from tidegate.runs.staged_files import check_path
from tidegate.runs.staged_steps import after_step, without_step
from tidegate.runs.tracking import SourceState
from tidegate.sink.results import outcome_from_json
from tidegate.specs import Evolution
from tidegate.state.committing import Member
from tidegate.state.files import Change, Coverage, Written
from tidegate.state.opened import Opened
from tidegate.state.pending import Signal
from tidegate.state.staging import StagedUnit
from tidegate.watermarks.outcomes import Covered


@dataclass(frozen=True, slots=True)
class Rejection:
    """Something that waited and will not be committed, and why."""

    path: str
    reason: str

    def to_json(self) -> dict[str, str]:
        """As a debt holds it."""
        return {"path": self.path, "reason": self.reason}


class _Unknown(Exception):
    """A unit of which nobody can say what it covers, or that was planned on something that is not there."""


class SourceFold:
    """One source: the position that was opened, and what its units make of it.

    ``since`` is the table version from which on a writer must have planned. With ``replan`` whatever was planned until
    this commit does not fit any more. Without ``open`` nothing more is taken of it in this commit.
    """

    def __init__(self, place: Place, opened: Opened, since: int) -> None:
        self.place, self.opened, self.since = place, opened, since
        self.seq = opened.version
        self.taken: list[StagedUnit] = []
        self.rejected: list[Rejection] = []
        self.open = True
        self.replan = False
        self._state: SourceState = place.opened_state(opened)

    @property
    def moved(self) -> bool:
        """Whether there is anything to commit."""
        return self.seq > self.opened.version

    @property
    def rows(self) -> int:
        """Rows of the units that are taken."""
        return sum(unit.rows for unit in self.taken)

    def waiting(self, signals: Sequence[Signal]) -> tuple[Signal, ...]:
        """Those of the source's units that follow its position one after the other."""
        ahead = [signal for signal in signals if signal.seq > self.opened.version]
        return tuple(signal for number, signal in enumerate(ahead, self.opened.version + 1) if signal.seq == number)

    def read(self, signal: Signal, content: bytes) -> StagedUnit | None:
        """The next unit of the source; None for one that is rejected at sight, and then nothing after it is taken.

        ``StateError`` for a unit of a newer Tidegate: that is left for one that understands it.
        """
        try:
            return self._understood(signal, content)
        except _Unknown as unknown:
            self._reject(signal, f"{unknown}; everything planned on top of it is planned again")
            self._plan_again()
            return None

    def take(self, signal: Signal, unit: StagedUnit, columns: TableColumns, damage: str | None = None) -> None:
        """Take a unit that was read, or reject it; ``damage`` is what is known to be wrong with its files."""
        try:
            self._repeat(unit, columns, damage)
        except (StateError, TableError, ObjectMissing) as error:
            self._refuse(signal, unit, error.problem)
        self.seq = signal.seq

    def _understood(self, signal: Signal, content: bytes) -> StagedUnit:
        try:
            unit = StagedUnit.from_bytes(content)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _Unknown(f"the unit cannot be read ({error!r})") from error
        if (unit.key, unit.seq) != (signal.key, signal.seq):
            raise _Unknown(f"the unit says that it is number {unit.seq} of {unit.key}")
        if changes := self.place.positions.site.identity.differences(unit.identity):
            raise _Unknown(f"the unit is not about the source of this configuration: {'; '.join(changes)}")
        if unit.base < self.since:
            raise _Unknown(
                f"the unit was planned at table version {unit.base}, and the source was moved by something else at "
                f"{self.since}"
            )
        return unit

    def _repeat(self, unit: StagedUnit, columns: TableColumns, damage: str | None) -> None:
        if damage:
            raise StateError(damage, "")
        self._check_files(unit)
        _check_coverage(unit)
        step = after_step(self.place.tracker, self._state, unit.step)
        columns.add(unit, self.place.pipeline.schema.evolution)
        self._state = self.place.tracker.written(step)
        self.taken.append(unit)

    def _check_files(self, unit: StagedUnit) -> None:
        for file in unit.data_files:
            check_path(file.path)
        if unit.rows != sum(file.record_count for file in unit.data_files):
            raise StateError(f"the unit tells of {unit.rows} rows, and its files of others", "")
        if unit.letter_files and unit.letters_uri != self.place.letters.uri:
            raise StateError(
                f"its dead letters lie in {unit.letters_uri}, and this configuration has {self.place.letters.uri}", ""
            )
        self.place.letters.check(unit.letter_files)

    def _refuse(self, signal: Signal, unit: StagedUnit, reason: str) -> None:
        """The unit is rejected, and its files are unfinished again, where they are known."""
        try:
            state = without_step(self.place.tracker, self._state, unit.step)
        except StateError:
            state = None
        self._reject(signal, reason)
        if state is None:
            self._plan_again()
        else:
            self._state = state

    def _plan_again(self) -> None:
        self.open, self.replan = False, True

    def _reject(self, signal: Signal, reason: str) -> None:
        self.rejected.append(Rejection(signal.path, reason))
        self.seq = signal.seq

    def member(self) -> Member:
        """What the source brings into the commit."""
        tracker = self.place.tracker
        state = tracker.encode(self._state)
        letters = tuple(file for unit in self.taken for file in unit.letter_files)
        count = sum(unit.letters for unit in self.taken)
        change = Change(
            state=state,
            embedded=tracker.embedded(state),
            coverage=tuple(each for unit in self.taken for each in unit.coverage),
            data_files=tuple(file for unit in self.taken for file in unit.data_files),
            rows=self.rows,
            dead_letter_files=letters,
            debts=Letters(letters, count).debts(self.place, self.opened),
            letters=count,
            groups=grouped(self.taken),
        )
        site = replace(self.place.positions.site, evolution=Evolution.MERGE, checkpoint_every=0)
        return Member(site, self.opened, change, self.seq - self.opened.version)


def grouped(units: Iterable[StagedUnit]) -> tuple[Written, ...]:
    """The data files of units by the columns that they have."""
    from tidegate.state.arrow import arrow_schema

    found: dict[tuple[str, tuple[str, ...]], list[Any]] = {}
    for unit in units:
        if unit.schema_json is not None:
            found.setdefault((unit.schema_json, unit.partition_columns), []).extend(unit.data_files)
    return tuple(Written(arrow_schema(schema), keys, tuple(files)) for (schema, keys), files in found.items())


def _check_coverage(unit: StagedUnit) -> None:
    """What the ledger will show must be what the step takes."""
    try:
        outcomes = [outcome_from_json(each) for each in unit.step["outcomes"]]
    except (KeyError, TypeError) as error:
        raise StateError(f"its step cannot be read ({error!r})", "") from error
    taken = [
        Coverage(each.path, each.size, each.etag, each.start, each.end, each.eof, each.rows, each.bad)
        for each in outcomes
        if isinstance(each, Covered)
    ]
    if list(unit.coverage) != taken:
        raise StateError("what the unit covers is not what its step takes", "")


def since_version(opened: Opened, recorded: Mapping[str, Sequence[int]]) -> int:
    """The table version from which on units of a source must have been planned.

    A committer remembers up to which position it moved the source; where something else moved it since, whatever was
    planned before that does not fit any more.
    """
    version, since = recorded.get(str(opened.key), (0, -1))
    return since if version == opened.version else max(opened.committed_at, opened.delta_version)
