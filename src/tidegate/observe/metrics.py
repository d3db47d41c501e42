"""All metrics, and the listener on the event stream that counts.

All of them have the labels ``pipeline`` and ``source``.

Every series of a source exists from the start, with zeros, so that a rate over it is right from its first change. Only
moments, and what nobody told yet, are absent until they are known: the age of a zero would be half a century.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from tidegate.core.health import HealthLevel, Outcome
from tidegate.observe import events
from tidegate.observe.events import Event
from tidegate.reports.wording import ROW_CHANGES

PREFIX = "tidegate_"
COMMON_LABELS = ("pipeline", "source")

Labels = tuple[str, ...]
Name = tuple[str, str]

FILE_STATUSES = ("finished", "refused", "changed", "dead")
STATES = ("Initial", "Active", "Idle", "Empty", "Unknown")
OUTCOMES = ("committed", "lost", "unknown", "failed")
BAD_KINDS = ("not_json", "not_csv", "missing", "wrong_type", "lossy", "repeated_key", "other")
LEFT_OUT = ("null_watermark", "future", "outside_range")
CARE_OPERATIONS = ("optimize", "vacuum", "clean_log")
HEALTH_LEVELS = tuple(each.value for each in HealthLevel)
RUN_OUTCOMES = tuple(each.value for each in Outcome)
RETRIED = ("file", "work_unit", "commit")
STEPS = ("list", "read", "commit", "run")


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; ``values`` are those of its own label ``label``, exported from the start.

    One that is not ``known`` from the start has no series until somebody tells it.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    label: str = ""
    values: tuple[str, ...] = ()
    known: bool = True

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of its labels, in order."""
        return (*COMMON_LABELS, self.label) if self.label else COMMON_LABELS

    def series_of(self, name: Name) -> list[Labels]:
        """The labels of all series of a source."""
        return [(*name, value) for value in self.values] if self.label else [name]


def _moment(name: str, what: str) -> Metric:
    return Metric(name, "gauge", f"When {what}, in seconds since 1970; absent if never.", known=False)


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
    Metric("source_health", "gauge", "1 for the health of the source.", "health", HEALTH_LEVELS),
    _moment("last_run_timestamp_seconds", "the last run of the source ended"),
    _moment("last_success_timestamp_seconds", "a run of the source last succeeded"),
    _moment("last_data_timestamp_seconds", "a run last brought new data"),
    _moment("last_commit_timestamp_seconds", "something of the source was last committed"),
    Metric("expect_every_seconds", "gauge", "How often new data must come; absent without expect_every.", known=False),
    Metric("dead_letters_open", "gauge", "Dead letters that are neither retried nor discarded.", known=False),
    Metric("runs_total", "counter", "Runs of the source, by how they ended.", "outcome", RUN_OUTCOMES),
    Metric("retries_total", "counter", "Failures after which it is tried again, by what failed.", "what", RETRIED),
    Metric("step_duration_seconds", "histogram", "Time of each step of a run, and of the whole.", "step", STEPS),
    Metric("table_care_total", "counter", "Times that the table was cared for.", "operation", CARE_OPERATIONS),
    Metric("table_care_failed_total", "counter", "Times that this failed.", "operation", CARE_OPERATIONS),
)

BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
"""Upper bounds of the histograms, in seconds."""

BY_NAME = {metric.name: metric for metric in METRICS}


