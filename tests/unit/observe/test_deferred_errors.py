"""Errors that a result tells are told once: by it, or by the log if there is none."""

from __future__ import annotations

import pytest

from tidegate.observe.events import Event, FileRefused, Notice, SourceFailed
from tidegate.observe.logs import DeferredErrors, ErrorsOnce

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


def test_an_error_that_stops_several_sources_is_told_once_with_whom_it_stopped() -> None:
    told: list[Event] = []
    with ErrorsOnce(told.append) as emit:
        for name in "abc":
            emit(SourceFailed(name, "default", "no Spark"))
        emit(NOTICE)
        emit(SourceFailed("d", "default", "no bucket"))
    first, other = SourceFailed("a", "default", "no Spark"), SourceFailed("d", "default", "no bucket")
    others = SourceFailed("", "", "b/default, c/default: for the same reason as a/default")
    assert told == [first, NOTICE, other, others]
