"""What it costs to force files to disk: many small files, one large file, and many commits, with ``sync`` and without.

``python -m benchmarks.durability [--quick]``. No Spark: tasks run in this process, and the local disk is what counts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tidegate import load
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop

FIELDS = [{"name": "id", "type": "int64"}, {"name": "event", "type": "string"}, {"name": "price", "type": "float64"}]
SYNC, NONE = "sync: true", "sync: false"

Source = Callable[[Path, int], None]
"""Writes what arrives before a poll into a folder."""


def lines(count: int) -> str:
    """Records of some hundred bytes."""
    return "".join(
        json.dumps({"id": number, "event": f"view of page {number % 997:04d}", "price": number / 7}) + "\n"
        for number in range(count)
    )


def small(files: int) -> Source:
    """So many files of a hundred records in ten partitions, before each poll."""
    text = lines(100)

    def write(folder: Path, poll: int) -> None:
        for number in range(files * poll, files * (poll + 1)):
            path = folder / f"date=2026-01-{number % 10 + 1:02d}" / f"{number:06d}.ndjson"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return write


def large(records: int) -> Source:
    """One file."""
    text = lines(records)

    def write(folder: Path, poll: int) -> None:
        (folder / f"{poll}.ndjson").write_text(text)

    return write


def seconds(write: Source, *, sync: bool, polls: int) -> float:
    """How long so many runs take, each over what has arrived since the last one; each makes a commit."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as name:
        root = Path(name)
        (root / "data").mkdir()
        pipeline = {
            "source": {"source_uri": "data", "use_watermark": True},
            "schema": {"fields": FIELDS},
            "sink": {"table_uri": "lake/events", "sync": sync},
        }
        (root / "x.yml").write_text(json.dumps({"pipelines": {"events": pipeline}}))
        project = load(root / "x.yml")
        taken = 0.0
        for poll in range(polls):
            write(root / "data", poll)
            os.sync()
            started = time.monotonic()
            report = Loop(project, InProcessEngine(), 2, lambda event: None).once(project.pipelines)
            taken += time.monotonic() - started
            assert (report.sources[0].error, report.sources[0].commits) == (None, 1)
        return taken


def main() -> None:
    """Prints medians of runs in turns."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_known_args()[0].quick
    rounds = 2 if quick else 5
    files, records = (100, 50_000) if quick else (1000, 2_000_000)
    cases: dict[str, tuple[Source, int]] = {
        f"{files} small files in one commit": (small(files), 1),
        f"{files} small files, 20 to a commit": (small(20), files // 20),
        f"one file of {records:,} records": (large(records), 1),
    }
    for title, (write, polls) in cases.items():
        taken: dict[str, list[float]] = {SYNC: [], NONE: []}
        for number in range(rounds):
            for way in (SYNC, NONE) if number % 2 else (NONE, SYNC):
                taken[way].append(seconds(write, sync=way == SYNC, polls=polls))
        median = {way: statistics.median(values) for way, values in taken.items()}
        best = {way: min(values) for way, values in taken.items()}
        print(
            f"{title}: {SYNC} median {median[SYNC]:.2f} s, best {best[SYNC]:.2f} s; "
            f"{NONE} median {median[NONE]:.2f} s, best {best[NONE]:.2f} s; "
            f"{(median[SYNC] - median[NONE]) / polls * 1000:.0f} ms more per commit",
            flush=True,
        )


if __name__ == "__main__":
    main()
