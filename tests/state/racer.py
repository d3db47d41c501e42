"""A process of its own that ingests a source of numbered records: for races and for being killed.

``python racer.py '{"uri": …, "options": {…}, "source": "s", "records": 5, …}'``; prints what happened as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))


def main(settings: dict[str, Any]) -> None:
    from state.lake import Lake, ingest
    from tidegate.specs.locations import Location, Options

    lake = Lake(Location(settings["uri"], Options(settings.get("options", {}))))
    source = settings.get("source", "s")
    positions = lake.positions(source, deadline_secs=60.0)
    time.sleep(max(0.0, settings.get("start_at", 0.0) - time.time()))
    if settings.get("everything"):
        everything(lake)
        return
    lost = ingest(lake, positions, settings["records"], settings.get("batch", 1), source)
    print(json.dumps({"lost": lost}))


def everything(lake: Any) -> None:
    """One pass by every failpoint of the commit protocol: see ``finish`` for what must hold after it."""
    import pyarrow as pa

    from state.lake import SCHEMA, following
    from tidegate.core.files.paths import SourceFile
    from tidegate.runs.path_segments import write_segment

    positions = lake.positions(checkpoint_every=2, payers=lake.letter_payers())
    positions.put_cold_start({"next": 0})
    opened = positions.open()
    write_segment(lake.store, positions.site.key, [SourceFile("a", 1)])
    if following(opened) < 2:
        opened = positions.commit(opened, lake.change(0, 2))
    if following(opened) < 4:
        wider = pa.schema([*SCHEMA, ("n", pa.int64())])
        change = lake.change(2, 4, schema=wider, columns={"n": [1, 2]}, debts=(lake.letter_debt("bad line"),))
        positions.commit(opened, change)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
