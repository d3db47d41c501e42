"""The committer of one table: takes what all writers left, in order, and commits it together.

One round opens the committer's own position, which pays what the commit before left to do, lists the pending folder
once, repeats the units of each source on top of its state, and makes one Delta commit of everything: one ``txn`` per
source, and one for the committer itself, so that of two committers one is first and the other starts over. Objects
leave the pending folder only as a debt of such a commit.

That debt is paid right after the commit, or by the next who opens the committer's position, before anything new is
listed. Of each unit the metas go first and the signal last, so that a kill in between leaves a signal that still names
them; paying twice changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
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
from tidegate.protocol.change import Change, DataFile, NextState, SourceKey, Written, write_files
from tidegate.protocol.commit import Member, collect_debts, commit_together
from tidegate.protocol.documents import SCHEMA_VERSION, encode
from tidegate.protocol.open import Accept, Restored
from tidegate.protocol.position import Position, TableContext, utc_now
from tidegate.protocol.staging import (
    ARCHIVE,
    COMMITTER,
    COMMITTER_IDENTITY,
    PENDING,
    REJECTED,
    Pending,
    StagedUnit,
    list_pending,
    signals_of,
)
from tidegate.protocol.store import PositionStore
from tidegate.protocol.table import Snapshot
from tidegate.reports.wording import count
from tidegate.runs.file_source import FileSource
from tidegate.runs.lanes import first_columns
from tidegate.runs.staged import DEFAULT, retention
from tidegate.runs.staged_units import (
    ForeignFiles,
    PendingBatch,
    Rejection,
    SourceSteps,
    TableColumns,
    metas_of,
    since_version,
)
from tidegate.runs.tracker import Clock
from tidegate.specs.table import Evolution
from tidegate.storage.port import ObjectStore

KIND = "staging"
REASON = ".reason.json"
Settle = Callable[[SourceKey], None]
"""Pays what a source itself owes, if it is known here."""
# Every loss means that another committer of the table made progress.
TRIES_AGAINST_OTHERS = 20
YOUNG = timedelta(minutes=10)
"""Units that have waited for less need no attention."""

# Names live in the state, which every commit writes; the table's active files catch older repetitions.
REMEMBERED = 1000
"""Names of recent foreign files that are refused a second time, visible or not."""

# A file that a VACUUM took and a column that changed are found by another look, which rejects only what is to blame.
_AGAIN = (CommitLost, ObjectMissing, ObjectChanged, SchemaMismatch)


class TableCommitter:
    """Commits what waits below one table; ``sources`` are the configured sources that write into it."""

    def __init__(
        self,
        sources: Sequence[FileSource],
        *,
        emit: events.Emit = events.ignore,
        stop: threading.Event | None = None,
        clock: Clock = utc_now,
    ) -> None:
        first = sources[0]
        self.tally = CommitterCounts(emit)
        self.uri = first.pipeline.sink.table.uri
        self._bound = {bound.key: bound for bound in sources}
        self._first = first
        self._store = first.table_store
        self._emit = emit
        self._stop = stop or threading.Event()
        self._clock = clock
        self._archive = any(bound.pipeline.staging.archive for bound in sources)
        self._max_files = min(bound.pipeline.staging.max_files_per_commit for bound in sources)
        self._clearing = CommitterFollowUps(self._store, self._settle)
        site = first.positions.site
        self.positions = PositionStore(
            TableContext(
                COMMITTER,
                COMMITTER_IDENTITY,
                self._store,
                site.delta,
                checkpoint_every=first.pipeline.sink.delta_checkpoint_interval,
                search_commits=site.search_commits,
                payers={KIND: self._clearing.pay},
                pace=site.pace,
                emit=self._tell_about_committer,
            )
        )
        self._opened: Position | None = None
        self._sources: dict[SourceKey, Position] = {}
        self._snapshot: Snapshot | None = None
        self._settled: frozenset[SourceKey] = frozenset()
        self._metas_of_units: set[str] = set()
        self._careful = False
        self._kept_for: timedelta | None = None

    @property
    def position(self) -> int:
        """The number of commits by committers to the table, as far as this one knows."""
        return 0 if self._opened is None else self._opened.version

    def run(self) -> None:
        """Commit until nothing is left; raises what stopped it, and everything committed until then stays."""
        tries = 0
        self._kept_for = None
        while not self._stop.is_set():
            try:
                if not self._round():
                    return
                tries = 0
            except _AGAIN as error:
                tries += 1
                # The commit itself checks all files; only after it refused one is it worth asking unit by unit which.
                self._opened, self._careful = None, not isinstance(error, CommitLost)
                self._sources.clear()
                if tries == TRIES_AGAINST_OTHERS:
                    raise

    def _round(self) -> bool:
        """Look once and, if there is anything to take, commit; returns whether to look again."""
        if self._opened is not None and not self._opened.unpaid and list_pending(self._store).is_empty:
            return False
        self._snapshot = None
        opened = self.open()
        # After OPEN, which removes what the last commit took: listed before it, units would come a second time.
        pending = list_pending(self._store)
        failpoint("staging.commit.listed")
        self._look_at_age(pending)
        folds = self._folds(pending, read_positions(opened))
        self._snapshot = None
        # A unit that names files of the last commit once more must not double their rows.
        before = set(opened.data_files).union(*(fold.opened.data_files for fold in folds.values()))
        gathering = PendingBatch(self._store, folds, TableColumns(opened), self._max_files, self._careful, paths=before)
        gathering.units(pending)
        foreign = ForeignFiles() if gathering.full else self._foreign(pending, gathering, opened)
        self.tally.count_what_waits(pending, folds, gathering, set(self._bound))
        taken = CommitBatch(self._members(folds), _stale(pending, folds), foreign, gathering)
        if taken.nothing:
            return False
        self._commit(opened, taken)
        return True

    def _members(self, folds: Mapping[SourceKey, SourceSteps]) -> tuple[tuple[SourceSteps, Member], ...]:
        """The sources that move; one whose dead letters cannot be owed does not."""
        found: list[tuple[SourceSteps, Member]] = []
        for key, fold in folds.items():
            try:
                if fold.moved:
                    found.append((fold, fold.member()))
            except StateError as error:
                self.tally.errors[key] = error
        return tuple(found)

    def open(self) -> Position:
        """The committer's own position, with its debts paid.

        Nobody has to accept a RESTORE for it: it has no rows of a source, and each source stops by itself.
        """
        try:
            self._opened = self._open(self.positions, self._opened)
        except Restored as restored:
            self.tally.tell_once(f"{restored.problem}; the committer goes on, and each source decides for itself")
            self._opened = self._open(self.positions, None, (Accept.RESTORE,))
        return self._opened

    def _open(self, positions: PositionStore, before: Position | None, accept: Sequence[Accept] = ()) -> Position:
        if before is not None and positions.is_current(before):
            return before
        return positions.open_at(self._newest(), accept)

    def _newest(self) -> Snapshot | None:
        """The newest snapshot: within a round the last loaded one, as long as nothing was committed since."""
        if self._snapshot is None or not self.positions.is_newest(self._snapshot.facts.version):
            self._snapshot = self.positions.site.delta.snapshot()
        return self._snapshot

    def _folds(self, pending: Pending, recorded: Mapping[str, Sequence[int]]) -> dict[SourceKey, SourceSteps]:
        """Every source with waiting units, opened; one that cannot be opened does not stop the others."""
        folds: dict[SourceKey, SourceSteps] = {}
        self.tally.errors.clear()
        for key in pending.units:
            bound = self._bound.get(key)
            if bound is None:
                continue
            try:
                # OPEN stops at waiting units so that nobody commits beside them; the committer is the one they wait
                # for.
                opened = self._open(bound.positions, self._sources.get(key), (Accept.PENDING,))
                folds[key] = SourceSteps(bound, opened, since_version(opened, recorded))
            except TidegateError as error:
                self.tally.errors[key] = error
        return folds

    def _foreign(self, pending: Pending, gathering: PendingBatch, opened: Position) -> ForeignFiles:
        """The files of metas without a unit, if there is a table for them."""
        looked = gathering.foreign(pending.metas, self._metas_of_units, self._clock())
        found, metas = ForeignFiles(rejected=looked.unreadable), looked.metas
        for path in looked.growing:
            self.tally.tell_once(f"{path} cannot be read and is less than a minute old; the next look tries again")
        if not metas:
            return found
        if not gathering.columns.known:
            self.declare(gathering.columns, opened)
        if not gathering.columns.known:
            self.tally.tell_once(
                f"{count(len(metas), 'meta')} of other writers wait for a table: declare schema.fields"
            )
            return found
        snapshot = self._first.positions.site.delta.snapshot()
        active = frozenset() if snapshot is None else snapshot.active_paths()
        known = active.union((opened.state or {}).get("foreign", ()), gathering.paths)
        found.add(self._store, metas, known, gathering.columns, self._first.pipeline.schema.evolution)
        return found

    def declare(self, columns: TableColumns, opened: Position) -> None:
        """Without a table, add the declared or remembered columns that will create it."""
        for bound in self._bound.values():
            first = first_columns(bound, opened)
            if first is not None:
                columns.add_files(first.table, first.partition_columns, (), Evolution.MERGE)
                return

    def _commit(self, opened: Position, taken: CommitBatch) -> None:
        """Make one Delta commit of everything gathered."""
        change = self._change(opened, taken)
        self._clearing.metas_of.update(taken.gathering.metas_of)
        # A source whose members owe nothing need not be opened again just to pay its debts.
        self._settled = frozenset(fold.opened.key for fold, member in taken.sources if not collect_debts(member))
        try:
            after = self.send(opened, change, [member for _, member in taken.sources])
        finally:
            self._settled = frozenset()
        self._opened, self._careful = after[-1], False
        self._sources.update((each.key, each) for each in after[:-1])
        self.tally.count(taken, after)

    def send(self, opened: Position, change: Change, members: Sequence[Member] = ()) -> tuple[Position, ...]:
        """One Delta commit of ``members`` and the committer's own ``change``, whose position is the last."""
        failpoint("staging.commit.before")
        return commit_together([*members, Member(self.positions.site, opened, change)])

    def _change(self, opened: Position, taken: CommitBatch) -> Change:
        """The change of the committer's own position."""
        recorded = {name: list(entry) for name, entry in read_positions(opened).items()}
        units = {key: (position + 1, position) for key, (position, _) in taken.stale.items()}
        for fold, _ in taken.sources:
            # Without an entry the next committer takes this commit as the first valid base, and rejects what was
            # planned before.
            recorded.pop(str(fold.opened.key), None)
            if not fold.replan:
                recorded[str(fold.opened.key)] = [fold.seq, fold.since]
            units[fold.opened.key] = (fold.opened.version + 1, fold.seq)
        foreign, columns = taken.foreign, taken.gathering.columns
        rejected = [*(each for fold, _ in taken.sources for each in fold.rejected), *foreign.rejected]
        state = next_state(opened, recorded, foreign.data_files)
        return Change(
            state,
            write_files((*self.first_columns(columns, opened), *foreign.group_files(columns.partition_columns))),
            debts=(debt(units, [*foreign.taken, *foreign.duplicates], rejected, archive=self._archive),),
            action="commit",
        )

    def first_columns(self, columns: TableColumns, opened: Position) -> tuple[Written, ...]:
        """The columns that create the table, if there is none and no taken unit would."""
        if opened.table_id is not None:
            return ()
        if not columns.known:
            self.declare(columns, opened)
        schema = columns.schema()
        return () if schema is None else (Written(schema, columns.partition_columns),)

    def _settle(self, key: SourceKey) -> None:
        """Pay what a source itself owes, if possible: its writers do not, and it may have no further units."""
        bound = self._bound.get(key)
        if bound is None or key in self._settled:
            return
        try:
            bound.positions.open((Accept.PENDING,))
        # The commit stands; whatever cannot be paid stays owed, and the source's next OPEN reports it.
        except (StateError, TableError) as error:
            self.tally.tell(f"its commit stands, but a step after it failed: {error}", key)

    def _look_at_age(self, pending: Pending) -> None:
        """Report units that have waited so long that a VACUUM could soon remove their files."""
        now = self._clock()
        # The retention is in the table's properties; a snapshot for each look would cost more than the look.
        old = any(now - signal.since > YOUNG for signals in pending.units.values() for signal in signals)
        if old and self._kept_for is None:
            snapshot = self._first.positions.site.delta.snapshot()
            self._kept_for = retention({} if snapshot is None else snapshot.facts.properties)
        self.tally.count_what_ages(pending, now, self._kept_for or DEFAULT)

    def _tell_about_committer(self, event: events.Event) -> None:
        """Emit events of its own position; a commit only if it had files itself."""
        if not isinstance(event, events.Committed) or event.data_files:
            self._emit(event)


