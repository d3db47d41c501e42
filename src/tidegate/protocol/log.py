"""The Delta log, read straight from object storage: its entries, and the files it names.

Nothing here needs a Delta library: an entry is a file of JSON lines named after its version. That keeps RESOLVE
independent of the library whose errors it must not trust.

Traces show that a source is not new. Our own mean that its position was forgotten or the table replaced; those
of another system mean that it filled the table, and that it should be adopted. Neither ever counts as a first run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from typing import Any
from urllib.parse import unquote

from tidegate.core.json_shape import load_json
from tidegate.errors import ObjectMissing, StateError, StorageUnavailable
from tidegate.protocol import documents
from tidegate.protocol.change import ROOT, RowChanges, SourceKey
from tidegate.protocol.documents import CommitTag, Document, is_mirror_of, parse_tags
from tidegate.protocol.ledger_blocks import parse_block
from tidegate.protocol.table import Snapshot
from tidegate.specs.foreign import ForeignWriter
from tidegate.storage.port import ObjectStore, Scope, SeekableInput

DIRECTORY = "_delta_log"
_ENTRY = re.compile(r"(\d{20})\.json")
_TABLE_FILE = re.compile(r"\d{20}\.(json|checkpoint\..*)")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(\..+)?\.(parquet|json)")
_APP = "tidegate/"
_FILE_ACTIONS = ("add", "remove", "cdc")
_FEW = 8
# A long log is read one small object at a time, and each costs a round trip.
_READERS = 8


def entry_path(version: int) -> str:
    """The path of the entry of a table version."""
    return f"{DIRECTORY}/{version:020d}.json"


def relative_path(store: ObjectStore, path: str) -> str:
    """The path of a data file below the table, from its form in the log."""
    # The Delta protocol allows absolute URIs beside relative paths.
    return unquote(path).removeprefix(f"{store.location.uri}/")


def sync_entries(store: ObjectStore, start: int) -> None:
    """Force the entries from version ``start`` on to disk, also those of others: a log with a hole is unreadable."""
    if store.location.is_forced:
        store.sync([entry_path(version) for version in DeltaLog(store).versions(start)])


@dataclass(frozen=True, slots=True)
class LogEntry:
    """The content of one commit, apart from its data files.

    ``adds`` is the number of files it adds; ``rows`` the number of rows that Spark says it wrote, ``changes`` what it
    says became of rows, ``in_commit_ms`` its own timestamp; each None if the entry does not have it. ``overwrites``: it
    replaced or removed every row.
    """

    version: int
    operation: str | None = None
    transactions: Mapping[str, int] = field(default_factory=dict)
    tags: tuple[CommitTag, ...] = ()
    table_id: str | None = None
    protocol: Mapping[str, Any] | None = None
    adds: int = 0
    rows: int | None = None
    in_commit_ms: int | None = None
    overwrites: bool = False
    changes: RowChanges | None = None

    def tag_of(self, key: SourceKey) -> CommitTag | None:
        """The commit's tag of ``key``, if it moved that source."""
        return next((found for found in self.tags if found.key == key), None)

    @property
    def is_restore(self) -> bool:
        """Whether this commit may have removed rows that were visible before."""
        return (self.operation or "").upper() == "RESTORE"

    @property
    def is_foreign(self) -> bool:
        """Whether no source of any pipeline moved with this commit."""
        return not self.tags and not any(app_id.startswith(_APP) for app_id in self.transactions)


def parse_entry(version: int, content: bytes) -> LogEntry:
    """Parse an entry; ``ValueError`` if it is none."""
    info: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    protocol: dict[str, Any] | None = None
    transactions: dict[str, int] = {}
    adds = removes = 0
    for line in content.splitlines():
        adds += line.startswith(b'{"add":')
        removes += line.startswith(b'{"remove":')
        # A commit may add 10,000 files; parsing their lines would take most of the time, and nothing here asks for
        # them.
        if not line.strip() or line.startswith((b'{"add":', b'{"remove":')):
            continue
        action = load_json(line)
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
        parse_tags(info.get("userMetadata")),
        metadata.get("id"),
        protocol,
        adds,
        _parse_number((info.get("operationMetrics") or {}).get("numOutputRows")),
        _parse_number(info.get("inCommitTimestamp")),
        removes > 0 and _is_overwrite(info),
        _parse_changes(info),
    )


