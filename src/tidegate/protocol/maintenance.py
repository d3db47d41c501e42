"""Maintenance of a table: rewriting files without changing a row, vacuum, checkpoints, old log entries.

Only tables that the library supports are touched; for all others the error names the Spark statement to use.

The entry is written here and not by the Delta library: the library accepts its own OPTIMIZE after another one has
replaced the same files, which doubles every row of them. Ours is put at a version only if nothing since its base
touched the files it replaces, by put-if-absent, which also distinguishes a lost response from a lost race.

The Delta library's own clean-up does not know what a position needs: its entry (OPEN reads the state from it if the
document is lost), and everything after it (OPEN looks for a RESTORE there). So the oldest position of any source of the
table protects everything after it, whatever its age.

For ``chaos`` and for tests: commits by the Delta library alone, without any trace of ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from tidegate.core.json_shape import load_json
from tidegate.errors import ObjectExists, ObjectMissing, StorageUnavailable, TableError, UnsupportedTable
from tidegate.failpoints import failpoint
from tidegate.protocol import documents
from tidegate.protocol.delta import DeltaLakeTable, DeltaSnapshot, no_hooks
from tidegate.protocol.log import DIRECTORY, checkpoint_actions, entry_path, key_of, newest_checkpoint
from tidegate.protocol.position import Pace
from tidegate.protocol.table import ActiveFile, Add
from tidegate.protocol.table_checks import check_table
from tidegate.specs.locations import Location
from tidegate.storage.local import lock_log

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.storage.port import ObjectInfo, ObjectStore

_HEADS = 16


class MaintainedTable:
    """One table on disk or in object storage."""

    def __init__(self, location: Location, store: ObjectStore) -> None:
        if location.uri.startswith("memory:"):
            raise TableError(f"table {location.uri} exists only in memory", "use a table on disk or in object storage")
        self.uri = location.uri
        self._store = store
        self._delta = DeltaLakeTable(location, store)

    def snapshot(self, statement: str) -> DeltaSnapshot:
        """The newest version; ``UnsupportedTable`` names the Spark ``statement`` to use instead."""
        with self._or_in_spark(statement):
            found = self._delta.snapshot()
            if found is None:
                raise TableError(f"there is no table at {self.uri}", "run the pipeline first")
            assert isinstance(found, DeltaSnapshot)
            check_table(found.facts, self.uri)
            features = {*found.facts.protocol.reader_features, *found.facts.protocol.writer_features}
            # It is not proven that the library honours every vector; a rewrite could bring deleted rows back.
            if "deletionVectors" in features:
                raise UnsupportedTable(f"table {self.uri} has the feature 'deletionVectors'")
        return found

    def list_expired_files(self, snapshot: DeltaSnapshot, retention_hours: int) -> tuple[ObjectInfo, ...]:
        """The files that left the table more than ``retention_hours`` ago and still exist.

        The log names them long after they are removed, so each is checked.
        """
        named = self._vacuum(snapshot, retention_hours, dry_run=True)
        with ThreadPoolExecutor(_HEADS, "head") as pool:
            return tuple(found for found in pool.map(self._there, named) if found is not None)

    def vacuum(self, snapshot: DeltaSnapshot, retention_hours: int) -> int:
        """Remove them, and only files that the log names as removed; return the table's new version."""
        self._vacuum(snapshot, retention_hours, dry_run=False)
        return int(snapshot.table.version())

    def _vacuum(self, snapshot: DeltaSnapshot, retention_hours: int, *, dry_run: bool) -> list[str]:
        with snapshot.map_errors("vacuum"):
            found = snapshot.table.vacuum(
                retention_hours=retention_hours,
                dry_run=dry_run,
                enforce_retention_duration=False,
                post_commithook_properties=no_hooks(),
                # A full vacuum takes uncommitted files, too: those that a run has written and not yet committed.
                full=False,
            )
        return sorted({str(path) for path in found})

    def _there(self, path: str) -> ObjectInfo | None:
        try:
            return self._store.head(path)
        except ObjectMissing:
            return None

    def checkpoint(self) -> None:
        """Write a Delta checkpoint of the newest version."""
        self._delta.checkpoint()

    @contextmanager
    def _or_in_spark(self, statement: str) -> Iterator[None]:
        try:
            yield
        except UnsupportedTable as error:
            raise UnsupportedTable(error.problem, f"use Spark instead: {statement}") from error