def find_series(key: str, name: Name) -> tuple[Metric, Labels] | None:
    """The series that is recorded as ``key``, such as ``runs_total.failed``; None for one of another release.

    >>> found = find_series("runs_total.failed", ("events", "asia"))
    >>> found and (found[0].name, found[1])
    ('runs_total', ('events', 'asia', 'failed'))
    """
    base, _, value = key.partition(".")
    metric = BY_NAME.get(base)
    labels = (*name, value) if value else name
    return None if metric is None or labels not in metric.series_of(name) else (metric, labels)


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
        """Create every series of a source that is known from the start, with zeros."""
        for metric in METRICS:
            for labels in metric.series_of(name) if metric.known else ():
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
        self.put_one("watermark_state", name, state)

    def put_one(self, metric: str, name: Name, chosen: str) -> None:
        """Set a gauge to 1 for one value of its label, and to 0 for the others."""
        for each in BY_NAME[metric].values:
            self.put(metric, (*name, each), float(each == chosen))

    def put_moment(self, metric: str, name: Name, moment: datetime | None) -> None:
        """Set the time of something, if it is known."""
        if moment is not None:
            self.put(metric, name, moment.timestamp())

    def put_counts(self, name: Name, counts: Mapping[str, float]) -> None:
        """Set every counter of a source, to 0 where ``counts`` have none."""
        for metric in METRICS:
            for labels in metric.series_of(name) if metric.kind == "counter" else ():
                self.put(metric.name, labels, 0.0)
        for key, number in counts.items():
            found = find_series(key, name)
            if found is not None and found[0].kind == "counter":
                self.put(found[0].name, found[1], number)

    def counts(self, name: Name) -> dict[str, float]:
        """The counters of a source that are not 0, as they are recorded."""
        found = {
            ".".join((metric.name, *labels[len(name) :])): self.values[metric.name].get(labels, 0.0)
            for metric in METRICS
            if metric.kind == "counter"
            for labels in metric.series_of(name)
        }
        return {key: number for key, number in found.items() if number}

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
    committed: bool = False
    taken: Mapping[str, float] = field(default_factory=dict)


class Metrics:
    """Counts the events of a run; ``families`` are the current numbers. Thread-safe.

    ``expected`` says how often a source must bring new data, where that is known.
    """

    def __init__(
        self,
        sources: Iterable[Name] = (),
        clock: Callable[[], float] = time.time,
        expected: Mapping[Name, timedelta] | None = None,
    ) -> None:
        self._clock = clock
        # Reentrant: a signal handler may emit on the thread that is emitting already.
        self._lock = threading.RLock()
        self._series = Series()
        self._sources: dict[Name, _Source] = {}
        for name in sources:
            self._source(name)
        for name, every in (expected or {}).items():
            self._series.put("expect_every_seconds", name, every.total_seconds())

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

    def take_counts(self, name: Name) -> dict[str, float]:
        """What the counters of a source have grown by since this was last asked, as it is recorded.

        Without its runs: these are counted when they are over, and what they brought is recorded before.
        """
        with self._lock:
            source = self._source(name)
            before, source.taken = source.taken, self._series.counts(name)
            grown = {key: number - before.get(key, 0.0) for key, number in source.taken.items()}
        return {key: number for key, number in grown.items() if number and not key.startswith("runs_total.")}

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
                self._time("list", name, event.seconds)
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
                series.add("retries_total", (*name, "file"), float(event.will_retry))
            case events.FileChanged():
                series.add("files_processed_total", (*name, "changed"))
            case events.RowsLeftOut():
                series.add("rows_left_out_total", (*name, event.reason.partition(" ")[0]), event.count)
            case events.WorkUnitsPlanned():
                series.put("work_units_open", name, event.units)
                series.put("work_units_failed", name, 0)
            case events.WorkUnitFailed(outcome="failed"):
                series.add("work_units_failed", name)
                series.add("retries_total", (*name, "work_unit"))
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
        self._time("read", name, event.seconds)

    def _time(self, step: str, name: Name, seconds: float) -> None:
        self._series.durations["step_duration_seconds"][(*name, step)].add(seconds)

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
                self._time("commit", name, event.seconds)
                source.committed = True
                series.put("last_commit_timestamp_seconds", name, self._clock())
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
                series.add("retries_total", (*name, "commit"))
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
        self._note_run(event, name, source)
        # A task that was killed never reports the end of its uploads.
        self._series.put("active_uploads", name, 0)
        self._series.put("active_multipart_parts", name, 0)

    def _note_run(self, event: events.SourceFinished, name: Name, source: _Source) -> None:
        series = self._series
        # A source that was left to another run has none.
        if event.outcome not in RUN_OUTCOMES:
            return
        series.add("runs_total", (*name, event.outcome))
        self._time("run", name, event.seconds)
        series.put("last_run_timestamp_seconds", name, self._clock())
        series.put_moment("last_success_timestamp_seconds", name, event.last_success_at)
        series.put_moment("last_data_timestamp_seconds", name, event.last_data_at)
        if not source.committed:
            # This process has seen no commit yet; the last run that brought data made one.
            series.put_moment("last_commit_timestamp_seconds", name, event.last_data_at)
        if event.open_letters is not None:
            series.put("dead_letters_open", name, event.open_letters)
