"""The messages that were sent about a source, beside its state.

``{pipeline}/{source}.sent.json`` holds :class:`SentMessages`, so that a run on another machine does not repeat them. It
may be removed, overwritten by another run or out of date at any time: then a message comes twice.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.core.messages import SentMessages
from tidegate.errors import ObjectMissing
from tidegate.protocol.change import SourceKey
from tidegate.specs.project import PipelineSpec
from tidegate.storage.port import ObjectStore
from tidegate.storage.stores import open_store


class TableSentStore:
    """Remembers beside the tables of pipelines; about others only as long as the process lives.

    A table whose place is not known yet, or that is refused, has no place for it either.
    """

    def __init__(self, pipelines: Iterable[PipelineSpec]) -> None:
        self._locations = {
            each.name: each.sink.table for each in pipelines if each.sink.table.is_located and each.refused is None
        }
        self._stores: dict[str, ObjectStore] = {}

    def read(self, name: tuple[str, str]) -> SentMessages:
        """What was sent about a source; :class:`StorageError` if that cannot be read."""
        store = self._open(name[0])
        try:
            return SentMessages() if store is None else SentMessages.from_bytes(store.get(SourceKey(*name).sent))
        except ObjectMissing:
            return SentMessages()

    def write(self, name: tuple[str, str], sent: SentMessages) -> None:
        """Remember what was sent about a source; :class:`StorageError` if that is not possible."""
        store = self._open(name[0])
        if store is not None:
            store.put(SourceKey(*name).sent, sent.to_bytes())

    def _open(self, pipeline: str) -> ObjectStore | None:
        if pipeline not in self._locations:
            return None
        if pipeline not in self._stores:
            self._stores[pipeline] = open_store(self._locations[pipeline])
        return self._stores[pipeline]
