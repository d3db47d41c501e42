"""Which task begins next when several sources have some: at most so many run at once, and each source has its turn.

An engine has room for so many tasks. A source with ten thousand files would fill it for hours, and the file of another
would wait; so whoever has the fewest tasks running goes first.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from itertools import count

LOOK_SECONDS = 0.25
"""How often somebody who waits looks whether the wait is over for another reason."""


class Admission:
    """Room for ``most`` tasks at once, over all sources; thread-safe."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._changed = threading.Condition()
        self._running: Counter[Hashable] = Counter()
        self._waiting: list[tuple[int, Hashable]] = []
        self._order = count()

    @contextmanager
    def admit(self, source: Hashable, is_over: Callable[[], bool] = lambda: False) -> Iterator[bool]:
        """Wait for room for a task of ``source``, and hold it while inside; False if ``is_over`` came first."""
        ticket = next(self._order), source
        with self._changed:
            self._waiting.append(ticket)
            # With a timeout: what ends the wait otherwise is not told here.
            while not (admitted := self._is_next(ticket)) and not is_over():
                self._changed.wait(LOOK_SECONDS)
            self._waiting.remove(ticket)
            if admitted:
                self._running[source] += 1
            # Whoever comes next may be admitted as well, or was behind a source that gave up.
            self._changed.notify_all()
        try:
            yield admitted
        finally:
            if admitted:
                with self._changed:
                    self._running[source] -= 1
                    self._running += Counter()
                    self._changed.notify_all()

    def _is_next(self, ticket: tuple[int, Hashable]) -> bool:
        if self._running.total() >= self.most:
            return False
        return ticket == min(self._waiting, key=lambda each: (self._running[each[1]], each[0]))
