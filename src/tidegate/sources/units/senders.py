"""Connections of one task, kept for all work units that ask with the same credentials and headers."""

from __future__ import annotations

import time
from collections.abc import Callable

from tidegate.column_specs import HttpAuth, HttpRead
from tidegate.locations import Options
from tidegate.sources.http.pacing import Pace
from tidegate.sources.http.sending import Sender

_MOST_OPEN = 4


class Senders:
    """One of ``slots`` tasks that share the rate limit of one source; the few last used connections stay open."""

    def __init__(self, slots: int = 1, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._slots = slots
        self._sleep = sleep
        self._pace: Pace | None = None
        self._open: dict[tuple[str, Options, HttpAuth], Sender] = {}
        self._closed_requests = 0

    @property
    def requests(self) -> int:
        """How many requests were sent."""
        return self._closed_requests + sum(each.requests for each in self._open.values())

    def of(self, read: HttpRead) -> Sender:
        """The sender for a read; good until the next one is asked for."""
        key = (read.url, read.headers, read.auth)
        sender = self._open.pop(key, None) or self._new(read)
        self._open[key] = sender
        while len(self._open) > _MOST_OPEN:
            self._end(next(iter(self._open)))
        return sender

    def close(self) -> None:
        """Close the connections."""
        for key in tuple(self._open):
            self._end(key)

    def _new(self, read: HttpRead) -> Sender:
        self._pace = self._pace or Pace(read.rate_limit, self._slots, sleep=self._sleep)
        return Sender(read, self._pace, sleep=self._sleep)

    def _end(self, key: tuple[str, Options, HttpAuth]) -> None:
        sender = self._open.pop(key)
        self._closed_requests += sender.requests
        sender.close()