def _is_overwrite(info: Mapping[str, Any]) -> bool:
    """Whether an operation that removed files left none of the rows that were there, by what it says of itself."""
    operation, given = str(info.get("operation") or "").upper(), info.get("operationParameters")
    given = given if isinstance(given, Mapping) else {}
    if "REPLACE TABLE" in operation or operation == "TRUNCATE":
        return True
    is_everywhere = str(given.get("predicate") or "[]") in ("[]", '["true"]', "true")
    if str(given.get("isDynamicPartitionOverwrite", "")).lower() == "true" or not is_everywhere:
        return False
    return operation == "DELETE" or (operation == "WRITE" and str(given.get("mode", "")).lower() == "overwrite")


def _parse_changes(info: Mapping[str, Any]) -> RowChanges | None:
    """What Spark says in its metrics of a commit; None for commits of others."""
    said, given = (info.get(name) for name in ("operationMetrics", "operationParameters"))
    metrics = {name: _parse_number(value) for name, value in said.items()} if isinstance(said, Mapping) else {}
    match info.get("operation"), metrics:
        case "MERGE", {"numTargetRowsInserted": int(inserted), "numTargetRowsUpdated": int(updated)}:
            # Not from numSourceRows: what the table has already is taken out of the source before.
            return RowChanges(inserted, updated, metrics.get("numTargetRowsDeleted"), unchanged=None)
        case "WRITE", {"numOutputRows": int(written)}:
            appends = isinstance(given, Mapping) and given.get("mode") == "Append"
            deleted = 0 if appends else metrics.get("numDeletedRows")
            return RowChanges(written - (metrics.get("numCopiedRows") or 0), 0, deleted)
        case _:
            return None


def _parse_number(value: object) -> int | None:
    """A number, or the number in a text; None for anything else."""
    return int(str(value)) if str(value).isascii() and str(value).isdigit() else None


