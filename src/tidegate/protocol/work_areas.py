"""Work areas: folders below a table for rows that no commit refers to yet.

A replay and the DataFrame lane decode source files into one, and rows go from there into the table. It is removed by
whoever made it: a replay at its end, the DataFrame lane as a debt of its commit. What a killed process left is removed
a day later.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import uuid4

from tidegate.errors import ObjectMissing
from tidegate.protocol.documents import KIND, save
from tidegate.protocol.identity import SourceKey
from tidegate.protocol.log import entry_path
from tidegate.protocol.position import Position
from tidegate.specs.locations import Location
from tidegate.storage.stores import remove_empty_directories

if TYPE_CHECKING:
    from tidegate.storage.port import ObjectStore

KEPT = timedelta(hours=24)
"""How long a work area is left alone that somebody may still be using."""


@dataclass(frozen=True, slots=True)
class WorkArea:
    """A folder of its own; ``directory`` is relative to the table."""

    directory: str
    location: Location

    def debt(self) -> dict[str, Any]:
        """What a commit owes that took its rows from here."""
        return {"kind": KIND, "directory": self.directory}


def new_work_area(key: SourceKey, table: Location) -> WorkArea:
    """A work area that nobody else has; nothing is written yet."""
    directory = f"{_root(key)}/{uuid4()}"
    return WorkArea(directory, Location(f"{table.uri}/{quote(directory)}", table.options, sync=False))


def remove_work(store: ObjectStore, directory: str) -> None:
    """Take a work area away; nothing there is fine."""
    for info in list(store.list(directory)):
        store.delete(info.path)
    remove_empty_directories(Location(f"{store.location.uri}/{quote(directory)}", store.location.options))


def clean_old(store: ObjectStore, key: SourceKey, now: datetime) -> int:
    """Remove what was left in work areas of ``key`` a day ago or longer; how many files that were."""
    old = [info for info in store.list(_root(key)) if now - info.modified >= KEPT]
    for info in old:
        store.delete(info.path)
    if old:
        remove_empty_directories(Location(f"{store.location.uri}/{quote(_root(key))}", store.location.options))
    return len(old)


@dataclass(frozen=True, slots=True)
class WorkRemover:
    """Pays the debt of a commit that took its rows from a work area: its data files are noted, the area goes."""

    store: ObjectStore

    def pay(self, opened: Position, owed: Mapping[str, Any]) -> None:
        """Note the files that the commit added, unless its entry is gone by now, and remove the area."""
        if opened.parent is not None and opened.committed_at >= 0:
            with suppress(ObjectMissing):
                entry = self.store.get(entry_path(opened.committed_at))
                save(self.store, opened.key, opened.version, opened.parent.attempt, entry)
        remove_work(self.store, str(owed["directory"]))


def _root(key: SourceKey) -> str:
    return f"{key.directory}/work"
