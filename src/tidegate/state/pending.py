"""What waits below a table for its committer: one listing of all writers, as values."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from tidegate.errors import ObjectMissing
from tidegate.state.identity import Identity, SourceKey
from tidegate.state.staging import META, PENDING, Meta, StagedUnit, pending_of, seq_of

if TYPE_CHECKING:
    from tidegate.storage.port import ObjectInfo, ObjectStore

T = TypeVar("T")

COMMITTER = SourceKey("_committer", "staging")
"""Whose position a committer moves with every commit; no pipeline can have that name."""

COMMITTER_IDENTITY = Identity("committer", PENDING)


@dataclass(frozen=True, slots=True)
class Signal:
    """A unit that waits: whose it is, which one, and since when."""

    key: SourceKey
    seq: int
    path: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Pending:
    """Units by source, ascending, metas by path with their time, and paths that are neither."""

    units: Mapping[SourceKey, tuple[Signal, ...]] = field(default_factory=dict)
    metas: Mapping[str, datetime] = field(default_factory=dict)
    strays: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing that a committer could take."""
        return not (self.units or self.metas)


def list_pending(store: ObjectStore) -> Pending:
    """Everything that waits, by one listing."""
    units: dict[SourceKey, list[Signal]] = {}
    metas: dict[str, datetime] = {}
    strays: list[str] = []
    for info in store.list(PENDING):
        signal = _signal(info)
        if signal is not None:
            units.setdefault(signal.key, []).append(signal)
        elif info.path.endswith(META) and info.path.count("/") == PENDING.count("/") + 1:
            metas[info.path] = info.modified
        else:
            strays.append(info.path)
    by_name = sorted(units.items(), key=lambda item: str(item[0]))
    return Pending({key: _ascending(found) for key, found in by_name}, dict(sorted(metas.items())), tuple(strays))


def signals_of(store: ObjectStore, key: SourceKey) -> tuple[Signal, ...]:
    """The units of one source that wait, ascending."""
    found = (_signal(info) for info in store.list(pending_of(key)))
    return _ascending(each for each in found if each is not None and each.key == key)


def staged_files(store: ObjectStore) -> Iterator[str]:
    """The data files that wait for a commit: those of units, and those of metas that no unit will name.

    A meta of a unit that never came protects nothing: its attempt is over, and its records are read again.
    """
    pending = list_pending(store)
    for signals in pending.units.values():
        for signal in signals:
            unit = _content(store, signal.path, StagedUnit.from_bytes)
            yield from (file.path for file in unit.data_files) if unit else ()
    for path in pending.metas:
        meta = _content(store, path, Meta.from_bytes)
        if meta is not None and meta.foreign:
            yield meta.filename


def _content(store: ObjectStore, path: str, parse: Callable[[bytes], T]) -> T | None:
    """What an object says, None where it is gone or damaged."""
    try:
        return parse(store.get(path))
    except (ObjectMissing, ValueError, KeyError, TypeError, AttributeError):
        return None


def _signal(info: ObjectInfo) -> Signal | None:
    parts = info.path.removeprefix(f"{PENDING}/").split("/")
    seq = seq_of(info.path)
    if seq is None or len(parts) != 3:
        return None
    with contextlib.suppress(ValueError):
        return Signal(SourceKey(parts[0], parts[1]), seq, info.path, info.modified)
    return None


def _ascending(signals: Iterable[Signal]) -> tuple[Signal, ...]:
    return tuple(sorted(signals, key=lambda signal: signal.seq))
