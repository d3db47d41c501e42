"""Many sources in one process: side by side, one after the other, and as one.

    python -m benchmarks.many_sources [--case NAME] [--seconds 120]

``hundred``: a hundred sources with a small file each, side by side, one after the other
(``max_concurrent_sources: 1``), and one source with the same hundred files. ``tables``: two hundred tables of a
PostgreSQL block, in a first run, idle, and with one new row each. ``beside``: a source of files, polled each second,
beside an API that needs twenty seconds for a response. ``live``: twenty continuous sources on S3, a file a second each.
``passes``: the CPU of a pass with one small file on S3, in rounds over eight sources, which says more than the latency
where others use the machine too.
Memory is the greatest of the process, without Java and its workers.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.latency import FIELDS, Visibility, place
from tidegate.commands.project import load
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop
from tidegate.spark.engine import SparkEngine
from tidegate.specs.locations import Location
from tidegate.storage.port import ObjectStore
from tidegate.storage.stores import open_store

sys.path.append(str(Path(__file__).parents[1] / "tests"))

SOURCES, TABLES, LIVE = 100, 200, 20
WARM_UP = 10
RESPONSE_SECONDS = 20.0
PATIENCE_SECONDS = 120.0
LOOK_SECONDS = 0.2
"""Between two looks at the log of a table: more looks at twenty tables would take a core of the run's two."""

PROGRAMS = {"bin/java": "Java", "spark.daemon": "workers", "weed": "S3 server", "tidegate": "driver"}
"""The programs of a run, by a part of their commands; the first that fits."""


def run(config: Path, *more: str) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds with Java, and MiB of the process in a whole run."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(
        [sys.executable, "-m", "tidegate", "run", str(config), *more], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdout is not None
    said = process.stdout.read()
    _, code, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(code)
    if process.returncode:
        raise SystemExit(said.decode()[-2000:])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - began, cpu, used.ru_maxrss / 1024


def write_config(folder: Path, pipelines: Mapping[str, Any], **settings: Any) -> Path:
    path = folder / f"{len(list(folder.glob('*.yml')))}.yml"
    path.write_text(json.dumps({**settings, "pipelines": pipelines}))
    return path


def file_pipeline(source: Location, table: Location, **more: Any) -> dict[str, Any]:
    options = {"storage_options": dict(source.options)} if source.options else {}
    return {
        "source": {"source_uri": source.uri, "use_watermark": True, **more, **options},
        "schema": {"fields": FIELDS},
        "sink": {"table_uri": table.uri, **options},
    }


def put(store: ObjectStore, number: int, records: int) -> None:
    lines = "".join(json.dumps({"number": number, "text": f"event of file {number}"}) + "\n" for _ in range(records))
    store.put(f"date=2026-01-28/{number:08d}.ndjson", lines.encode())


def hundred(engine: str, records: int = 1000) -> list[tuple[str, float, float, float]]:
    """The same hundred files in three ways."""
    found = []
    with tempfile.TemporaryDirectory(prefix="tidegate-many-") as name:
        folder = Path(name)
        for way, settings in {
            "side by side": {},
            "one after the other": {"global": {"max_concurrent_sources": 1}},
            "one source": {},
        }.items():
            root = Location((folder / way.replace(" ", "-")).as_uri())
            places = [Location(f"{root.uri}/source{at if way != 'one source' else 0}") for at in range(SOURCES)]
            for number, source in enumerate(places):
                put(open_store(source), number, records)
            pipelines = {
                source.uri.rpartition("/")[2]: file_pipeline(source, Location(f"{root.uri}/table{at}"))
                for at, source in enumerate(dict.fromkeys(places))
            }
            config = write_config(folder, pipelines, engine=engine, **settings)
            found.append((f"{engine}: {way}", *run(config)))
            found.append((f"{engine}: {way}, idle", *run(config)))
    return found


def tables() -> list[tuple[str, float, float, float]]:
    """Two hundred tables of a database in one block."""
    import psycopg

    from servers import postgres

    found = []
    with (
        tempfile.TemporaryDirectory(prefix="tidegate-many-") as name,
        postgres.running() as server,
        psycopg.connect(server.url(driver=""), autocommit=True) as database,
    ):
        for number in range(TABLES):
            database.execute(
                f"create table many_{number} (id bigint primary key, updated_at timestamptz not null, what text)"
            )
            database.execute(f"insert into many_{number} select i, now(), 'x' from generate_series(1, 100) i")
        connection = {"type": "jdbc", "url": server.jdbc_url(), "user": postgres.USER, "password": postgres.PASSWORD}
        block = {
            "source": {"connection": "shop", "tables": ["public.many_*"], "watermark_columns": ["id"]},
            "sink": {"table_uri": f"{name}/{{schema}}/{{table}}", "load_type": "append"},
        }
        config = write_config(Path(name), {"shop": block}, engine="local", connections={"shop": connection})
        found.append(("first run, 100 rows each", *run(config)))
        found.append(("idle", *run(config)))
        for number in range(TABLES):
            database.execute(f"insert into many_{number} values (101, now(), 'y')")
        found.append(("a new row each", *run(config)))
    return found