class DeltaLog:
    """The log of the table that ``store`` is rooted at."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def entry(self, version: int) -> LogEntry | None:
        """The entry of that version; None if there is none (not yet, or cleaned up)."""
        try:
            content = self._store.get(entry_path(version))
        except ObjectMissing:
            return None
        try:
            return parse_entry(version, content)
        except ValueError as error:
            # Not the end of the log: a response may have been cut short, and RESOLVE must not call that "not there".
            raise StorageUnavailable(
                f"{self._store.location.uri}/{entry_path(version)} is not readable as a log entry ({error})",
                "retry; if that does not help, the log is damaged",
            ) from error

    def read_added_paths(self, version: int, key: SourceKey) -> tuple[str, ...]:
        """The data files that an entry adds, if it belongs to this source alone; none if it was cleaned up."""
        try:
            content = self._store.get(entry_path(version))
            # In a commit of several sources nothing says whose files are whose.
            if [tag.key for tag in parse_entry(version, content).tags] != [key]:
                return ()
            adds = [load_json(line)["add"] for line in content.splitlines() if line.startswith(b'{"add":')]
        except (ObjectMissing, ValueError):
            return ()
        return tuple(relative_path(self._store, add["path"]) for add in adds)

    def tail(self, start: int) -> Iterator[LogEntry]:
        """Entries from ``start`` to the first missing one; none without a log."""
        version = start
        while (found := self.entry(version)) is not None:
            yield found
            version += 1

    def between(self, start: int, stop: int) -> tuple[LogEntry, ...]:
        """The existing entries of ``start <= version < stop``, ascending."""
        wanted: Sequence[int] = range(start, stop)
        if len(wanted) <= _FEW:
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
        # The store lists after a name, exclusively; some stores give more, hence the comparison below.
        after = entry_path(start - 1) if start else None
        matches = (_ENTRY.fullmatch(item.path.rpartition("/")[2]) for item in self._store.list(DIRECTORY, after))
        return sorted(number for match in matches if match and (number := int(match[1])) >= start)

    def is_empty(self) -> bool:
        """Whether there is neither an entry nor a checkpoint, and thus no table."""
        return not any(_TABLE_FILE.fullmatch(item.path.rpartition("/")[2]) for item in self._store.list(DIRECTORY))


def find_trace(store: ObjectStore, key: SourceKey, snapshot: Snapshot | None) -> str | None:
    """Evidence that ``key`` had a position before; None without any.

    Each of these is written after a commit of ``key`` was durable (or, for a document that names the one before it,
    after one was seen), so that a snapshot taken later must know the position.
    """
    # One request, which decides nearly every case; the directory is listed only after it.
    if is_mirror_of(store, key):
        return f"the mirror {key.mirror}"
    first: list[Document] = []
    for found in store.list(key.directory):
        if parse_block(key, found.path) is not None:
            return found.path
        name = documents.parse_name(found.path)
        if name is None:
            continue
        stored = None if name.ending == "won" else documents.read(store, key, name.version, name.attempt)
        document = None if stored is None else stored.document
        if document is not None and document.parent is None:
            first.append(document)
        # A first document proves nothing: its attempt may have died before the commit. Any later one has seen a
        # position.
        elif name.ending == "won" or name.version >= 2:
            return found.path
    return None if snapshot is None else _active_first(key, snapshot, first)


def _active_first(key: SourceKey, snapshot: Snapshot, attempts: Sequence[Document]) -> str | None:
    """A first document whose files are visible although the table has no position."""
    active = snapshot.active_paths() if any(document.data_files for document in attempts) else frozenset()
    for document in attempts:
        if any(file.path in active for file in document.data_files):
            return f"{key.document(document.version, document.attempt)}, whose data files are in the table"
    return None


def find_foreign(store: ObjectStore, writer: ForeignWriter, snapshot: Snapshot | None) -> str | None:
    """A trace of ``writer`` in the table; None without one."""
    for item in store.list(writer.folder):
        # Our own mirror may be written where Blizzard kept its checkpoints, for dashboards that read it there.
        if not is_second_mirror(store, item.path):
            return item.path
    if snapshot is None:
        return None
    found = (app_id for app_id in application_ids(store) if app_id.startswith(writer.app_ids))
    return next((f"the transaction id {app_id[:60]!r}" for app_id in found), None)


def is_second_mirror(store: ObjectStore, path: str) -> bool:
    """Whether Tidegate wrote an object that lies where another system keeps its checkpoints."""
    try:
        data = load_json(store.get(path))
    except (ObjectMissing, ValueError):
        return False
    return isinstance(data, dict) and isinstance(data.get("tidegate"), dict)


def application_ids(store: ObjectStore) -> Iterator[str]:
    """Every application id with a ``txn``: from the newest checkpoint and the entries after it."""
    # Not through the library: with a million files it needs seconds and 440 MB to load, this column 0.11 s.
    version, files = newest_checkpoint(store)
    for path in files:
        yield from (str(txn["appId"]) for txn in checkpoint_actions(store, path, "txn", ("appId",)))
    log = DeltaLog(store)
    numbers = log.versions(version + 1)
    for entry in log.between(numbers[0], numbers[-1] + 1) if numbers else ():
        yield from entry.transactions


def newest_checkpoint(store: ObjectStore) -> tuple[int, list[str]]:
    """The version and the files of the newest Delta checkpoint; -1 without one."""
    found: dict[int, list[str]] = {}
    for item in store.list(DIRECTORY):
        match = _CHECKPOINT.fullmatch(item.path.removeprefix(f"{DIRECTORY}/"))
        if match:
            found.setdefault(int(match[1]), []).append(item.path)
    newest = max(found, default=-1)
    return newest, found.get(newest, [])


def checkpoint_actions(
    store: ObjectStore, path: str, kind: str, fields: tuple[str, ...]
) -> Iterator[Mapping[str, Any]]:
    """The actions of one kind in a file of a Delta checkpoint, with those fields; the first is never null."""
    if path.endswith(".json"):
        for line in store.get(path).splitlines():
            action = load_json(line) if line.strip() else {}
            if kind in action:
                yield action[kind]
        return
    import pyarrow
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(SeekableInput(store, path))
        for batch in file.iter_batches(columns=[f"{kind}.{each}" for each in fields]):
            actions = (row.get(kind) for row in batch.to_pylist())
            yield from (action for action in actions if action and action.get(fields[0]) is not None)
    except (pyarrow.ArrowException, OSError) as error:
        raise StateError(
            f"checkpoint {store.location.uri}/{path} cannot be read ({error})",
            "make a new checkpoint with the tool that wrote it",
        ) from error


@dataclass(slots=True)
class References:
    """The data files that the log of ``store`` names; ``newest`` is the last table version that was read.

    Every path that an entry or the newest checkpoint adds *or removes* counts: removed files belong to older versions
    of the table and to VACUUM. Entries are read one by one, so that a long log needs little memory.
    """

    store: ObjectStore
    newest: int = -1

    def paths(self) -> Iterator[str]:
        """Paths relative to the table: all of them the first time, then those of new entries.

        ``StateError`` if a part of the log is missing.
        """
        checkpoint, files = newest_checkpoint(self.store) if self.newest < 0 else (self.newest, [])
        # Checkpoints of version 2 keep their file actions in sidecars.
        if files:
            files += [info.path for info in self.store.list(f"{DIRECTORY}/_sidecars")]
        for path in files:
            yield from self._of_checkpoint(path)
        versions = DeltaLog(self.store).versions(self.newest + 1)
        after = [version for version in versions if version > checkpoint]
        if after != list(range(checkpoint + 1, checkpoint + 1 + len(after))):
            raise self._incomplete(f"entries after version {checkpoint} are missing")
        for version in versions:
            yield from self._of_entry(version, needed=version > checkpoint)
        self.newest = max([self.newest, checkpoint, *versions[-1:]])

    def _of_entry(self, version: int, *, needed: bool) -> Iterator[str]:
        path = entry_path(version)
        try:
            content = self.store.get(path)
        except ObjectMissing:
            # Below the checkpoint, the log may be cleaned up while we read; the checkpoint has what those entries said.
            if needed:
                raise
            return
        yield from self._of_lines(path, content)

    def _of_lines(self, path: str, content: bytes) -> Iterator[str]:
        for line in content.splitlines():
            try:
                action = load_json(line) if line.strip() else {}
                named = [action[kind]["path"] for kind in _FILE_ACTIONS if kind in action]
            except (ValueError, KeyError, TypeError) as error:
                raise self._incomplete(f"{path} is not readable ({error!r})") from error
            yield from (relative_path(self.store, each) for each in named)

    def _of_checkpoint(self, path: str) -> Iterator[str]:
        if path.endswith(".json"):
            yield from self._of_lines(path, self.store.get(path))
            return
        import pyarrow
        import pyarrow.parquet

        try:
            file = pyarrow.parquet.ParquetFile(SeekableInput(self.store, path))
            for batch in file.iter_batches(columns=[f"{kind}.path" for kind in _FILE_ACTIONS]):
                for column in batch.columns:
                    named = column.field("path").to_pylist()
                    yield from (relative_path(self.store, each) for each in named if each is not None)
        except (pyarrow.ArrowException, OSError) as error:
            raise self._incomplete(f"checkpoint {path} cannot be read ({error})") from error

    def _incomplete(self, what: str) -> StateError:
        return StateError(
            f"{self.store.location.uri}: Tidegate cannot tell which files the table needs: {what}",
            "nothing was removed; retry, and if that does not help, restore the log from a backup",
        )


def sources_of(store: ObjectStore) -> frozenset[SourceKey]:
    """Every source that has, or tried to make, a position in the table: by its log and by its documents."""
    names = {app_id for app_id in application_ids(store) if app_id.startswith(_APP)}
    for pipeline in store.list_directory(ROOT).directories:
        names |= {f"tidegate{each.removeprefix(ROOT)}" for each in store.list_directory(pipeline).directories}
    return frozenset(key for key in map(key_of, names) if key is not None)


def key_of(app_id: str) -> SourceKey | None:
    """The source with that application id; None for another program's."""
    pipeline, _, source = app_id.removeprefix(_APP).partition("/")
    try:
        return SourceKey(pipeline, source) if app_id.startswith(_APP) else None
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Contents:
    """``named``: all data files in the log, visible or removed; ``twice``: those added again while visible.

    ``twice`` covers only the entries that are left.
    """

    named: frozenset[str]
    twice: tuple[str, ...]
    entries: int


