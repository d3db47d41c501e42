"""From the arrival of a file to the visibility of its rows, under ``tidegate run --continuous`` polled each second.

    python -m benchmarks.latency [--seconds 300] [--where local] [--records 1000] [--quick]

A file arrives each second, with a number that all its records have. A thread looks at the table's log twenty times
a second: a file is visible when an entry adds a data file whose statistics have its number. The first ten files, in
which Spark starts and warms up, are not counted. The processor time is that of the run, Java and tasks included.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks import report
from tidegate.specs.locations import Location
from tidegate.storage.options import absolute_uri
from tidegate.storage.port import ObjectStore
from tidegate.storage.stores import open_store

sys.path.append(str(Path(__file__).parents[1] / "tests"))

WARM_UP = 10
LOOK_SECONDS = 0.05
PATIENCE_SECONDS = 180.0
FIELDS = [{"name": "number", "type": "int64"}, {"name": "text", "type": "string"}]


class Visibility(threading.Thread):
    """Looks at the log of a table, and notes when the numbers of files are first in it."""

    def __init__(self, table: Location, look_seconds: float = LOOK_SECONDS) -> None:
        super().__init__(daemon=True)
        self.seen: dict[int, float] = {}
        self._store = open_store(table)
        self._look_seconds = look_seconds
        self._ended = threading.Event()

    def run(self) -> None:
        version = 0
        while not self._ended.wait(self._look_seconds):
            while (entry := self._entry(version)) is not None:
                now = time.time()
                version += 1
                for number in _numbers(entry):
                    self.seen.setdefault(number, now)

    def end(self) -> None:
        self._ended.set()
        self.join()

    def _entry(self, version: int) -> bytes | None:
        with contextlib.suppress(Exception):
            return self._store.get(f"_delta_log/{version:020d}.json")
        return None


def _numbers(entry: bytes) -> Iterator[int]:
    for line in entry.splitlines():
        added = json.loads(line).get("add")
        if added is not None:
            stats = json.loads(added["stats"])
            yield from range(stats["minValues"]["number"], stats["maxValues"]["number"] + 1)


def configuration(folder: Path, source: Location, table: Location) -> Path:
    """One pipeline that is polled each second."""
    options = {"storage_options": dict(source.options)}
    pipeline = {
        "source": {"source_uri": source.uri, "poll_interval_secs": 1, "use_watermark": True, **options},
        "schema": {"fields": FIELDS},
        "sink": {"table_uri": table.uri, **options},
    }
    path = folder / "latency.yml"
    path.write_text(json.dumps({"pipelines": {"events": pipeline}, "spark": {"master": "local[2]"}}))
    return path


def arrivals(store: ObjectStore, files: int, records: int, seen: Mapping[int, float]) -> dict[int, float]:
    """Put a file each second; when each of them was there. The second waits until the first is visible."""
    arrived = {}
    due = time.time()
    for number in range(files):
        text = f"event of file {number}"
        lines = "".join(json.dumps({"number": number, "text": text}) + "\n" for _ in range(records))
        time.sleep(max(0.0, due - time.time()))
        store.put(f"date=2026-01-28/{number:08d}.ndjson.gz", gzip.compress(lines.encode(), 1))
        arrived[number] = time.time()
        if number == 0:
            _wait_for(0, seen)
        due = max(due, time.time() - 1) + 1
    return arrived


def _wait_for(number: int, seen: Mapping[int, float]) -> None:
    deadline = time.time() + PATIENCE_SECONDS
    while number not in seen:
        if time.time() > deadline:
            raise SystemExit(f"file {number} is not visible after {PATIENCE_SECONDS:.0f} s")
        time.sleep(LOOK_SECONDS)


def measure(folder: Path, root: Location, files: int, records: int) -> tuple[list[float], float]:
    """Seconds from arrival to visibility, file by file, and processor seconds per second."""
    source, table = (Location(f"{root.uri}/{name}", root.options) for name in ("source", "table"))
    config = configuration(folder, source, table)
    visibility = Visibility(table)
    command = [sys.executable, "-m", "tidegate", "run", str(config), "--continuous"]
    with (folder / "run.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        visibility.start()
        arrived = arrivals(open_store(source), files + WARM_UP, records, visibility.seen)
        _wait_for(files + WARM_UP - 1, visibility.seen)
    finally:
        visibility.end()
        process.send_signal(signal.SIGTERM)
        _, _, used = os.wait4(process.pid, 0)
        process.returncode = 0
    taken = [visibility.seen[number] - arrived[number] for number in sorted(arrived)][WARM_UP:]
    return taken, (used.ru_utime + used.ru_stime) / (files + WARM_UP)


@contextlib.contextmanager
def place(where: str) -> Iterator[tuple[Path, Location]]:
    """A folder, and where source and table lie."""
    with tempfile.TemporaryDirectory(prefix="tidegate-latency-") as name:
        folder = Path(name)
        if where == "local":
            yield folder, Location(absolute_uri(name, Path.cwd()))
            return
        from servers import s3

        with s3.running() as server:
            yield folder, server.location("latency")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--where", choices=("local", "s3"))
    parser.add_argument("--quick", action="store_true", help="30 seconds, local")
    given = parser.parse_args()
    files, places = (30, ["local"]) if given.quick else (given.seconds, ["local", "s3"])
    rows, stored = [], {}
    for where in [given.where] if given.where else places:
        with place(where) as (folder, root):
            taken, processor = measure(folder, root, files, given.records)
        percentiles = statistics.quantiles(taken, n=100)
        numbers = {"median": percentiles[49], "p99": percentiles[98], "worst": max(taken)}
        rows.append((where, files, *(f"{each:.2f}" for each in numbers.values()), f"{processor:.2f}"))
        stored |= {f"{where}, {name} s": round(each, 3) for name, each in numbers.items()}
    header = ("store", "files", "median s", "p99 s", "worst s", "processor seconds per second")
    report.table(f"arrival to visibility, {given.records:,} records each second; {report.machine()}", header, rows)
    report.store("latency", {"files": files, "seconds": stored})


if __name__ == "__main__":
    main()
