"""Old entries of a Delta log are removed as the table's properties say: what a checkpoint sums up and nobody needs.

The Delta library's own clean-up does not know what a position needs: the entry that holds it (OPEN reads the state from
it when the document is lost), and everything after it (a RESTORE is looked for there). So the oldest position of any
source of the table holds back what follows it, whatever its age.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from tidegate.state import documents
from tidegate.state.identity import SourceKey
from tidegate.state.log import DIRECTORY
from tidegate.state.traces import checkpoint_actions, newest_checkpoint

if TYPE_CHECKING:
    from tidegate.storage.port import ObjectInfo, ObjectStore

RETENTION = timedelta(days=30)
SHORTEST = timedelta(days=1)
"""Whatever the property says: a process that slept so long still finds what it was about to read."""

MOST = 1000
"""Files removed at once; the next time goes on."""

_RETENTION = "delta.logRetentionDuration"
_ENABLED = "delta.enableExpiredLogCleanup"
_DURATION = re.compile(r"(?i)\s*(?:interval\s+)?(\d{1,9})\s+(week|day|hour|minute|second)s?\s*")
_FILE = re.compile(r"(\d{20})\.(json|crc|checkpoint\.parquet)")
_APP = "tidegate/"


@dataclass(frozen=True, slots=True)
class Cleaned:
    """How many files of the log were removed, and how large they were."""

    files: int = 0
    bytes: int = 0


def clean_log(store: ObjectStore, now: datetime, *, of_positions: bool = True) -> Cleaned:
    """Remove what is old enough, in ascending order; ``of_positions`` is false for a table that keeps none."""
    newest, parts = newest_checkpoint(store)
    if len(parts) != 1 or not parts[0].endswith(".checkpoint.parquet"):
        return Cleaned()
    kept = retention(_properties(store, parts[0]))
    needed = _needed(store, parts[0]) if of_positions else newest
    if kept is None or needed is None:
        return Cleaned()
    removed = [info for _, info in _removable(store, now - kept, min(needed, newest))][:MOST]
    for info in removed:
        store.delete(info.path)
    return Cleaned(len(removed), sum(info.size for info in removed))


def retention(properties: Mapping[str, str]) -> timedelta | None:
    """How long entries are kept; None where the table wants no clean-up, or says something that is not understood.

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


def _needed(store: ObjectStore, checkpoint: str) -> int | None:
    """The first version that some position still needs; None where a position has no document that tells."""
    first: list[int] = []
    for txn in checkpoint_actions(store, checkpoint, "txn", ("appId", "version")):
        key = _key(str(txn["appId"]))
        if key is None:
            continue
        version = int(txn["version"])
        named = [each for each in documents.names(store, key, version) if each.ending == "json"]
        read = [documents.read(store, key, each.version, each.attempt) for each in named]
        opened_at = [each.document.delta_version for each in read if each is not None and each.document is not None]
        if not opened_at or not any(each.version == version for each in named):
            return None
        first.append(min(opened_at) + 1)
    return min(first, default=None)


def _key(app_id: str) -> SourceKey | None:
    pipeline, _, source = app_id.removeprefix(_APP).partition("/")
    try:
        return SourceKey(pipeline, source) if app_id.startswith(_APP) else None
    except ValueError:
        return None


def _removable(store: ObjectStore, before: datetime, needed: int) -> Iterator[tuple[int, ObjectInfo]]:
    """Files of versions below a checkpoint that all are older than ``before``, and below what is ``needed``."""
    files: dict[int, list[ObjectInfo]] = {}
    for info in store.list(DIRECTORY):
        match = _FILE.fullmatch(info.path.rpartition("/")[2])
        if match:
            files.setdefault(int(match[1]), []).append(info)
    old = -1
    for version in sorted(files):
        if version >= needed or any(info.modified >= before for info in files[version] if info.path.endswith(".json")):
            break
        old = version
    checkpoints = [
        version
        for version in files
        if version <= old + 1 and any(info.path.endswith(".parquet") for info in files[version])
    ]
    base = next((each for each in sorted(checkpoints, reverse=True) if _is_readable(store, each)), -1)
    for version in sorted(files):
        if version < base:
            yield from ((version, info) for info in sorted(files[version], key=lambda info: info.path))


def _is_readable(store: ObjectStore, version: int) -> bool:
    path = f"{DIRECTORY}/{version:020d}.checkpoint.parquet"
    return next(iter(checkpoint_actions(store, path, "protocol", ("minReaderVersion",))), None) is not None
