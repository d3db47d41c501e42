"""Passes over column sources within a run, with what is kept of each from poll to poll."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace
from typing import cast

from tidegate.column_specs import ColumnSource
from tidegate.errors import RunStopped, TidegateError
from tidegate.masking import Mask
from tidegate.observe import events
from tidegate.reports import SourceReport
from tidegate.runs.column_lane import ColumnLane
from tidegate.runs.column_looking import watermark_text
from tidegate.runs.column_pass import ColumnPass
from tidegate.runs.column_place import ColumnPlace, open_column_place
from tidegate.runs.due_care import care_if_due
from tidegate.runs.first_attempts import settle_attempts
from tidegate.runs.lanes import Lane
from tidegate.runs.place import Clock, utc_now
from tidegate.runs.polls import Polls
from tidegate.runs.presence import Courtesy, at_work
from tidegate.runs.telling import finished, left_out, not_begun, rows_report, told_once
from tidegate.specs import PipelineSpec, ProjectSpec
from tidegate.state.pace import Pace

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
    watermark, totals = watermark_text(carried.state), carried.totals
    report = rows_report(name, totals, watermark, error, seconds, is_first=carried.state is None)
    return replace(report, skipped=totals.skipped)
