"""The committer of one table: what all writers left, taken in order and committed together.

One round opens the committer's own position, which pays what the commit before left to do, lists the pending folder
once, repeats the units of each source on top of its state, and makes one Delta commit of everything: one ``txn`` per
source, and one for the committer itself, so that of two committers one is first and the other begins again. Nothing
leaves the pending folder except as a debt of such a commit.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from tidegate.errors import (
    CommitLost,
    ObjectChanged,
    ObjectMissing,
    SchemaMismatch,
    StateError,
    TableError,
    TidegateError,
)
from tidegate.failpoints import failpoint
from tidegate.observe import events
from tidegate.observe.wording import count
from tidegate.runs.columns import declared_columns
from tidegate.runs.place import Clock, Place, utc_now
from tidegate.runs.staged_age import DEFAULT, retention
from tidegate.runs.staged_clearing import KIND, Clearing, debt
from tidegate.runs.staged_columns import TableColumns
from tidegate.runs.staged_fold import Rejection, SourceFold, since_version
from tidegate.runs.staged_foreign import ForeignFiles
from tidegate.runs.staged_round import Gathering
from tidegate.specs import Evolution
from tidegate.state.committing import Member, commit_together
from tidegate.state.documents import SCHEMA_VERSION
from tidegate.state.files import Change, Written
from tidegate.state.identity import SourceKey
from tidegate.state.opened import Opened
from tidegate.state.opening import Accept
from tidegate.state.pending import COMMITTER, COMMITTER_IDENTITY, Pending, list_pending
from tidegate.state.store import PositionStore

TRIES_AGAINST_OTHERS = 20
YOUNG = timedelta(minutes=10)
"""Nobody needs to worry about units that wait for less."""

REMEMBERED = 1000
"""So many names of foreign files that were committed last are refused a second time, visible or not."""

_NAMES = (COMMITTER.pipeline, COMMITTER.source)
_AGAIN = (CommitLost, ObjectMissing, ObjectChanged, SchemaMismatch)


@dataclass(slots=True)
class Tally:
    """What a committer did for one table, so far."""

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


@dataclass(frozen=True, slots=True)
class _Taken:
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


class TableCommitter:
    """Commits what waits below one table; ``places`` are the sources of the configuration that write into it."""

    def __init__(
        self,
        places: Sequence[Place],
        *,
        emit: events.Emit = events.ignore,
        stop: threading.Event | None = None,
        clock: Clock = utc_now,
    ) -> None:
        first = places[0]
        self.tally = Tally()
        self.uri = first.pipeline.sink.table.uri
        self._places = {place.key: place for place in places}
        self._first = first
        self._store = first.table_store
        self._emit = emit
        self._stop = stop or threading.Event()
        self._clock = clock
        self._archive = any(place.pipeline.staging.archive for place in places)
        self._max_files = min(place.pipeline.staging.max_files_per_commit for place in places)
        self._clearing = Clearing(self._store, self._settle)
        site = first.positions.site
        self._positions = PositionStore(
            COMMITTER,
            COMMITTER_IDENTITY,
            first.pipeline.sink.table,
            self._store,
            site.delta,
            checkpoint_every=first.pipeline.sink.delta_checkpoint_interval,
            search_commits=site.search_commits,
            payers={KIND: self._clearing.pay},
            pace=site.pace,
            emit=self._tell_about_committer,
        )
        self._opened: Opened | None = None
        self._sources: dict[SourceKey, Opened] = {}
        self._settled: frozenset[SourceKey] = frozenset()
        self._metas_of_units: set[str] = set()
        self._told: set[str] = set()
        self._careful = False
        self._kept_for: timedelta | None = None

    def run(self) -> None:
        """Commit until nothing is left to take; raises what stopped it, and everything committed until then stays."""
        tries = 0
        self._kept_for = None
        while not self._stop.is_set():
            try:
                if not self._round():
                    return
                tries = 0
            except _AGAIN as error:
                tries += 1
                self._opened, self._careful = None, not isinstance(error, CommitLost)
                self._sources.clear()
                if tries == TRIES_AGAINST_OTHERS:
                    raise

    def _round(self) -> bool:
        """One look and, if there is anything to take, one commit; whether to look again."""
        if self._opened is not None and not self._opened.unpaid and list_pending(self._store).is_empty:
            return False
        opened = self._opened = self._open(self._positions, self._opened, (Accept.BLIZZARD,))
        pending = list_pending(self._store)
        failpoint("staging.commit.listed")
        self._look_at_age(pending)
        folds = self._folds(pending, _recorded(opened))
        gathering = Gathering(self._store, folds, TableColumns(opened), self._max_files, self._careful)
        gathering.units(pending)
        foreign = ForeignFiles() if gathering.full else self._foreign(pending, gathering, opened)
        self._count_what_waits(pending, folds, gathering)
        taken = _Taken(self._members(folds), _stale(pending, folds), foreign, gathering)
        if taken.nothing:
            return False
        self._commit(opened, taken)
        return True

    def _members(self, folds: Mapping[SourceKey, SourceFold]) -> tuple[tuple[SourceFold, Member], ...]:
        """The sources that move; one whose dead letters cannot be owed does not."""
        found: list[tuple[SourceFold, Member]] = []
        for key, fold in folds.items():
            try:
                if fold.moved:
                    found.append((fold, fold.member()))
            except StateError as error:
                self.tally.errors[key] = error
        return tuple(found)

    def _open(self, positions: PositionStore, before: Opened | None, accept: Sequence[Accept] = ()) -> Opened:
        if before is not None and positions.is_current(before):
            return before
        return positions.open(accept)

    def _folds(self, pending: Pending, recorded: Mapping[str, Sequence[int]]) -> dict[SourceKey, SourceFold]:
        """Every source with units that wait, opened; one that cannot be opened keeps no other from moving."""
        folds: dict[SourceKey, SourceFold] = {}
        self.tally.errors.clear()
        for key in pending.units:
            place = self._places.get(key)
            if place is None:
                continue
            try:
                opened = self._open(place.positions, self._sources.get(key), (Accept.PENDING,))
                folds[key] = SourceFold(place, opened, since_version(opened, recorded))
            except TidegateError as error:
                self.tally.errors[key] = error
        return folds

    def _foreign(self, pending: Pending, gathering: Gathering, opened: Opened) -> ForeignFiles:
        """Metas without a unit: their files, if there is a table to put them into."""
        looked = gathering.foreign(pending.metas, self._metas_of_units, self._clock())
        found, metas = ForeignFiles(rejected=looked.unreadable), looked.metas
        if not metas:
            return found
        if not gathering.columns.known:
            self._declare(gathering.columns, opened)
        if not gathering.columns.known:
            self._tell_once(f"{count(len(metas), 'meta')} of foreign writers wait for a table: declare schema.fields")
            return found
        snapshot = self._first.positions.site.delta.snapshot()
        active = frozenset() if snapshot is None else snapshot.active_paths()
        recent = frozenset(str(name) for name in (opened.state or {}).get("foreign", ()))
        found.add(self._store, metas, active | recent, gathering.columns, self._first.pipeline.schema.evolution)
        return found

    def _declare(self, columns: TableColumns, opened: Opened) -> None:
        """Without a table, the columns that a pipeline declares will make it."""
        for place in self._places.values():
            declared = declared_columns(place, opened)
            if declared is not None:
                columns.add_files(declared.table, declared.partition_columns, (), Evolution.MERGE)
                return

    def _commit(self, opened: Opened, taken: _Taken) -> None:
        """One Delta commit of everything that was gathered."""
        change = self._change(opened, taken)
        self._clearing.metas_of.update(taken.gathering.metas_of)
        self._settled = frozenset(fold.opened.key for fold, member in taken.sources if not member.change.debts)
        failpoint("staging.commit.before")
        members = [member for _, member in taken.sources]
        after = commit_together([*members, Member(self._positions.site, opened, change)])
        self._opened, self._careful, self._settled = after[-1], False, frozenset()
        self._sources.update((each.key, each) for each in after[:-1])
        self._count(taken, after)

    def _change(self, opened: Opened, taken: _Taken) -> Change:
        """What becomes of the committer's own position."""
        recorded = {name: list(entry) for name, entry in _recorded(opened).items()}
        units = {key: (position + 1, position) for key, (position, _) in taken.stale.items()}
        for fold, _ in taken.sources:
            recorded.pop(str(fold.opened.key), None)
            if not fold.replan:
                recorded[str(fold.opened.key)] = [fold.seq, fold.since]
            units[fold.opened.key] = (fold.opened.version + 1, fold.seq)
        foreign, columns = taken.foreign, taken.gathering.columns
        rejected = [*(each for fold, _ in taken.sources for each in fold.rejected), *foreign.rejected]
        files = foreign.data_files
        recent = [*(opened.state or {}).get("foreign", ()), *(file.path for file in files)]
        embedded: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "positions": recorded}
        return Change(
            state={**embedded, "foreign": recent[-max(REMEMBERED, len(files)) :]},
            embedded=embedded,
            data_files=files,
            rows=sum(file.record_count for file in files),
            groups=(*self._first_columns(columns, opened), *foreign.written(columns.partition_columns)),
            debts=(debt(units, [*foreign.taken, *foreign.duplicates], rejected, archive=self._archive),),
            action="commit",
        )

    def _first_columns(self, columns: TableColumns, opened: Opened) -> tuple[Written, ...]:
        """What makes the table where there is none and no unit that is taken would."""
        if opened.table_id is not None:
            return ()
        if not columns.known:
            self._declare(columns, opened)
        schema = columns.schema()
        return () if schema is None else (Written(schema, columns.partition_columns),)

    def _settle(self, key: SourceKey) -> None:
        """Pay what a source owes of its own, where it can: its writers do not, and it may have no further units."""
        place = self._places.get(key)
        if place is None or key in self._settled:
            return
        try:
            place.positions.open((Accept.PENDING,))
        except (StateError, TableError) as error:
            self._emit(events.Notice(key.pipeline, key.source, f"something is left to do after its commit: {error}"))

    def _look_at_age(self, pending: Pending) -> None:
        """Tell of units that wait for so long that a VACUUM could soon take their files."""
        self.tally.aging = 0
        now = self._clock()
        signals = [signal for found in pending.units.values() for signal in found if now - signal.since > YOUNG]
        if signals and self._kept_for is None:
            snapshot = self._first.positions.site.delta.snapshot()
            self._kept_for = retention({} if snapshot is None else snapshot.facts.properties)
        limit = (self._kept_for or DEFAULT) / 2
        for signal in signals:
            if now - signal.since > limit:
                self.tally.aging += 1
                self._tell_once(
                    f"unit {signal.path} waits since {signal.since:%Y-%m-%d %H:%M} UTC, longer than half of the time "
                    f"({limit * 2}) after which a VACUUM takes files that are not committed: commit now",
                    signal.key,
                )

    def _count_what_waits(self, pending: Pending, folds: Mapping[SourceKey, SourceFold], gathering: Gathering) -> None:
        tally = self.tally
        tally.errors.update(gathering.errors)
        tally.unknown = 0
        tally.left.clear()
        for key, signals in pending.units.items():
            fold = folds.get(key)
            if key not in self._places:
                tally.unknown += len(signals)
                self._tell_once(f"units of {key} wait, and this configuration does not have that source", key)
            if fold is None:
                continue
            tally.positions.setdefault(key, fold.opened.version)
            left = [signal.seq for signal in signals if signal.seq > fold.seq]
            tally.left[key] = len(left)
            if left and fold.open and not gathering.full and left[0] != fold.seq + 1:
                self._tell_once(f"unit {left[0]} waits for unit {fold.seq + 1}, which is not there yet", key)
        tally.waiting = sum(tally.left.values())
        for path in pending.strays:
            self._tell_once(f"{path} is neither a unit nor a meta; it is left alone")

    def _count(self, taken: _Taken, after: Sequence[Opened]) -> None:
        tally, foreign = self.tally, taken.foreign
        tally.commits += 1
        tally.table_version = after[-1].table_version
        tally.foreign += len(foreign.files)
        tally.duplicates += len(foreign.duplicates)
        tally.dropped += sum(number for _, number in taken.stale.values())
        tally.files += len(foreign.files)
        tally.rows += sum(file.record_count for file in foreign.data_files)
        for (fold, member), now in zip(taken.sources, after, strict=False):
            key = fold.opened.key
            tally.positions[key] = now.version
            tally.units[key] = tally.units.get(key, 0) + len(fold.taken)
            tally.source_rows[key] = tally.source_rows.get(key, 0) + fold.rows
            tally.files += len(member.change.data_files)
            tally.rows += fold.rows
            self._reject(fold.rejected, key)
        self._reject(foreign.rejected, COMMITTER)
        for path in foreign.duplicates:
            self._emit(events.Notice(*_NAMES, f"{path} tells of a file that is committed already; it is dropped"))
        for key, (_, number) in taken.stale.items():
            text = f"{count(number, 'unit')} dropped: their numbers were committed before"
            self._emit(events.Notice(key.pipeline, key.source, text))

    def _reject(self, rejected: Sequence[Rejection], key: SourceKey) -> None:
        self.tally.rejected.extend(rejected)
        for each in rejected:
            self._emit(events.UnitRejected(key.pipeline, key.source, each.path, each.reason))

    def _tell_once(self, text: str, key: SourceKey = COMMITTER) -> None:
        if text not in self._told:
            self._told.add(text)
            self._emit(events.Notice(key.pipeline, key.source, text))

    def _tell_about_committer(self, event: events.Event) -> None:
        """What its own position tells; a commit only where it brought files itself."""
        if not isinstance(event, events.Committed) or event.data_files:
            self._emit(event)


def _recorded(opened: Opened) -> Mapping[str, Sequence[int]]:
    """Up to which position the committer moved each source, and from which table version on it must be planned."""
    positions = (opened.state or {}).get("positions", {})
    return positions if isinstance(positions, Mapping) else {}


def _stale(pending: Pending, folds: Mapping[SourceKey, SourceFold]) -> dict[SourceKey, tuple[int, int]]:
    """The position of each source with units that are committed already by their number, and how many they are."""
    numbers = {
        key: (fold.opened.version, sum(signal.seq <= fold.opened.version for signal in pending.units[key]))
        for key, fold in folds.items()
    }
    return {key: found for key, found in numbers.items() if found[1]}
