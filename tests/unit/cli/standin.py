"""A stand-in for the public functions, the values it gives back, and commands called with it."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from threading import Event
from typing import Any

import pytest
from click.testing import CliRunner, Result

import tidegate
from tidegate.cli.main import cli
from tidegate.core.health import Health, HealthLevel
from tidegate.observe import events
from tidegate.reports.chaos import ChaosProgress, ChaosReport, PlaceFailures
from tidegate.reports.checks import Adoption, Check
from tidegate.reports.commit import AdoptedFile, CommitReport, FileAdoption, RejectedUnit, StagedSource, TableCommit
from tidegate.reports.ledger import (
    FileRange,
    FilesReport,
    FileTotals,
    IngestedFile,
    LedgerCompaction,
    LedgerExport,
    LedgerGap,
)
from tidegate.reports.messages import MessageDelivery, NotifyReport
from tidegate.reports.overview import DayCount, NextRun, ProjectReport, ReasonCount, SourceOverview
from tidegate.reports.page import Page
from tidegate.reports.project import DemoReport, DemoStep, InitReport, PropertiesImport, PropertyNote
from tidegate.reports.reconcile import (
    FoundDataFile,
    FoundDataFiles,
    FoundFiles,
    ReconcileReport,
    SourceComparison,
    TableComparison,
)
from tidegate.reports.render import to_lines
from tidegate.reports.replay import ChunkReport, ColumnReplayReport, LettersReport, ReplayReport
from tidegate.reports.run import IngestReport, RunReport, SourceReport
from tidegate.reports.status import FailedFile, SourceStatus
from tidegate.reports.table import (
    ColumnSeen,
    SchemaChange,
    SchemaColumn,
    SchemaDiff,
    SchemaInference,
    SchemaView,
    TableCareReport,
    TableRewrite,
)
from tidegate.reports.units import UnitLine, UnitList, UnitsMove, UnitView, WorkUnitLine
from tidegate.reports.watermark import FileSet, PositionView, WatermarkHistory, WatermarkMove, WatermarkView
from tidegate.runs.files import state_tables
from tidegate.schema.dead_letter import Letter
from tidegate.specs.files import PathSource
from tidegate.specs.locations import Location
from tidegate.specs.project import PipelineSpec, ProjectSpec
from tidegate.specs.table import SchemaSpec, SinkSpec

MARK = "date=2026-01-28/hour=14/1706450400-0190e6b8-7c1a-7d4e-9a55-2f1f0c6b1a11.ndjson.gz"

PROJECT = ProjectSpec(
    origin="pipelines.yml",
    pipelines=(
        PipelineSpec(
            "events",
            (
                PathSource("asia", Location("file:///data/asia")),
                PathSource("europe", Location("file:///data/europe")),
            ),
            SchemaSpec(infer=True),
            SinkSpec(Location("file:///lake/events")),
        ),
    ),
    notices=("global.connection_pooling has no effect here and is ignored",),
)

FAILED = FailedFile("date=2026-01-28/hour=13/7.ndjson.gz", "line 3: not JSON", 2)

REPORT = RunReport(
    (
        SourceReport(
            "events",
            "asia",
            "Active",
            MARK,
            480,
            1 << 30,
            1_200_000,
            12,
            (),
            (("duplicate", 2),),
            17,
            None,
            9.5,
        ),
        SourceReport("events", "europe", "Initial", None, 0, 0, 0, 0, seconds=0.2),
    ),
    ok=True,
    seconds=10.2,
)

REJECTED = "_staging/pending/events/asia/00000000000000000007.unit.json"

COMMIT = CommitReport(
    (
        TableCommit(
            "file:///lake/events",
            17,
            commits=2,
            units=12,
            files=14,
            rows=1_200_000,
            foreign=2,
            waiting=1,
            rejected=(RejectedUnit("_staging/pending/events/asia/00000000000000000007.unit.json", "is gone"),),
            sources=(StagedSource("events", "asia", 19, 12, 1_200_000, 1),),
        ),
    ),
    ok=False,
    seconds=1.5,
)

FILE_ADOPTION = FileAdoption(
    "file:///lake/events",
    "imported",
    (
        AdoptedFile("imported/one.parquet", 1 << 20, '"abc"', 1000),
        AdoptedFile("imported/two.parquet", 1 << 20, '"def"', refused="column 'id' is missing"),
    ),
    known=3,
)

CARE = TableCareReport("events", "file:///lake/events", "optimize", False, 18, 40, 1 << 26, 1, 1 << 25)

STATUS = (
    SourceStatus(
        "events",
        "asia",
        "file:///lake/events",
        "Active",
        MARK,
        version=12,
        table_version=17,
        updated=datetime(2026, 1, 28, 14, 30, 5, tzinfo=UTC),
        lag_seconds=75.0,
        backlog_files=40,
        backlog_bytes=1 << 22,
        backlog_complete=True,
        in_progress=1,
        failed=(FAILED,),
        open_partitions=48,
        sealed=1200,
        shown_from="mirror",
        notes=("late_files is strict: files below a watermark are not looked for",),
        remembers="48 open partitions, 1,200 sealed",
    ),
    SourceStatus(
        "events",
        "europe",
        "file:///lake/events",
        "Initial",
        None,
        version=0,
        table_version=17,
        updated=None,
        lag_seconds=None,
        backlog_files=0,
        backlog_bytes=0,
        backlog_complete=True,
        in_progress=0,
    ),
)

OVERVIEW = ProjectReport(
    "pipelines.yml",
    datetime(2026, 1, 28, 15, tzinfo=UTC),
    HealthLevel.DEGRADED,
    (
        SourceOverview(
            replace(
                STATUS[0],
                open_letters=3,
                health=Health(HealthLevel.DEGRADED, "1 file cannot be read", command="tidegate status pipelines.yml"),
            ),
            (DayCount("2026-01-27", failing=True), DayCount("2026-01-28", 48_000, 12, 1)),
            datetime(2026, 1, 27, tzinfo=UTC),
            (ReasonCount("not JSON", 3, datetime(2026, 1, 28, 14, 30, 5, tzinfo=UTC)),),
            NextRun("would read 40 files, 4.0 MiB", 40, 1 << 22),
        ),
        SourceOverview(replace(STATUS[1], health=Health(HealthLevel.WAITING, "it has not run yet"))),
    ),
)

PARTITIONS = {f"date=2026-01-{day:02d}": f"{day}.ndjson" for day in range(1, 29)}
FILES = {
    "date=2026-01-28/b.ndjson": "Finished",
    "date=2026-01-28/c.ndjson": {"RecordsRead": 4000, "size": 10, "etag": None},
    "date=2026-01-28/a.ndjson": {"Failed": {"attempts": 2, "reason": "line 3: not JSON"}},
}
SEALED = {"": {"below": "2025-12-31", "directories": 365}}
WATERMARKS = (
    WatermarkView(
        "events",
        "asia",
        12,
        "Active",
        MARK,
        PARTITIONS,
        FILES,
        SEALED,
        "date=2026-01-27/27.ndjson",
        datetime(2026, 1, 28, 14, 30, 5, tzinfo=UTC),
        facts=(("watermark", MARK), ("finished up to", "date=2026-01-27/27.ndjson")),
        tables=state_tables(PARTITIONS, FILES, SEALED),
    ),
)

COMMITTED = datetime(2026, 1, 28, 14, 30, 5, tzinfo=UTC)
ROUNDS = (
    FileRange(11, None, "run", COMMITTED, 0, 4000, False, 3990, 10),
    FileRange(12, 17, "replay", COMMITTED, 4000, 10_000, True, 6000, 0),
)

FILES = FilesReport(
    (
        IngestedFile(
            "events", "asia", MARK, 1 << 20, None, True, 10_000, 9990, 10, 12, 17, "replay", COMMITTED, ROUNDS
        ),
        IngestedFile(
            "events", "europe", "b.ndjson", 10, None, False, 4000, 3990, 10, 11, None, "run", COMMITTED, ROUNDS[:1]
        ),
        IngestedFile(
            "events", "europe", "c.ndjson", 10, None, False, 6000, 6000, 0, 12, 17, "run", COMMITTED, ROUNDS[1:]
        ),
    ),
    FileTotals(3, (1 << 20) + 20, 20_000, 19_980, 20, 2),
    complete=False,
    gaps=(
        LedgerGap("events", "asia", 3, 3, "document x.json is damaged"),
        LedgerGap("events", "asia", 5, 9, "its document is missing"),
    ),
    notes=("events/asia: the newest position may be missing",),
)

HISTORY = (
    WatermarkHistory(
        "events",
        "asia",
        (
            PositionView(12, COMMITTED, "run", 40, 250_010, 250_000, 10, 1, 17, "Active", MARK),
            PositionView(11, None, "unknown", 0, 0, 0, 0, 0, None, None, None, "its document is missing"),
        ),
        complete=False,
    ),
    WatermarkHistory("events", "europe", (), complete=True, notes=("the table cannot be opened",)),
)

MOVE = WatermarkMove(
    "events",
    "asia",
    "watermark set",
    "date=2026-01-28",
    "date=2026-01-28/0007.ndjson.gz",
    "date=2026-01-28/0003.ndjson.gz",
    FileSet(4, 4000, ("date=2026-01-28/0004.ndjson.gz", "date=2026-01-28/0005.ndjson.gz")),
    FileSet(),
    ("rows of files that are read again are in the table twice afterwards",),
    13,
    18,
)

SEEN = ColumnSeen(
    "code",
    "string",
    10,
    8,
    1,
    1,
    "none",
    {"integer": 7, "string": 1},
    {"integer": "1", "string": '"A"'},
    "kept as text",
)
INFERENCE = SchemaInference(
    "events", "asia", 2, 10, 0, (SEEN,), ("'code' is integer (1) and string (\"A\")",), "schema:\n  fields:", ("code",)
)
SCHEMA_VIEW = SchemaView(
    "events",
    "file:///lake/events",
    17,
    "merge",
    (SchemaColumn("code", None, "string", "string"),),
    ("a note",),
)
CHANGE = SchemaChange("id", "narrower table", "int32", "int64", "", "column 'id' is int32 in the table")
SCHEMA_DIFF = SchemaDiff("events", "file:///lake/events", "merge", (CHANGE,), ok=False)
REWRITE = TableRewrite(
    "events", "file:///lake/events", "table widen", (replace(CHANGE, error=None),), 1_000, 4, 1 << 20, 17
)

RANGE_REPLAY = ColumnReplayReport(
    pipeline="orders",
    source="default",
    table_uri="file:///lake/orders",
    column="updated_at",
    chunks=(ChunkReport("2026-01-01", "2026-02-01", "done", 7),),
    predicate="WHERE `updated_at` >= DATE '2026-01-01' AND `updated_at` < DATE '2026-02-01'",
)
REPLAY = ReplayReport(
    "events",
    "asia",
    "file:///lake/events",
    "files date=2026-01-28/*",
    FileSet(2, 2000, ("date=2026-01-28/0001.ndjson.gz", "date=2026-01-28/0002.ndjson.gz")),
    FileSet(1, 100, ("date=2026-01-28/0008.ndjson.gz",)),
    FileSet(),
    drop_missing=False,
    rows_removed=2000,
    rows_written=1990,
    notes=(),
    version=13,
    table_version=18,
    seconds=4.2,
)

ADOPTIONS = (
    Adoption(
        "events",
        "asia",
        "s3://lake/events",
        "_blizzard/events_asia_checkpoint.json",
        "a watermark per partition",
        datetime(2026, 1, 28, 14, 30, 5, tzinfo=UTC),
        "Active",
        MARK,
        {f"date=2026-01-{day:02d}": f"{day}.ndjson" for day in range(1, 29)},
        {"date=2026-01-28/c.ndjson": 4000},
        None,
        (Check("left out", "warn", "3 files at or below its watermark", "`--read-skipped` reads them"),),
        next_files=40,
        adopted=True,
        version=1,
        table_version=18,
    ),
)

CHECKS = (
    Check("python", "ok", "3.11.7"),
    Check("java", "warn", "Java 11", "install Java 17 or 21"),
)

ORPHAN = FoundDataFile("date=2026-01-28/a.parquet", 2048, datetime(2026, 1, 25, tzinfo=UTC))

RECONCILED = ReconcileReport(
    (
        SourceComparison(
            "events",
            "asia",
            12,
            FoundFiles(1_000_000, 1 << 30),
            999_970,
            late=FoundFiles(25, 1 << 20, tuple(f"date=2026-01-02/{number:02d}.ndjson" for number in range(25))),
            unfinished=FoundFiles(1, 10, (FAILED.path,)),
        ),
    ),
    (TableComparison("file:///lake/events", 400, FoundDataFiles(1, ORPHAN.size, ORPHAN.modified, (ORPHAN,))),),
    ok=False,
    seconds=65.0,
)

STEPS = (
    DemoStep("Data", "300 files were made.", "ls demo/data"),
    DemoStep("The table", columns=("event", "rows"), rows=(("click", "1,200"), ("view", "3"))),
)


IMPORTED = PropertiesImport(
    origin="surveys.pull",
    yaml="# Made from surveys.pull\npipelines: {}\n",
    carried=("job.name", "ms.watermark"),
    left=(PropertyNote(7, "ms.ssl", "client certificates are not supported"),),
    not_needed=(PropertyNote(9, "job.group", "a pipeline has a name and no group"),),
    variables=("SURVEYS_TOKEN",),
)
CHAOS = ChaosReport(
    uri="file:///scratch",
    seed=4,
    ok=True,
    finished=True,
    failures=400,
    kills=10,
    spark_kills=1,
    places=(PlaceFailures("state.commit.after", 9, 6, 1), PlaceFailures("state.debt.before")),
    rival_passes=68,
    foreign_appends=37,
    optimizes=41,
    rounds=4,
    passes=532,
    commits=191,
    contested=16,
    files=671,
    rows=16047,
    letters=70,
    comparisons=21,
    lost=0,
    doubled=0,
    problems=(),
    seconds=23.1,
)


def emitted() -> tuple[events.Event, ...]:
    """What a small run of one source says."""
    who = ("events", "asia")
    return (
        events.PollStarted(*who, version=0),
        events.Listed(*who, new_files=4, new_bytes=4000, list_requests=2, listed_keys=5, seconds=0.1),
        events.PlanMade(*who, units=2, files=4, bytes=4000),
        events.SessionStarting("", "", where="local[2]"),
        events.WaveStarted(*who, units=2, files=4, bytes=4000),
        events.WaveProgressed(*who, done=1, units=2),
        events.Notice(*who, text="one file has no newline at its end"),
        events.Committed(
            *who,
            position=1,
            table_version=0,
            source_files=4,
            source_bytes=4000,
            data_files=1,
            rows=100,
            seconds=0.2,
        ),
        events.SourceFinished(
            *who,
            state="Active",
            watermark=MARK,
            source_files=4,
            rows=100,
            failed_files=0,
            commits=1,
            seconds=2.0,
        ),
    )


LETTERS = (
    Letter(
        id="1f0c6f6b0c2d4e5a",
        kind="record",
        pipeline="events",
        source="asia",
        at=datetime(2026, 1, 28, 14, 30, tzinfo=UTC),
        run="r1",
        file=MARK,
        size=114,
        line=4,
        reason="not JSON",
        stage="decode",
        text="oops \x1b[31m",
    ),
)
ANSWERS = (
    LettersReport(
        "events", "asia", "file:///lake/events_dead_letters", 3, 2, 2, 0, (("9b1d", MARK, "not JSON"),), 13, 18
    ),
)


UNITS = UnitList(
    "events",
    "asia",
    12,
    "UTC",
    "system: monthly on day 1 at 00:00:00",
    2,
    3,
    (
        UnitLine("id3", "failed", 1, 1, 1, "2026-02-01T00:00:00Z", None, "the server answered 500"),
        UnitLine("id1", "done", 2, 0, 0, "2026-03-01T00:00:00Z", "2026-03-04T00:00:00Z"),
    ),
)

UNIT = UnitView(
    "events",
    "asia",
    "id3",
    "failed",
    12,
    "UTC",
    "system: monthly on day 1 at 00:00:00",
    (("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"),),
    (),
    (
        WorkUnitLine(
            "2026-02-01T00:00:00Z",
            "2026-02-21T00:00:00Z",
            "2026-03-01T00:00:00Z",
            "first",
            "2026-02-01T00:00:00Z",
            "2026-02-21T00:00:00Z",
            failures=2,
            reason="the server answered 500",
        ),
    ),
    {"surveyId": "id3"},
)

UNITS_MOVE = UnitsMove("events", "asia", "units reset", None, ("id3",), 0, 0, 1, ("read again",), 12, 17)


EXPORT = LedgerExport("x.parquet", 2, 1200)
COMPACTION = (
    LedgerCompaction("events", "asia", 3, 1540),
    LedgerCompaction("events", "europe", 0, 0),
)

INGESTED = IngestReport("orders", (("source", "files at in"),), "pipelines: {}\n", ("KEY",), "p.yml", REPORT)

RESULTS: Mapping[str, Any] = {
    "adopt": ADOPTIONS,
    "adopt_files": FILE_ADOPTION,
    "chaos": CHAOS,
    "checkpoint_table": replace(CARE, operation="checkpoint"),
    "commit": COMMIT,
    "compact_ledger": COMPACTION,
    "demo": DemoReport("/tmp/demo", "/tmp/demo/t.yml", STEPS, True, 3.0, ("tidegate status t.yml",)),
    "diff_schema": SCHEMA_DIFF,
    "discard_letters": ANSWERS,
    "doctor": CHECKS,
    "export_ledger": EXPORT,
    "files": FILES,
    "import_properties": IMPORTED,
    "infer_schema": INFERENCE,
    "ingest": INGESTED,
    "init": InitReport("shop", ("pipelines.yml",), ("tidegate plan shop/pipelines.yml",), "shop/.env.example"),
    "list_letters": LETTERS,
    "load": PROJECT,
    "notify": NotifyReport(False, (MessageDelivery("command page", 1, sent=True),)),
    "optimize_table": CARE,
    "plan": (),
    "reconcile": RECONCILED,
    "recover": CHECKS,
    "replace_schema": replace(REWRITE, action="schema replace"),
    "replay": REPLAY,
    "replay_range": RANGE_REPLAY,
    "reset_units": UNITS_MOVE,
    "reset_watermark": replace(MOVE, action="watermark reset"),
    "retry_letters": ANSWERS,
    "retry_units": replace(UNITS_MOVE, action="units retry"),
    "report": OVERVIEW,
    "run": REPORT,
    "serve": None,
    "set_up": CHECKS,
    "set_watermark": MOVE,
    "show_schema": SCHEMA_VIEW,
    "show_watermarks": WATERMARKS,
    "status": STATUS,
    "unit": UNIT,
    "units": (UNITS,),
    "vacuum_table": replace(CARE, operation="vacuum", retention_hours=168),
    "watermark_history": HISTORY,
    "widen_table": REWRITE,
}


class StandIn:
    """Takes the place of the public functions while a command runs.

    A call must fit the signature of the real function; ``calls`` keeps the name with the arguments that are not their
    defaults, callbacks left out. The function uses its callbacks and gives back its value from ``results``, else from
    ``RESULTS``; or it raises ``raises``. With ``unchecked`` it only gives back the value, and loads nothing.
    """

    def __init__(
        self, raises: BaseException | None = None, stops: bool = False, unchecked: bool = False, **results: Any
    ) -> None:
        self.unchecked = unchecked
        self.raises = raises
        self.stops = stops
        self.results = {**RESULTS, **results}
        self.calls: list[tuple[str, dict[str, Any]]] = []

    @contextmanager
    def installed(self) -> Iterator[None]:
        """The functions of the package are this, inside."""
        with pytest.MonkeyPatch.context() as patch:
            for name in self.results:
                patch.setitem(vars(tidegate), name, partial(self._called, name))
            yield

    def _called(self, name: str, /, *given: Any, **named: Any) -> Any:
        if self.unchecked:
            return self.results[name]
        signature = inspect.signature(getattr(import_module(tidegate._HOMES[name]), name))
        arguments = signature.bind(*given, **named).arguments
        told = {
            key: value
            for key, value in arguments.items()
            if value != signature.parameters[key].default and not callable(value) and not isinstance(value, Event)
        }
        self.calls.append((name, told))
        if self.raises is not None:
            raise self.raises
        if self.stops and "stop" in arguments:
            arguments["stop"].set()
        _call_back(name, arguments)
        found = self.results[name]
        if isinstance(found, TableCareReport):
            return replace(found, dry_run=arguments["dry_run"])
        if "confirm" not in arguments:
            return found
        agreed = arguments["confirm"](found) if arguments.get("update", True) else False
        if name == "adopt_files":
            return replace(found, adopted=1, table_version=18) if agreed else found
        return replace(found, applied=agreed)


def _call_back(name: str, arguments: Mapping[str, Any]) -> None:
    """What the real functions tell while they work."""
    match name:
        case "run":
            for event in emitted():
                arguments["emit"](event)
        case "reconcile":
            arguments["emit"](events.ComparisonProgressed("events", "asia", "listing", 10_000))
        case "demo":
            arguments["emit"](events.SessionStarting("", "", where="local[2]"))
            for step in STEPS:
                arguments["show"](step)
        case "chaos":
            arguments["show"](ChaosProgress("failures", 10, 1000, 3, 40, 1.0))
        case "serve":
            arguments["started"]("127.0.0.1:9090")


def invoke(*arguments: str, api: StandIn | None = None, env: Mapping[str, str] | None = None) -> Result:
    """What a command prints and how it ends, with a stand-in for the functions that it calls."""
    # The variable of the surrounding shell would set the level of the log.
    runner = CliRunner(env={"TIDEGATE_LOG": None, **(env or {})})
    with (api or StandIn()).installed():
        return runner.invoke(cli, list(arguments), prog_name="tidegate")


def document(result: Result) -> dict[str, Any]:
    """The JSON that a command printed."""
    value: dict[str, Any] = json.loads(result.stdout)
    return value


def text(page: Page) -> str:
    """A page as plain text."""
    return "\n".join(to_lines(page))
