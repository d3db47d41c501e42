"""The positions of a source as their documents and its ledger have them."""

from __future__ import annotations

from typing import Any

from state.lake import Lake
from tidegate.errors import ObjectMissing
from tidegate.protocol import documents
from tidegate.protocol.change import SourceKey
from tidegate.protocol.documents import Parent
from tidegate.protocol.ledger import Ledger
from tidegate.protocol.ledger_blocks import LedgerEntry
from tidegate.protocol.log import entry_path
from tidegate.protocol.memory import MemoryDelta, decode, replay
from tidegate.protocol.store import PositionStore
from tidegate.protocol.table import Snapshot

KEY = SourceKey("p", "s")


def attempts(lake: Lake, version: int) -> set[str]:
    return {name.attempt for name in documents.names(lake.store, KEY, version, version)}


def winner(lake: Lake, version: int) -> str:
    names = documents.names(lake.store, KEY, version, version)
    return next(name.attempt for name in names if name.ending == "won")


def drop_note(lake: Lake, version: int) -> None:
    lake.store.delete(KEY.won(version, winner(lake, version)))


class QuickDelta(MemoryDelta):
    """The table in memory, which reads each log entry once."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self._known: list[Any] = []

    def snapshot(self) -> Snapshot | None:
        while True:
            try:
                self._known.append(decode(self._store.get(entry_path(len(self._known)))))
            except ObjectMissing:
                return replay(self._known) if self._known else None


def quick(lake: Lake) -> PositionStore:
    return lake.positions(delta=QuickDelta(lake.store))


def ledger(lake: Lake, parent: Parent | None) -> list[LedgerEntry]:
    return list(Ledger(lake.store, KEY).entries(newest=parent))