class SlowApi(BaseHTTPRequestHandler):
    """Has one record, and needs its time for it."""

    def do_GET(self) -> None:
        """Respond late."""
        time.sleep(RESPONSE_SECONDS)
        body = b'[{"id": 1}]'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


def follow(
    folder: Path, sources: Sequence[tuple[Location, Location]], config: Path, seconds: int, records: int
) -> tuple[list[float], dict[str, float]]:
    """Seconds from arrival to visibility of a file a second in each source, under a continuous run.

    Beside it the CPU milliseconds per file of every program of the run.
    """
    watching = [Visibility(table, LOOK_SECONDS) for _, table in sources]
    with (folder / "run.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tidegate", "run", str(config), "--continuous"], stdout=log, stderr=log
        )
    files = seconds + WARM_UP
    arriving = [Arrivals(source, at / len(sources), files, records) for at, (source, _) in enumerate(sources)]
    try:
        for each in watching:
            each.start()
        for first in arriving:
            first.put(0)
        _wait_for(0, watching)
        before = cpu_seconds()
        began = time.time()
        for each in arriving:
            each.begin(began)
        for each in arriving:
            each.join()
        _wait_for(files - 1, watching)
        used = {name: each - before.get(name, 0.0) for name, each in cpu_seconds().items()}
    finally:
        for each in watching:
            each.end()
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    taken = [
        watching[at].seen[number] - arriving[at].arrived[number]
        for at in range(len(sources))
        for number in range(WARM_UP, files)
    ]
    return taken, {name: 1000 * each / (len(sources) * (files - 1)) for name, each in used.items()}


class Arrivals(threading.Thread):
    """Puts a file a second into a source, ``offset`` seconds after the others began, as different systems would."""

    def __init__(self, source: Location, offset: float, files: int, records: int) -> None:
        super().__init__(daemon=True)
        self.arrived: dict[int, float] = {}
        self._store = open_store(source)
        self._offset, self._files, self._records = offset, files, records
        self._began = 0.0

    def begin(self, began: float) -> None:
        self._began = began + self._offset
        self.start()

    def run(self) -> None:
        for number in range(1, self._files):
            time.sleep(max(0.0, self._began + number - time.time()))
            self.put(number)

    def put(self, number: int) -> None:
        put(self._store, number, self._records)
        self.arrived[number] = time.time()


