"""Passes over sources of work units within a run, with what is kept of each from poll to poll."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace
from typing import cast

from tidegate.column_specs import HttpRead, JdbcRead
from tidegate.errors import RunStopped, TidegateError
from tidegate.masking import Mask
from tidegate.observe import events
from tidegate.reports import SourceReport
from tidegate.runs.due_care import care_if_due
from tidegate.runs.first_attempts import settle_attempts
from tidegate.runs.lanes import Lane
from tidegate.runs.place import Clock, utc_now
from tidegate.runs.polls import Polls
from tidegate.runs.presence import Courtesy, at_work
from tidegate.runs.telling import finished, left_out, not_begun, rows_report, told_once, unknown_words
from tidegate.runs.unit_lane import UnitLane
from tidegate.runs.unit_pass import UnitPass
from tidegate.runs.unit_place import UnitPlace, open_unit_place
from tidegate.runs.unit_waves import Breaker
from tidegate.specs import PipelineSpec, ProjectSpec
from tidegate.state.pace import Pace
from tidegate.unit_specs import FileRead, UnitSource
from tidegate.watermarks.unit_state import watermark_text

Name = tuple[str, str]


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
        report = _report(name, carried, error, seconds)
        if report.unknown_fields:
            self.emit(events.Notice(*name, unknown_words(report.unknown_fields)))
        self.emit(finished(report, failed=error is not None))
        return report


def _report(name: Name, carried: UnitPass | None, error: TidegateError | None, seconds: float) -> SourceReport:
    if carried is None:
        return not_begun(name, error, seconds)
    watermark, totals = watermark_text(carried.state), carried.totals
    return replace(
        rows_report(name, totals, watermark, error, seconds, is_first=carried.is_first),
        skipped=tuple(sorted(totals.skipped.items())),
        work_units=totals.units,
        failed_units=tuple(totals.failed),
        unknown_fields=dict(totals.unknown_fields.most_common()),
    )
