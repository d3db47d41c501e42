"""Connections of one task, kept for all work units that ask with the same credentials and headers."""

from __future__ import annotations

import time
from collections.abc import Callable

from tidegate.column_specs import HttpAuth, HttpRead
from tidegate.locations import Options
from tidegate.sources.http.pacing import Pace
from tidegate.sources.http.sending import Sender


class Senders:
    """One of ``slots`` tasks that share the rate limit; ``requests`` counts what was sent."""

    def __init__(self, slots: int = 1, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._slots = slots
        self._sleep = sleep
        self._open: dict[tuple[str, Options, HttpAuth], Sender] = {}

    @property
    def requests(self) -> int:
        """How many requests were sent."""
        return sum(each.requests for each in self._open.values())

    def of(self, read: HttpRead) -> Sender:
        """The sender for a read."""
        key = (read.url, read.headers, read.auth)
        if key not in self._open:
            pace = Pace(read.rate_limit, self._slots, sleep=self._sleep)
            self._open[key] = Sender(read, pace, sleep=self._sleep)
        return self._open[key]

    def close(self) -> None:
        """Close the connections."""
        for each in self._open.values():
            each.close()
