"""The mirror is whole at every moment: somebody reads it all the time while processes that write it are killed."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path

import pytest

from support.lake import Lake
from tidegate.experiments.workers import Workers

PLACES = ("state.won.before", "state.won.after", "state.mirror.before", "state.mirror.after")


class Reader(threading.Thread):
    """Reads a file as fast as it can; keeps the versions it saw and what was not a whole document."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self.path, self.ended = path, threading.Event()
        self.seen: list[int] = []
        self.broken: list[bytes] = []

    def run(self) -> None:
        while not self.ended.is_set():
            content = self.path.read_bytes()
            try:
                document = json.loads(content)
                assert document["watermark"]["value"]
                self.seen.append(document["tidegate"]["version"])
            except (ValueError, KeyError, AssertionError):
                self.broken.append(content)


@pytest.mark.parametrize("legacy", [False, True], ids=["ours", "the old place"])
def test_whoever_reads_it_while_processes_are_killed_sees_the_old_one_or_the_new_one(
    workers: Workers, lake: Lake, legacy: bool
) -> None:
    lake.source_settings = {"checkpoint": {"mirror_legacy": legacy}}
    assert lake.run().ok
    folder = "_blizzard" if legacy else "_tidegate"
    reader = Reader(lake.root / f"lake/events/{folder}/events_default_checkpoint.json")
    reader.start()
    for number in range(3):
        for place in PLACES:
            lake.arrive(f"date=2026-01-28/hour=12/{number}-{place}.ndjson.gz", records=1)
            task = {"config": str(lake.config), "failpoints": f"{place}=kill"}
            assert workers.wait(workers.start(task)) == -signal.SIGKILL
    assert lake.run().ok
    reader.ended.set()
    reader.join()
    assert reader.broken == []
    assert reader.seen == sorted(reader.seen)
    assert len(set(reader.seen)) > 2
    assert not [path.name for path in reader.path.parent.iterdir() if path.name.endswith((".tmp", ".part"))]
    lake.assert_exactly_once()
