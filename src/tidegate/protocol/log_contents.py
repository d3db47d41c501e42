"""What the log of a table names: data files, positions of sources, and signs that a source is not new.

Our own traces mean that the position was forgotten or the table replaced; Blizzard's mean that the table was
filled by it and wants to be adopted. Neither is ever taken for a first run.

Every path that any entry or the newest checkpoint adds *or removes* counts: removed files belong to older versions of
the table and to VACUUM. Entries are read one after the other, so that a long log needs little memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tidegate.errors import ObjectMissing, StateError
from tidegate.protocol import documents
from tidegate.protocol.documents import Document
from tidegate.protocol.identity import LEGACY_ROOT, ROOT, SourceKey
from tidegate.protocol.ledger_blocks import parse_block
from tidegate.protocol.log import DIRECTORY, DeltaLog, entry_path
from tidegate.protocol.mirror import is_ours
from tidegate.protocol.table import Snapshot
from tidegate.storage.listing_scope import Scope
from tidegate.storage.port import SeekableInput

if TYPE_CHECKING:
    from tidegate.storage.port import ObjectStore

_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(\..+)?\.(parquet|json)")
_BLIZZARD = ("blizzard:", "penguin-")


def forgotten(store: ObjectStore, key: SourceKey, snapshot: Snapshot | None) -> str | None:
    """What shows that ``key`` had a position before, None when nothing does.

    Each of these is written after a commit of ``key`` was durable (or, for a document that names the one before it,
    after one was seen), so that a snapshot taken later must know the position.
    """
    if is_ours(store, key.mirror, key):
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
        elif name.ending == "won" or name.version >= 2:
            return found.path
    return None if snapshot is None else _active_first(key, snapshot, first)


def _active_first(key: SourceKey, snapshot: Snapshot, attempts: Sequence[Document]) -> str | None:
    """A document without one before it whose files are visible although the table knows no position."""
    with_files = [document for document in attempts if document.data_files]
    if not with_files:
        return None
    active = snapshot.active_paths()
    for document in with_files:
        if any(file.path in active for file in document.data_files):
            return f"{key.document(document.version, document.attempt)}, whose data files are in the table"
    return None


def blizzard(store: ObjectStore, key: SourceKey, snapshot: Snapshot | None) -> str | None:
    """A trace of Blizzard in the table, None when there is none."""
    for item in store.list(LEGACY_ROOT):
        if not written_by_us(store, item.path):
            return item.path
    if snapshot is None:
        return None
    return next(
        (f"the transaction id {app_id[:60]!r}" for app_id in application_ids(store) if app_id.startswith(_BLIZZARD)),
        None,
    )


def written_by_us(store: ObjectStore, path: str) -> bool:
    """Whether an object of ``_blizzard/`` is a legacy mirror that Tidegate wrote."""
    try:
        data = json.loads(store.get(path))
    except (ObjectMissing, ValueError):
        return False
    return isinstance(data, dict) and isinstance(data.get("tidegate"), dict)


def application_ids(store: ObjectStore) -> Iterator[str]:
    """Every application id with a ``txn``: from the newest checkpoint and the entries after it."""
    version, files = newest_checkpoint(store)
    for path in files:
        yield from _checkpoint_ids(store, path)
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


def _checkpoint_ids(store: ObjectStore, path: str) -> Iterator[str]:
    return (str(txn["appId"]) for txn in checkpoint_actions(store, path, "txn", ("appId",)))


def checkpoint_actions(
    store: ObjectStore, path: str, kind: str, fields: tuple[str, ...]
) -> Iterator[Mapping[str, Any]]:
    """The actions of one kind in a file of a Delta checkpoint, with those fields; the first is never null."""
    if path.endswith(".json"):
        for line in store.get(path).splitlines():
            action = json.loads(line) if line.strip() else {}
            if kind in action:
                yield action[kind]
        return
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.ParquetFile(SeekableInput(store, path)).read(
            columns=[f"{kind}.{each}" for each in fields]
        )
    except (pyarrow.ArrowException, OSError) as error:
        raise StateError(
            f"checkpoint {store.location.uri}/{path} cannot be read ({error})",
            "let the tool that wrote it make a new checkpoint of the table",
        ) from error
    for row in table.to_pylist():
        if row.get(kind) and row[kind].get(fields[0]) is not None:
            yield row[kind]


_APP = "tidegate/"
_ACTIONS = ("add", "remove", "cdc")


@dataclass(slots=True)
class References:
    """The data files that the log of ``store`` names; ``newest`` is the last table version that was looked at."""

    store: ObjectStore
    newest: int = -1

    def paths(self) -> Iterator[str]:
        """Relative to the table: all of them the first time, then those of entries that have come since.

        ``StateError`` when a part of the log that should be there is not.
        """
        checkpoint, files = newest_checkpoint(self.store) if self.newest < 0 else (self.newest, [])
        if files:
            files += [info.path for info in self.store.list(f"{DIRECTORY}/_sidecars")]
        for path in files:
            yield from self._of_checkpoint(path)
        versions = DeltaLog(self.store).versions(self.newest + 1)
        self._check(versions, checkpoint)
        for version in versions:
            yield from self._of_entry(version, needed=version > checkpoint)
        self.newest = max([self.newest, checkpoint, *versions[-1:]])

    def _check(self, versions: list[int], checkpoint: int) -> None:
        after = [version for version in versions if version > checkpoint]
        if after != list(range(checkpoint + 1, checkpoint + 1 + len(after))):
            raise self._incomplete(f"entries after version {checkpoint} are missing")

    def _of_entry(self, version: int, *, needed: bool) -> Iterator[str]:
        path = entry_path(version)
        try:
            content = self.store.get(path)
        except ObjectMissing:
            if needed:
                raise
            return
        yield from self._of_lines(path, content)

    def _of_lines(self, path: str, content: bytes) -> Iterator[str]:
        for line in content.splitlines():
            try:
                action = json.loads(line) if line.strip() else {}
                named = [action[kind]["path"] for kind in _ACTIONS if kind in action]
            except (ValueError, KeyError, TypeError) as error:
                raise self._incomplete(f"{path} is not readable ({error!r})") from error
            yield from map(self._relative, named)

    def _of_checkpoint(self, path: str) -> Iterator[str]:
        if path.endswith(".json"):
            yield from self._of_lines(path, self.store.get(path))
            return
        import pyarrow
        import pyarrow.parquet

        try:
            file = pyarrow.parquet.ParquetFile(SeekableInput(self.store, path))
            for batch in file.iter_batches(columns=[f"{kind}.path" for kind in _ACTIONS]):
                for column in batch.columns:
                    named = column.field("path").to_pylist()
                    yield from (self._relative(each) for each in named if each is not None)
        except (pyarrow.ArrowException, OSError) as error:
            raise self._incomplete(f"checkpoint {path} cannot be read ({error})") from error

    def _relative(self, path: str) -> str:
        return unquote(path).removeprefix(f"{self.store.location.uri}/")

    def _incomplete(self, what: str) -> StateError:
        return StateError(
            f"{self.store.location.uri}: which files the table needs cannot be told: {what}",
            "nothing was removed; try again, and if it stays, put the log back from a copy",
        )


def sources_of(store: ObjectStore) -> frozenset[SourceKey]:
    """Every source that has, or tried to make, a position in the table: by its log and by its documents."""
    found = {_key(*app_id.removeprefix(_APP).partition("/")[::2]) for app_id in _app_ids(store)}
    for pipeline in store.list_directory(ROOT).directories:
        for directory in store.list_directory(pipeline).directories:
            found.add(_key(pipeline.rpartition("/")[2], directory.rpartition("/")[2]))
    return frozenset(key for key in found if key is not None)


def _app_ids(store: ObjectStore) -> Iterator[str]:
    return (app_id for app_id in application_ids(store) if app_id.startswith(_APP))


def _key(pipeline: str, source: str) -> SourceKey | None:
    try:
        return SourceKey(pipeline, source)
    except ValueError:
        return None


_READERS = 8


@dataclass(frozen=True, slots=True)
class Contents:
    """``named`` are all data files that the log still names, visible or removed; ``twice`` those added again while they
    were visible, in the entries that are left.
    """

    named: frozenset[str]
    twice: tuple[str, ...]
    entries: int


def contents(store: ObjectStore, snapshot: Snapshot) -> Contents:
    """What the entries and the newest checkpoint of the log name."""
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
            elif changes and path in visible:
                twice.append(path)
            else:
                visible.add(path)
    for path in newest_checkpoint(store)[1]:
        named.update(unquote(str(row["path"])) for row in checkpoint_actions(store, path, "remove", ("path",)))
    return Contents(frozenset(named), tuple(twice), len(numbers))


def _file_actions(content: bytes) -> Iterator[tuple[str, str, bool]]:
    for line in content.splitlines():
        action = json.loads(line) if line.startswith((b'{"add"', b'{"remove"')) else {}
        for kind, fields in action.items():
            yield kind, unquote(str(fields["path"])), bool(fields.get("dataChange", True))


def unreferenced(store: ObjectStore, known: Contents) -> tuple[str, ...]:
    """The Parquet files below the table that the log does not name."""
    return tuple(
        item.path
        for item in store.list(scope=Scope())
        if item.path.endswith(".parquet")
        and not any(part.startswith(("_", ".")) for part in item.path.split("/"))
        and item.path not in known.named
    )
