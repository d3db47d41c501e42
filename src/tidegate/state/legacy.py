"""The traces of Blizzard in a table: its checkpoint file, its transactions in the log, and whether it still moves.

``_blizzard/{pipeline}_{source}_checkpoint.json`` holds a checkpoint; a transaction id ``blizzard:<base64>`` holds one
too, committed together with its rows; ``penguin-<table>`` only says that its committer was here. What cannot be
decoded is an error, never a fresh start.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tidegate.errors import ObjectMissing, StateError
from tidegate.state.identity import LEGACY_ROOT, SourceKey
from tidegate.state.log import DeltaLog, entry_path
from tidegate.state.traces import checkpoint_actions, newest_checkpoint, written_by_us

if TYPE_CHECKING:
    from tidegate.storage.port import ObjectInfo, ObjectStore

WRITER, COMMITTER = "blizzard:", "penguin-"
PENDING = "_staging/pending"


@dataclass(frozen=True, slots=True)
class Trace:
    """One checkpoint of the old program: where it was found, when it was written, and what it says."""

    found: str
    written: datetime | None
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OldCommit:
    """A transaction of the old program; ``table_version`` is -1 when its log entry was cleaned up."""

    app_id: str
    table_version: int
    written: datetime | None

    @property
    def is_writers(self) -> bool:
        """Whether it holds a checkpoint."""
        return self.app_id.startswith(WRITER)


@dataclass(frozen=True, slots=True)
class Look:
    """What of the old program could move, as it was at one moment; ``pending`` are staged files in no commit."""

    checkpoint: ObjectInfo | None
    commit: OldCommit | None
    pending: tuple[str, ...]

    def moved_since(self, before: Look) -> tuple[str, ...]:
        """What moved, in words."""
        moved = []
        if self.checkpoint != before.checkpoint:
            moved.append("its checkpoint file was written again")
        if self.commit != before.commit:
            moved.append("it committed to the table" if self.commit is None else _committed(self.commit))
        if self.pending != before.pending:
            moved.append(f"{PENDING} changed")
        return tuple(moved)

    def not_quiet(self, now: datetime, seconds: float) -> tuple[str, ...]:
        """What moved less than ``seconds`` ago, in words."""
        moments = (
            ("its checkpoint file was written", None if self.checkpoint is None else self.checkpoint.modified),
            (
                "" if self.commit is None else _committed(self.commit),
                None if self.commit is None else self.commit.written,
            ),
        )
        ages = ((what, (now - moment).total_seconds()) for what, moment in moments if moment is not None)
        return tuple(f"{what} {max(0, age):.0f} s ago" for what, age in ages if seconds and age < seconds)


def _committed(commit: OldCommit) -> str:
    where = f"table version {commit.table_version}" if commit.table_version >= 0 else "the table"
    return f"{commit.app_id[:20]}… committed {where}"


def checkpoint_file(store: ObjectStore, key: SourceKey) -> Trace | None:
    """The old checkpoint file of this source; None without one, or when it is a mirror of ours."""
    path = key.legacy_mirror
    try:
        content, info = store.get(path), store.head(path)
    except ObjectMissing:
        return None
    data = _mapping(content, f"{store.location.uri}/{path}")
    return None if isinstance(data.get("tidegate"), dict) else Trace(path, info.modified, data)


def other_checkpoint_files(store: ObjectStore, key: SourceKey) -> tuple[str, ...]:
    """The checkpoint files of other sources."""
    listed = (item.path for item in store.list(LEGACY_ROOT) if item.path.endswith("_checkpoint.json"))
    return tuple(path for path in listed if path != key.legacy_mirror and not written_by_us(store, path))


def old_commits(store: ObjectStore) -> Iterator[OldCommit]:
    """The transactions of the old program that can still be seen, newest first; reads no further than it is asked."""
    log, seen = DeltaLog(store), set[str]()
    for number in reversed(log.versions()):
        entry = log.entry(number)
        for app_id in () if entry is None else entry.transactions:
            if app_id.startswith((WRITER, COMMITTER)):
                seen.add(app_id)
                yield OldCommit(app_id, number, store.head(entry_path(number)).modified)
    _, files = newest_checkpoint(store)
    older = [
        OldCommit(str(txn["appId"]), -1, _moment(txn.get("lastUpdated")))
        for path in files
        for txn in checkpoint_actions(store, path, "txn", ("appId", "lastUpdated"))
        if str(txn.get("appId")).startswith((WRITER, COMMITTER)) and txn["appId"] not in seen
    ]
    yield from sorted(older, key=_age_of)


def _age_of(commit: OldCommit) -> tuple[float, int]:
    """Newest first; where no time was noted, by the table version inside."""
    written = 0.0 if commit.written is None else commit.written.timestamp()
    inside = decoded(commit).get("delta_version") if commit.is_writers else None
    return -written, -(inside if isinstance(inside, int) else -1)


def _moment(milliseconds: object) -> datetime | None:
    return datetime.fromtimestamp(milliseconds / 1000, UTC) if isinstance(milliseconds, int) else None


def decoded(commit: OldCommit) -> Mapping[str, Any]:
    """The checkpoint inside a transaction id."""
    where = f"the transaction id {commit.app_id[:40]!r}… (table version {commit.table_version})"
    text = commit.app_id.removeprefix(WRITER).replace("-", "+").replace("_", "/")
    try:
        content = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise _unreadable(where, error) from error
    return _mapping(content, where)


def _mapping(content: bytes, where: str) -> Mapping[str, Any]:
    try:
        data = json.loads(content)
    except ValueError as error:
        raise _unreadable(where, error) from error
    if not isinstance(data, dict):
        raise _unreadable(where, ValueError("not a JSON object"))
    return data


def _unreadable(where: str, error: Exception) -> StateError:
    return StateError(
        f"{where} is not a readable checkpoint ({error}); it is not taken for a fresh start",
        "let the old program write it once more, or put it back from a backup",
    )


def look(store: ObjectStore, key: SourceKey, committed: frozenset[str]) -> Look:
    """The old program as it is now; ``committed`` are the data files that the log names."""
    try:
        info = store.head(key.legacy_mirror)
        checkpoint = None if written_by_us(store, info.path) else info
    except ObjectMissing:
        checkpoint = None
    return Look(checkpoint, next(old_commits(store), None), tuple(_pending(store, committed)))


def _pending(store: ObjectStore, committed: frozenset[str]) -> Iterator[str]:
    """The metas of staged files that no commit names."""
    for item in store.list(PENDING):
        if not item.path.endswith(".meta.json"):
            continue
        try:
            meta = json.loads(store.get(item.path))
            filename = str(meta["filename"])
        except (ObjectMissing, ValueError, KeyError, TypeError):
            filename = ""
        if filename not in committed:
            yield item.path


def newest_staged(store: ObjectStore) -> OldCommit | None:
    """The newest commit of staged files."""
    return next((commit for commit in old_commits(store) if not commit.is_writers), None)