def next_state(opened: Position, recorded: Mapping[str, Sequence[int]], files: Sequence[DataFile]) -> NextState:
    """The committer's state once foreign ``files`` are committed: the last of them are remembered by name."""
    names = [*(opened.state or {}).get("foreign", ()), *(file.path for file in files)]
    # Foreign writers may leave a meta twice, and OPTIMIZE may have taken the first file out of sight since.
    kept = names[-max(REMEMBERED, len(files)) :]
    embedded = {"schema_version": SCHEMA_VERSION, "positions": dict(recorded)}
    return NextState({**embedded, "foreign": kept}, embedded)


def read_positions(opened: Position) -> Mapping[str, Sequence[int]]:
    """Up to which position the committer moved each source, and the first table version valid for plans."""
    positions = (opened.state or {}).get("positions", {})
    return positions if isinstance(positions, Mapping) else {}


def _stale(pending: Pending, folds: Mapping[SourceKey, SourceSteps]) -> dict[SourceKey, tuple[int, int]]:
    """The position and number of units of each source that are already committed, by their number."""
    numbers = {
        key: (fold.opened.version, sum(signal.seq <= fold.opened.version for signal in pending.units[key]))
        for key, fold in folds.items()
    }
    return {key: found for key, found in numbers.items() if found[1]}


