"""Py4J tells the root log, with a traceback, of every call that is broken off: noise where that was wanted."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from pathlib import PurePath


class _WhileStopping(logging.Filter):
    def __init__(self, stop: threading.Event) -> None:
        super().__init__()
        self._stop = stop

    def filter(self, record: logging.LogRecord) -> bool:
        return not (self._stop.is_set() and "py4j" in PurePath(record.pathname).parts)


@contextlib.contextmanager
def py4j_is_silent(stop: threading.Event) -> Iterator[None]:
    """While inside, nothing of Py4J reaches the root log once ``stop`` is set; everything else does."""
    found = _WhileStopping(stop)
    logging.getLogger().addFilter(found)
    try:
        yield
    finally:
        logging.getLogger().removeFilter(found)
