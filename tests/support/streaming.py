"""A streaming reader that follows a table all along, in a thread of its own, while faults happen to its writers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from support.lake import Lake, assert_same
from tidegate.experiments.rounds import Follower
from tidegate.storage.stores import open_store


class Stream:
    """What a stream over a lake's table has seen; ``assert_exactly_once`` lets it catch up first."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._follower = Follower(open_store(lake.table))
        self._ended = threading.Event()
        self._broken: BaseException | None = None
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def _follow(self) -> None:
        try:
            while not self._ended.wait(0.01):
                self._follower.catch_up()
        except BaseException as error:
            self._broken = error

    def start(self) -> None:
        """Begin before there is a table."""
        self._thread.start()

    def stop(self) -> None:
        """Stop following; what broke the stream is raised here."""
        self._ended.set()
        self._thread.join()
        if self._broken is not None:
            raise self._broken

    def assert_exactly_once(self) -> None:
        """Every record that arrived came by once, and the table holds the same."""
        self.stop()
        self._follower.catch_up()
        assert_same(self._follower.seen.elements(), self._lake.expected)
        self._lake.assert_exactly_once()


@contextmanager
def streaming(lake: Lake) -> Iterator[Stream]:
    """A stream that follows ``lake`` from now on."""
    stream = Stream(lake)
    stream.start()
    try:
        yield stream
    finally:
        stream.stop()
