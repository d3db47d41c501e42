"""Runs pipelines: every source once, or again and again until told to stop."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from tidegate.column_specs import ColumnSource
from tidegate.errors import RunStopped, TidegateError
from tidegate.masking import Mask
from tidegate.observe import events
from tidegate.observe.fanning import masked
from tidegate.reports import FailedFile, RunReport, SourceReport
from tidegate.runs.due_care import care_if_due
from tidegate.runs.first_attempts import settle_attempts
from tidegate.runs.lanes import Lane
from tidegate.runs.place import Clock, Place, open_place, utc_now
from tidegate.runs.polls import Polls
from tidegate.runs.presence import Courtesy, at_work
from tidegate.runs.scheduled_reconciling import ScheduledReconciling
from tidegate.runs.source_pass import SourcePass
from tidegate.runs.staged_positions import delivering
from tidegate.runs.telling import finished, left_out, not_begun, told_once, unknown_words
from tidegate.specs import PathSource, PipelineSpec, ProjectSpec, every_source
from tidegate.state.pace import Pace
from tidegate.unit_specs import UnitSource

if TYPE_CHECKING:
    from tidegate.runs.column_place import ColumnPlace
    from tidegate.runs.column_running import ColumnRunning
    from tidegate.runs.unit_running import UnitRunning

Name = tuple[str, str]


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
        return _report(reports, started, complete=complete)

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
        return _report(list(total.values()), started, complete=True)

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
        from tidegate.runs.column_place import open_column_place

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
        from tidegate.runs.column_running import ColumnRunning

        if self._column_running is None:
            self._column_running = ColumnRunning(
                self.project, self.lane, self.emit, self.stop, self.clock, self.pace, self.courtesy
            )
        return self._column_running

    def _units(self) -> UnitRunning:
        """The sources of work units; made when there is one."""
        from tidegate.runs.unit_running import UnitRunning

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


def _report(reports: Sequence[SourceReport], started: float, *, complete: bool) -> RunReport:
    ok = complete and all(map(_is_well, reports))
    return RunReport(tuple(reports), ok, time.monotonic() - started)


def _is_well(report: SourceReport) -> bool:
    return report.error is None and not (report.failed or report.failed_units or report.dead_files)
