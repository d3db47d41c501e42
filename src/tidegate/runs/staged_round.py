"""What of the pending folder goes into one commit: units in the order of their sources, then foreign metas.

The first units of all sources come before the second ones, so that a source with a long queue does not keep the
others waiting. A commit takes whole units, up to a number of files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from tidegate.errors import ObjectChanged, ObjectMissing, StateError, TidegateError
from tidegate.runs.staged_clearing import metas_of
from tidegate.runs.staged_columns import TableColumns
from tidegate.runs.staged_fold import Rejection, SourceFold
from tidegate.state.identity import SourceKey
from tidegate.state.pending import Pending, Signal
from tidegate.state.preparing import measured
from tidegate.state.staging import Meta, StagedUnit
from tidegate.storage.port import ObjectStore

READ_AT_ONCE = 64
SETTLED_AFTER = timedelta(minutes=1)
"""An object that cannot be read and is younger than this may still be growing."""

T = TypeVar("T")


@dataclass(slots=True)
class Gathering:
    """Fills the folds of one commit; ``careful`` asks for every data file before it is taken.

    ``paths`` are the data files of this commit and of the one before it: none of them is committed twice.
    """

    store: ObjectStore
    folds: Mapping[SourceKey, SourceFold]
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

    def _take(self, fold: SourceFold, signal: Signal, unit: StagedUnit) -> bool:
        """False when there is no room for the unit any more; one that is too large for any commit goes alone."""
        weight = len(unit.data_files) or 1
        if self.files and self.files + weight > self.max_files:
            return False
        self.metas_of[signal.path] = metas_of(unit)
        fold.take(signal, unit, self.columns, self._damage(fold, unit))
        self.paths.update(file.path for file in unit.data_files)
        self.files += weight
        return True

    def _damage(self, fold: SourceFold, unit: StagedUnit) -> str | None:
        again = next((file.path for file in unit.data_files if file.path in self.paths), None)
        if again is not None:
            return f"data file {again} belongs to another unit"
        try:
            measured(fold.place.positions.site, unit.data_files if self.careful else ())
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
