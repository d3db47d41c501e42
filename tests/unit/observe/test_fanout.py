"""Events reach every consumer, one at a time, and a consumer that cannot write is left alone."""

from __future__ import annotations

import threading
from dataclasses import FrozenInstanceError

import pytest

from tidegate.observe import events
from tidegate.observe.events import Event
from tidegate.observe.logs import fanout

NOTICE = events.Notice("p", "s", text="x")


def test_every_consumer_gets_every_event_in_order() -> None:
    heard: list[tuple[str, Event]] = []
    emit = fanout(lambda event: heard.append(("a", event)), lambda event: heard.append(("b", event)))
    emit(NOTICE)
    assert heard == [("a", NOTICE), ("b", NOTICE)]


def test_a_consumer_whose_pipe_is_closed_is_dropped_and_the_others_go_on() -> None:
    heard: list[Event] = []
    tries: list[Event] = []

    def broken(event: Event) -> None:
        tries.append(event)
        raise BrokenPipeError

    emit = fanout(broken, heard.append)
    emit(NOTICE)
    emit(NOTICE)
    assert (len(tries), len(heard)) == (1, 2)


def test_a_mistake_in_a_consumer_is_not_hidden() -> None:
    def wrong(event: Event) -> None:
        raise LookupError("mistake")

    with pytest.raises(LookupError):
        fanout(wrong)(NOTICE)


def test_consumers_never_run_at_the_same_time() -> None:
    inside: list[int] = []
    most: list[int] = []

    def slow(event: Event) -> None:
        inside.append(1)
        most.append(len(inside))
        threading.Event().wait(0.001)
        inside.pop()

    emit = fanout(slow)
    threads = [threading.Thread(target=lambda: [emit(NOTICE) for _ in range(20)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(most), max(most)) == (80, 1)


def test_a_consumer_may_emit() -> None:
    heard: list[str] = []

    def consumer(event: Event) -> None:
        heard.append(event.name)
        if event.name == "notice":
            emit(events.SessionStarting("", "", where="local"))

    emit = fanout(consumer)
    emit(NOTICE)
    assert heard == ["notice", "session_starting"]


def test_events_are_values_equal_by_kind_and_fields_hashable_and_frozen() -> None:
    again, other = events.Notice("p", "s", text="x"), events.Notice("p", "s", text="y")
    assert again == NOTICE
    assert hash(NOTICE) == hash(again)
    assert other not in (NOTICE, again)
    assert events.Event("p", "s") != events.PollStarted("p", "s", 1)
    assert repr(NOTICE).startswith("Notice(pipeline='p', source='s', text='x'")
    with pytest.raises(FrozenInstanceError):
        NOTICE.text = "y"  # type: ignore[misc]
