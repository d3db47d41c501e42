"""The metrics of a process: a listener on the event stream that adds up numbers. Knows nothing of how they are served.

Every series of a source is there from the start, with zeros, so that a rate over it is right from its first change.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from tidegate.observe import events
from tidegate.observe.events import Event
from tidegate.observe.metric_names import BAD_KINDS, BUCKETS, METRICS, STATES, Metric

Labels = tuple[str, ...]
Name = tuple[str, str]
KINDS = {metric.name: metric for metric in METRICS}


@dataclass(slots=True)
class Durations:
    """A histogram: how many values lie at or below each bound, and their sum."""

    counts: list[int] = field(default_factory=lambda: [0] * len(BUCKETS))
    total: int = 0
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        """One more value."""
        self.total += 1
        self.seconds += seconds
        for number, bound in enumerate(BUCKETS):
            if seconds <= bound:
                self.counts[number] += 1

    def copy(self) -> Durations:
        """The same numbers, which do not change any more."""
        return Durations(list(self.counts), self.total, self.seconds)


@dataclass(frozen=True, slots=True)
class Family:
    """One metric with all its series as they stand."""

    metric: Metric
    values: dict[Labels, float] = field(default_factory=dict)
    durations: dict[Labels, Durations] = field(default_factory=dict)


class Series:
    """Numbers by metric and labels."""

    def __init__(self) -> None:
        self.values: dict[str, dict[Labels, float]] = {metric.name: {} for metric in METRICS}
        self.durations: dict[str, dict[Labels, Durations]] = {
            metric.name: {} for metric in METRICS if metric.kind == "histogram"
        }

    def begin(self, name: Name) -> None:
        """Every series of a source, with zeros."""
        for metric in METRICS:
            for labels in [(*name, value) for value in metric.values] if metric.label else [name]:
                if metric.kind == "histogram":
                    self.durations[metric.name].setdefault(labels, Durations())
                else:
                    self.values[metric.name].setdefault(labels, 0.0)

    def add(self, metric: str, labels: Labels, amount: float = 1.0) -> None:
        """Count up."""
        series = self.values[metric]
        series[labels] = series.get(labels, 0.0) + amount

    def put(self, metric: str, labels: Labels, value: float) -> None:
        """Say how it stands."""
        self.values[metric][labels] = value

    def put_state(self, name: Name, state: str) -> None:
        """Say which state a source is in."""
        for each in STATES:
            self.put("watermark_state", (*name, each), float(each == state))

    def families(self) -> Iterator[Family]:
        """All metrics as they stand now."""
        for metric in METRICS:
            durations = {labels: each.copy() for labels, each in self.durations.get(metric.name, {}).items()}
            yield Family(metric, dict(self.values[metric.name]), durations)


@dataclass(slots=True)
class _Source:
    """What the lag of a source is made of; ``level_at`` is when it had nothing left to read, or last committed."""

    level_at: float
    backlog_files: int = 0
    backlog_bytes: int = 0
    failing: bool = False
    waves: int = 0


class Metrics:
    """Listens to a run; ``families`` are the numbers as they stand. Safe to use from several threads."""

    def __init__(self, sources: Iterable[Name] = (), clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._series = Series()
        self._sources: dict[Name, _Source] = {}
        for name in sources:
            self._source(name)

    def __call__(self, event: Event) -> None:
        if not event.source:
            return
        with self._lock:
            name = (event.pipeline, event.source)
            source = self._source(name)
            self._count_reading(event, name, source)
            self._count_results(event, name, source)
            self._count_care(event, name)

    def families(self) -> list[Family]:
        """Every metric, with the lag as of now."""
        with self._lock:
            for name, source in self._sources.items():
                behind = source.backlog_files > 0 or source.failing
                lag = max(self._clock() - source.level_at, 0.0) if behind else 0.0
                self._series.put("watermark_lag_seconds", name, lag)
                self._series.put("backlog_files", name, source.backlog_files)
                self._series.put("backlog_bytes", name, source.backlog_bytes)
            return list(self._series.families())

    def _source(self, name: Name) -> _Source:
        if name not in self._sources:
            self._sources[name] = _Source(self._clock())
            self._series.begin(name)
            self._series.put_state(name, "Unknown")
        return self._sources[name]

    def _count_reading(self, event: Event, name: Name, source: _Source) -> None:
        series = self._series
        match event:
            case events.PollStarted():
                source.waves = 0
                if event.table_version >= 0:
                    series.put("delta_table_version", name, event.table_version)
            case events.Listed():
                series.add("files_discovered_total", name, event.new_files)
                series.add("list_requests_total", name, event.list_requests)
                series.add("listed_keys_total", name, event.listed_keys)
                if source.backlog_files == 0:
                    source.level_at = self._clock()
                source.backlog_files, source.backlog_bytes = event.new_files, event.new_bytes
            case events.LateFilesFound():
                series.add("late_files_total", name, event.count)
            case events.WaveFinished():
                source.waves += 1
                self._count_files(event, name)
            case events.FileRefused():
                series.add("files_processed_total", (*name, "refused"))
            case events.FileChanged():
                series.add("files_processed_total", (*name, "changed"))
            case events.RowsLeftOut():
                series.add("rows_left_out_total", (*name, event.reason.partition(" ")[0]), event.count)
            case events.WorkUnitsPlanned():
                series.put("work_units_open", name, event.units)
                series.put("work_units_failed", name, 0)
            case events.WorkUnitFailed(outcome="failed"):
                series.add("work_units_failed", name)
            case events.WorkUnitsFinished():
                series.put("work_units_open", name, max(event.planned - event.done, 0))
            case events.DuplicatesRefused():
                series.add("duplicates_refused_total", name, event.count)
            case _:
                pass

    def _count_files(self, event: events.WaveFinished, name: Name) -> None:
        series = self._series
        series.add("bytes_written_total", name, event.bytes_written)
        series.add("staging_file_written_total", name, event.data_files)
        series.add("multipart_uploads_total", name, event.multipart_uploads)
        series.put("active_uploads", name, event.most_uploads)
        series.put("active_multipart_parts", name, event.most_parts)
        for seconds in event.write_seconds:
            series.durations["parquet_write_duration_seconds"][name].add(seconds)

    def _count_results(self, event: Event, name: Name, source: _Source) -> None:
        series = self._series
        match event:
            case events.Committed():
                source.level_at = self._clock()
                source.backlog_files = max(source.backlog_files - event.finished_files, 0)
                source.backlog_bytes = max(source.backlog_bytes - event.finished_bytes, 0)
                series.add("records_processed_total", name, event.rows)
                series.add("files_processed_total", (*name, "finished"), event.finished_files)
                series.add("commit_outcomes_total", (*name, "committed"))
                series.durations["commit_duration_seconds"][name].add(event.seconds)
                series.put("delta_table_version", name, event.table_version)
            case events.DeadLetters():
                series.add("files_processed_total", (*name, "dead"), event.files)
                for kind, count in (event.kinds or {"other": event.records}).items():
                    series.add("bad_records_total", (*name, kind if kind in BAD_KINDS else "other"), count)
            case events.CommitContested():
                series.add("commit_outcomes_total", (*name, "lost"))
            case events.CommitFailed():
                series.add("commit_outcomes_total", (*name, event.outcome))
            case events.WatermarkStateChanged():
                series.put_state(name, event.after)
            case events.SourceFailed():
                source.failing = True
            case events.SourceFinished():
                self._finish(event, name, source)
            case _:
                pass

    def _finish(self, event: events.SourceFinished, name: Name, source: _Source) -> None:
        source.failing = event.failed
        if not source.backlog_files and not event.failed:
            source.level_at = self._clock()
        if event.state in STATES:
            self._series.put_state(name, event.state)
        if not event.failed:
            self._series.put("source_state_files", name, event.state_files)
        if not source.waves:
            self._series.put("active_uploads", name, 0)
            self._series.put("active_multipart_parts", name, 0)

    def _count_care(self, event: Event, name: Name) -> None:
        match event:
            case events.TableCared():
                self._series.add("table_care_total", (*name, event.operation))
            case events.TableCareFailed():
                self._series.add("table_care_failed_total", (*name, event.operation))
            case _:
                pass
