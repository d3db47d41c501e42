"""The Delta log, entry by entry, read straight from object storage.

Nothing here needs a Delta library: an entry is a file of JSON lines named after its version. That keeps
RESOLVE independent of the library whose errors it has to see through.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tidegate.errors import ObjectMissing, StorageUnavailable
from tidegate.protocol.documents import CommitTag, parse
from tidegate.protocol.identity import SourceKey

if TYPE_CHECKING:
    from tidegate.storage.port import ObjectStore

DIRECTORY = "_delta_log"
_ENTRY = re.compile(r"(\d{20})\.json")
_TABLE_FILE = re.compile(r"\d{20}\.(json|checkpoint\..*)")
_MANY = 8
_READERS = 8


def entry_path(version: int) -> str:
    """Where the entry of a table version lies."""
    return f"{DIRECTORY}/{version:020d}.json"


def sync_entries(store: ObjectStore, start: int) -> None:
    """Force the entries from version ``start`` on to disk, whoever wrote them: a log with a hole cannot be read."""
    if store.location.is_forced:
        store.sync([entry_path(version) for version in DeltaLog(store).versions(start)])


@dataclass(frozen=True, slots=True)
class LogEntry:
    """What one commit says, apart from its data files.

    ``adds`` is how many files it adds; ``rows`` how many rows Spark says that it wrote, ``in_commit_ms`` the time that
    it gives itself, each None where the entry does not say.
    """

    version: int
    operation: str | None = None
    transactions: Mapping[str, int] = field(default_factory=dict)
    marks: tuple[CommitTag, ...] = ()
    table_id: str | None = None
    protocol: Mapping[str, Any] | None = None
    adds: int = 0
    rows: int | None = None
    in_commit_ms: int | None = None

    def mark_of(self, key: SourceKey) -> CommitTag | None:
        """This commit's mark of ``key``, if it moved that source."""
        return next((found for found in self.marks if found.key == key), None)

    @property
    def is_restore(self) -> bool:
        """Whether rows that were visible before may be gone since this commit."""
        return (self.operation or "").upper() == "RESTORE"


def parse_entry(version: int, content: bytes) -> LogEntry:
    """One entry from its bytes; ``ValueError`` when it is not a log entry."""
    info: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    protocol: dict[str, Any] | None = None
    transactions: dict[str, int] = {}
    adds = 0
    for line in content.splitlines():
        adds += line.startswith(b'{"add":')
        if not line.strip() or line.startswith((b'{"add":', b'{"remove":')):
            continue
        action = json.loads(line)
        if not isinstance(action, dict):
            raise ValueError(f"{line[:40]!r} is not an action")
        info = action.get("commitInfo") or info
        metadata = action.get("metaData") or metadata
        protocol = action.get("protocol") or protocol
        if "txn" in action:
            transactions[str(action["txn"]["appId"])] = int(action["txn"]["version"])
    return LogEntry(
        version,
        info.get("operation"),
        transactions,
        parse(info.get("userMetadata")),
        metadata.get("id"),
        protocol,
        adds,
        _whole((info.get("operationMetrics") or {}).get("numOutputRows")),
        _whole(info.get("inCommitTimestamp")),
    )


def _whole(value: object) -> int | None:
    """A number, or the text of one; None for anything else."""
    return int(str(value)) if str(value).isascii() and str(value).isdigit() else None


class DeltaLog:
    """The log of the table that ``store`` is rooted at."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def entry(self, version: int) -> LogEntry | None:
        """The entry of that version; None when there is none (not yet, or removed by clean-up)."""
        try:
            content = self._store.get(entry_path(version))
        except ObjectMissing:
            return None
        try:
            return parse_entry(version, content)
        except ValueError as error:
            raise StorageUnavailable(
                f"{self._store.location.uri}/{entry_path(version)} is not readable as a log entry ({error})",
                "try again; if it stays, the log is damaged",
            ) from error

    def added(self, version: int, key: SourceKey) -> tuple[str, ...]:
        """The data files that an entry adds, if it is that of this source alone; nothing when it was cleaned up."""
        try:
            content = self._store.get(entry_path(version))
            if [mark.key for mark in parse_entry(version, content).marks] != [key]:
                return ()
            adds = [json.loads(line)["add"] for line in content.splitlines() if line.startswith(b'{"add":')]
        except (ObjectMissing, ValueError):
            return ()
        return tuple(unquote(add["path"]).removeprefix(f"{self._store.location.uri}/") for add in adds)

    def tail(self, start: int) -> Iterator[LogEntry]:
        """Entries from ``start`` to the first that is not there; nothing when there is no log yet."""
        version = start
        while (found := self.entry(version)) is not None:
            yield found
            version += 1

    def between(self, start: int, stop: int) -> tuple[LogEntry, ...]:
        """Those entries of ``start <= version < stop`` that still exist, ascending."""
        wanted: Sequence[int] = range(start, stop)
        if len(wanted) <= _MANY:
            return tuple(found for version in wanted if (found := self.entry(version)) is not None)
        wanted = [version for version in self.versions(start) if version < stop]
        with ThreadPoolExecutor(_READERS, "log") as pool:
            return tuple(found for found in pool.map(self.entry, wanted) if found is not None)

    def backwards(self, version: int, limit: int) -> Iterator[LogEntry]:
        """At most ``limit`` entries from ``version`` down; stops where the log was cleaned up."""
        for number in range(version, max(-1, version - limit), -1):
            found = self.entry(number)
            if found is None:
                return
            yield found

    def versions(self, start: int = 0) -> list[int]:
        """The versions from ``start`` on that have an entry, ascending."""
        after = entry_path(start - 1) if start else None
        matches = (_ENTRY.fullmatch(item.path.rpartition("/")[2]) for item in self._store.list(DIRECTORY, after))
        return sorted(number for match in matches if match and (number := int(match[1])) >= start)

    def is_empty(self) -> bool:
        """True when there is neither an entry nor a checkpoint: there is no table."""
        return not any(_TABLE_FILE.fullmatch(item.path.rpartition("/")[2]) for item in self._store.list(DIRECTORY))
