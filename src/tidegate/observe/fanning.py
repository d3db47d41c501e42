"""One emitter for many consumers: each event goes to all of them in turn, and none of them can stop a run."""

from __future__ import annotations

import threading

from tidegate.masking import Mask
from tidegate.observe.events import Emit, Event


def masked(emit: Emit, mask: Mask) -> Emit:
    """An ``Emit`` that passes every event on without the secrets of ``mask``."""
    return emit if not mask.secrets else lambda event: emit(mask.deep(event))


def fanout(*consumers: Emit) -> Emit:
    """An ``Emit`` that passes every event to each consumer, in order, from any thread.

    A consumer that cannot write any more (a closed pipe, a full disk) is dropped: moving data goes on.
    """
    listening = list(consumers)
    # A signal handler may emit on the thread that is emitting already.
    turn = threading.RLock()

    def emit(event: Event) -> None:
        with turn:
            for consumer in tuple(listening):
                try:
                    consumer(event)
                except (OSError, ValueError):
                    listening.remove(consumer)

    return emit