Action = Mapping[str, Any]


class RewriteOvertaken(TableError):
    """Another commit touched the same files, or the table itself, since the base; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Files to remove and files to add, with the same rows."""

    removed: tuple[ActiveFile, ...]
    added: tuple[Add, ...]

    def actions(self, name: str, now_ms: int) -> list[Action]:
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
        removes = [file.to_remove(now_ms, changes_data=False) for file in self.removed]
        return [{"commitInfo": info}, *removes, *(file.to_action(changes_data=False) for file in self.added)]


def commit_rewrite(store: ObjectStore, base: int, rewrite: Rewrite, pace: Pace | None = None) -> int:
    """Replace the files and return the version; :class:`RewriteOvertaken` if they must not be replaced any more."""
    pace = pace or Pace()
    deadline = pace.start()
    name = str(uuid4())
    content = "".join(json.dumps(each) + "\n" for each in rewrite.actions(name, pace.now_ms())).encode()
    touched = {file.logged for file in rewrite.removed}
    version = base + 1
    while True:
        try:
            failpoint("state.rewrite.before")
            with lock_log(store.location, always=False):
                store.put_if_absent(entry_path(version), content)
            failpoint("state.rewrite.after")
            return version
        except ObjectExists:
            # A put-if-absent whose response was lost meets its own entry when the client repeats it.
            if _is_ours(store, version, name, touched):
                return version
            version += 1
        except StorageUnavailable:
            if deadline.passed:
                raise
            deadline.pause()


def _is_ours(store: ObjectStore, version: int, name: str, touched: Collection[str]) -> bool:
    """Whether the entry at ``version`` is ours; raises if ours must not follow it."""
    try:
        content = store.get(entry_path(version))
    except ObjectMissing as error:
        raise RewriteOvertaken(
            f"table version {version} was written and cleaned up while files were replaced", "retry"
        ) from error
    actions = [load_json(line) for line in content.splitlines() if line.strip()]
    if any((each.get("commitInfo") or {}).get("txnId") == name for each in actions):
        return True
    for action in actions:
        # The rewritten files have the old columns, or lack what a new feature requires.
        if "metaData" in action or "protocol" in action:
            raise RewriteOvertaken(
                f"the columns, properties or protocol of the table changed at version {version}", "retry"
            )
        if (action.get("remove") or {}).get("path") in touched:
            raise RewriteOvertaken(
                f"the same files were replaced or removed at version {version}", "nothing is left to do"
            )
    # Our files were written before that commit and are in none: `reconcile --clean` may be removing them right now.
    if _may_fence(actions):
        raise RewriteOvertaken(f"table version {version} may fence off files that were not committed by then", "retry")
    return False


def _may_fence(actions: Collection[Action]) -> bool:
    """Whether a commit only moved positions: ``reconcile --clean`` makes one, and may then remove older files that are
    in no commit.
    """
    return any("txn" in each for each in actions) and not any({"add", "remove"} & each.keys() for each in actions)


RETENTION = timedelta(days=30)
SHORTEST = timedelta(days=1)
"""The least retention, whatever the property says: a process that slept so long still finds what it needs."""

# Runs clean up between their commits, and a log that was never cleaned must not hold one up.
MOST = 1000
"""Files removed at once; the next time continues."""

