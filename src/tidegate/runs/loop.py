"""Runs pipelines: every source once, or again and again until told to stop."""

from __future__ import annotations

import contextlib
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import FrameType
from typing import cast

from tidegate.core.columns.state import column_watermark_text
from tidegate.core.units.state import unit_watermark_text
from tidegate.errors import RunStopped, TidegateError
from tidegate.observe import events
from tidegate.observe.logs import masked
from tidegate.protocol.position import Pace
from tidegate.reports.run import FailedFile, RunReport, SourceReport
from tidegate.runs.bound_source import (
    Clock,
    ColumnPlace,
    Place,
    Polls,
    UnitPlace,
    open_column_place,
    open_place,
    open_unit_place,
    utc_now,
)
from tidegate.runs.column_pass import ColumnPass
from tidegate.runs.engine import ColumnLane, Lane, UnitLane
from tidegate.runs.file_pass import SourcePass
from tidegate.runs.maintenance import care_if_due
from tidegate.runs.presence import Courtesy, at_work, settle_attempts
from tidegate.runs.reconcile import ScheduledReconciling
from tidegate.runs.source_report import finished, left_out, not_begun, rows_report, told_once, unknown_words
from tidegate.runs.staged import delivering
from tidegate.runs.unit_pass import Breaker, UnitPass
from tidegate.specs.columns import ColumnSource, HttpRead, JdbcRead
from tidegate.specs.masking import Mask
from tidegate.specs.project import PathSource, PipelineSpec, ProjectSpec, every_source
from tidegate.specs.units import FileRead, UnitSource

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextlib.contextmanager
def stops_on_signals(stop: threading.Event) -> Iterator[None]:
    """While inside, the first signal sets ``stop``; outside the main thread this does nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


Name = tuple[str, str]


@dataclass(slots=True)
class ColumnRunning:
    """The column sources of a project and how often each was polled."""

    project: ProjectSpec
    lane: Lane
    emit: events.Emit
    stop: threading.Event
    clock: Clock = utc_now
    pace: Pace | None = None
    courtesy: Courtesy = field(default_factory=Courtesy)
    _places: dict[Name, ColumnPlace] = field(default_factory=dict)
    _polls: Polls = field(default_factory=Polls)

    def once(self, pipeline: PipelineSpec, source: ColumnSource) -> SourceReport:
        """One pass; what stops it is in the report."""
        started = time.monotonic()
        name = (pipeline.name, source.name)
        carried: ColumnPass | None = None
        error: TidegateError | None = None
        try:
            place = self._place(pipeline, source)
            lane = cast("ColumnLane", self.lane)
            polls = self._polls.next(place.table_store, place.key)
            carried = ColumnPass(place, lane, emit=self.emit, stop=self.stop, clock=self.clock, polls=polls)
            with at_work(place.table_store, place.key, pipeline.conflict, self.emit, self.stop, self.courtesy) as free:
                if not free:
                    return left_out(name, time.monotonic() - started, self.emit)
                carried.run()
                care_if_due(pipeline, source.name, carried.opened, carried.totals.commits, self.emit, self.stop)
        except RunStopped as stopped:
            self.emit(events.Notice(*name, str(stopped)))
        except TidegateError as failure:
            error = Mask.around(self.project).error(failure)
            self.emit(events.SourceFailed(*name, told_once(name, failure)))
        report = self._told(name, carried, error, time.monotonic() - started)
        if carried is not None:
            settle_attempts(place, carried.is_first, carried.before, report, self.clock)
        return report

    def _place(self, pipeline: PipelineSpec, source: ColumnSource) -> ColumnPlace:
        name = (pipeline.name, source.name)
        if name not in self._places:
            self._places[name] = open_column_place(self.project, pipeline, source, self.emit, self.pace)
        return self._places[name]

    def _told(
        self, name: Name, carried: ColumnPass | None, error: TidegateError | None, seconds: float
    ) -> SourceReport:
        report = _report(name, carried, error, seconds)
        self.emit(finished(report, failed=error is not None))
        return report


def _report(name: Name, carried: ColumnPass | None, error: TidegateError | None, seconds: float) -> SourceReport:
    if carried is None:
        return not_begun(name, error, seconds)
    watermark, totals = column_watermark_text(carried.state), carried.totals
    report = rows_report(name, totals, watermark, error, seconds, is_first=carried.state is None)
    return replace(report, skipped=totals.skipped)


@dataclass(slots=True)
class UnitRunning:
    """The sources of work units of a project and how often each was polled."""

    project: ProjectSpec
    lane: Lane
    emit: events.Emit
    stop: threading.Event
    clock: Clock = utc_now
    pace: Pace | None = None
    accept_new_partitions: bool = False
    courtesy: Courtesy = field(default_factory=Courtesy)
    _places: dict[Name, UnitPlace] = field(default_factory=dict)
    _polls: Polls = field(default_factory=Polls)
    _breakers: dict[str, Breaker] = field(default_factory=dict)

    def once(self, pipeline: PipelineSpec, source: UnitSource) -> SourceReport:
        """One pass; what stops it is in the report."""
        started = time.monotonic()
        name = (pipeline.name, source.name)
        carried: UnitPass | None = None
        error: TidegateError | None = None
        try:
            place = self._place(pipeline, source)
            carried = UnitPass(
                place,
                cast("UnitLane", self.lane),
                emit=self.emit,
                stop=self.stop,
                clock=self.clock,
                polls=self._polls.next(place.table_store, place.key),
                breaker=self._breaker(source),
                accept_new_partitions=self.accept_new_partitions,
            )
            with at_work(place.table_store, place.key, pipeline.conflict, self.emit, self.stop, self.courtesy) as free:
                if not free:
                    return left_out(name, time.monotonic() - started, self.emit)
                carried.run()
                care_if_due(pipeline, source.name, carried.opened, carried.totals.commits, self.emit, self.stop)
        except RunStopped as stopped:
            self.emit(events.Notice(*name, str(stopped)))
        except TidegateError as failure:
            error = Mask.around(self.project).error(failure)
            self.emit(events.SourceFailed(*name, told_once(name, failure)))
        report = self._told(name, carried, error, time.monotonic() - started)
        if carried is not None:
            settle_attempts(place, carried.is_first, carried.before, report, self.clock, carried.unsaved)
        return report

    def begin(self) -> None:
        """A run begins: every server is asked again."""
        self._breakers.clear()

    def _breaker(self, source: UnitSource) -> Breaker:
        """One for all sources of a connection; a source without one has its own."""
        read = source.read.http if isinstance(source.read, FileRead) else source.read
        named = read.connection if isinstance(read, HttpRead | JdbcRead) else ""
        breaker = self._breakers.setdefault(named or source.uri, Breaker(source.work.breaker_failures))
        breaker.begin()
        return breaker

    def _place(self, pipeline: PipelineSpec, source: UnitSource) -> UnitPlace:
        name = (pipeline.name, source.name)
        if name not in self._places:
            self._places[name] = open_unit_place(self.project, pipeline, source, self.emit, self.pace)
        return self._places[name]

    def _told(self, name: Name, carried: UnitPass | None, error: TidegateError | None, seconds: float) -> SourceReport:
        report = _report_unit_running(name, carried, error, seconds)
        if report.unknown_fields:
            self.emit(events.Notice(*name, unknown_words(report.unknown_fields)))
        self.emit(finished(report, failed=error is not None))
        return report


def _report_unit_running(
    name: Name, carried: UnitPass | None, error: TidegateError | None, seconds: float
) -> SourceReport:
    if carried is None:
        return not_begun(name, error, seconds)
    watermark, totals = unit_watermark_text(carried.state), carried.totals
    return replace(
        rows_report(name, totals, watermark, error, seconds, is_first=carried.is_first),
        skipped=tuple(sorted(totals.skipped.items())),
        work_units=totals.units,
        failed_units=tuple(totals.failed),
        unknown_fields=dict(totals.unknown_fields.most_common()),
    )


@dataclass(slots=True)
class Running:
    """The sources of a project, whose turn it is, and what is kept of each from poll to poll.

    ``clock`` and ``pace`` are the time as plans and as commits see it, ``courtesy`` the time that runs of one source
    have for each other; experiments replace them.
    """

    project: ProjectSpec
    lane: Lane
    parallelism: int
    emit: events.Emit = events.ignore
    stop: threading.Event = field(default_factory=threading.Event)
    clock: Clock = utc_now
    pace: Pace | None = None
    accept_new_partitions: bool = False
    courtesy: Courtesy = field(default_factory=Courtesy)
    _polls: Polls = field(default_factory=Polls)
    _places: dict[Name, Place] = field(default_factory=dict)
    _passes: dict[Name, SourcePass] = field(default_factory=dict)
    _column_running: ColumnRunning | None = None
    _unit_running: UnitRunning | None = None

    def __post_init__(self) -> None:
        self.emit = masked(self.emit, Mask.around(self.project))

    def once(self, pipelines: Sequence[PipelineSpec]) -> RunReport:
        """One pass over every source; a source that fails does not keep the others from running."""
        started = time.monotonic()
        self._begin()
        reports = [
            self._pass(pipeline, source)
            for pipeline in pipelines
            for source in every_source(pipeline)
            if not self.stop.is_set()
        ]
        planned = sum(len(every_source(pipeline)) for pipeline in pipelines)
        complete = len(reports) == planned and not self.stop.is_set()
        return _report_running(reports, started, complete=complete)

    def continuously(self, pipelines: Sequence[PipelineSpec], jitter: Callable[[], float] = random.random) -> RunReport:
        """Poll every source at its interval until ``stop`` is set; the report adds up each source's passes."""
        started = time.monotonic()
        self.courtesy = replace(self.courtesy, waits=False)
        total: dict[Name, SourceReport] = {}
        sources = [(pipeline, source) for pipeline in pipelines for source in every_source(pipeline)]
        due = {(pipeline.name, source.name): 0.0 for pipeline, source in sources}
        comparing = ScheduledReconciling(
            self.project.reconcile,
            partial(self._compared, pipelines),
            self.lane,
            self.emit,
            self.stop,
            partial(self._compared_columns, pipelines),
        )
        while not self.stop.is_set():
            comparing.if_due()
            pipeline, source = min(sources, key=lambda pair: due[pair[0].name, pair[1].name])
            name = (pipeline.name, source.name)
            if self.stop.wait(max(0.0, due[name] - time.monotonic())):
                break
            self._begin()
            latest = self._pass(pipeline, source)
            total[name] = _added(total.get(name), latest)
            due[name] = time.monotonic() + source.poll_interval_secs + jitter() * self.project.poll_jitter_secs
        return _report_running(list(total.values()), started, complete=True)

    def _begin(self) -> None:
        """Servers that failed too often before are asked again."""
        if self._unit_running is not None:
            self._unit_running.begin()

    def _compared(self, pipelines: Sequence[PipelineSpec]) -> tuple[list[Place], list[Place]]:
        """Opened anew: the sources of these pipelines, and all that the configuration has."""
        names = {pipeline.name for pipeline in pipelines}
        every = [
            open_place(self.project, pipeline, source, self.parallelism, self.emit, self.pace)
            for pipeline in self.project.pipelines
            for source in pipeline.sources
        ]
        return [place for place in every if place.pipeline.name in names], every

    def _compared_columns(self, pipelines: Sequence[PipelineSpec]) -> list[ColumnPlace]:
        """The same of sources that are followed by columns, of these pipelines alone: nothing is removed here."""
        return [
            open_column_place(self.project, pipeline, source, self.emit, self.pace)
            for pipeline in pipelines
            for source in pipeline.column_sources
        ]

    def _pass(self, pipeline: PipelineSpec, source: PathSource | ColumnSource | UnitSource) -> SourceReport:
        if isinstance(source, ColumnSource):
            return self._columns().once(pipeline, source)
        if isinstance(source, UnitSource):
            return self._units().once(pipeline, source)
        return self._file_pass(pipeline, source)

    def _columns(self) -> ColumnRunning:
        """The sources that are followed by columns; made when there is one."""
        if self._column_running is None:
            self._column_running = ColumnRunning(
                self.project, self.lane, self.emit, self.stop, self.clock, self.pace, self.courtesy
            )
        return self._column_running

    def _units(self) -> UnitRunning:
        """The sources of work units; made when there is one."""
        if self._unit_running is None:
            self._unit_running = UnitRunning(
                self.project,
                self.lane,
                self.emit,
                self.stop,
                self.clock,
                self.pace,
                self.accept_new_partitions,
                self.courtesy,
            )
        return self._unit_running

    def _file_pass(self, pipeline: PipelineSpec, source: PathSource) -> SourceReport:
        started = time.monotonic()
        name = (pipeline.name, source.name)
        carried: SourcePass | None = None
        error: TidegateError | None = None
        before = self._passes.pop(name, None)
        try:
            place = self._place(pipeline, source)
            polls = self._polls.next(place.table_store, place.key)
            carried = SourcePass(
                place,
                self.lane,
                emit=self.emit,
                stop=self.stop,
                clock=self.clock,
                polls=polls,
                slots=self._slots(place),
                since=before,
            )
            with at_work(place.table_store, place.key, pipeline.conflict, self.emit, self.stop, self.courtesy) as free:
                if not free:
                    return left_out(name, time.monotonic() - started, self.emit)
                carried.run()
                self._passes[name] = carried
                care_if_due(pipeline, source.name, carried.opened, carried.totals.commits, self.emit, self.stop)
        except RunStopped as stopped:
            self.emit(events.Notice(*name, str(stopped)))
        except TidegateError as failure:
            error = Mask.around(self.project).error(failure)
            self.emit(events.SourceFailed(*name, told_once(name, failure)))
        report = self._told(name, carried, error, time.monotonic() - started)
        if carried is not None:
            settle_attempts(place, carried.is_first, carried.before, report, self.clock)
        return report

    def _place(self, pipeline: PipelineSpec, source: PathSource) -> Place:
        name = (pipeline.name, source.name)
        if name not in self._places:
            place = open_place(self.project, pipeline, source, self.parallelism, self.emit, self.pace)
            self._places[name] = delivering(place)
        return self._places[name]

    def _slots(self, place: Place) -> int | None:
        """How many tasks may run at once, where the configuration limits them below what Spark offers."""
        limits = [limit for limit in (place.pipeline.max_concurrent_files, self.project.total_concurrency) if limit]
        return min(limits) if limits and min(limits) < place.parallelism else None

    def _told(
        self, name: Name, carried: SourcePass | None, error: TidegateError | None, seconds: float
    ) -> SourceReport:
        report = _source_report(name, carried, error, seconds)
        if carried is not None and carried.totals.unknown_fields:
            rescued = self.project.pipeline(name[0]).schema.rescued
            self.emit(events.Notice(*name, unknown_words(carried.totals.unknown_fields, rescued)))
        files = 0 if carried is None else carried.state_files
        self.emit(finished(report, failed=error is not None, state_files=files))
        return report


