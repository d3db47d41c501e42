"""Slots for connections to databases: ``max_connections`` holds for all reads of this process together.

A read takes as many slots as it opens connections, all at once and in the order of asking: two reads that each had a
part of what they need would wait for each other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import count

from tidegate.errors import RunStopped
from tidegate.specs.columns import JdbcRead

LOOK_SECONDS = 0.2
"""How often a read that waits looks whether its run was stopped."""


@dataclass(slots=True)
class _Pool:
    """The slots of one connection of the configuration."""

    size: int
    free: int
    changed: threading.Condition = field(default_factory=threading.Condition)
    numbers: Iterator[int] = field(default_factory=count)
    waiting: list[int] = field(default_factory=list)

    def take(self, wanted: int, stop: threading.Event | None) -> int:
        """Wait for ``wanted`` slots, at most all of them, and return how many were taken."""
        wanted = max(1, min(wanted, self.size))
        with self.changed:
            number = next(self.numbers)
            self.waiting.append(number)
            try:
                while self.waiting[0] != number or self.free < wanted:
                    if stop is not None and stop.is_set():
                        raise RunStopped("the run was told to stop while it waited for a connection")
                    self.changed.wait(LOOK_SECONDS)
                self.free -= wanted
            finally:
                self.waiting.remove(number)
                self.changed.notify_all()
        return wanted

    def give_back(self, taken: int) -> None:
        with self.changed:
            self.free += taken
            self.changed.notify_all()


_POOLS: dict[tuple[str, str, int], _Pool] = {}
_OPENING = threading.Lock()


@dataclass(slots=True)
class ConnectionSlots:
    """The slots of one read; without a limit it takes none."""

    _pool: _Pool | None = None
    _stop: threading.Event | None = None
    _waiting: Callable[[], AbstractContextManager[object]] = nullcontext
    _taken: int = 0

    def resize(self, wanted: int) -> None:
        """Take ``wanted`` slots instead of those held; no connection may be open meanwhile."""
        if self._pool is None or min(wanted, self._pool.size) == self._taken:
            return
        self.release()
        with self._waiting():
            self._taken = self._pool.take(wanted, self._stop)

    def release(self) -> None:
        """Give back all slots; the connections are closed."""
        if self._pool is not None and self._taken:
            self._pool.give_back(self._taken)
            self._taken = 0


@contextmanager
def connection_slots(
    read: object,
    stop: threading.Event | None = None,
    waiting: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Iterator[ConnectionSlots]:
    """Hold a slot for a connection to the database of ``read``; any other read, or one without a limit, needs none.

    Waits, inside ``waiting``, for reads that hold the slots; :class:`RunStopped` if ``stop`` is set meanwhile.
    """
    if not isinstance(read, JdbcRead) or read.max_connections is None:
        yield ConnectionSlots()
        return
    slots = ConnectionSlots(_pool_of(read, read.max_connections), stop, waiting)
    try:
        slots.resize(1)
        yield slots
    finally:
        slots.release()


def _pool_of(read: JdbcRead, size: int) -> _Pool:
    with _OPENING:
        return _POOLS.setdefault((read.connection, read.url, size), _Pool(size, size))