_RETENTION = "delta.logRetentionDuration"
_ENABLED = "delta.enableExpiredLogCleanup"
_DURATION = re.compile(r"(?i)\s*(?:interval\s+)?(\d{1,9})\s+(week|day|hour|minute|second)s?\s*")
_FILE = re.compile(r"(\d{20})\.(json|crc|checkpoint\.parquet)")


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The number and size of the log files removed."""

    files: int = 0
    bytes: int = 0


def clean_log(store: ObjectStore, now: datetime, *, of_positions: bool = True) -> Cleaned:
    """Remove old log files, in ascending order; ``of_positions`` is false for a table without positions."""
    entries = (info for info in store.list(DIRECTORY) if info.path.endswith(".json"))
    if not any(info.modified < now - SHORTEST for info in entries):
        return Cleaned()
    newest, parts = newest_checkpoint(store)
    # Only the form that the library writes; a log with any other kind of checkpoint is left to Spark's own clean-up.
    if len(parts) != 1 or not parts[0].endswith(".checkpoint.parquet"):
        return Cleaned()
    kept = retention(_properties(store, parts[0]))
    needed = _first_needed(store, parts[0]) if of_positions else newest
    if kept is None or needed is None:
        return Cleaned()
    removed = [info for _, info in _removable(store, now - kept, min(needed, newest))][:MOST]
    for info in removed:
        store.delete(info.path)
    return Cleaned(len(removed), sum(info.size for info in removed))


def retention(properties: Mapping[str, str]) -> timedelta | None:
    """How long entries are kept; None if the table wants no clean-up, or the value is not understood.

    >>> retention({}), retention({"delta.logRetentionDuration": "interval 2 weeks"}).days
    (datetime.timedelta(days=30), 14)
    >>> retention({"delta.enableExpiredLogCleanup": "false"})
    """
    if properties.get(_ENABLED, "true").lower() != "true":
        return None
    if _RETENTION not in properties:
        return RETENTION
    found = _DURATION.fullmatch(properties[_RETENTION])
    return None if found is None else max(timedelta(**{f"{found[2].lower()}s": int(found[1])}), SHORTEST)


def _properties(store: ObjectStore, checkpoint: str) -> dict[str, str]:
    found = list(checkpoint_actions(store, checkpoint, "metaData", ("id", "configuration")))
    return {str(name): str(value) for each in found for name, value in dict(each.get("configuration") or {}).items()}


def _first_needed(store: ObjectStore, checkpoint: str) -> int | None:
    """The first version that some position still needs; None if a position has no readable document."""
    first: list[int] = []
    for txn in checkpoint_actions(store, checkpoint, "txn", ("appId", "version")):
        key = key_of(str(txn["appId"]))
        if key is None:
            continue
        version = int(txn["version"])
        named = [each for each in documents.names(store, key, version) if each.ending == "json"]
        read = [documents.read(store, key, each.version, each.attempt) for each in named]
        opened_at = [each.document.delta_version for each in read if each is not None and each.document is not None]
        # OPEN would need the log entry for this position, and only the document says how far back that is.
        if not opened_at or not any(each.version == version for each in named):
            return None
        first.append(min(opened_at) + 1)
    return min(first, default=None)


def _removable(store: ObjectStore, before: datetime, needed: int) -> Iterator[tuple[int, ObjectInfo]]:
    """Files of versions below a checkpoint that are all older than ``before``, and below ``needed``."""
    files: dict[int, list[ObjectInfo]] = {}
    for info in store.list(DIRECTORY):
        match = _FILE.fullmatch(info.path.rpartition("/")[2])
        if match:
            files.setdefault(int(match[1]), []).append(info)
    old = -1
    for version in sorted(files):
        # Stops at the first young entry, so that no hole is left: a log with a hole is unreadable.
        if version >= needed or any(info.modified >= before for info in files[version] if info.path.endswith(".json")):
            break
        old = version
    checkpoints = [
        version
        for version in files
        if version <= old + 1 and any(info.path.endswith(".parquet") for info in files[version])
    ]
    # Read, not believed: after the removal this checkpoint is all that is left of the older versions.
    base = next((each for each in sorted(checkpoints, reverse=True) if _is_readable(store, each)), -1)
    for version in sorted(files):
        if version < base:
            yield from ((version, info) for info in sorted(files[version], key=lambda info: info.path))


def _is_readable(store: ObjectStore, version: int) -> bool:
    path = f"{DIRECTORY}/{version:020d}.checkpoint.parquet"
    return next(iter(checkpoint_actions(store, path, "protocol", ("minReaderVersion",))), None) is not None


def append_foreign_rows(table: Location, rows: pa.Table) -> None:
    """Append rows to an existing table; missing columns are NULL."""
    from deltalake import write_deltalake

    write_deltalake(table.uri, rows, mode="append", schema_mode="merge", storage_options=dict(table.options))


def compact_as_stranger(table: Location) -> None:
    """OPTIMIZE: the same rows in fewer files; a stream does not notice."""
    from deltalake import DeltaTable

    DeltaTable(table.uri, storage_options=dict(table.options)).optimize.compact()
