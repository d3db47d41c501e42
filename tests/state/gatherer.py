"""A process that compacts the ledger of the table at the path it is given, and may be killed at a failpoint."""

from __future__ import annotations

import sys
from pathlib import Path

from state.lake import Lake
from tidegate.protocol.ledger import Ledger
from tidegate.protocol.memory import MemoryDelta

if __name__ == "__main__":
    lake = Lake.local(Path(sys.argv[1]))
    positions = lake.positions(delta=MemoryDelta(lake.store))
    opened = positions.open()
    assert opened.parent is not None
    print(Ledger(lake.store, positions.site.key).compact(opened.parent))
