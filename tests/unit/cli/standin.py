"""Functions of the shape of ``tidegate.api`` that give back fixed values, or raise what they are told to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tidegate.observe import events
from tidegate.reports import correction, ledger, schema, staging
from tidegate.reports import run as run_module
from tidegate.reports import units as units_module
from tidegate.reports.chaos import ChaosProgress, ChaosReport, PlaceFailures
from tidegate.schema.dead_letter import Letter
from tidegate.specs.locations import Location
from tidegate.specs.project import PathSource, PipelineSpec, ProjectSpec, SchemaSpec, SinkSpec

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
    notices=("global.connection_pooling means nothing here and is ignored",),
)

FAILED = run_module.FailedFile("date=2026-01-28/hour=13/7.ndjson.gz", "line 3: not JSON", 2)

REPORT = run_module.RunReport(
    (
        run_module.SourceReport(
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
        run_module.SourceReport("events", "europe", "Initial", None, 0, 0, 0, 0, seconds=0.2),
    ),
    ok=True,
    seconds=10.2,
)

REJECTED = "_staging/pending/events/asia/00000000000000000007.unit.json"

COMMIT = staging.CommitReport(
    (
        staging.TableCommit(
            "file:///lake/events",
            17,
            commits=2,
            units=12,
            files=14,
            rows=1_200_000,
            foreign=2,
            waiting=1,
            rejected=(staging.RejectedUnit("_staging/pending/events/asia/00000000000000000007.unit.json", "is gone"),),
            sources=(staging.StagedSource("events", "asia", 19, 12, 1_200_000, 1),),
        ),
    ),
    ok=False,
    seconds=1.5,
)

FILE_ADOPTION = staging.FileAdoption(
    "file:///lake/events",
    "imported",
    (
        staging.AdoptedFile("imported/one.parquet", 1 << 20, '"abc"', 1000),
        staging.AdoptedFile("imported/two.parquet", 1 << 20, '"def"', refused="column 'id' is missing"),
    ),
    known=3,
)

CARE = run_module.TableCareReport("events", "file:///lake/events", "optimize", False, 18, 40, 1 << 26, 1, 1 << 25)

STATUS = (
    run_module.SourceStatus(
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
    ),
    run_module.SourceStatus(
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

WATERMARKS = (
    run_module.WatermarkView(
        "events",
        "asia",
        12,
        "Active",
        MARK,
        {f"date=2026-01-{day:02d}": f"{day}.ndjson" for day in range(1, 29)},
        {
            "date=2026-01-28/b.ndjson": "Finished",
            "date=2026-01-28/c.ndjson": {"RecordsRead": 4000, "size": 10, "etag": None},
            "date=2026-01-28/a.ndjson": {"Failed": {"attempts": 2, "reason": "line 3: not JSON"}},
        },
        {"": {"below": "2025-12-31", "directories": 365}},
        "date=2026-01-27/27.ndjson",
        datetime(2026, 1, 28, 14, 30, 5, tzinfo=UTC),
    ),
)

COMMITTED = datetime(2026, 1, 28, 14, 30, 5, tzinfo=UTC)
ROUNDS = (
    ledger.FileRange(11, None, "run", COMMITTED, 0, 4000, False, 3990, 10),
    ledger.FileRange(12, 17, "replay", COMMITTED, 4000, 10_000, True, 6000, 0),
)

FILES = ledger.FilesReport(
    (
        ledger.IngestedFile(
            "events", "asia", MARK, 1 << 20, None, True, 10_000, 9990, 10, 12, 17, "replay", COMMITTED, ROUNDS
        ),
        ledger.IngestedFile(
            "events", "europe", "b.ndjson", 10, None, False, 4000, 3990, 10, 11, None, "run", COMMITTED, ROUNDS[:1]
        ),
        ledger.IngestedFile(
            "events", "europe", "c.ndjson", 10, None, False, 6000, 6000, 0, 12, 17, "run", COMMITTED, ROUNDS[1:]
        ),
    ),
    ledger.FileTotals(3, (1 << 20) + 20, 20_000, 19_980, 20, 2),
    complete=False,
    gaps=(
        ledger.LedgerGap("events", "asia", 3, 3, "document x.json is damaged"),
        ledger.LedgerGap("events", "asia", 5, 9, "its document is missing"),
    ),
    notes=("events/asia: the newest position may be missing",),
)

HISTORY = (
    ledger.WatermarkHistory(
        "events",
        "asia",
        (
            ledger.PositionView(12, COMMITTED, "run", 40, 250_010, 250_000, 10, 1, 17, "Active", MARK),
            ledger.PositionView(11, None, "unknown", 0, 0, 0, 0, 0, None, None, None, "its document is missing"),
        ),
        complete=False,
    ),
    ledger.WatermarkHistory("events", "europe", (), complete=True, notes=("the table cannot be opened",)),
)

MOVE = correction.WatermarkMove(
    "events",
    "asia",
    "watermark set",
    "date=2026-01-28",
    "date=2026-01-28/0007.ndjson.gz",
    "date=2026-01-28/0003.ndjson.gz",
    correction.FileSet(4, 4000, ("date=2026-01-28/0004.ndjson.gz", "date=2026-01-28/0005.ndjson.gz")),
    correction.FileSet(),
    ("rows of files that are read again are in the table twice afterwards",),
    13,
    18,
)

SEEN = schema.ColumnSeen(
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
INFERENCE = schema.SchemaInference(
    "events", "asia", 2, 10, 0, (SEEN,), ("'code' is integer (1) and string (\"A\")",), "schema:\n  fields:", ("code",)
)
SCHEMA_VIEW = schema.SchemaView(
    "events",
    "file:///lake/events",
    17,
    "merge",
    (schema.SchemaColumn("code", None, "string", "string"),),
    ("a note",),
)
CHANGE = schema.SchemaChange("id", "narrower table", "int32", "int64", "", "column 'id' is int32 in the table")
SCHEMA_DIFF = schema.SchemaDiff("events", "file:///lake/events", "merge", (CHANGE,), ok=False)
REWRITE = schema.TableRewrite(
    "events", "file:///lake/events", "table widen", (replace(CHANGE, error=None),), 1_000, 4, 1 << 20, 17
)

RANGE_REPLAY = correction.ColumnReplayReport(
    pipeline="orders",
    source="default",
    table_uri="file:///lake/orders",
    column="updated_at",
    chunks=(correction.ChunkReport("2026-01-01", "2026-02-01", "done", 7),),
    predicate="WHERE `updated_at` >= DATE '2026-01-01' AND `updated_at` < DATE '2026-02-01'",
)
REPLAY = correction.ReplayReport(
    "events",
    "asia",
    "file:///lake/events",
    "files date=2026-01-28/*",
    correction.FileSet(2, 2000, ("date=2026-01-28/0001.ndjson.gz", "date=2026-01-28/0002.ndjson.gz")),
    correction.FileSet(1, 100, ("date=2026-01-28/0008.ndjson.gz",)),
    correction.FileSet(),
    drop_missing=False,
    rows_removed=2000,
    rows_written=1990,
    notes=(),
    version=13,
    table_version=18,
    seconds=4.2,
)

ADOPTIONS = (
    run_module.Adoption(
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
        (run_module.Check("left out", "warn", "3 files at or below its watermark", "`--read-skipped` reads them"),),
        next_files=40,
        adopted=True,
        version=1,
        table_version=18,
    ),
)

CHECKS = (
    run_module.Check("python", "ok", "3.11.7"),
    run_module.Check("java", "warn", "Java 11", "install Java 17 or 21"),
)

ORPHAN = correction.FoundDataFile("date=2026-01-28/a.parquet", 2048, datetime(2026, 1, 25, tzinfo=UTC))

RECONCILED = correction.ReconcileReport(
    (
        correction.SourceComparison(
            "events",
            "asia",
            12,
            correction.FoundFiles(1_000_000, 1 << 30),
            999_970,
            late=correction.FoundFiles(
                25, 1 << 20, tuple(f"date=2026-01-02/{number:02d}.ndjson" for number in range(25))
            ),
            unfinished=correction.FoundFiles(1, 10, (FAILED.path,)),
        ),
    ),
    (
        correction.TableComparison(
            "file:///lake/events", 400, correction.FoundDataFiles(1, ORPHAN.size, ORPHAN.modified, (ORPHAN,))
        ),
    ),
    ok=False,
    seconds=65.0,
)

STEPS = (
    run_module.DemoStep("Data", "300 files were made.", "ls demo/data"),
    run_module.DemoStep("The table", columns=("event", "rows"), rows=(("click", "1,200"), ("view", "3"))),
)


IMPORTED = staging.PropertiesImport(
    origin="surveys.pull",
    yaml="# Made from surveys.pull\npipelines: {}\n",
    carried=("job.name", "ms.watermark"),
    left=(staging.PropertyNote(7, "ms.ssl", "certificates of clients are not offered"),),
    not_needed=(staging.PropertyNote(9, "job.group", "a pipeline has a name only"),),
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
    run_module.LettersReport(
        "events", "asia", "file:///lake/events_dead_letters", 3, 2, 2, 0, (("9b1d", MARK, "not JSON"),), 13, 18
    ),
)


UNITS = units_module.UnitList(
    "events",
    "asia",
    12,
    "UTC",
    "system: monthly on day 1 at 00:00:00",
    2,
    3,
    (
        units_module.UnitLine("id3", "failed", 1, 1, 1, "2026-02-01T00:00:00Z", None, "the server answered 500"),
        units_module.UnitLine("id1", "done", 2, 0, 0, "2026-03-01T00:00:00Z", "2026-03-04T00:00:00Z"),
    ),
)

UNIT = units_module.UnitView(
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
        units_module.WorkUnitLine(
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

UNITS_MOVE = units_module.UnitsMove("events", "asia", "units reset", None, ("id3",), 0, 0, 1, ("read again",), 12, 17)


@dataclass
class StandIn:
    """Gives back the values above; ``raises`` is raised by every function instead."""

    raises: BaseException | None = None
    report: run_module.RunReport = REPORT
    statuses: tuple[run_module.SourceStatus, ...] = STATUS
    checks: tuple[run_module.Check, ...] = CHECKS
    plans: tuple[run_module.SourcePlan | units_module.UnitSourcePlan, ...] = ()
    reconciled: correction.ReconcileReport = RECONCILED
    chaos_report: ChaosReport = CHAOS
    stops: bool = False
    calls: list[tuple[Any, ...]] = field(default_factory=list)

    def _called(self, *call: Any) -> None:
        self.calls.append(call)
        if self.raises is not None:
            raise self.raises

    def load(self, config: str | Path) -> ProjectSpec:
        self._called("load", config)
        return replace(PROJECT, origin=str(config))

    def import_properties(self, path: str | Path) -> staging.PropertiesImport:
        self._called("import_properties", path)
        return replace(IMPORTED, origin=str(path))

    def plan(
        self,
        config: str | Path,
        pipeline: str | None = None,
        *,
        now: datetime | None,
        accept_new_partitions: bool,
    ) -> tuple[run_module.SourcePlan | units_module.UnitSourcePlan, ...]:
        self._called("plan", config, pipeline, *filter(None, (now, accept_new_partitions)))
        return self.plans

    def units(
        self,
        config: str | Path,
        pipeline: str,
        source: str | None = None,
        *,
        names: tuple[str, ...],
        partition: str | None,
        failed: bool,
        limit: int,
    ) -> tuple[units_module.UnitList, ...]:
        self._called("units", config, pipeline, source, names, partition, failed, limit)
        return (UNITS,)

    def unit(self, config: str | Path, pipeline: str, name: str, source: str | None = None) -> units_module.UnitView:
        self._called("unit", config, pipeline, name, source)
        return UNIT

    def retry_units(
        self,
        config: str | Path,
        pipeline: str,
        source: str | None = None,
        *,
        names: tuple[str, ...],
        partition: str | None,
        confirm: Callable[[units_module.UnitsMove], bool],
    ) -> units_module.UnitsMove:
        self._called("retry_units", config, pipeline, source, names, partition)
        return replace(UNITS_MOVE, action="units retry", applied=confirm(UNITS_MOVE))

    def reset_units(
        self,
        config: str | Path,
        pipeline: str,
        source: str | None = None,
        *,
        names: tuple[str, ...],
        partition: str | None,
        confirm: Callable[[units_module.UnitsMove], bool],
    ) -> units_module.UnitsMove:
        self._called("reset_units", config, pipeline, source, names, partition)
        return replace(UNITS_MOVE, applied=confirm(UNITS_MOVE))

    def commit(
        self,
        config: str | Path,
        pipeline: str | None = None,
        *,
        mode: str,
        emit: events.Emit,
        stop: threading.Event,
    ) -> staging.CommitReport:
        self._called("commit", config, pipeline, mode)
        return COMMIT

    def adopt_files(
        self,
        config: str | Path,
        pipeline: str | None = None,
        *,
        prefix: str,
        confirm: Callable[[staging.FileAdoption], bool],
    ) -> staging.FileAdoption:
        self._called("adopt_files", config, pipeline, prefix)
        return replace(FILE_ADOPTION, adopted=1, table_version=18) if confirm(FILE_ADOPTION) else FILE_ADOPTION

    def run(
        self,
        config: str | Path,
        pipeline: str | None = None,
        *,
        mode: str,
        emit: events.Emit,
        stop: threading.Event,
        accept_new_partitions: bool = False,
    ) -> run_module.RunReport:
        self._called("run", config, pipeline, mode, *(["accept_new_partitions"] if accept_new_partitions else []))
        for event in emitted():
            emit(event)
        if self.stops:
            stop.set()
        return self.report

    def status(self, config: str | Path, pipeline: str | None = None) -> tuple[run_module.SourceStatus, ...]:
        self._called("status", config, pipeline)
        return self.statuses

    def serve(
        self,
        config: str | Path,
        pipeline: str | None = None,
        *,
        address: str | None,
        every: float,
        started: Callable[[str], None],
        stop: threading.Event,
    ) -> None:
        self._called("serve", config, pipeline, address, every)
        started("127.0.0.1:9090")

    def show_watermarks(
        self, config: str | Path, pipeline: str, source: str | None = None
    ) -> tuple[run_module.WatermarkView, ...]:
        self._called("watermarks", config, pipeline, source)
        return WATERMARKS

    def watermark_history(
        self, config: str | Path, pipeline: str, source: str | None = None, *, limit: int = 20
    ) -> tuple[ledger.WatermarkHistory, ...]:
        self._called("history", config, pipeline, source, limit)
        return HISTORY

    def files(
        self,
        config: str | Path,
        pipeline: str,
        source: str | None = None,
        *,
        match: str | None = None,
        since: datetime | None = None,
        position: int | None = None,
        limit: int = 50,
    ) -> ledger.FilesReport:
        self._called("files", config, pipeline, source, match, since, position, limit)
        return FILES

    def export_ledger(
        self, config: str | Path, pipeline: str, source: str | None = None, *, to: Path
    ) -> ledger.LedgerExport:
        self._called("export", config, pipeline, source, to)
        return ledger.LedgerExport(str(to), 2, 1200)

    def compact_ledger(
        self, config: str | Path, pipeline: str, source: str | None = None
    ) -> tuple[ledger.LedgerCompaction, ...]:
        self._called("compact", config, pipeline, source)
        return (
            ledger.LedgerCompaction("events", "asia", 3, 1540),
            ledger.LedgerCompaction("events", "europe", 0, 0),
        )

    def recover(
        self, config: str | Path, pipeline: str, source: str | None = None, *, accept: tuple[str, ...] = ()
    ) -> tuple[run_module.Check, ...]:
        self._called("recover", config, pipeline, source, accept)
        return self.checks

    def reconcile(
        self,
        config: str | Path,
        pipeline: str | None = None,
        source: str | None = None,
        *,
        ingest: bool,
        clean: bool,
        older_than: timedelta,
        force: bool,
        emit: events.Emit,
        stop: threading.Event,
    ) -> correction.ReconcileReport:
        self._called("reconcile", config, pipeline, source, ingest, clean, older_than, force)
        emit(events.ComparisonProgressed("events", "asia", "listing", 10_000))
        if self.stops:
            stop.set()
        return self.reconciled

    def adopt(
        self,
        config: str | Path,
        pipeline: str,
        source: str | None = None,
        *,
        dry_run: bool = False,
        quiet_for: float = 600.0,
        fresh: bool = False,
        read_skipped: bool = False,
    ) -> tuple[run_module.Adoption, ...]:
        self._called("adopt", config, pipeline, source, dry_run, quiet_for, fresh, read_skipped)
        return ADOPTIONS

    def set_watermark(
        self,
        config: str | Path,
        pipeline: str,
        source: str | None = None,
        *,
        to: str | None,
        values: dict[str, str] | None,
        inclusive: bool,
        confirm: Callable[[correction.WatermarkMove], bool],
    ) -> correction.WatermarkMove:
        self._called("set_watermark", config, pipeline, source, to, values, inclusive)
        return replace(MOVE, applied=confirm(MOVE))

    def reset_watermark(
        self,
        config: str | Path,
        pipeline: str,
        source: str | None = None,
        *,
        partition: str | None,
        confirm: Callable[[correction.WatermarkMove], bool],
    ) -> correction.WatermarkMove:
        self._called("reset_watermark", config, pipeline, source, partition)
        return replace(MOVE, action="watermark reset", applied=confirm(MOVE))

    def replay_range(
        self,
        config: str | Path,
        pipeline: str,
        source: str | None = None,
        *,
        start: str,
        end: str,
        chunk: Mapping[str, object] | None,
        chunk_column: str | None,
        save_watermark: bool,
        skip_gap: bool,
        allow_overlap: bool,
        into: str | None,
        max_workers: int,
        fresh: bool,
        confirm: Callable[[correction.ColumnReplayReport], bool],
        emit: events.Emit,
        stop: threading.Event,
    ) -> correction.ColumnReplayReport:
        self._called("replay_range", config, pipeline, source, start, end, chunk, chunk_column, save_watermark, into)
        return replace(RANGE_REPLAY, applied=confirm(RANGE_REPLAY))

    def replay(
        self,
        config: str | Path,
        pipeline: str,
        source: str | None = None,
        *,
        files: str | None,
        partition: str | None,
        drop_missing: bool,
        confirm: Callable[[correction.ReplayReport], bool],
        emit: events.Emit,
        stop: threading.Event,
    ) -> correction.ReplayReport:
        self._called("replay", config, pipeline, source, files, partition, drop_missing)
        return replace(REPLAY, applied=confirm(REPLAY))

    def infer_schema(
        self,
        config: str | Path,
        pipeline: str,
        source: str | None = None,
        *,
        sample: int,
        update: bool,
        confirm: Callable[[schema.SchemaInference], bool],
    ) -> schema.SchemaInference:
        self._called("infer_schema", config, pipeline, source, sample, update)
        return replace(INFERENCE, applied=update and confirm(INFERENCE))

    def show_schema(self, config: str | Path, pipeline: str) -> schema.SchemaView:
        self._called("show_schema", config, pipeline)
        return SCHEMA_VIEW

    def diff_schema(self, config: str | Path, pipeline: str) -> schema.SchemaDiff:
        self._called("diff_schema", config, pipeline)
        return SCHEMA_DIFF

    def replace_schema(
        self, config: str | Path, pipeline: str, *, confirm: Callable[[schema.TableRewrite], bool]
    ) -> schema.TableRewrite:
        self._called("replace_schema", config, pipeline)
        return replace(REWRITE, action="schema replace", applied=confirm(REWRITE))

    def widen_table(
        self,
        config: str | Path,
        pipeline: str,
        *,
        column: str,
        to: str,
        confirm: Callable[[schema.TableRewrite], bool],
    ) -> schema.TableRewrite:
        self._called("widen_table", config, pipeline, column, to)
        return replace(REWRITE, applied=confirm(REWRITE))

    def list_letters(self, config: str | Path, pipeline: str, source: str | None = None, **choice: Any) -> Any:
        self._called("list_letters", config, pipeline, source, choice)
        return LETTERS

    def retry_letters(self, config: str | Path, pipeline: str, source: str | None = None, **choice: Any) -> Any:
        self._called("retry_letters", config, pipeline, source, choice)
        return ANSWERS

    def discard_letters(self, config: str | Path, pipeline: str, source: str | None = None, **choice: Any) -> Any:
        self._called("discard_letters", config, pipeline, source, choice)
        return ANSWERS

    def optimize_table(
        self, config: str | Path, pipeline: str, *, target_mb: int | None, dry_run: bool
    ) -> run_module.TableCareReport:
        self._called("optimize", config, pipeline, target_mb, dry_run)
        return replace(CARE, dry_run=dry_run)

    def vacuum_table(
        self, config: str | Path, pipeline: str, *, retention_hours: int | None, force: bool, dry_run: bool
    ) -> run_module.TableCareReport:
        self._called("vacuum", config, pipeline, retention_hours, force, dry_run)
        return replace(CARE, operation="vacuum", dry_run=dry_run, retention_hours=168)

    def checkpoint_table(self, config: str | Path, pipeline: str, *, dry_run: bool) -> run_module.TableCareReport:
        self._called("checkpoint", config, pipeline, dry_run)
        return replace(CARE, operation="checkpoint", dry_run=dry_run)

    def doctor(self, config: str | Path | None = None) -> tuple[run_module.Check, ...]:
        self._called("doctor", config)
        return self.checks

    def chaos(
        self,
        uri: str,
        *,
        failures: int,
        kills: int,
        spark_kills: int,
        seed: int | None,
        minutes: float,
        keep: bool,
        options: Mapping[str, str],
        show: Callable[[ChaosProgress], None],
    ) -> ChaosReport:
        self._called("chaos", uri, failures, kills, spark_kills, seed, minutes, keep, dict(options))
        show(ChaosProgress("failures", 10, failures, 3, 40, 1.0))
        return self.chaos_report

    def demo(
        self, folder: Path | None, emit: events.Emit, show: Callable[[run_module.DemoStep], None]
    ) -> run_module.DemoReport:
        self._called("demo", folder)
        emit(events.SessionStarting("", "", where="local[2]"))
        for step in STEPS:
            show(step)
        return run_module.DemoReport("/tmp/demo", "/tmp/demo/t.yml", STEPS, True, 3.0, ("tidegate status t.yml",))
