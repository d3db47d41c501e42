"""Tasks of several sources share the room: never too many at once, and nobody waits for all tasks of another."""

from __future__ import annotations

import threading
import time

from hypothesis import given
from hypothesis import strategies as st

from tidegate.tasks.admission import Admission


class Crowd:
    """Threads that ask for room, and what came of it."""

    def __init__(self, most: int) -> None:
        self.room = Admission(most)
        self.begun: list[str] = []
        self.most_seen = 0
        self._running = 0
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def ask(self, source: str, until: threading.Event) -> None:
        thread = threading.Thread(target=self._hold, args=(source, until))
        self._threads.append(thread)
        thread.start()

    def _hold(self, source: str, until: threading.Event) -> None:
        with self.room.admit(source) as admitted:
            assert admitted
            with self._lock:
                self.begun.append(source)
                self._running += 1
                self.most_seen = max(self.most_seen, self._running)
            until.wait(10)
            with self._lock:
                self._running -= 1

    def wait_for(self, begun: int) -> None:
        until = time.monotonic() + 10
        while len(self.begun) < begun and time.monotonic() < until:
            time.sleep(0.001)
        assert len(self.begun) == begun

    def join(self) -> None:
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()


def test_the_first_task_of_another_source_goes_before_the_many_of_one() -> None:
    crowd, one, rest = Crowd(2), threading.Event(), threading.Event()
    crowd.ask("many", one)
    crowd.ask("many", rest)
    crowd.wait_for(2)
    for _ in range(5):
        crowd.ask("many", rest)
    while len(crowd.room._waiting) < 5:
        time.sleep(0.001)
    crowd.ask("late", rest)
    while len(crowd.room._waiting) < 6:
        time.sleep(0.001)
    one.set()
    crowd.wait_for(3)
    assert crowd.begun == ["many", "many", "late"]
    rest.set()
    crowd.join()
    assert crowd.most_seen == 2


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=12), st.integers(1, 4))
def test_never_more_than_there_is_room_for_and_everybody_gets_in(sources: list[str], most: int) -> None:
    crowd, now = Crowd(most), threading.Event()
    now.set()
    for source in sources:
        crowd.ask(source, now)
    crowd.join()
    assert sorted(crowd.begun) == sorted(sources)
    assert crowd.most_seen <= most
    assert not crowd.room._waiting
    assert not crowd.room._running


def test_who_gives_up_waiting_holds_nothing() -> None:
    room, over = Admission(1), threading.Event()
    over.set()
    with room.admit("a") as first, room.admit("b", over.is_set) as second:
        assert (first, second) == (True, False)
    with room.admit("b") as again:
        assert again
