"""A stream read in a thread of its own, a few items ahead.

The Delta library cannot read while it writes: both block the same native threads. So one side gets its own.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

Item = TypeVar("Item")

_AHEAD = 4
_LOOK_EVERY_SECS = 0.1


class _Stopped(BaseException):
    """Nobody listens any more."""


class _Pump(threading.Thread):
    """Reads ``source`` and hands its items over; what it raised is raised where they are taken."""

    def __init__(self, source: Iterable[object]) -> None:
        super().__init__(name="pump", daemon=True)
        self.stopped = threading.Event()
        self.error: Exception | None = None
        self._source = source
        self._items: queue.Queue[tuple[object, ...]] = queue.Queue(_AHEAD)

    def run(self) -> None:
        with suppress(_Stopped):
            try:
                for item in self._source:
                    self._put((item,))
            except Exception as error:
                self.error = error
            self._put(())

    def _put(self, item: tuple[object, ...]) -> None:
        while not self.stopped.is_set():
            try:
                return self._items.put(item, timeout=_LOOK_EVERY_SECS)
            except queue.Full:
                continue
        raise _Stopped

    def items(self) -> Iterator[object]:
        """What was read, in order."""
        while item := self._items.get():
            yield item[0]
        if self.error is not None:
            raise self.error


@contextmanager
def pumped(source: Iterable[Item]) -> Iterator[Iterator[Item]]:
    """``source``, read in a thread as long as the block lasts."""
    pump = _Pump(source)
    pump.start()
    try:
        yield pump.items()  # type: ignore[misc]  # the thread hands over what the source gave
    finally:
        pump.stopped.set()
        pump.join()
