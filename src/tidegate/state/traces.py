"""OPEN 2: signs that a source without a position is not new.

Our own traces mean that the position was forgotten or the table replaced; Blizzard's mean that the table was
filled by it and wants to be adopted. Neither is ever taken for a first run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidegate.errors import ObjectMissing, StateError
from tidegate.state import documents
from tidegate.state.blocks import parse_block
from tidegate.state.documents import Document
from tidegate.state.identity import LEGACY_ROOT, SourceKey
from tidegate.state.log import DIRECTORY, DeltaLog
from tidegate.state.mirror import is_ours
from tidegate.state.table import Snapshot
from tidegate.storage.seekable import SeekableInput

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
