"""``tidegate serve``: metrics and health of pipelines that run elsewhere, from what is recorded about them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from tidegate.observe.health import SourceHealth
from tidegate.observe.metrics import Family, Series
from tidegate.observe.wording import count
from tidegate.reports import SourceStatus
from tidegate.web.server import Answer, Pages, serving, text
from tidegate.web.watching import health_page, metrics_page

Look = Callable[[], tuple[SourceStatus, ...]]

_SHOWN = (
    "source_state_files",
    "watermark_state",
    "watermark_lag_seconds",
    "backlog_files",
    "backlog_bytes",
    "work_units_open",
    "work_units_failed",
    "delta_table_version",
    "source_healthy",
)
"""What can be told without having seen the run: counters cannot."""


class Standing:
    """The newest look at every source, at most ``every`` seconds old; looking lists the sources."""

    def __init__(self, look: Look, every: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._look = look
        self._every = every
        self._clock = clock
        self._lock = threading.Lock()
        self._statuses: tuple[SourceStatus, ...] = ()
        self._looked_at: float | None = None

    def statuses(self) -> tuple[SourceStatus, ...]:
        """Where the sources stand; who asks while another looks waits for that look."""
        with self._lock:
            if self._looked_at is None or self._clock() - self._looked_at >= self._every:
                self._statuses = self._look()
                self._looked_at = self._clock()
            return self._statuses

    @property
    def ready(self) -> bool:
        """Whether there was a first look."""
        return self._looked_at is not None

    def families(self) -> list[Family]:
        """The metrics that the recorded state tells."""
        series = Series()
        for status in self.statuses():
            name = (status.pipeline, status.source)
            series.put_state(name, status.state if status.error is None else "Unknown")
            if status.error is not None:
                continue
            series.put("watermark_lag_seconds", name, status.lag_seconds or 0.0)
            series.put("backlog_files", name, status.backlog_files)
            series.put("backlog_bytes", name, status.backlog_bytes)
            series.put("source_state_files", name, status.state_files)
            if status.work_units is not None:
                series.put("work_units_open", name, status.work_units.open)
                series.put("work_units_failed", name, status.work_units.failed)
            if status.table_version is not None:
                series.put("delta_table_version", name, status.table_version)
        return [each for each in series.families() if each.metric.name in _SHOWN]

    def sources(self) -> tuple[SourceHealth, ...]:
        """How the sources are: one whose state or files cannot be read is not well."""
        return tuple(_health(status) for status in self.statuses())


def _health(status: SourceStatus) -> SourceHealth:
    unread = f"{count(len(status.failed), 'file')} cannot be read" if status.failed else ""
    if status.work_units is not None and status.work_units.failed:
        unread = f"{count(status.work_units.failed, 'work unit')} failed"
    moment: datetime | None = status.updated
    return SourceHealth(status.pipeline, status.source, status.error or unread, moment)


@contextmanager
def standing(look: Look, address: str, every: float, *, legacy_names: bool) -> Iterator[str]:
    """Serves what ``look`` finds while inside; gives the address."""
    seen = Standing(look, every)

    def ready() -> Answer:
        seen.statuses()
        return text("ready\n")

    pages: Pages = {
        "/metrics": lambda: metrics_page(seen.families(), seen.sources(), legacy=legacy_names),
        "/health": lambda: health_page(seen.sources()),
        "/ready": ready,
    }
    with serving(address, pages) as where:
        yield where
