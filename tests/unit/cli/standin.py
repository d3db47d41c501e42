"""Functions of the shape of ``tidegate.api`` that give back fixed values, or raise what they are told to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tidegate import reports
from tidegate.chaos_report import ChaosProgress, ChaosReport, PlaceFailures
from tidegate.observe import events
from tidegate.specs import Location, PathSource, PipelineSpec, ProjectSpec, SchemaSpec, SinkSpec

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

FAILED = reports.FailedFile("date=2026-01-28/hour=13/7.ndjson.gz", "line 3: not JSON", 2)

REPORT = reports.RunReport(
    (
        reports.SourceReport(
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
        reports.SourceReport("events", "europe", "Initial", None, 0, 0, 0, 0, seconds=0.2),
    ),
    ok=True,
    seconds=10.2,
)

STATUS = (
    reports.SourceStatus(
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
    reports.SourceStatus(
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
    reports.WatermarkView(
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

CHECKS = (
    reports.Check("python", "ok", "3.11.7"),
    reports.Check("java", "warn", "Java 11", "install Java 17 or 21"),
)

STEPS = (
    reports.DemoStep("Data", "300 files were made.", "ls demo/data"),
    reports.DemoStep("The table", columns=("event", "rows"), rows=(("click", "1,200"), ("view", "3"))),
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


@dataclass
class StandIn:
    """Gives back the values above; ``raises`` is raised by every function instead."""

    raises: BaseException | None = None
    report: reports.RunReport = REPORT
    statuses: tuple[reports.SourceStatus, ...] = STATUS
    checks: tuple[reports.Check, ...] = CHECKS
    plans: tuple[reports.SourcePlan, ...] = ()
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

    def plan(self, config: str | Path, pipeline: str | None = None) -> tuple[reports.SourcePlan, ...]:
        self._called("plan", config, pipeline)
        return self.plans

    def run(
        self,
        config: str | Path,
        pipeline: str | None = None,
        *,
        mode: str,
        emit: events.Emit,
        stop: threading.Event,
    ) -> reports.RunReport:
        self._called("run", config, pipeline, mode)
        for event in emitted():
            emit(event)
        if self.stops:
            stop.set()
        return self.report

    def status(self, config: str | Path, pipeline: str | None = None) -> tuple[reports.SourceStatus, ...]:
        self._called("status", config, pipeline)
        return self.statuses

    def show_watermarks(
        self, config: str | Path, pipeline: str, source: str | None = None
    ) -> tuple[reports.WatermarkView, ...]:
        self._called("watermarks", config, pipeline, source)
        return WATERMARKS

    def recover(
        self, config: str | Path, pipeline: str, source: str | None = None, *, accept: tuple[str, ...] = ()
    ) -> tuple[reports.Check, ...]:
        self._called("recover", config, pipeline, source, accept)
        return self.checks

    def doctor(self, config: str | Path | None = None) -> tuple[reports.Check, ...]:
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
        self, folder: Path | None, emit: events.Emit, show: Callable[[reports.DemoStep], None]
    ) -> reports.DemoReport:
        self._called("demo", folder)
        emit(events.SessionStarting("", "", where="local[2]"))
        for step in STEPS:
            show(step)
        return reports.DemoReport("/tmp/demo", "/tmp/demo/t.yml", STEPS, True, 3.0, ("tidegate status t.yml",))
