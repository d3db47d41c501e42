"""What a command moved the position over stays readable when documents become blocks."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

from state.history import KEY, quick
from state.lake import Lake
from tidegate.protocol import documents
from tidegate.protocol.ledger import Ledger
from tidegate.specs.locations import Location


def test_documents_that_moved_the_position_are_kept() -> None:
    lake = Lake(Location(f"memory://{uuid4().hex}/table"))
    positions = quick(lake)
    opened = positions.open()
    actions = {1: "adopt", 7: "watermark set", 8: "watermark reset", 9: "dlq discard", 10: "reconcile", 11: "replay"}
    for version in range(1, 514):
        change = replace(lake.change(version, version), action=actions.get(version, "run"))
        opened = positions.commit(opened, change)
    assert opened.parent is not None
    Ledger(lake.store, KEY).compact(opened.parent)
    found = list(Ledger(lake.store, KEY).entries(newest=opened.parent))
    assert [entry.version for entry in found] == list(range(1, 514))
    assert [entry.action for entry in found if entry.moves] == ["adopt", "watermark set"]
    left = {name.version for name in documents.names(lake.store, KEY)}
    assert {version for version in left if version <= 256} == {1, 7}
    stored = documents.read(lake.store, KEY, 7, found[6].attempt)
    assert stored is not None
    assert stored.document is not None
    assert stored.document.state == {"next": 7}
