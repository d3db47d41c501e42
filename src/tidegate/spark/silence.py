"""Py4J logs a traceback for every call that is broken off, to its own logs and to the root: noise where a run stops."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from pathlib import PurePath

_LOGGERS = ("", "py4j.clientserver", "py4j.java_gateway")


class _WhileStopping(logging.Filter):
    def __init__(self, stop: threading.Event) -> None:
        super().__init__()
        self._stop = stop

    def filter(self, record: logging.LogRecord) -> bool:
        from_py4j = record.name.startswith("py4j.") or "py4j" in PurePath(record.pathname).parts
        return not (self._stop.is_set() and from_py4j)


def silence_py4j() -> None:
    """From now on Py4J logs nothing: the process ends, and what it still wants of Java has nobody to answer it."""
    ended = threading.Event()
    ended.set()
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_WhileStopping(ended))


@contextlib.contextmanager
def py4j_is_silent(stop: threading.Event) -> Iterator[None]:
    """While inside, Py4J logs nothing once ``stop`` is set; everybody else does."""
    found = _WhileStopping(stop)
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for each in loggers:
        each.addFilter(found)
    try:
        yield
    finally:
        for each in loggers:
            each.removeFilter(found)
