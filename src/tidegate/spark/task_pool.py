"""Tasks under way on Spark: each is a job of its own, waited for by a thread of the driver.

So what a task has read is handed over as soon as that is done, and the next begins at once, whatever the others do and
whether or not the driver is busy with a commit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from heapq import heappop, heappush
from itertools import count
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from tidegate.core.files.plan import FileGroup
from tidegate.sink.read_task import CommitLimits, FinishedGroup, FinishedResults, GroupResult, Hear, ReadTask
from tidegate.spark.reports import ActiveTasks
from tidegate.spark.tasks import Part

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_SECONDS = 0.25
TASK_BYTES = 128 * 1024 * 1024
"""What the groups of one task weigh together; a larger one is a task of its own."""

_OPENING = 64 * 1024
_CANCEL_SECONDS = 20.0
"""How long the end of a cancelled job is waited for."""


class Parts:
    """The groups of one task; the results of each are taken once, whoever brings them."""

    def __init__(self, parts: Sequence[Part], pool: TaskPool, active: ActiveTasks) -> None:
        self.parts = parts
        self.active = active
        self._pool = pool
        self._taken: set[int] = set()

    def take(self, number: int, results: tuple[GroupResult, ...]) -> None:
        """The results of group ``number`` are there."""
        if self._pool.take(self._taken, number):
            self._pool.put(FinishedGroup(*self.parts[number], results))

    def report(self, number: int, results: tuple[GroupResult, ...]) -> None:
        """The same, told by a task that has more to read; returns when it may go on."""
        self.take(number, results)
        self._pool.wait_for_leave()

    def left(self) -> list[int]:
        """The numbers of those whose results are not there."""
        return [number for number in range(len(self.parts)) if number not in self._taken]


class TaskPool:
    """Carries out tasks by ``read``, at most ``most`` at once, each in a thread of ``tags``.

    A task has one group, or where ``bundles`` says so several small ones. Once ``stop`` is set no task is begun, and
    those under way have ``grace_secs`` to finish. ``hear`` hears what all of them are at, if they can report.
    """

    def __init__(
        self,
        read: Callable[[Parts], None],
        bundles: Callable[[], bool],
        most: int,
        limits: CommitLimits,
        hear: Hear,
        tags: JobTag,
        stop: threading.Event,
        grace_secs: float,
    ) -> None:
        self._read = read
        self._bundles = bundles
        self._most = most
        self._enough = limits.times(most)
        self._active = ActiveTasks(hear)
        self._tags = tags
        self._stop = stop
        self._grace_secs = grace_secs
        self._order = count()
        self._waiting: list[tuple[int, int, Part]] = []
        self._done: SimpleQueue[FinishedGroup | BaseException] = SimpleQueue()
        self._finished = FinishedResults()
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._weight = self._share = 0
        self._count = 0
        self._closed = False
        self._stopped_at: float | None = None
        self._problem: BaseException | None = None

    @property
    def count(self) -> int:
        """How many groups were submitted and not handed over."""
        return self._count

    def submit(self, task: ReadTask, group: FileGroup) -> None:
        """Read ``group`` as soon as there is room; groups with small numbers come first."""
        with self._changed:
            heappush(self._waiting, (group.number, next(self._order), (task, group)))
            self._weight += _weight((task, group))
            self._share = max(self._share, self._weight // self._most)
            self._count += 1
            self._changed.notify_all()

    def finished(self, seconds: float | None = None) -> list[FinishedGroup]:
        """All that finished; waits for the first, at most so many seconds. Raises what ended a task otherwise."""
        self._start_threads()
        until = None if seconds is None else time.monotonic() + seconds
        found: list[FinishedGroup] = []
        while self._count and self._problem is None:
            wait = POLL_SECONDS if until is None else min(POLL_SECONDS, until - time.monotonic())
            try:
                done = self._done.get_nowait() if found or wait <= 0 else self._done.get(timeout=wait)
            except Empty:
                if found or (until is not None and time.monotonic() >= until):
                    break
                self._heed_stop()
                continue
            if isinstance(done, FinishedGroup):
                self._count -= 1
                found.append(done)
            else:
                self._problem = done
        with self._changed:
            self._finished = FinishedResults()
            self._changed.notify_all()
        if not found and self._problem is not None:
            raise self._problem
        return found

    def withdraw(self) -> list[FileGroup]:
        """The groups that were not begun; they are not read any more."""
        with self._changed:
            groups = [group for *_, (_, group) in sorted(self._waiting, key=lambda each: each[:2])]
            self._waiting.clear()
            self._weight = 0
            self._count -= len(groups)
        return groups

    def take(self, taken: set[int], number: int) -> bool:
        """Whether the results of a group are the first of it, and wanted."""
        with self._changed:
            if self._closed or number in taken:
                return False
            taken.add(number)
            return True

    def put(self, done: FinishedGroup) -> None:
        """Hand over what is finished."""
        with self._changed:
            for result in done.results:
                self._finished.add(result)
        self._done.put(done)

    def wait_for_leave(self) -> None:
        """Wait while enough is finished for several commits."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or not self._enough.are_reached(self._finished))

    def __enter__(self) -> TaskPool:
        return self

    def __exit__(self, *error: object) -> None:
        """Cancel what is under way, and wait until its threads are done."""
        with self._changed:
            self._waiting.clear()
            self._closed = True
            self._changed.notify_all()
        until = time.monotonic() + _CANCEL_SECONDS
        for thread in self._threads:
            thread.join(POLL_SECONDS)
            while thread.is_alive() and time.monotonic() < until:
                self._tags.cancel()
                thread.join(POLL_SECONDS)

    def _start_threads(self) -> None:
        while len(self._threads) < min(self._most, self._count):
            thread = threading.Thread(target=self._tags.around(self._work), name="task", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _work(self) -> None:
        while parts := self._next_parts():
            try:
                self._read(Parts(parts, self, self._active))
            except BaseException as error:
                self._done.put(error)

    def _next_parts(self) -> list[Part]:
        """The groups of the next task; none where there is to be no other."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._closed or (self._waiting and not self._enough.are_reached(self._finished))
            )
            if self._closed:
                return []
            most = min(TASK_BYTES, self._share)
            parts = [heappop(self._waiting)[2]]
            weight = _weight(parts[0])
            self._weight -= weight
            while self._waiting and self._bundles() and is_fresh(parts[0]):
                following = self._waiting[0][2]
                weight += _weight(following)
                if weight > most or not is_fresh(following):
                    break
                self._weight -= _weight(following)
                parts.append(heappop(self._waiting)[2])
            return parts

    def _heed_stop(self) -> None:
        """Where the run was told to stop: begin nothing, and cancel what is under way when grace is over."""
        if not self._stop.is_set():
            return
        self.withdraw()
        self._stopped_at = self._stopped_at or time.monotonic()
        if time.monotonic() - self._stopped_at > self._grace_secs:
            self._tags.cancel()


def _weight(part: Part) -> int:
    """About how much work a group is: opening a file costs as much as reading some of it."""
    return part[1].bytes + part[1].files * _OPENING


def is_fresh(part: Part) -> bool:
    """Whether no file of a group has failed before: one that has may take others along."""
    return not any(each.attempts for each in part[1].slices)


class JobTag:
    """A mark on all jobs that the threads of one pool start, so that these can be cancelled, and no others."""

    def __init__(self, session: SparkSession) -> None:
        self._session: Any = session
        self._tag = f"tidegate-{uuid4()}"

    def around(self, work: Callable[[], None]) -> Callable[[], None]:
        """``work`` for a thread of its own; its jobs have the mark, and the properties of the calling thread."""
        from pyspark.util import inheritable_thread_target

        def mark() -> None:
            self._session.addTag(self._tag)

        with suppress(Exception):  # a signal to the whole group has ended the JVM before us: jobs will tell
            mark = inheritable_thread_target(self._session)(mark)

        def marked() -> None:
            with suppress(Exception):
                mark()
            work()

        return marked

    def cancel(self) -> None:
        """Cancel the jobs that are under way."""
        with suppress(Exception):  # a session that is gone has none
            self._session.interruptTag(self._tag)


class Turns:
    """Jobs that run beside each other, and now and then one that runs alone."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0
        self._alone = False

    @contextmanager
    def beside_others(self) -> Iterator[None]:
        """While a job runs that may run beside others."""
        with self._changed:
            self._changed.wait_for(lambda: not self._alone)
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While jobs run that no other may run beside; waits until the others are done."""
        with self._changed:
            self._changed.wait_for(lambda: not self._alone)
            self._alone = True
            self._changed.wait_for(lambda: not self._running)
        try:
            yield
        finally:
            with self._changed:
                self._alone = False
                self._changed.notify_all()
