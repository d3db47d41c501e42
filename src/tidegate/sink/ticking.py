"""A clock that strikes while its owner waits for something else."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Ticker:
    """Calls ``tick`` every ``seconds``, in a thread of its own, until :meth:`stop` returns."""

    def __init__(self, tick: Callable[[], None], seconds: float) -> None:
        self._tick = tick
        self._seconds = seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tick", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """No tick begins after this."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            self._tick()