def _source_report(name: Name, carried: SourcePass | None, error: TidegateError | None, seconds: float) -> SourceReport:
    nothing = not_begun(name, error, seconds)
    if carried is None:
        return nothing
    totals = carried.totals
    return replace(
        nothing,
        state=type(carried.state.watermark).__name__,
        watermark=carried.state.value,
        files=totals.files,
        bytes=totals.bytes,
        rows=totals.rows,
        commits=totals.commits,
        staged=totals.staged,
        failed=tuple(FailedFile(path, each.reason, each.attempts) for path, each in carried.failed),
        skipped=totals.skipped,
        table_version=totals.table_version,
        bad_records=totals.bad_records,
        dead_files=totals.dead_files,
        unknown_fields=dict(Counter(totals.unknown_fields).most_common()),
    )


def _added(before: SourceReport | None, latest: SourceReport) -> SourceReport:
    """The latest pass, with the work of all passes so far."""
    if before is None:
        return latest
    return replace(
        latest,
        files=before.files + latest.files,
        bytes=before.bytes + latest.bytes,
        rows=before.rows + latest.rows,
        commits=before.commits + latest.commits,
        staged=before.staged + latest.staged,
        bad_records=before.bad_records + latest.bad_records,
        dead_files=before.dead_files + latest.dead_files,
        unknown_fields=dict(Counter(before.unknown_fields) + Counter(latest.unknown_fields)),
        work_units=before.work_units + latest.work_units,
        seconds=before.seconds + latest.seconds,
    )


def _report_running(reports: Sequence[SourceReport], started: float, *, complete: bool) -> RunReport:
    ok = complete and all(map(_is_well, reports))
    return RunReport(tuple(reports), ok, time.monotonic() - started)


def _is_well(report: SourceReport) -> bool:
    return report.error is None and not (report.failed or report.failed_units or report.dead_files)
