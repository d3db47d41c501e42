"""The demo: generated files arrive, late and new ones follow, and the table proves that none is missing or doubled.

Everything happens in one folder with an ordinary configuration file, so every command works on it afterwards.
"""

from __future__ import annotations

import gzip
import json
import random
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shlex import quote

from tidegate.commands.project import load, on_engine, open_engine
from tidegate.commands.run import run_on
from tidegate.commands.status import status
from tidegate.errors import TidegateError
from tidegate.observe.events import Emit, ignore
from tidegate.protocol.delta import query
from tidegate.reports.project import DemoReport, DemoStep
from tidegate.reports.run import RunReport
from tidegate.reports.status import SourceStatus, Statuses
from tidegate.spark.jars import find_java
from tidegate.spark.session import active_session
from tidegate.specs.locations import Location
from tidegate.specs.project import EngineKind, ProjectSpec
from tidegate.storage.options import absolute_uri


def demo(
    folder: Path | None = None,
    emit: Emit = ignore,
    show: Callable[[DemoStep], None] = lambda step: None,
    *,
    engine: str | None = None,
) -> DemoReport:
    """A first run that needs only Java: generate data, ingest it twice, show table, watermarks and status.

    Raises :class:`EnvironmentProblem` without Java, before it writes anything; ``engine="local"`` needs none.
    """
    project = on_engine(ProjectSpec("demo", ()), engine)
    if project.engine is EngineKind.SPARK and active_session() is None:
        # Before anything is written, so that a newcomer without Java is not left with half a demo.
        find_java()
    flag = threading.Event()
    with open_engine(project, emit, flag) as opened:

        def run_again(config: Path) -> RunReport:
            opened.prepare()
            return run_on(on_engine(load(config)), None, "once", emit, flag, opened)

        return Demo(folder or Path("tidegate-demo"), run_again, status, show, engine).play()


EVENTS = ("view", "search", "basket", "purchase", "return")
COUNTRIES = ("JP", "SG", "IN", "VN", "KR")
NAMES = ("Aiko", "Bao", "Chitra", "Dewi", "Eun")
TAGS = ("mobile", "desktop", "campaign", "repeat", "gift")


@dataclass(frozen=True, slots=True)
class Arrival:
    """A generated file: its path and number of records."""

    path: Path
    records: int


def record(number: int, moment: datetime, chance: random.Random) -> dict[str, object]:
    """One event with nested fields."""
    return {
        "id": number,
        "ts": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "event": chance.choice(EVENTS),
        "price": round(chance.random() * 500, 2),
        "user": {"name": chance.choice(NAMES), "country": chance.choice(COUNTRIES)},
        "tags": chance.sample(TAGS, chance.randrange(3)),
    }


def write_file(root: Path, moment: datetime, first_id: int, records: int, *, seed: int = 7) -> Arrival:
    """Write one gzip file in ``date=…/hour=…`` of ``moment``, named by its Unix second so that names sort in time."""
    chance = random.Random(f"{seed}-{first_id}")
    folder = root / moment.strftime("date=%Y-%m-%d/hour=%H")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{int(moment.timestamp())}-{first_id:08d}.ndjson.gz"
    step = timedelta(seconds=60 / max(records, 1))
    lines = (
        json.dumps(record(first_id + index, moment + index * step, chance), separators=(",", ":")) + "\n"
        for index in range(records)
    )
    # Under a name that sources ignore, then renamed: a run beside the demo must never see half a file.
    part = path.with_name(f".{path.name}.part")
    with gzip.GzipFile(part, "wb", compresslevel=3, mtime=0) as out:
        out.write("".join(lines).encode())
    part.rename(path)
    return Arrival(path, records)


def write_hours(
    root: Path, start: datetime, hours: int, files_per_hour: int, records: int, *, first_id: int = 0
) -> tuple[Arrival, ...]:
    """Write ``files_per_hour`` files in each of ``hours`` partitions from ``start``; ids count up from ``first_id``."""
    arrivals = []
    for hour in range(hours):
        for number in range(files_per_hour):
            moment = start + timedelta(hours=hour, minutes=60 * number / files_per_hour)
            arrivals.append(write_file(root, moment.astimezone(UTC), first_id, records))
            first_id += records
    return tuple(arrivals)


MARKER = ".tidegate-demo"
START = datetime(2026, 1, 28, 12, tzinfo=UTC)
HOURS = 3
FILES_PER_HOUR = 8
RECORDS = 1000

CONFIG = """\
# Two regions write NDJSON files into hourly folders; one table takes both.
pipelines:
  events:
    sources:
      asia:
        source_uri: data/asia/
        use_watermark: true
      europe:
        source_uri: data/europe/
        use_watermark: true
    schema:
      fields:
        - {name: id, type: int64, nullable: false}
        - {name: ts, type: timestamp}
        - {name: event, type: string}
        - {name: price, type: "decimal(10,2)"}
        - {name: user, type: struct, fields: [{name: name, type: string}, {name: country, type: string}]}
        - {name: tags, type: list, items: string}
    sink:
      table_uri: lake/events
      metadata_columns: [_source_file]
      partition_by: {prefix_template: "date=%Y-%m-%d", column: ts}
"""