def cpu_seconds() -> dict[str, float]:
    """CPU seconds of this process's descendants so far, by program: driver, Java, workers, S3 server."""
    facts: dict[int, tuple[int, str, float]] = {}
    for path in Path("/proc").iterdir():
        # A process may end while it is looked at.
        with contextlib.suppress(OSError):
            if path.name.isdigit():
                stat = (path / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
                command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                ticks = sum(map(int, stat[11:15] if "spark.daemon" in command else stat[11:13]))
                facts[int(path.name)] = int(stat[1]), command, ticks / os.sysconf("SC_CLK_TCK")
    used: dict[str, float] = {}
    for number, (_, command, seconds) in facts.items():
        parent = facts[number][0]
        while parent in facts and parent != os.getpid():
            parent = facts[parent][0]
        if parent == os.getpid():
            name = next((name for mark, name in PROGRAMS.items() if mark in command), "other")
            used[name] = used.get(name, 0.0) + seconds
    return used


def _wait_for(number: int, watching: Sequence[Visibility]) -> None:
    deadline = time.time() + PATIENCE_SECONDS
    while not all(number in each.seen for each in watching):
        if time.time() > deadline:
            raise SystemExit(f"file {number} is not visible after {PATIENCE_SECONDS:.0f} s")
        time.sleep(0.05)


def beside(seconds: int) -> tuple[list[float], dict[str, float]]:
    """A source of files beside an API that responds late."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), SlowApi)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with place("local") as (folder, root):
        source, table = Location(f"{root.uri}/source"), Location(f"{root.uri}/table")
        url = f"http://127.0.0.1:{server.server_port}"
        read = {"type": "http", "connection": "slow", "path": "/slow"}
        slow = {**read, "watermark_columns": ["id"], "poll_interval_secs": 1}
        pipelines = {
            "files": file_pipeline(source, table, poll_interval_secs=1),
            "api": {"source": slow, "sink": {"table_uri": f"{root.uri}/api", "load_type": "append"}},
        }
        connections = {"slow": {"type": "http", "url": url, "timeout_secs": 60}}
        config = write_config(folder, pipelines, connections=connections)
        taken = follow(folder, [(source, table)], config, seconds, 1000)
    server.shutdown()
    return taken


def live(seconds: int) -> tuple[list[float], dict[str, float]]:
    """Twenty sources on S3."""
    with place("s3") as (folder, root):
        pairs = [
            (
                Location(f"{root.uri}/source{number}", root.options),
                Location(f"{root.uri}/table{number}", root.options),
            )
            for number in range(LIVE)
        ]
        pipelines = {f"p{at}": file_pipeline(*pair, poll_interval_secs=1) for at, pair in enumerate(pairs)}
        return follow(folder, pairs, write_config(folder, pipelines), seconds, 100)


def passes(engine: str, rounds: int = 15, sources: int = 8) -> dict[str, float]:
    """CPU milliseconds by program of a pass that finds one small file, after six rounds to warm up."""
    with place("s3") as (folder, root):
        pairs = [tuple(Location(f"{root.uri}/{kind}{at}", root.options) for kind in "st") for at in range(sources)]
        config = write_config(folder, {f"p{at}": file_pipeline(*pair) for at, pair in enumerate(pairs)}, engine=engine)
        project, used = load(config), Counter[str]()
        opened = InProcessEngine() if engine == "local" else SparkEngine(project.spark)
        loop, stores = Loop(project, opened, 2), [open_store(source) for source, _ in pairs]
        for number in range(6 + rounds):
            for store in stores:
                put(store, number, 100)
            before = Counter({**cpu_seconds(), "driver": time.process_time()})
            report = loop.once(project.pipelines)
            assert [each.rows for each in report.sources] == [100] * sources, report
            if number >= 6:
                used.update(Counter({**cpu_seconds(), "driver": time.process_time()}))
                used.subtract(before)
        opened.close()
    return {name: 1000 * each / rounds / sources for name, each in sorted(used.items())}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--case", choices=("hundred", "tables", "beside", "live", "passes"))
    parser.add_argument("--seconds", type=int, default=120)
    given = parser.parse_args()
    wanted = [given.case] if given.case else ["hundred", "tables", "beside", "live", "passes"]
    stored: dict[str, float] = {}
    whole = [row for case in wanted for row in _whole_runs(case)]
    if whole:
        rows = [(name, f"{wall:.1f}", f"{cpu:.1f}", f"{memory:.0f}") for name, wall, cpu, memory in whole]
        report.table(f"whole runs; {report.machine()}", ("run", "seconds", "CPU seconds", "MiB"), rows)
        stored |= {name: round(wall, 2) for name, wall, *_ in whole}
    latencies = {case: {"beside": beside, "live": live}[case](given.seconds) for case in wanted if case[0] in "bl"}
    rows = []
    for case, (taken, used) in latencies.items():
        percentiles = statistics.quantiles(taken, n=100)
        numbers = {"median": percentiles[49], "p99": percentiles[98], "worst": max(taken)}
        by_program = ", ".join(f"{name} {each:.0f}" for name, each in sorted(used.items()))
        rows.append((case, f"{len(taken):,}", *(f"{each:.2f}" for each in numbers.values()), by_program))
        stored |= {f"{case}, {name}": round(each, 3) for name, each in numbers.items()}
    if rows:
        header = ("case", "files", "median", "p99", "worst", "CPU ms per file")
        report.table(f"arrival to visibility, seconds; {report.machine()}", header, rows)
    if "passes" in wanted:
        found = {engine: passes(engine) for engine in ("local", "spark")}
        rows = [
            (engine, ", ".join(f"{name} {each:.0f}" for name, each in used.items())) for engine, used in found.items()
        ]
        report.table("CPU milliseconds of a pass with one small file", ("engine", "by program"), rows)
    report.store("many_sources", {"seconds": stored})


def _whole_runs(case: str) -> list[tuple[str, float, float, float]]:
    if case == "hundred":
        return [*hundred("local"), *hundred("spark")]
    return tables() if case == "tables" else []


if __name__ == "__main__":
    main()
