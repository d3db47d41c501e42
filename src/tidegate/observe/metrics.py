"""All metrics, and the listener on the event stream that counts.

All of them have the labels ``pipeline`` and ``source``.

Every series of a source exists from the start, with zeros, so that a rate over it is right from its first change.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Literal

from tidegate.observe import events
from tidegate.observe.events import Event
from tidegate.reports.wording import ROW_CHANGES

PREFIX = "tidegate_"
COMMON_LABELS = ("pipeline", "source")

FILE_STATUSES = ("finished", "refused", "changed", "dead")
STATES = ("Initial", "Active", "Idle", "Empty", "Unknown")
OUTCOMES = ("committed", "lost", "unknown", "failed")
BAD_KINDS = ("not_json", "not_csv", "missing", "wrong_type", "lossy", "repeated_key", "other")
LEFT_OUT = ("null_watermark", "future", "outside_range")
CARE_OPERATIONS = ("optimize", "vacuum", "clean_log")


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; ``values`` are those of its own label ``label``, exported from the start."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    label: str = ""
    values: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of its labels, in order."""
        return (*COMMON_LABELS, self.label) if self.label else COMMON_LABELS


METRICS = (
    Metric("bytes_written_total", "counter", "Bytes of finished Parquet files."),
    Metric("parquet_write_duration_seconds", "histogram", "Time to encode and write a Parquet file."),
    Metric("staging_file_written_total", "counter", "Parquet files written, before they are committed."),
    Metric("active_uploads", "gauge", "Files that tasks are uploading now."),
    Metric("active_multipart_parts", "gauge", "Parts of files that tasks are sending now."),
    Metric("multipart_uploads_total", "counter", "Files that were uploaded in parts."),
    Metric("source_state_files", "gauge", "Files that the recorded state names one by one."),
    Metric("files_discovered_total", "counter", "New files found by listings; again if they were not finished."),
    Metric("files_processed_total", "counter", "Files, by what became of them.", "status", FILE_STATUSES),
    Metric("records_processed_total", "counter", "Rows committed to the table."),
    Metric("bytes_read_total", "counter", "Bytes of source files that were read to their end and committed."),
    Metric("row_changes_total", "counter", "Rows, by what commits did to them.", "change", ROW_CHANGES),
    Metric("bad_records_total", "counter", "Lines that became dead letters, by kind.", "reason", BAD_KINDS),
    Metric("rows_left_out_total", "counter", "Rows that were read and not taken.", "reason", LEFT_OUT),
    Metric("list_requests_total", "counter", "LIST requests sent to the source."),
    Metric("listed_keys_total", "counter", "Names that the source listed."),
    Metric("late_files_total", "counter", "Files found below the watermark of their partition."),
    Metric("duplicates_refused_total", "counter", "Files and units that were offered again and not taken."),
    Metric("watermark_state", "gauge", "1 for the state the source is in.", "state", STATES),
    Metric("source_empty", "gauge", "1 if there is no file at the location of the source at all, else 0."),
    Metric("watermark_lag_seconds", "gauge", "How long the source is behind; 0 when it has read everything."),
    Metric("backlog_files", "gauge", "New files that are not committed yet."),
    Metric("backlog_bytes", "gauge", "Bytes of new files that are not committed yet."),
    Metric("work_units_open", "gauge", "Work units that are to be carried out."),
    Metric("work_units_failed", "gauge", "Work units that failed when they were tried last."),
    Metric("commit_duration_seconds", "histogram", "Time from the first look at the table until the commit is sure."),
    Metric("commit_outcomes_total", "counter", "Commits, by how they ended.", "outcome", OUTCOMES),
    Metric("delta_table_version", "gauge", "The newest version of the table that was seen."),
    Metric("source_healthy", "gauge", "1 if /health calls the source healthy, else 0."),
    Metric("table_care_total", "counter", "Times that the table was cared for.", "operation", CARE_OPERATIONS),
    Metric("table_care_failed_total", "counter", "Times that this failed.", "operation", CARE_OPERATIONS),
)

BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
"""Upper bounds of the histograms, in seconds."""


Labels = tuple[str, ...]
Name = tuple[str, str]


@dataclass(slots=True)
class Durations:
    """A histogram: the number of values at or below each bound, and their sum."""

    counts: list[int] = field(default_factory=lambda: [0] * len(BUCKETS))
    total: int = 0
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        """Add one value."""
        self.total += 1
        self.seconds += seconds
        for number, bound in enumerate(BUCKETS):
            if seconds <= bound:
                self.counts[number] += 1


