"""What of the pending folder goes into one commit: staged units in order, then foreign files; and the count of it.

They carry no position, so a second commit is kept off by the path: of what is visible in the table, and of what was
committed last.

It is a debt of the committer's own position: paid right after the commit, or by whoever opens that position next and
before anything new is listed. Of each unit the metas go first and the signal last, so that a kill in between leaves
a signal that still names them; paying twice changes nothing.

The first units of all sources come before the second ones, so that a source with a long queue does not keep the
others waiting. A commit takes whole units, up to a number of files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from tidegate.errors import ObjectChanged, ObjectMissing, StateError, TableError, TidegateError
from tidegate.failpoints import failpoint
from tidegate.observe import events
from tidegate.protocol.change import DataFile, Written
from tidegate.protocol.commit import Member, measure
from tidegate.protocol.documents import encode
from tidegate.protocol.identity import SourceKey
from tidegate.protocol.position import Position
from tidegate.protocol.staging import (
    ARCHIVE,
    COMMITTER,
    PENDING,
    REJECTED,
    Meta,
    Pending,
    Signal,
    StagedUnit,
    meta_path,
    signals_of,
)
from tidegate.runs.staged_units import ParquetFooter, Rejection, SourceSteps, TableColumns, examine, fitted
from tidegate.specs.project import Evolution
from tidegate.storage.port import ObjectStore

if TYPE_CHECKING:
    import pyarrow as pa

FOOTERS_AT_ONCE = 16


@dataclass(slots=True)
class ForeignFiles:
    """Files to commit by their columns, and what became of each meta."""

    files: list[tuple[DataFile, pa.Schema]] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)
    duplicates: list[str] = field(default_factory=list)
    rejected: list[Rejection] = field(default_factory=list)

    @property
    def data_files(self) -> tuple[DataFile, ...]:
        """What becomes visible."""
        return tuple(file for file, _ in self.files)

    def written(self, keys: tuple[str, ...]) -> tuple[Written, ...]:
        """The same by columns."""
        groups: list[tuple[pa.Schema, list[DataFile]]] = []
        for file, schema in self.files:
            for known, files in groups:
                if known.equals(schema):
                    files.append(file)
                    break
            else:
                groups.append((schema, [file]))
        return tuple(Written(schema, keys, tuple(files)) for schema, files in groups)

    def add(
        self,
        store: ObjectStore,
        metas: Mapping[str, Meta],
        visible: frozenset[str],
        columns: TableColumns,
        mode: Evolution,
    ) -> None:
        """Take every meta whose file is there, fits, and is not ``visible`` yet."""
        new: dict[str, tuple[str, Meta]] = {}
        for path, meta in metas.items():
            if meta.filename in visible or meta.filename in new:
                self.duplicates.append(path)
            else:
                new[meta.filename] = (path, meta)
        found = looked_at(store, [meta for _, meta in new.values()])
        for (path, _), examined in zip(new.values(), found, strict=True):
            try:
                if isinstance(examined, StateError):
                    raise examined
                schema = schema_in(examined, columns, mode)
            except (StateError, TableError) as error:
                self.rejected.append(Rejection(path, error.problem))
                continue
            self.files.append((examined.file, schema))
            self.taken.append(path)


def schema_in(examined: ParquetFooter, columns: TableColumns, mode: Evolution) -> pa.Schema:
    """The columns of a file in a table that has ``columns``; they count from now on. Raises when they do not fit."""
    table = columns.schema()
    assert table is not None
    schema = fitted(examined, table, columns.partition_columns)
    columns.add_files(schema, columns.partition_columns, [examined.file], mode)
    return schema


def looked_at(store: ObjectStore, metas: Sequence[Meta]) -> list[ParquetFooter | StateError]:
    """The footers of the files, or what is wrong with each; several at once."""

    def look(meta: Meta) -> ParquetFooter | StateError:
        try:
            return examine(store, meta.filename, meta.partition_values, meta.size, meta.record_count)
        except StateError as error:
            return error

    with ThreadPoolExecutor(FOOTERS_AT_ONCE, "footer") as pool:
        return list(pool.map(look, metas))


KIND = "staging"
REASON = ".reason.json"

Settle = Callable[[SourceKey], None]
"""Pays what a source owes of its own, if it is known here."""


def debt(
    units: Mapping[SourceKey, tuple[int, int]],
    metas: Iterable[str],
    rejected: Iterable[Rejection],
    *,
    archive: bool,
) -> dict[str, Any]:
    """What a commit owes: per source, every unit up to the second number is done with, and taken from the first on."""
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
    """Pays these debts of one table; ``metas_of`` remembers the metas of units that were read in this process."""

    def __init__(self, store: ObjectStore, settle: Settle) -> None:
        self._store, self._settle = store, settle
        self.metas_of: dict[str, tuple[str, ...]] = {}

    def pay(self, opened: Position, owed: Mapping[str, Any]) -> None:
        """Everything of one commit; idempotent."""
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
        """Take units and their metas away, the signals last."""
        target = ARCHIVE if keep else None
        metas = [meta for path in units for meta in self._metas(path)]
        self._each(lambda path: self._put_away(path, target), metas)
        if units:
            failpoint("staging.clear.metas")
        self._each(lambda path: self._put_away(path, target), units)

    def _reject(self, path: str, reason: str, opened: Position) -> None:
        """Keep what was rejected where it is out of the way, with the reason beside it."""
        metas = self._metas(path) if not path.endswith(".meta.json") else ()
        at = {"position": opened.version, "table_version": opened.committed_at}
        target = f"{REJECTED}{path.removeprefix(PENDING)}"
        self._store.put(f"{target.removesuffix('.json')}{REASON}", encode({"reason": reason, "path": path, **at}))
        for meta in metas:
            self._put_away(meta, REJECTED)
        failpoint("staging.clear.rejected")
        self._put_away(path, REJECTED)

    def _metas(self, unit: str) -> tuple[str, ...]:
        """The metas of a unit; none where the unit is gone or says nothing."""
        if unit in self.metas_of:
            return self.metas_of.pop(unit)
        try:
            found = StagedUnit.from_bytes(self._store.get(unit))
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


def metas_of(unit: StagedUnit) -> tuple[str, ...]:
    """The metas that a unit comes with."""
    return tuple(meta_path(file.path) for file in unit.data_files)


READ_AT_ONCE = 64
SETTLED_AFTER = timedelta(minutes=1)
"""An object that cannot be read and is younger than this may still be growing."""

T = TypeVar("T")


@dataclass(slots=True)
class PendingBatch:
    """Fills the folds of one commit; ``careful`` asks for every data file before it is taken.

    ``paths`` are the data files of this commit and of the one before it: none of them is committed twice.
    """

    store: ObjectStore
    folds: Mapping[SourceKey, SourceSteps]
    columns: TableColumns
    max_files: int
    careful: bool = False
    files: int = 0
    full: bool = False
    paths: set[str] = field(default_factory=set)
    metas_of: dict[str, tuple[str, ...]] = field(default_factory=dict)
    errors: dict[SourceKey, TidegateError] = field(default_factory=dict)

    def units(self, pending: Pending) -> None:
        """Take the units that follow the position of their source, as many as fit."""
        for signal, content in self._contents(self._queue(pending)):
            fold = self.folds[signal.key]
            if not fold.open:
                continue
            if content is None:
                fold.open = False
                continue
            try:
                unit = fold.read(signal, content)
            except StateError as error:
                self.errors[signal.key] = error
                fold.open = False
                continue
            if unit is not None and not self._take(fold, signal, unit):
                self.full = True
                return

    def _queue(self, pending: Pending) -> list[Signal]:
        waiting = [
            (signal.seq - fold.opened.version, str(key), signal)
            for key, fold in self.folds.items()
            for signal in fold.waiting(pending.units.get(key, ()))
        ]
        return [signal for *_, signal in sorted(waiting, key=lambda item: item[:2])]

    def _take(self, fold: SourceSteps, signal: Signal, unit: StagedUnit) -> bool:
        """False when there is no room for the unit any more; one that is too large for any commit goes alone."""
        weight = len(unit.data_files) or 1
        if self.files and self.files + weight > self.max_files:
            return False
        self.metas_of[signal.path] = metas_of(unit)
        fold.take(signal, unit, self.columns, self._damage(fold, unit))
        self.paths.update(file.path for file in unit.data_files)
        self.files += weight
        return True

    def _damage(self, fold: SourceSteps, unit: StagedUnit) -> str | None:
        again = next((file.path for file in unit.data_files if file.path in self.paths), None)
        if again is not None:
            return f"data file {again} belongs to another unit"
        try:
            measure(fold.bound.positions.site, unit.data_files if self.careful else ())
        except (ObjectMissing, ObjectChanged) as error:
            return error.problem
        return None

    def _contents(self, queue: Sequence[Signal]) -> Iterator[tuple[Signal, bytes | None]]:
        """The content of each signal, None where it is gone by now; a few are read ahead."""
        for some in chunks(queue, READ_AT_ONCE):
            yield from zip(some, self.read([signal.path for signal in some]), strict=True)

    def read(self, paths: Sequence[str]) -> list[bytes | None]:
        """The content of several objects, None for one that is gone."""
        return each_of(self.store, self._read, paths)

    def _read(self, path: str) -> bytes | None:
        try:
            return self.store.get(path)
        except ObjectMissing:
            return None

    def foreign(self, metas: Mapping[str, datetime], known: set[str], now: datetime) -> ForeignMetas:
        """The metas that no unit will name, as many as fit; those that belong to units are added to ``known``."""
        named = {meta for found in self.metas_of.values() for meta in found}
        paths = [path for path in metas if path not in named and path not in known]
        found = ForeignMetas()
        for some in chunks(paths, READ_AT_ONCE):
            if len(found.metas) >= self.max_files - self.files:
                break
            for path, content in zip(some, self.read(some), strict=True):
                if len(found.metas) >= self.max_files - self.files:
                    break
                try:
                    meta = None if content is None else Meta.from_bytes(content)
                except StateError:
                    known.add(path)
                    continue
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    if abs(now - metas[path]) > SETTLED_AFTER:
                        found.unreadable.append(Rejection(path, f"the meta cannot be read ({error!r})"))
                    else:
                        found.growing.append(path)
                    continue
                if meta is not None and meta.foreign:
                    found.metas[path] = meta
                elif meta is not None:
                    known.add(path)
        return found


@dataclass(slots=True)
class ForeignMetas:
    """Metas that no unit will name, by path, those that cannot be read, and those that may still be growing."""

    metas: dict[str, Meta] = field(default_factory=dict)
    unreadable: list[Rejection] = field(default_factory=list)
    growing: list[str] = field(default_factory=list)


def chunks(items: Sequence[T], width: int) -> Iterator[Sequence[T]]:
    """The items, so many at a time."""
    for begin in range(0, len(items), width):
        yield items[begin : begin + width]


def each_of(store: ObjectStore, act: Callable[[str], T], paths: Sequence[str]) -> list[T]:
    """What ``act`` gives for each path; several at once where waiting for an answer costs time."""
    if len(paths) <= 1 or store.concurrency <= 1:
        return [act(path) for path in paths]
    with ThreadPoolExecutor(store.concurrency, "staged") as pool:
        return list(pool.map(act, paths))


@dataclass(frozen=True, slots=True)
class CommitBatch:
    """What goes into one commit; ``stale`` has the position of a source and how many of its units are below it."""

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

    def count(self, taken: CommitBatch, after: Sequence[Position]) -> None:
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
        self, pending: Pending, folds: Mapping[SourceKey, SourceSteps], gathering: PendingBatch, known: set[SourceKey]
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
