"""The rate limit: requests of one slot are so far apart that all slots together keep it.

With a limit of R requests in P seconds, at most R slots work beside each other. Each of N slots has k = R // N requests
in any P seconds, by leaving P / k seconds between two of them; N * k <= R. A slot also leaves that time before its
first request, so that a repeated task or the next read keeps the limit too. Nothing is shared, so it holds on any
number of executors.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from tidegate.column_specs import RateLimit


def slot_count(limit: RateLimit | None, parts: int, parallelism: int | None) -> int:
    """How many slots work beside each other."""
    wanted = min(parts, parallelism or parts)
    return max(1, wanted if limit is None else min(wanted, limit.requests))


class Pace:
    """Keeps requests of one of ``slots`` slots apart; the first one waits as well."""

    def __init__(
        self,
        limit: RateLimit | None,
        slots: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._gap = 0.0 if limit is None else limit.per_seconds / max(1, limit.requests // slots)
        self._clock = clock
        self._sleep = sleep
        self._last = clock()

    def wait(self) -> None:
        """Return when the next request may begin."""
        while (left := self._last + self._gap - self._clock()) > 0:
            self._sleep(left)
        self._last = self._clock()