def debt(
    units: Mapping[SourceKey, tuple[int, int]],
    metas: Iterable[str],
    rejected: Iterable[Rejection],
    *,
    archive: bool,
) -> dict[str, Any]:
    """The debt of a commit: per source, every unit up to the second number is done, and taken from the first on."""
    return {
        "kind": KIND,
        "archive": archive,
        "units": [
            {"pipeline": key.pipeline, "source": key.source, "first": first, "upto": upto}
            for key, (first, upto) in units.items()
        ],
        "metas": sorted(metas),
        "rejected": [each.to_json() for each in rejected],
    }


class CommitterFollowUps:
    """Pays these debts of one table; ``metas_of`` has the metas of units that this process read."""

    def __init__(self, store: ObjectStore, settle: Settle) -> None:
        self._store, self._settle = store, settle
        self.metas_of: dict[str, tuple[str, ...]] = {}

    def pay(self, opened: Position, owed: Mapping[str, Any]) -> None:
        """Pay everything of one commit; idempotent."""
        failpoint("staging.clear.before")
        for each in owed["units"]:
            self._settle(SourceKey(str(each["pipeline"]), str(each["source"])))
        rejected = {str(each["path"]): str(each["reason"]) for each in owed["rejected"]}
        self._each(lambda path: self._reject(path, rejected[path], opened), rejected)
        archive = bool(owed["archive"])
        for each in owed["units"]:
            key = SourceKey(str(each["pipeline"]), str(each["source"]))
            done = [signal for signal in signals_of(self._store, key) if signal.seq <= int(each["upto"])]
            taken = [signal.path for signal in done if signal.seq >= int(each["first"])]
            self._clear(taken, keep=archive)
            self._clear([signal.path for signal in done if signal.path not in taken], keep=False)
        self._each(lambda path: self._put_away(path, ARCHIVE if archive else None), [str(m) for m in owed["metas"]])
        failpoint("staging.clear.after")

    def _clear(self, units: Sequence[str], *, keep: bool) -> None:
        """Remove units and their metas, the signals last."""
        target = ARCHIVE if keep else None
        metas = [meta for path in units for meta in self._metas(path)]
        self._each(lambda path: self._put_away(path, target), metas)
        if units:
            # The signal goes last: a kill between the two leaves something that names the metas still to be removed.
            failpoint("staging.clear.metas")
        self._each(lambda path: self._put_away(path, target), units)

    def _reject(self, path: str, reason: str, opened: Position) -> None:
        """Move what was rejected out of the way, with the reason beside it."""
        metas = self._metas(path) if not path.endswith(".meta.json") else ()
        at = {"position": opened.version, "table_version": opened.committed_at}
        target = f"{REJECTED}{path.removeprefix(PENDING)}"
        # The reason first: a rejected unit without one would be a riddle.
        self._store.put(f"{target.removesuffix('.json')}{REASON}", encode({"reason": reason, "path": path, **at}))
        for meta in metas:
            self._put_away(meta, REJECTED)
        failpoint("staging.clear.rejected")
        self._put_away(path, REJECTED)

    def _metas(self, unit: str) -> tuple[str, ...]:
        """The metas of a unit; none if the unit is gone or unreadable."""
        if unit in self.metas_of:
            return self.metas_of.pop(unit)
        try:
            found = StagedUnit.from_bytes(self._store.get(unit))
        # A unit may be rejected because it cannot be read: then nobody knows its metas, and they stay.
        except (ObjectMissing, StateError, ValueError, KeyError, TypeError, AttributeError):
            return ()
        return metas_of(found)

    def _put_away(self, path: str, target: str | None) -> None:
        """Remove an object of the pending folder; with ``target`` it is kept there."""
        if target is not None:
            try:
                self._store.put(f"{target}{path.removeprefix(PENDING)}", self._store.get(path))
            except ObjectMissing:
                return
        self._store.delete(path)

    def _each(self, act: Callable[[str], None], paths: Iterable[str]) -> None:
        with ThreadPoolExecutor(max(1, self._store.concurrency), "clear") as pool:
            list(pool.map(act, paths))


