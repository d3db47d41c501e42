"""The listener on the event stream that knows whether sources are healthy.

A source is healthy if its last pass read everything it could, and if it shows signs of life: it is silent no longer
than ``MISSED_INTERVALS`` of its poll interval, but at least ``PATIENCE_SECS``. A source that cannot be read, or has
unreadable files or failed work units, is unhealthy until a pass ends without these. While Spark reads and loads the
rows of a column source, or a source waits for another run, silence is normal.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tidegate.core.health import EMPTIED, TOLERATED_DEAD_LETTERS, Evidence, Health, HealthLevel, Outcome, judge
from tidegate.observe import events
from tidegate.observe.events import Event
from tidegate.observe.metrics import Family, Name, Series
from tidegate.reports.report import to_json
from tidegate.reports.wording import duration

FINE = Health(HealthLevel.HEALTHY)

MISSED_INTERVALS = 3
# A source polled every second may take minutes for a large file without an event.
PATIENCE_SECS = 300.0

_BEGUN = (events.WaveStarted, events.ReadFixed, events.Committed, events.SourceFinished, events.CommitterLooked)

_IN_BETWEEN = (events.Notice, events.RowsLeftOut, events.SessionStarting)
"""Events that do not show what a source is doing."""


@dataclass(frozen=True, slots=True)
class SourceHealth:
    """The health of one source; ``reason`` is empty if it is healthy, ``last_pass`` None before the first one ended.

    ``empty``: its location had no file at all, which is not unhealthy: many people clean up behind Tidegate.
    """

    pipeline: str
    source: str
    reason: str = ""
    last_pass: datetime | None = None
    empty: bool = False
    health: Health = FINE
    last_success_at: datetime | None = None
    last_commit_at: datetime | None = None

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong."""
        return not self.reason

    def to_json(self) -> dict[str, Any]:
        """The entry of ``/health``."""
        return {
            "pipeline": self.pipeline,
            "source": self.source,
            "healthy": self.healthy,
            "reason": self.reason or None,
            "last_pass": to_json(self.last_pass),
            "empty": self.empty,
            "health": self.health.level.value,
            "since": to_json(self.health.since),
            "command": self.health.command or None,
            "last_success_at": to_json(self.last_success_at),
            "last_commit_at": to_json(self.last_commit_at),
        }


@dataclass(slots=True)
class _LastPass:
    """What is remembered of one source."""

    silent_after: float
    seen_at: float
    began_at: float
    ended_at: float | None = None
    error: str = ""
    stopped_by: str = ""
    failed_files: int = 0
    failed_units: int = 0
    open_letters: int = 0
    failing_since: float | None = None
    busy: bool = False
    empty: bool = False
    future_seals: bool = False
    last_success_at: datetime | None = None
    last_data_at: datetime | None = None
    last_commit_at: datetime | None = None

    @property
    def is_failing(self) -> bool:
        return bool(self.stopped_by or self.failed_files or self.failed_units)