def contents(store: ObjectStore, snapshot: Snapshot) -> Contents:
    """The data files that the entries and the newest checkpoint of the log name."""
    numbers = DeltaLog(store).versions()
    visible: set[str] = set()
    named = set(snapshot.active_paths())
    twice: list[str] = []
    with ThreadPoolExecutor(_READERS, "log") as pool:
        entries = pool.map(lambda number: tuple(_file_actions(store.get(entry_path(number)))), numbers)
        for kind, path, changes in chain.from_iterable(entries):
            named.add(path)
            if kind == "remove":
                visible.discard(path)
            # An entry with dataChange false rewrites rows (OPTIMIZE); the same path twice with it true doubles them.
            elif changes and path in visible:
                twice.append(path)
            else:
                visible.add(path)
    for path in newest_checkpoint(store)[1]:
        named.update(unquote(str(row["path"])) for row in checkpoint_actions(store, path, "remove", ("path",)))
    return Contents(frozenset(named), tuple(twice), len(numbers))


def _file_actions(content: bytes) -> Iterator[tuple[str, str, bool]]:
    for line in content.splitlines():
        action = load_json(line) if line.startswith((b'{"add"', b'{"remove"')) else {}
        for kind, fields in action.items():
            yield kind, unquote(str(fields["path"])), bool(fields.get("dataChange", True))


def find_unreferenced(store: ObjectStore, known: Contents) -> tuple[str, ...]:
    """The Parquet files below the table that the log does not name."""
    return tuple(
        item.path
        for item in store.list(scope=Scope())
        if item.path.endswith(".parquet")
        and not any(part.startswith(("_", ".")) for part in item.path.split("/"))
        and item.path not in known.named
    )
