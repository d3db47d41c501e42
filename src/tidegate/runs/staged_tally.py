"""What a committer took, dropped, rejected and left, added up over its commits, and told as it happens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tidegate.errors import TidegateError
from tidegate.observe import events
from tidegate.runs.staged_fold import Rejection, SourceFold
from tidegate.runs.staged_foreign import ForeignFiles
from tidegate.runs.staged_round import Gathering
from tidegate.state.committing import Member
from tidegate.state.identity import SourceKey
from tidegate.state.opened import Opened
from tidegate.state.pending import COMMITTER, Pending


@dataclass(frozen=True, slots=True)
class Taken:
    """What goes into one commit; ``stale`` has the position of a source and how many of its units are below it."""

    sources: tuple[tuple[SourceFold, Member], ...]
    stale: Mapping[SourceKey, tuple[int, int]]
    foreign: ForeignFiles
    gathering: Gathering

    @property
    def nothing(self) -> bool:
        """Whether there is nothing to commit."""
        foreign = self.foreign
        return not (self.sources or self.stale or foreign.taken or foreign.duplicates or foreign.rejected)


@dataclass(slots=True)
class Tally:
    """What a committer did for one table, so far."""

    emit: events.Emit = events.ignore
    commits: int = 0
    files: int = 0
    foreign: int = 0
    duplicates: int = 0
    dropped: int = 0
    waiting: int = 0
    unknown: int = 0
    aging: int = 0
    rows: int = 0
    table_version: int | None = None
    rejected: list[Rejection] = field(default_factory=list)
    units: dict[SourceKey, int] = field(default_factory=dict)
    source_rows: dict[SourceKey, int] = field(default_factory=dict)
    positions: dict[SourceKey, int] = field(default_factory=dict)
    left: dict[SourceKey, int] = field(default_factory=dict)
    errors: dict[SourceKey, TidegateError] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)

    def count(self, taken: Taken, after: Sequence[Opened]) -> None:
        """Everything of one commit; ``after`` are the positions that it made, the committer's last."""
        foreign = taken.foreign
        self.commits += 1
        self.table_version = after[-1].table_version
        self.foreign += len(foreign.files)
        self.duplicates += len(foreign.duplicates)
        self.dropped += sum(number for _, number in taken.stale.values())
        self.files += len(foreign.files)
        self.rows += sum(file.record_count for file in foreign.data_files)
        for (fold, member), now in zip(taken.sources, after, strict=False):
            key = fold.opened.key
            self.positions[key] = now.version
            self.units[key] = self.units.get(key, 0) + len(fold.taken)
            self.source_rows[key] = self.source_rows.get(key, 0) + fold.rows
            self.files += len(member.change.data_files)
            self.rows += fold.rows
            self._reject(fold.rejected, key)
        self._reject(foreign.rejected, COMMITTER)
        if foreign.duplicates:
            self._refuse(COMMITTER, len(foreign.duplicates), foreign.duplicates[0])
        for key, (position, number) in taken.stale.items():
            self._refuse(key, number, f"units up to number {position}, which were committed before")

    def _refuse(self, key: SourceKey, number: int, example: str) -> None:
        self.emit(events.DuplicatesRefused(key.pipeline, key.source, number, example))

    def _reject(self, rejected: Sequence[Rejection], key: SourceKey) -> None:
        self.rejected.extend(rejected)
        for each in rejected:
            self.emit(events.UnitRejected(key.pipeline, key.source, each.path, each.reason))

    def count_what_waits(
        self, pending: Pending, folds: Mapping[SourceKey, SourceFold], gathering: Gathering, known: set[SourceKey]
    ) -> None:
        """What is left after a look, and why; ``known`` are the sources of the configuration."""
        self.errors.update(gathering.errors)
        self.unknown = 0
        self.left.clear()
        for key, signals in pending.units.items():
            if key not in known:
                self.unknown += len(signals)
                self.tell_once(f"units of {key} wait, and this configuration does not have that source", key)
                continue
            fold = folds.get(key)
            if fold is None:
                self.left[key] = len(signals)
                continue
            self.positions.setdefault(key, fold.opened.version)
            left = [signal.seq for signal in signals if signal.seq > fold.seq]
            self.left[key] = len(left)
            if left and fold.open and not gathering.full and left[0] != fold.seq + 1:
                self.tell_once(f"unit {left[0]} waits for unit {fold.seq + 1}, which is not there yet", key)
        self.waiting = sum(self.left.values())
        for path in pending.strays:
            self.tell_once(f"{path} is neither a unit nor a meta; it is left alone")

    def count_what_ages(self, pending: Pending, now: datetime, kept_for: timedelta) -> None:
        """Units that wait for so long that a VACUUM could soon take their files."""
        for signals in pending.units.values():
            for signal in signals:
                if now - signal.since > kept_for / 2:
                    self.aging += self.tell_once(
                        f"unit {signal.path} waits since {signal.since:%Y-%m-%d %H:%M} UTC, longer than half of the "
                        f"time ({kept_for}) after which a VACUUM takes files that are not committed: commit now",
                        signal.key,
                    )

    def tell_once(self, text: str, key: SourceKey = COMMITTER) -> bool:
        """A notice that is not repeated; whether it is new."""
        if text in self._told:
            return False
        self._told.add(text)
        self.tell(text, key)
        return True

    def tell(self, text: str, key: SourceKey = COMMITTER) -> None:
        """A notice."""
        self.emit(events.Notice(key.pipeline, key.source, text))