class HealthListener:
    """Follows the events of a run. ``intervals`` has the seconds between two polls of each source.

    ``expected`` says how often a source must bring new data, where that is known; commands name the file ``config``.
    More open dead letters than ``tolerated`` make a source degraded.
    """

    def __init__(
        self,
        intervals: Mapping[Name, float],
        clock: Callable[[], float] = time.time,
        expected: Mapping[Name, timedelta] | None = None,
        config: str = "CONFIG",
        tolerated: int = TOLERATED_DEAD_LETTERS,
    ) -> None:
        self._clock = clock
        self._expected = expected or {}
        self._tolerated = tolerated
        self._config = config
        self._lock = threading.Lock()
        self._ready = False
        self._vitals = {
            name: _LastPass(max(MISSED_INTERVALS * seconds, PATIENCE_SECS), clock(), clock())
            for name, seconds in intervals.items()
        }

    @property
    def ready(self) -> bool:
        """Whether work has begun: something is being read, was committed, or a pass is over."""
        return self._ready

    def __call__(self, event: Event) -> None:
        with self._lock:
            if isinstance(event, _BEGUN):
                self._ready = True
            vital = self._vitals.get((event.pipeline, event.source))
            if vital is not None:
                vital.seen_at = self._clock()
                _note(vital, event)

    def sources(self) -> tuple[SourceHealth, ...]:
        """The current health of every source."""
        with self._lock:
            return tuple(self._health(name, vital) for name, vital in self._vitals.items())

    def _health(self, name: Name, vital: _LastPass) -> SourceHealth:
        now = self._clock()
        health = judge(self._evidence(name, vital), _moment(now))
        silent = now - vital.seen_at
        if silent > vital.silent_after and not vital.busy and health.level is not HealthLevel.FAILING:
            health = Health(HealthLevel.FAILING, f"no sign of it for {duration(silent)}", _moment(vital.seen_at))
        ended = None if vital.ended_at is None else _moment(vital.ended_at)
        return SourceHealth(
            *name, tell_trouble(health), ended, vital.empty, health, vital.last_success_at, vital.last_commit_at
        )

    def _evidence(self, name: Name, vital: _LastPass) -> Evidence:
        outcome = Outcome.INCOMPLETE if vital.is_failing else None if vital.ended_at is None else Outcome.SUCCEEDED
        return Evidence(
            name[0],
            self._config,
            outcome=Outcome.FAILED if vital.stopped_by else outcome,
            outcome_since=None if vital.failing_since is None else _moment(vital.failing_since),
            error=vital.stopped_by or None,
            # Whether it has ever committed is unknown here; only an emptied source asks for it.
            position=1,
            failed_files=vital.failed_files,
            failed_units=vital.failed_units,
            open_letters=vital.open_letters,
            tolerated_letters=self._tolerated,
            empty=vital.empty,
            sealed_ahead=vital.future_seals,
            expect_every=self._expected.get(name),
            last_data_at=vital.last_data_at,
            first_seen_at=_moment(vital.began_at),
        )


def with_health(families: Iterable[Family], sources: Iterable[SourceHealth]) -> Iterator[Family]:
    """The metrics with the health of these sources."""
    judged = Series()
    for each in sources:
        judged.put("source_healthy", (each.pipeline, each.source), float(each.healthy))
        judged.put_one("source_health", (each.pipeline, each.source), each.health.level.value)
    for family in families:
        own = judged.values[family.metric.name]
        yield replace(family, values=own) if family.metric.name in ("source_healthy", "source_health") else family


def tell_trouble(health: Health) -> str:
    """Why ``/health`` calls a source unhealthy; empty if it does not."""
    return "" if health.level.is_fine or health.reason == EMPTIED else health.reason


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _note(vital: _LastPass, event: Event) -> None:
    if not isinstance(event, _IN_BETWEEN):
        vital.busy = isinstance(event, events.ReadFixed | events.AnotherRun)
    match event:
        case events.PollStarted():
            vital.future_seals = False
        case events.FutureSealFound():
            vital.future_seals = True
        case events.Committed():
            vital.last_commit_at = _moment(vital.seen_at)
        case events.SourceFailed(error=error):
            vital.error = vital.stopped_by = error
        case events.SourceFinished():
            _note_end(vital, event)
        case events.CommitterLooked(error=error):
            vital.stopped_by = error or ""
            vital.ended_at = vital.seen_at
        case _:
            pass
    if not vital.is_failing:
        vital.failing_since = None
    elif vital.failing_since is None:
        vital.failing_since = vital.seen_at


def _note_end(vital: _LastPass, event: events.SourceFinished) -> None:
    vital.empty = event.empty if not event.failed else vital.empty
    vital.failed_files, vital.failed_units = event.failed_files, event.failed_units
    # SourceFailed comes just before the end of the same pass and must outlast it.
    vital.stopped_by, vital.error = vital.error, ""
    vital.ended_at = vital.seen_at
    vital.last_success_at = event.last_success_at or vital.last_success_at
    vital.last_data_at = event.last_data_at or vital.last_data_at
    vital.open_letters = vital.open_letters if event.open_letters is None else event.open_letters
