"""What is remembered beside a table: columns that were inferred."""

from __future__ import annotations

from dataclasses import replace

from tidegate.protocol.position import InferredSchema
from tidegate.schema.inference import Inference, infer_json
from tidegate.specs.locations import Location
from tidegate.storage.memory import MemoryStore, Space


class OvertakenStore(MemoryStore):
    """Another process replaces the same object right after the first ``times`` writes."""

    def __init__(self, theirs: Inference, times: int) -> None:
        super().__init__(Location("memory://table"), Space())
        self._theirs, self._times = theirs, times

    def put(self, path: str, data: bytes) -> None:
        super().put(path, data)
        if self._times:
            self._times -= 1
            InferredSchema(self, "theirs").replace(self._theirs)
            super().put(path, super().get("_tidegate/theirs/schema.json"))


def inferred(line: str) -> Inference:
    return replace(infer_json([[line.encode()]]), report=())


def test_fields_that_another_process_overwrote_are_added_again() -> None:
    theirs = inferred('{"id": 1, "theirs": 2}')
    store = OvertakenStore(theirs, times=0)
    schema = InferredSchema(store, "events")
    schema.remember(inferred('{"id": 1}'))
    store._times = 2
    agreed = schema.add(inferred('{"id": 1, "ours": "x"}'))
    assert [each.name for each in agreed.fields] == ["id", "theirs", "ours"]
    assert schema.read() == agreed
