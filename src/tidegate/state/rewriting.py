"""A commit that puts files in the place of others without changing a row: what OPTIMIZE writes.

The entry is written here and not by the Delta library, whose own OPTIMIZE is accepted after another one has replaced
the same files, and then every row of them is there twice. Ours is put at a version only if nothing since its base
touched the files it replaces, by put-if-absent, which also tells apart a lost answer and a lost race.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import uuid4

from tidegate.errors import ObjectExists, ObjectMissing, StorageUnavailable, TableError
from tidegate.failpoints import failpoint
from tidegate.state.log import entry_path
from tidegate.state.pace import Pace
from tidegate.state.table import Add
from tidegate.storage.exclusion import alone

if TYPE_CHECKING:
    from tidegate.storage.port import ObjectStore

Action = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ActiveFile:
    """A visible data file: its path on disk and as the log writes it."""

    path: str
    logged: str
    size: int
    rows: int
    partition_values: tuple[tuple[str, str | None], ...] = ()


class Overtaken(TableError):
    """Another commit touched the same files, or the table itself, since the base; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Files to take out and files to put in, which hold the same rows."""

    removed: tuple[ActiveFile, ...]
    added: tuple[Add, ...]

    def actions(self, name: str, now_ms: int) -> list[Action]:
        """The lines of the log entry."""
        metrics = {"numRemovedFiles": str(len(self.removed)), "numAddedFiles": str(len(self.added))}
        info = {
            "timestamp": now_ms,
            "operation": "OPTIMIZE",
            "operationParameters": {"predicate": "[]"},
            "operationMetrics": metrics,
            "isBlindAppend": False,
            "engineInfo": "tidegate",
            "txnId": name,
        }
        removes = [_remove(file, now_ms) for file in self.removed]
        return [{"commitInfo": info}, *removes, *(_add(file) for file in self.added)]


def commit_rewrite(store: ObjectStore, base: int, rewrite: Rewrite, pace: Pace | None = None) -> int:
    """The version at which the files were replaced; :class:`Overtaken` when they may not be any more."""
    pace = pace or Pace()
    deadline = pace.start()
    name = str(uuid4())
    content = "".join(json.dumps(each) + "\n" for each in rewrite.actions(name, pace.now_ms())).encode()
    touched = {file.logged for file in rewrite.removed}
    version = base + 1
    while True:
        try:
            failpoint("state.rewrite.before")
            with alone(store.location, always=False):
                store.put_if_absent(entry_path(version), content)
            failpoint("state.rewrite.after")
            return version
        except ObjectExists:
            if _settled(store, version, name, touched):
                return version
            version += 1
        except StorageUnavailable:
            if deadline.passed:
                raise
            deadline.pause()


def _settled(store: ObjectStore, version: int, name: str, touched: Collection[str]) -> bool:
    """Whether the entry at ``version`` is ours; raises when ours may not follow it."""
    try:
        content = store.get(entry_path(version))
    except ObjectMissing as error:
        raise Overtaken(f"version {version} came and went while files were replaced", "try again") from error
    actions = [json.loads(line) for line in content.splitlines() if line.strip()]
    if any((each.get("commitInfo") or {}).get("txnId") == name for each in actions):
        return True
    for action in actions:
        if "metaData" in action or "protocol" in action:
            raise Overtaken(f"the table itself was changed at version {version}", "try again")
        if (action.get("remove") or {}).get("path") in touched:
            raise Overtaken(f"the same files were replaced or removed at version {version}", "nothing is left to do")
    if _may_fence(actions):
        raise Overtaken(f"version {version} may fence off files that nobody had committed by then", "try again")
    return False


def _may_fence(actions: Collection[Action]) -> bool:
    """Whether a commit moved positions and nothing else: ``reconcile --clean`` makes one, and what was written before
    and is in no commit may be removed from then on.
    """
    return any("txn" in each for each in actions) and not any({"add", "remove"} & each.keys() for each in actions)


def _remove(file: ActiveFile, now_ms: int) -> Action:
    return {
        "remove": {
            "path": file.logged,
            "deletionTimestamp": now_ms,
            "dataChange": False,
            "extendedFileMetadata": True,
            "partitionValues": dict(file.partition_values),
            "size": file.size,
        }
    }


def _add(file: Add) -> Action:
    return {
        "add": {
            "path": quote(file.path, safe="/=-_.~"),
            "partitionValues": dict(file.partition_values),
            "size": file.size,
            "modificationTime": file.modified_ms,
            "dataChange": False,
            "stats": file.stats,
        }
    }
