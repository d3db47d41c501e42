"""The data files of a commit that Spark made: known once the log entry is there, and kept beside the document.

A document precedes its commit, and Spark names its files while it commits. So they are saved afterwards, as a debt, and
whoever reads such a document is given them with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tidegate.errors import ObjectMissing
from tidegate.state.files import DataFile
from tidegate.state.identity import SourceKey

if TYPE_CHECKING:
    from tidegate.storage.port import ObjectStore

KIND = "work"
"""The debt of every commit that Spark makes."""


def save(store: ObjectStore, key: SourceKey, version: int, attempt: str, entry: bytes) -> None:
    """Keep what that log entry adds."""
    files = [file.to_json() for file in _added(entry)]
    store.put(key.written(version, attempt), json.dumps({"data_files": files}).encode())


def saved(
    store: ObjectStore, key: SourceKey, version: int, attempt: str, debts: Sequence[Mapping[str, Any]]
) -> tuple[DataFile, ...]:
    """What was kept for a document with these debts; nothing for other documents, and before it is paid."""
    if not any(debt.get("kind") == KIND for debt in debts):
        return ()
    try:
        data = json.loads(store.get(key.written(version, attempt)))
        return tuple(map(DataFile.from_json, data["data_files"]))
    except (ObjectMissing, ValueError, KeyError, TypeError):
        return ()


def _added(entry: bytes) -> Iterator[DataFile]:
    for line in entry.splitlines():
        if line.startswith(b'{"add":'):
            add = json.loads(line)["add"]
            rows = json.loads(add.get("stats") or "{}").get("numRecords", 0)
            yield DataFile(unquote(str(add["path"])), int(add["size"]), int(rows), add.get("partitionValues") or {})