class Demo:
    """Plays the demo in ``folder``; ``show`` gets each step when it is done."""

    def __init__(
        self,
        folder: Path,
        run: Callable[[Path], RunReport],
        status: Callable[[Path], tuple[SourceStatus, ...]],
        show: Callable[[DemoStep], None],
        engine: str | None = None,
    ) -> None:
        self._folder = folder
        self._engine = engine
        self._config = folder / "tidegate.yml"
        self._run = run
        self._status = status
        self._show = show
        self._steps: list[DemoStep] = []
        self._arrived: list[Arrival] = []

    def play(self) -> DemoReport:
        """Play all steps; ``ok`` if the table has every record exactly once."""
        started = time.monotonic()
        self._prepare()
        self._arrive()
        self._ingest(
            "Ingest what is there",
            "Both sources are new: every file is read. Rows and watermark are one commit.",
        )
        self._more_arrives()
        self._ingest("Ingest again", "Only the new files and the late one are read.")
        self._ingest("Nothing new", "A third run finds nothing; the sources are idle.")
        self._show_status()
        ok = self._prove()
        commands = tuple(map(self._command, ("plan", "status", "run", "doctor")))
        seconds = time.monotonic() - started
        return DemoReport(str(self._folder), str(self._config), tuple(self._steps), ok, seconds, commands)

    def _tell(self, step: DemoStep) -> None:
        self._steps.append(step)
        self._show(step)

    def _prepare(self) -> None:
        if self._folder.exists() and any(self._folder.iterdir()):
            # Without the marker this may be anybody's folder, and the next line removes it.
            if not (self._folder / MARKER).exists():
                raise TidegateError(f"{self._folder} is not empty and not a demo's folder", "name another folder")
            shutil.rmtree(self._folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / MARKER).touch()
        # Into the file, so that the commands that are shown do the same on the same engine.
        self._config.write_text(CONFIG if self._engine is None else f"engine: {self._engine}\n{CONFIG}")

    def _arrive(self) -> None:
        for number, region in enumerate(("asia", "europe")):
            first = number * 1_000_000
            root = self._folder / "data" / region
            self._arrived += write_hours(root, START, HOURS, FILES_PER_HOUR, RECORDS, first_id=first)
        self._tell(_arrivals("Files arrive", "NDJSON, gzip, in hourly folders, named by time.", self._arrived))

    def _more_arrives(self) -> None:
        root = self._folder / "data" / "asia"
        new = list(write_hours(root, START + timedelta(hours=HOURS), 1, FILES_PER_HOUR, RECORDS, first_id=500_000))
        late_moment = START + timedelta(hours=HOURS - 1, minutes=3)
        late = write_file(root, late_moment, 600_000, RECORDS)
        self._arrived += [*new, late]
        text = (
            "A new hour begins in asia, and one file arrives late: its name sorts below the watermark of its "
            f"folder ({late.path.parent.name}/{late.path.name})."
        )
        self._tell(_arrivals("More files arrive, one of them late", text, [*new, late]))

    def _ingest(self, title: str, text: str) -> None:
        report = self._run(self._config)
        failed = [each.error for each in report.sources if each.error]
        if failed:
            raise TidegateError(failed[0])
        self._tell(DemoStep(title, text, self._command("run"), report=report))

    def _show_status(self) -> None:
        text = "State, watermark and backlog of each source, without Spark."
        self._tell(DemoStep("Status", text, self._command("status"), report=Statuses(self._status(self._config))))

    def _command(self, name: str) -> str:
        return f"tidegate {name} {quote(str(self._config))}"

    def _prove(self) -> bool:
        table = Location(absolute_uri("lake/events", self._folder.resolve()))
        found = query(table, "select date, count(*) as n, count(distinct id) as ids from t group by date order by date")
        expected = sum(each.records for each in self._arrived)
        total, distinct = sum(row["n"] for row in found), sum(row["ids"] for row in found)
        rows = tuple((f"date={row['date']}", f"{row['n']:,}", f"{row['ids']:,}") for row in found)
        ok = bool(expected == total == distinct)
        verdict = "every record exactly once" if ok else "records are missing or doubled"
        text = (
            f"{expected:,} records arrived; the table holds {total:,} rows with {distinct:,} distinct ids: {verdict}."
        )
        self._tell(DemoStep("The table", text, "", ("partition", "rows", "distinct ids"), rows))
        return ok


def _arrivals(title: str, text: str, arrived: Sequence[Arrival]) -> DemoStep:
    folders: dict[str, list[Arrival]] = {}
    for each in arrived:
        folders.setdefault("/".join(each.path.parent.parts[-3:]), []).append(each)
    rows = tuple(
        (folder, f"{len(files)}", f"{sum(each.records for each in files):,}") for folder, files in folders.items()
    )
    return DemoStep(title, text, "", ("folder", "files", "records"), rows)
