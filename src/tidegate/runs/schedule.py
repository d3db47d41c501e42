"""Passes side by side: each in a thread, at most so many at once, and none longer than it may take.

One thread decides what begins (``Loop``); the passes report back to it. A pass cannot be ended from outside: it is told
to stop. One that does not heed that is left behind: it takes no room any more, and its source is not begun again before
its thread is done.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Generic, Self, TypeVar

from tidegate.specs.project import PipelineSpec
from tidegate.storage.stores import comparable_uri

Name = tuple[str, str]
Result = TypeVar("Result")

LOOK_SECS = 0.25
"""How often the deciding thread looks at the clock and at whether it has to stop."""

LEFT_BEHIND_SECS = 60.0
"""Seconds after which a pass that was told to stop is no longer waited for."""


TURN_SECS = 60.0
"""Seconds for which a commit waits for those of other sources; then it meets them in the log."""


class PassStop(threading.Event):
    """Tells one pass to stop: because the whole run stops, or because this pass took too long."""

    is_overdue = False
    takes_place = True
    """Whether the pass counts among those at once; not while it waits for others of its server."""

    def __init__(self, run: threading.Event) -> None:
        super().__init__()
        self._run = run

    def is_set(self) -> bool:
        """Whether the pass has to stop; it knows of the run's end at once, and not only when it is told."""
        return super().is_set() or self._run.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the pass has to stop; whoever decides wakes those that wait when the run ends."""
        return self.is_set() or super().wait(timeout) or self.is_set()


@dataclass(slots=True)
class _Running(Generic[Result]):
    """A pass under way."""

    work: Callable[[PassStop], Result]
    counts: bool
    until: float | None
    stop: PassStop


@dataclass(frozen=True, slots=True)
class Ended(Generic[Result]):
    """A pass that is over: with its result, with what it raised, or (with neither) left behind."""

    name: Name
    result: Result | None = None
    error: BaseException | None = None


@contextmanager
def give_place(stop: threading.Event) -> Iterator[None]:
    """While a pass waits for another: it takes no place from those that could work meanwhile."""
    # The pass of a command is the only one, and has no place to give.
    if not isinstance(stop, PassStop):
        yield
        return
    stop.takes_place = False
    try:
        yield
    finally:
        stop.takes_place = True


@contextmanager
def take_turn(lock: threading.Lock, stop: threading.Event) -> Iterator[None]:
    """Hold ``lock`` while inside, if it is free soon; neither a holder that hangs nor the end of a run stops others."""
    until = time.monotonic() + TURN_SECS
    while not (held := lock.acquire(timeout=LOOK_SECS)):
        if stop.is_set() or time.monotonic() >= until:
            break
    try:
        yield
    finally:
        if held:
            lock.release()


class PassThreads(Generic[Result]):
    """Threads for passes, used by one thread. ``most`` passes have room at once; ``stop`` ends all of them."""

    def __init__(self, most: int, stop: threading.Event) -> None:
        self._most = most
        self._stop = stop
        self._running: dict[Name, _Running[Result]] = {}
        self._left: set[Name] = set()
        self._done: SimpleQueue[tuple[Name, _Running[Result], Ended[Result]]] = SimpleQueue()
        self._jobs: SimpleQueue[tuple[Name, _Running[Result]] | None] = SimpleQueue()
        self._threads = self._idle = 0
        self._lock = threading.Lock()

    @property
    def has_room(self) -> bool:
        """Whether another pass may begin."""
        return sum(each.counts and each.stop.takes_place for each in self._running.values()) < self._most

    @property
    def is_empty(self) -> bool:
        """Whether no pass is waited for."""
        return not self._running

    def is_busy(self, name: Name) -> bool:
        """Whether a pass of that name is under way, or was left behind."""
        return name in self._running or name in self._left

    def begin(
        self, name: Name, work: Callable[[PassStop], Result], max_secs: float | None = None, *, counts: bool = True
    ) -> None:
        """Carry out ``work`` in a thread; after ``max_secs`` it is told to stop. ``counts``: it takes room."""
        until = None if max_secs is None else time.monotonic() + max_secs
        running = _Running(work, counts, until, PassStop(self._stop))
        self._running[name] = running
        # Threads are kept for later passes: each has its own connection to Java.
        with self._lock:
            needs_thread = not self._idle
            self._idle -= not needs_thread
        self._jobs.put((name, running))
        if needs_thread:
            self._threads += 1
            context = contextvars.copy_context()
            threading.Thread(target=context.run, args=(self._serve,), name="pass", daemon=True).start()

    def wait(self, seconds: float) -> Ended[Result] | None:
        """The next pass that ends, or is left behind, within that time."""
        until = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            if (left := self._leave_behind(now)) is not None:
                return left
            try:
                name, running, ended = self._done.get(timeout=max(0.0, min(LOOK_SECS, until - now)))
            except Empty:
                if time.monotonic() >= until:
                    return None
                continue
            if self._running.get(name) is running:
                del self._running[name]
                return ended
            self._left.discard(name)

    def stop_all(self) -> None:
        """Tell every pass to stop."""
        for each in self._running.values():
            each.stop.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Let every thread end with its pass."""
        for _ in range(self._threads):
            self._jobs.put(None)

    def _leave_behind(self, now: float) -> Ended[Result] | None:
        for name, each in self._running.items():
            if each.until is None or now < each.until:
                continue
            # A run that stops by itself is no fault of the pass.
            if not each.stop.is_set():
                each.stop.is_overdue = True
                each.stop.set()
            if now >= each.until + LEFT_BEHIND_SECS:
                del self._running[name]
                self._left.add(name)
                return Ended(name)
        return None

    def _serve(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                return
            name, running = job
            ended: Ended[Result]
            try:
                ended = Ended(name, running.work(running.stop))
            # Whatever ends a pass has to reach the thread that waits for it.
            except BaseException as error:
                ended = Ended(name, error=error)
            with self._lock:
                self._idle += 1
            self._done.put((name, running, ended))


def find_upstream(pipelines: Sequence[PipelineSpec]) -> dict[Name, frozenset[Name]]:
    """For each source, the sources of other pipelines that write what it reads."""
    writers: dict[str, set[Name]] = {}
    for pipeline in pipelines:
        named = (pipeline.sink.table.uri, pipeline.sink.name)
        for place in (_place(each) for each in named if each is not None):
            writers.setdefault(place, set()).update((pipeline.name, each.name) for each in pipeline.sources)
    return {
        (pipeline.name, source.name): frozenset(
            name
            for place in map(_place, source.tables_read)
            for name in writers.get(place, ())
            if name[0] != pipeline.name
        )
        for pipeline in pipelines
        for source in pipeline.sources
    }


def without_cycles(upstream: Mapping[Name, Iterable[Name]], order: Sequence[Name]) -> dict[Name, frozenset[Name]]:
    """What each has to wait for: pipelines in a circle wait only for those that come before them in the file."""
    place = {name: at for at, name in enumerate(order)}
    reached: dict[Name, frozenset[Name]] = {}

    def find_above(name: Name) -> frozenset[Name]:
        if name not in reached:
            seen: set[Name] = set()
            left = list(upstream.get(name, ()))
            while left:
                each = left.pop()
                if each not in seen:
                    seen.add(each)
                    left.extend(upstream.get(each, ()))
            reached[name] = frozenset(seen)
        return reached[name]

    return {
        name: frozenset(
            each
            for each in upstream.get(name, ())
            if each in place and (name not in find_above(each) or place[each] < place[name])
        )
        for name in order
    }


def _place(table: str) -> str:
    """An address, or a name in a catalog, as it is compared."""
    return comparable_uri(table) if "/" in table else table.lower()
