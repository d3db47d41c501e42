"""Errors that a result will tell as well: kept back, and told only if there is no result."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from tidegate.observe.events import CommitFailed, Emit, Event, FileRefused, SourceFailed, UnitRejected

_TOLD_BY_RESULTS = (CommitFailed, FileRefused, SourceFailed, UnitRejected)


class Holding:
    """Passes events on to ``emit``; those that a result tells only where an exception leaves the block."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._held: list[Event] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, _TOLD_BY_RESULTS):
            self._held.append(event)
        else:
            self._emit(event)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            for event in self._held:
                self._emit(event)
