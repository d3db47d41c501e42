"""Errors that a result tells are told once: by it, or by the log if there is none."""

from __future__ import annotations

import pytest

from tidegate.observe.events import Event, FileRefused, Notice, SourceFailed
from tidegate.observe.logs import DeferredErrors

ERRORS = (SourceFailed("p", "s", "broken"), FileRefused("p", "s", "a.gz", "cut off", 1, True))
NOTICE = Notice("p", "s", "by the way")


def test_what_the_result_tells_is_kept_back() -> None:
    told: list[Event] = []
    with DeferredErrors(told.append) as emit:
        for event in (*ERRORS, NOTICE):
            emit(event)
    assert told == [NOTICE]


def test_without_a_result_it_is_told() -> None:
    told: list[Event] = []

    def interrupted() -> None:
        with DeferredErrors(told.append) as emit:
            for event in (*ERRORS, NOTICE):
                emit(event)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert told == [NOTICE, *ERRORS]
