"""What the log of a table says about its data files, beyond which are visible: for reports, never for a position."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING
from urllib.parse import unquote

from tidegate.state.log import DeltaLog, entry_path
from tidegate.state.table import Snapshot
from tidegate.state.traces import checkpoint_actions, newest_checkpoint
from tidegate.storage.scope import Scope

if TYPE_CHECKING:
    from tidegate.storage.port import ObjectStore

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
