"""What a poll costs that finds nothing new, with little and with much history.

    python -m benchmarks.idle_poll [--quick] [--where local] [--json FILE]

Each case fills a source, lets the real planner finish everything, and then polls again: LIST requests, keys
returned and milliseconds, for ``late_files: strict`` and ``window``. Layouts: ``hourly`` (20 files in each
``date=…/hour=…``, as many hours open as the default lateness keeps) and ``flat`` (all in one directory).
Other engines take part through ``PEERS``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from benchmarks import report
from servers import s3
from tidegate.core.files.advance import advance
from tidegate.core.files.planner import Sizing, plan_paths
from tidegate.core.files.state import Covered, PathState
from tidegate.sources.file_discovery import discover
from tidegate.specs.files import LateFiles, PathSource
from tidegate.specs.locations import Location
from tidegate.storage.options import absolute_uri
from tidegate.storage.port import ObjectStore
from tidegate.storage.stores import open_store

NEWEST = datetime(2024, 1, 28, 14, tzinfo=UTC)
NOW = NEWEST + timedelta(minutes=30)
PER_HOUR = 20
POLLS = 7
SIZING = Sizing(target_bytes=64 << 20, max_files=1000, parallelism=2)


@dataclass(frozen=True, slots=True)
class Case:
    """A filled source, all of whose files are finished."""

    where: str
    layout: str
    files: int
    location: Location


@dataclass(frozen=True, slots=True)
class Measurement:
    """One row of the table; ``milliseconds`` is the median of several polls, ``first`` of a new client."""

    engine: str
    where: str
    layout: str
    files: int
    mode: str
    list_requests: int | None
    listed_keys: int | None
    milliseconds: float
    first_milliseconds: float | None = None


def structured_streaming(case: Case) -> Sequence[Measurement]:
    """Spark's own file source, on local files."""
    if case.where != "local":
        return ()
    from benchmarks.streaming_peer import idle_trigger_milliseconds

    taken = idle_trigger_milliseconds(Path(case.location.uri.removeprefix("file://")))
    return (Measurement("structured streaming", case.where, case.layout, case.files, "-", None, None, round(taken, 2)),)


PEERS: list[Callable[[Case], Sequence[Measurement]]] = [structured_streaming]
"""Other engines: each measures an idle poll over the same source and gives its rows."""


def paths(layout: str, files: int) -> Iterator[str]:
    """The files of a source, whose names sort in time."""
    for number in range(files):
        if layout == "flat":
            yield f"{1706450400 + number}-{number:08x}.ndjson.gz"
        else:
            hour = NEWEST - timedelta(hours=(files - 1 - number) // PER_HOUR)
            yield f"{hour:date=%Y-%m-%d/hour=%H}/{int(hour.timestamp()) + number % PER_HOUR}.ndjson.gz"


def fill(store: ObjectStore, layout: str, files: int) -> None:
    """Write the files, several at a time where that pays off."""
    left = iter(paths(layout, files))
    with ThreadPoolExecutor(max(1, 2 * store.concurrency)) as pool:
        while some := list(islice(left, 10_000)):
            for _ in pool.map(lambda path: store.put(path, b"x"), some):
                pass


def fill_directory(root: Path, layout: str, files: int) -> None:
    """The same on local disk, without the detour that makes single writes safe."""
    for path in paths(layout, files):
        file = root / path
        if not file.parent.exists():
            file.parent.mkdir(parents=True)
        file.write_bytes(b"x")


def finished(store: ObjectStore, source: PathSource) -> PathState:
    """The state once every file is read, by the planner's own steps."""
    listing = discover(store, source, PathState(), NOW)
    plan = plan_paths("bench", source, PathState(), 0, listing, NOW, sizing=SIZING)
    slices = [each for group in plan.groups for each in group.slices]
    done = [Covered(each.path, each.size, each.etag, 0, 1, True) for each in slices]
    step = advance(source, PathState(), plan.listed, done, NOW, complete=plan.complete, directories=plan.directories)
    return step.state


def timed_poll(store: ObjectStore, source: PathSource, state: PathState, count: int) -> tuple[float, int, int]:
    """Milliseconds, LIST requests and keys of one poll that must find nothing."""
    started = time.perf_counter()
    listing = discover(store, source, state, NOW, poll_count=count)
    plan = plan_paths("bench", source, state, 1, listing, NOW, sizing=SIZING)
    elapsed = (time.perf_counter() - started) * 1000
    if plan.groups:
        raise SystemExit(f"an idle poll found {plan.files} files")
    return elapsed, listing.list_requests, listing.listed_keys


def measure(case: Case) -> Iterator[Measurement]:
    """Our own rows: both ways to treat late files, and the deep listing."""
    for mode in (LateFiles.STRICT, LateFiles.WINDOW):
        source = replace(PathSource("bench", case.location), late_files=mode)
        state = finished(open_store(case.location), source)
        for name, count in ((str(mode), 1), (f"{mode}, deep", source.deep_listing_every)):
            first = timed_poll(store := open_store(case.location), source, state, count)
            polls = [timed_poll(store, source, state, count) for _ in range(POLLS)]
            middle = statistics.median(poll[0] for poll in polls)
            yield Measurement(
                "tidegate",
                case.where,
                case.layout,
                case.files,
                name,
                *first[1:],
                round(middle, 2),
                round(first[0], 2),
            )


@contextlib.contextmanager
def local_case(layout: str, files: int) -> Iterator[Case]:
    """A source on local disk."""
    with tempfile.TemporaryDirectory(prefix="tidegate-idle-") as place:
        fill_directory(Path(place), layout, files)
        yield Case("local", layout, files, Location(absolute_uri(place, Path.cwd())))


@contextlib.contextmanager
def s3_case(layout: str, files: int) -> Iterator[Case]:
    """A source on an S3 server of its own."""
    with s3.running() as server:
        location = server.location(layout)
        fill(open_store(location), layout, files)
        yield Case("s3", layout, files, location)


def table(rows: Sequence[Measurement]) -> str:
    """The rows for people."""
    head = ("engine", "where", "layout", "files", "mode", "LISTs", "keys", "ms", "first ms")
    lines = [
        head,
        *(tuple("-" if cell is None else str(cell) for cell in asdict(row).values()) for row in rows),
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="local hourly files only, 1,000 and 5,000 instead of 200,000; no peers"
    )
    parser.add_argument("--where", choices=("local", "s3"), help="only this store")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    arguments = parser.parse_args()
    cases = {"local": local_case, "s3": s3_case}
    rows: list[Measurement] = []
    for where in [arguments.where] if arguments.where else ["local"] if arguments.quick else list(cases):
        for layout in ("hourly",) if arguments.quick else ("hourly", "flat"):
            for files in (1000, 5000 if arguments.quick else 200_000):
                with cases[where](layout, files) as case:
                    rows += measure(case)
                    for peer in () if arguments.quick else PEERS:
                        rows += peer(case)
    machine = {"cpus": os.cpu_count(), "platform": platform.platform(), "python": platform.python_version()}
    result = {"benchmark": "idle_poll", "machine": machine, "rows": [asdict(row) for row in rows]}
    print(table(rows))
    names = ("engine", "where", "layout", "files", "mode")
    seconds = {", ".join(str(getattr(row, name)) for name in names): row.milliseconds / 1000 for row in rows}
    report.store("idle_poll", {"seconds": seconds})
    print(json.dumps(result))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
