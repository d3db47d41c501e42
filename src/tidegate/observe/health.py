"""Whether the sources of a long-running process are well: a listener that remembers how the last pass of each ended.

A source is well when its last pass read everything it could, and when it shows signs of life: it is silent for no
longer than ``MISSED_INTERVALS`` of its poll interval, but at least for ``PATIENCE_SECS``. One that cannot be read, or
that has files which cannot be read or work units that failed, is not well until a pass ends without these. While Spark
reads and loads the rows of a column source, or a source waits for another run of it, nothing is heard of it, and that
is no silence.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tidegate.observe import events
from tidegate.observe.events import Event
from tidegate.observe.wording import count, duration

MISSED_INTERVALS = 3
PATIENCE_SECS = 300.0

Name = tuple[str, str]

_BEGUN = (events.WaveStarted, events.ReadFixed, events.Committed, events.SourceFinished, events.CommitterLooked)

_IN_BETWEEN = (events.Notice, events.RowsLeftOut, events.SessionStarting)
"""Events that do not say what a source is doing."""


@dataclass(frozen=True, slots=True)
class SourceHealth:
    """How one source is; ``reason`` is empty when it is well, ``last_pass`` None before the first one ended.

    ``empty`` says that there was no file at its location at all, which is no illness.
    """

    pipeline: str
    source: str
    reason: str = ""
    last_pass: datetime | None = None
    empty: bool = False

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong."""
        return not self.reason

    def to_json(self) -> dict[str, Any]:
        """As ``/health`` shows it."""
        ended = None if self.last_pass is None else self.last_pass.isoformat(timespec="seconds").replace("+00:00", "Z")
        return {
            "pipeline": self.pipeline,
            "source": self.source,
            "healthy": self.healthy,
            "reason": self.reason or None,
            "last_pass": ended,
            "empty": self.empty,
        }


@dataclass(slots=True)
class _LastPass:
    """What is remembered of one source."""

    silent_after: float
    seen_at: float
    ended_at: float | None = None
    error: str = ""
    trouble: str = ""
    busy: bool = False
    empty: bool = False


class Health:
    """Listens to a run. ``intervals`` has the seconds between two polls of each source."""

    def __init__(self, intervals: Mapping[Name, float], clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._ready = False
        self._vitals = {
            name: _LastPass(max(MISSED_INTERVALS * seconds, PATIENCE_SECS), clock())
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
        """How every source is now."""
        with self._lock:
            return tuple(self._health(name, vital) for name, vital in self._vitals.items())

    def _health(self, name: Name, vital: _LastPass) -> SourceHealth:
        silent = self._clock() - vital.seen_at
        is_overdue = silent > vital.silent_after and not vital.busy
        overdue = f"no sign of it for {duration(silent)}" if is_overdue else ""
        ended = None if vital.ended_at is None else datetime.fromtimestamp(vital.ended_at, UTC)
        return SourceHealth(*name, vital.trouble or overdue, ended, vital.empty)


def _note(vital: _LastPass, event: Event) -> None:
    if not isinstance(event, _IN_BETWEEN):
        vital.busy = isinstance(event, events.ReadFixed | events.AnotherRun)
    match event:
        case events.SourceFailed(error=error):
            vital.error = vital.trouble = error
        case events.SourceFinished(failed_files=files, failed_units=units, empty=empty):
            vital.empty = empty if not event.failed else vital.empty
            found = [f"{count(files, 'file')} cannot be read"] if files else []
            found += [f"{count(units, 'work unit')} failed"] if units else []
            vital.trouble = vital.error or " and ".join(found)
            vital.error = ""
            vital.ended_at = vital.seen_at
        case events.CommitterLooked(error=error):
            vital.trouble = error or ""
            vital.ended_at = vital.seen_at
        case _:
            pass