@dataclass(frozen=True, slots=True)
class Family:
    """One metric with all its current series."""

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
        """Create every series of a source, with zeros."""
        for metric in METRICS:
            for labels in [(*name, value) for value in metric.values] if metric.label else [name]:
                if metric.kind == "histogram":
                    self.durations[metric.name].setdefault(labels, Durations())
                else:
                    self.values[metric.name].setdefault(labels, 0.0)

    def add(self, metric: str, labels: Labels, amount: float = 1.0) -> None:
        """Increase a counter."""
        series = self.values[metric]
        series[labels] = series.get(labels, 0.0) + amount

    def put(self, metric: str, labels: Labels, value: float) -> None:
        """Set a gauge."""
        self.values[metric][labels] = value

    def put_state(self, name: Name, state: str) -> None:
        """Set the state of a source."""
        for each in STATES:
            self.put("watermark_state", (*name, each), float(each == state))

    def families(self) -> Iterator[Family]:
        """All metrics with their current values."""
        for metric in METRICS:
            durations = {labels: deepcopy(each) for labels, each in self.durations.get(metric.name, {}).items()}
            yield Family(metric, dict(self.values[metric.name]), durations)


@dataclass(slots=True)
class _Source:
    """What the lag of a source depends on; ``level_at`` is when it last had nothing to read, or committed."""

    level_at: float
    backlog_files: int = 0
    backlog_bytes: int = 0
    failing: bool = False
    future_seals: bool = False


class Metrics:
    """Counts the events of a run; ``families`` are the current numbers. Thread-safe."""

    def __init__(self, sources: Iterable[Name] = (), clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._series = Series()
        self._sources: dict[Name, _Source] = {}
        for name in sources:
            self._source(name)

    def __call__(self, event: Event) -> None:
        # Events about a table or the session belong to no source, and a series without labels would stay for ever.
        if not event.source:
            return
        with self._lock:
            name = (event.pipeline, event.source)
            source = self._source(name)
            self._count_reading(event, name, source)
            self._count_results(event, name, source)

    def families(self) -> list[Family]:
        """Every metric, with the current lag."""
        with self._lock:
            for name, source in self._sources.items():
                behind = source.backlog_files > 0 or source.failing or source.future_seals
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
                if event.table_version >= 0:
                    series.put("delta_table_version", name, event.table_version)
            case events.Listed():
                series.add("files_discovered_total", name, event.new_files)
                series.add("list_requests_total", name, event.list_requests)
                series.add("listed_keys_total", name, event.listed_keys)
                if source.backlog_files == 0 and not source.future_seals:
                    source.level_at = self._clock()
                # Found again by every plan, as long as it is there.
                source.future_seals = False
                source.backlog_files, source.backlog_bytes = event.new_files, event.new_bytes
            case events.FutureSealFound():
                source.future_seals = True
            case events.LateFilesFound():
                series.add("late_files_total", name, event.count)
            case events.WaveFinished():
                self._count_files(event, name)
            case events.UploadsChanged():
                series.put("active_uploads", name, event.files)
                series.put("active_multipart_parts", name, event.parts)
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
                series.add("bytes_read_total", name, event.finished_bytes)
                for change in ROW_CHANGES:
                    series.add("row_changes_total", (*name, change), getattr(event, change) or 0)
                series.add("files_processed_total", (*name, "finished"), event.finished_files)
                series.add("commit_outcomes_total", (*name, "committed"))
                series.durations["commit_duration_seconds"][name].add(event.seconds)
                series.put("delta_table_version", name, event.table_version)
            case events.RowsUnchanged():
                series.add("row_changes_total", (*name, "unchanged"), event.rows)
            case events.DeadLetters():
                series.add("files_processed_total", (*name, "dead"), event.files)
                for kind, count in (event.kinds or {"other": event.records}).items():
                    # Label values are a fixed list: a new one for every odd reason would make series without end.
                    series.add("bad_records_total", (*name, kind if kind in BAD_KINDS else "other"), count)
            case events.CommitContested():
                series.add("commit_outcomes_total", (*name, "lost"))
            case events.CommitFailed():
                series.add("commit_outcomes_total", (*name, event.outcome))
            case events.TableCared():
                series.add("table_care_total", (*name, event.operation))
            case events.TableCareFailed():
                series.add("table_care_failed_total", (*name, event.operation))
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
        if not source.backlog_files and not event.failed and not source.future_seals:
            source.level_at = self._clock()
        if event.state in STATES:
            self._series.put_state(name, event.state)
        if not event.failed:
            self._series.put("source_state_files", name, event.state_files)
            self._series.put("source_empty", name, float(event.empty))
        # A task that was killed never reports the end of its uploads.
        self._series.put("active_uploads", name, 0)
        self._series.put("active_multipart_parts", name, 0)