@dataclass(frozen=True, slots=True)
class CommitBatch:
    """The content of one commit; ``stale`` has the position of a source and the number of its units below it."""

    sources: tuple[tuple[SourceSteps, Member], ...]
    stale: Mapping[SourceKey, tuple[int, int]]
    foreign: ForeignFiles
    gathering: PendingBatch

    @property
    def nothing(self) -> bool:
        """Whether there is nothing to commit."""
        foreign = self.foreign
        return not (self.sources or self.stale or foreign.taken or foreign.duplicates or foreign.rejected)


@dataclass(slots=True)
class CommitterCounts:
    """What a committer has done for one table so far."""

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

    def count(self, taken: CommitBatch, after: Sequence[Position]) -> None:
        """Count one commit; ``after`` are the positions that it made, the committer's last."""
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
            self.files += len(member.change.write.data_files)
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
        self, pending: Pending, folds: Mapping[SourceKey, SourceSteps], gathering: PendingBatch, known: set[SourceKey]
    ) -> None:
        """Count what is left after a look, and why; ``known`` are the configured sources."""
        self.errors.update(gathering.errors)
        self.unknown = 0
        self.left.clear()
        for key, signals in pending.units.items():
            if key not in known:
                self.unknown += len(signals)
                self.tell_once(f"units of {key} wait, but this configuration does not have that source", key)
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
            self.tell_once(f"{path} is neither a staged unit nor a meta file; Tidegate leaves it alone")

    def count_what_ages(self, pending: Pending, now: datetime, kept_for: timedelta) -> None:
        """Count units that have waited so long that a VACUUM could soon remove their files."""
        for signals in pending.units.values():
            for signal in signals:
                # Half of the time, so that a person still has the other half to act.
                if now - signal.since > kept_for / 2:
                    self.aging += self.tell_once(
                        f"unit {signal.path} waits since {signal.since:%Y-%m-%d %H:%M} UTC, longer than half of the "
                        f"time ({kept_for}) after which a VACUUM takes files that are not committed: commit now",
                        signal.key,
                    )

    def tell_once(self, text: str, key: SourceKey = COMMITTER) -> bool:
        """Emit a notice once; returns whether it is new."""
        if text in self._told:
            return False
        self._told.add(text)
        self.tell(text, key)
        return True

    def tell(self, text: str, key: SourceKey = COMMITTER) -> None:
        """Emit a notice."""
        self.emit(events.Notice(key.pipeline, key.source, text))
