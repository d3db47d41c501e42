"""Handlers for Ctrl-C and SIGTERM, and whether one of them saw a signal.

``KeyboardInterrupt`` alone does not tell who raised it: user code can, and then it is a failure of that code.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

_HANDLERS: list[threading.Event] = []
"""One for each handler of ours that is installed now; set once it has seen a signal."""


@contextmanager
def signals_go_to(handle: Callable[[], None], numbers: Sequence[signal.Signals]) -> Iterator[None]:
    """While inside, these signals call ``handle``; outside the main thread this does nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        seen.set()
        handle()

    before = {number: signal.signal(number, note) for number in numbers}
    _HANDLERS.append(seen)
    try:
        yield
    finally:
        _HANDLERS.remove(seen)
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def noticing_interrupts() -> Iterator[None]:
    """While inside, Ctrl-C raises ``KeyboardInterrupt`` as usual, and :func:`is_interrupted` knows of it."""
    # A process that was started with SIGINT ignored, as by nohup, keeps ignoring it.
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def interrupt() -> None:
        raise KeyboardInterrupt

    with signals_go_to(interrupt, (signal.SIGINT,)):
        yield


def is_interrupted() -> bool:
    """Whether a signal is behind a ``KeyboardInterrupt`` that was raised in this thread.

    Without a handler of ours this is unknown; then one in the main thread counts, the only one that signals reach.
    """
    if _HANDLERS:
        return any(seen.is_set() for seen in _HANDLERS)
    return threading.current_thread() is threading.main_thread()
