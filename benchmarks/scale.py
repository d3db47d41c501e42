"""What grows with the number of files, commits, sources and partitions, and how: curves, with CPU seconds and memory.

    python -m benchmarks.scale [--case NAME] [--sizes 10000,100000]     # make bench-scale

Each point is a process of its own, so that its memory is its own. Sizes that do not fit are left out: ``--largest``
adds ten million files where the case is made for it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from benchmarks import report
from benchmarks.idle_poll import NOW, SIZING, fill, finished, timed_poll
from tidegate.core.files.advance import PathSteps
from tidegate.core.files.planner import plan_paths
from tidegate.core.files.state import Covered, PathState
from tidegate.protocol.change import Change, Coverage, DataFile, Identity, SourceKey
from tidegate.protocol.ledger import Ledger
from tidegate.protocol.ledger_blocks import SIZE, LedgerEntry, block_path, encode
from tidegate.protocol.position import Pace, TableContext
from tidegate.protocol.store import PositionStore, open_delta
from tidegate.protocol.table import Add, CommitNote
from tidegate.runs.file_source import FILES_PER_PLAN
from tidegate.sources.file_discovery import discover
from tidegate.specs.files import LateFiles, Lateness, PathSource
from tidegate.specs.locations import Location
from tidegate.storage.stores import open_store

ADDS = 10_000
PER_COMMIT = 100
MOST_AT_ONCE = 1_000_000
STATISTICS = json.dumps({"numRecords": 10, "minValues": {"id": 1}, "maxValues": {"id": 10}, "nullCount": {"id": 0}})


class Steps:
    """CPU and wall seconds of the named steps of a point."""

    def __init__(self) -> None:
        self.taken: dict[str, dict[str, float]] = {}

    @contextmanager
    def step(self, name: str, times: int = 1) -> Iterator[None]:
        """One step, done so many times inside."""
        cpu, wall = _cpu(), time.perf_counter()
        yield
        self.taken[name] = {"cpu": (_cpu() - cpu) / times, "wall": (time.perf_counter() - wall) / times}


def _peak() -> float:
    """The largest memory of this process so far, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _cpu() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def poll(files: int, steps: Steps, location: Location | None = None) -> None:
    """New files in hourly folders: the first poll, which takes 100,000 of them, one of all, and the plan's commits.

    Ten million files are not taken at once: no run does that, and the store alone fills the memory.
    """
    location = location or Location("memory://scale/landing")
    store, source = open_store(location), PathSource("scale", location)
    fill(store, "hourly", files)
    next(iter(store.list()))
    steps.taken["memory of the store, MiB"] = {"cpu": _peak(), "wall": 0.0}
    with steps.step("first poll, at most 100,000 files"):
        listing = discover(store, source, PathState(), NOW, limit=FILES_PER_PLAN)
    with steps.step("plan of it"):
        plan_paths("scale", source, PathState(), 0, listing, NOW, sizing=SIZING)
    steps.taken["peak memory until then, MiB"] = {"cpu": _peak(), "wall": 0.0}
    if files > MOST_AT_ONCE:
        return
    with steps.step("poll of everything"):
        listing = discover(store, source, PathState(), NOW, limit=files)
    with steps.step("plan of everything"):
        plan = plan_paths("scale", source, PathState(), 0, listing, NOW, sizing=SIZING)
    assert plan.files == files
    state = PathState()
    with steps.step("first of its commits, next state"):
        following = PathSteps(source, plan.listed, NOW, complete=True, directories=plan.directories)
        state = following.after(state, _read(plan.listed[:PER_COMMIT])).state
    times = min(200, files // PER_COMMIT - 1)
    with steps.step("each further one, 100 files", times):
        for number in range(1, times + 1):
            outcomes = _read(plan.listed[number * PER_COMMIT : (number + 1) * PER_COMMIT])
            state = following.after(state, outcomes).state


def poll_s3(files: int, steps: Steps) -> None:
    """The same on the S3 server of the tests."""
    from servers import s3

    with s3.running() as server:
        poll(files, steps, server.location("scale"))


def _read(files: Sequence[Any]) -> list[Covered]:
    return [Covered(file.path, file.size, file.etag, 0, 1, eof=True) for file in files]


def commits(files: int, steps: Steps) -> None:
    """Commits of 10,000 files, and of one, into a table of so many."""
    import pyarrow as pa

    with tempfile.TemporaryDirectory(prefix="tidegate-scale-") as place:
        location = Location(f"file://{place}/table", sync=False)
        store = open_store(location)
        delta, schema = open_delta(location, store), pa.schema([("id", pa.int64())])
        adds = [Add(f"{number:036d}.parquet", 1, {}, 1, STATISTICS) for number in range(files)]
        delta.create(schema, (), adds, CommitNote({}, 1, "{}"))
        delta.checkpoint()
        del adds
        site = TableContext(
            SourceKey("p", "s"), Identity("path", "file:///landing", None), store, delta, Pace(), checkpoint_every=0
        )
        positions = PositionStore(site)
        with steps.step("open"):
            opened = positions.open()

        def change(number: int, count: int) -> Change:
            written = [DataFile(f"new-{number}-{each}.parquet", 1, 10, {}, STATISTICS) for each in range(count)]
            for file in written:
                (Path(place) / "table" / file.path).write_bytes(b"x")
            coverage = tuple(Coverage(file.path, 1, None, 0, 10, True) for file in written)
            state = {"next": number}
            return Change(state, state, coverage, tuple(written), 10 * count, schema)

        for count in (ADDS, 1):
            for number in range(2):
                made = change(count + number, count)
                with steps.step(f"commit of {count:,}"):
                    opened = positions.commit(opened, made)
        with steps.step("Delta checkpoint"):
            delta.checkpoint()


def ledger(files: int, steps: Steps) -> None:
    """A ledger of so many files, a hundred to a commit: its blocks written, and read once whole."""
    key, store = SourceKey("p", "s"), open_store(Location("memory://scale/ledger"))
    blocks = max(1, files // (SIZE * PER_COMMIT))
    with steps.step("write a block of 25,600 files", blocks):
        for block in range(blocks):
            first = block * SIZE + 1
            store.put(block_path(key, first), encode(key, map(_entry, range(first, first + SIZE))))
    size = sum(found.size for found in store.list(key.directory))
    steps.taken["bytes a file"] = {"cpu": size / (blocks * SIZE * PER_COMMIT), "wall": 0.0}
    with steps.step("read all of it"):
        rows = sum(batch.num_rows for batch in Ledger(store, key).record_batches())
    assert rows == blocks * SIZE * PER_COMMIT, rows


def _entry(version: int) -> LedgerEntry:
    files = tuple(
        Coverage(f"date=2026-01-28/hour={version % 24:02d}/{version:08d}-{each:04d}.ndjson.gz", 1000, None, 0, 9, True)
        for each in range(PER_COMMIT)
    )
    name = f"{version:036d}"
    return LedgerEntry(version, name, "run", "2026-01-28T12:00:00+00:00", version, 900, files, (f"{name}.parquet",))


def sources(number: int, steps: Steps) -> None:
    """A project of so many sources with a file each: what commands that look take, as processes."""
    with tempfile.TemporaryDirectory(prefix="tidegate-scale-") as place:
        pipelines = {}
        for each in range(number):
            folder = Path(place) / f"landing/{each}"
            folder.mkdir(parents=True)
            (folder / "1.ndjson").write_text('{"id": 1}\n')
            pipelines[f"p{each}"] = {
                "source": {"source_uri": str(folder)},
                "schema": {"fields": [{"name": "id", "type": "int64"}]},
                "sink": {"table_uri": f"{place}/lake/{each}"},
            }
        config = Path(place) / "tidegate.yml"
        config.write_text(json.dumps({"pipelines": pipelines}))
        for words in (["config", "check"], ["plan"], ["status"]):
            command = [sys.executable, "-m", "tidegate", *words, str(config)]
            with steps.step(" ".join(words)):
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def partitions(number: int, steps: Steps) -> None:
    """So many open partitions of twenty files, all read: a poll that finds nothing."""
    location = Location("memory://scale/open")
    store = open_store(location)
    fill(store, "hourly", number * 20)
    for mode in (LateFiles.STRICT, LateFiles.WINDOW):
        source = replace(PathSource("scale", location), late_files=mode, lateness=Lateness(never=True))
        state = finished(store, source)
        with steps.step(f"idle poll, {mode}", 3):
            for _ in range(3):
                requests = timed_poll(store, source, state, 1)[1]
        steps.taken[f"LIST requests, {mode}"] = {"cpu": requests, "wall": 0.0}


CASES: dict[str, tuple[Callable[[int, Steps], None], tuple[int, ...], tuple[int, ...]]] = {
    "poll": (poll, (10_000, 100_000, 1_000_000), (10_000_000,)),
    "commits": (commits, (10_000, 100_000, 1_000_000), ()),
    "ledger": (ledger, (25_600, 256_000, 2_560_000), (10_240_000,)),
    "sources": (sources, (10, 100, 1_000), ()),
    "partitions": (partitions, (10, 100, 1_000), (10_000,)),
}
APART: dict[str, tuple[Callable[[int, Steps], None], tuple[int, ...], tuple[int, ...]]] = {
    "poll-s3": (poll_s3, (10_000, 100_000), (1_000_000,))
}
"""Cases that are run only where they are named: they take long."""


def point(case: str, size: int) -> dict[str, Any]:
    """One point, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.scale", "--point", case, str(size)]
    found = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE)
    result: dict[str, Any] = json.loads(found.stdout.splitlines()[-1])
    return result


def measure(case: str, sizes: Sequence[int]) -> None:
    """All points of a case, as a table whose columns are the sizes."""
    points = {}
    for size in sizes:
        points[size] = point(case, size)
        print(f"  {case} {size:,}: {points[size]}", flush=True)
    names = list(dict.fromkeys(name for found in points.values() for name in found["steps"]))
    rows = [(name, *(_shown(found["steps"].get(name)) for found in points.values())) for name in names]
    rows.append(("peak memory, MiB", *(f"{found['peak']:.0f}" for found in points.values())))
    report.table(f"{case}: CPU seconds", (case, *(f"{size:,}" for size in sizes)), rows)
    seconds = {f"{name}, {size}": each["cpu"] for size in sizes for name, each in points[size]["steps"].items()}
    report.store(f"scale-{case}", {"seconds": seconds})


def _shown(found: dict[str, float] | None) -> str:
    return "-" if found is None else f"{found['cpu']:.3g}"


def main() -> None:
    """All cases, or the one that is named."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--case", choices=[*CASES, *APART])
    arguments.add_argument("--sizes", help="other sizes, with commas between them")
    arguments.add_argument("--largest", action="store_true", help="the largest size of each case, too")
    arguments.add_argument("--point", nargs=2, help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    known = CASES | APART
    if chosen.point:
        steps = Steps()
        known[chosen.point[0]][0](int(chosen.point[1]), steps)
        print(json.dumps({"steps": steps.taken, "peak": _peak()}))
        return
    print(report.machine())
    for case in [chosen.case] if chosen.case else CASES:
        _, usual, largest = known[case]
        sizes = [int(size) for size in chosen.sizes.split(",")] if chosen.sizes else usual
        measure(case, [*sizes, *(largest if chosen.largest else ())])


if __name__ == "__main__":
    main()
