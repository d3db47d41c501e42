"""Python tasks on Spark: functions packed for them, what ended them, and those under way.

Each task is a job, awaited by a thread of the driver. So its result is handed over as soon as it is done, and the next
begins at once, whatever the others do and whether or not the driver is busy with a commit.
"""

from __future__ import annotations

import pickle
import re
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from heapq import heappop, heappush
from itertools import count, takewhile
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from tidegate.core.files.plan import FileGroup
from tidegate.errors import EnvironmentProblem, TidegateError
from tidegate.spark.reports import ActiveTasks, ReportAddress
from tidegate.specs.masking import Mask, shorten
from tidegate.tasks.read_task import CommitLimits, FinishedGroup, FinishedResults, GroupResult, Hear, ReadTask
from tidegate.tasks.task import read_group

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.core.rdd import RDD
    from pyspark.sql import DataFrame, SparkSession


Item = TypeVar("Item")


def deal(items: Sequence[Item], shares: int) -> list[list[Item]]:
    """Deal ``items`` in turn to ``shares`` shares, none of them empty; without an item there is one empty share."""
    count = max(1, min(shares, len(items)))
    return [list(items[first::count]) for first in range(count)]


def slot_frame(session: SparkSession, count: int) -> DataFrame:
    """The numbers of ``count`` slots, each for its own task; :func:`slot_numbers` reads them there."""
    return session.range(0, count, 1, count)


def slot_numbers(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    """The slots of a task."""
    for batch in batches:
        yield from batch.column(0).to_pylist()


def run_tasks(rows: DataFrame, work: Callable[..., Iterator[Any]], *needs: object) -> list[Any]:
    """Everything that ``work`` yields in the tasks, which get the partitions of ``rows`` and ``needs``."""
    # Collected once: a second evaluation would run the tasks, and write their files, again.
    results = rows.mapInArrow(Packed(_pickle_results, work, *needs), "result binary").collect()
    return [pickle.loads(bytes(row["result"])) for row in results]


def run_task(slot: RDD[int], work: Callable[..., Iterator[Any]], *needs: object) -> list[Any]:
    """The same by one task over the one partition of ``slot``, as a job without a query.

    Planning a query over a single number takes Java twice as long as such a job.
    """
    return [pickle.loads(each) for each in slot.mapPartitions(Packed(_pickle_in_slot, work, *needs)).collect()]


def _pickle_in_slot(numbers: Iterator[int], work: Callable[..., Iterator[Any]], *needs: object) -> Iterator[bytes]:
    import pyarrow as pa

    yield from (pickle.dumps(each) for each in work(iter([pa.record_batch({"id": list(numbers)})]), *needs))


def _pickle_results(
    batches: Iterator[pa.RecordBatch], work: Callable[..., Iterator[Any]], *needs: object
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for result in work(batches, *needs):
        yield pa.record_batch({"result": [pickle.dumps(result)]})


Part = tuple[ReadTask, FileGroup]
"""A group of files, and its task."""


def read_in_task(
    batches: Iterator[pa.RecordBatch], parts: Sequence[Part], report_to: ReportAddress | None
) -> Iterator[tuple[int, tuple[GroupResult, ...]] | TidegateError]:
    """Read group after group: yields the number and results of each, which are also reported at once.

    An error of ours travels as a value, so that the driver knows its class.
    """
    report = None if report_to is None else report_to.open()
    try:
        for _ in slot_numbers(batches):
            for number, (task, group) in enumerate(parts):
                results = tuple(read_group(task, group, None if report is None else report.activity))
                if report is not None:
                    report.result(number, results)
                yield number, results
    except TidegateError as error:
        yield error
    finally:
        if report is not None:
            report.close()


class Packed:
    """``work`` with the arguments ``needs``; both are unpacked in the task, and no plan of Spark shows them."""

    def __init__(self, work: Callable[..., Iterator[Any]], *needs: object) -> None:
        self._payload = zlib.compress(pickle.dumps((work, needs)), level=1)

    def __call__(self, batches: Any) -> Iterator[Any]:
        work, needs = pickle.loads(zlib.decompress(self._payload))
        yield from work(batches, *needs)


DAEMON_SETTING, DAEMON = "spark.python.daemon.module", "tidegate.spark.daemon"
"""The daemon of workers in a session that Tidegate opened."""

_ENDED = "Python worker exited unexpectedly"
_LOST = re.compile(r"ExecutorLostFailure \(executor \S+ exited caused by one of the running tasks\) Reason: ([^\n]*)")
_FATAL = re.compile(r"Fatal Python error: ([^\n]*)")
_SIGNALS = {
    "Segmentation fault": "SIGSEGV, segmentation fault",
    "Aborted": "SIGABRT, aborted",
    "Bus error": "SIGBUS, bus error",
    "Illegal instruction": "SIGILL, illegal instruction",
    "Floating point exception": "SIGFPE, floating point exception",
}


class WorkerEnded(TidegateError):
    """A process ended while it ran a task; ``how`` says as much as is known.

    ``by_itself``: it crashed, and was not killed for lack of memory, or with its executor.
    """

    def __init__(self, how: str, *, by_itself: bool = False, executor_lost: bool = False) -> None:
        super().__init__(f"Spark gave up on a task: it ended the worker ({how})", "nothing of it was committed")
        self.how = how
        self.by_itself = by_itself
        self.executor_lost = executor_lost

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(WorkerEnded, by_itself=self.by_itself, executor_lost=self.executor_lost), (self.how,)


def worker_ended(error: Exception) -> WorkerEnded | None:
    """What ended the worker, if Spark gave up because of that; None if it was something else."""
    text = str(error)
    if _ENDED in text:
        fatal = _FATAL.search(text)
        if fatal is None:
            return WorkerEnded("it was killed or vanished, most often for lack of memory")
        return WorkerEnded(_SIGNALS.get(fatal[1].strip(), fatal[1].strip()[:200]), by_itself=True)
    lost = _LOST.search(text)
    return None if lost is None else WorkerEnded(f"its executor was lost: {lost[1].strip()[:200]}", executor_lost=True)


_PROGRAM = r'Cannot run program "([^"\n]*)"[^\n]*: (?:error=\d+, )?([^\n]*)'
_WORKERS = "the Python of Spark's workers"
_OF_PYTHON: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.DOTALL), problem)
    for pattern, problem in (
        (r"No module named 'tidegate['.]", f"{_WORKERS} has no Tidegate"),
        (
            r"Python in worker has different version:? *\(?([\d., ]*\d)[), ]* than that in driver:? *\(?([\d., ]*\d)",
            f"{_WORKERS} is {{0}}, that of this program is {{1}}",
        ),
        (
            _PROGRAM + r"(?=.*PythonWorkerFactory)",
            f"{_WORKERS}, {{0}}, does not start: {{1}}",
        ),
        (r"Error from python worker:\n.*?([^\n]*No module named '[^'\n]*')", f"{_WORKERS} does not start: {{0}}"),
        (r"Error from python worker:\n(.*?)\nPYTHONPATH was:", f"{_WORKERS} does not start: {{0}}"),
        (r"reading the port number from|Python worker failed to connect back", f"{_WORKERS} ends at once"),
    )
)
"""Spark's messages about an unsuitable Python of workers, each with an explanation."""


_FULL = re.compile(r"(?:IOException|FileSystemException|OSError)[^\n]*No space left on device")
"""A full disk of Spark; database servers say the same of theirs, in other exceptions."""


def machine_problem(error: Exception, mask: Mask | None = None) -> EnvironmentProblem | None:
    """What is wrong with the machines of the workers, if Spark gave up because of that; else None."""
    text = str(error) if mask is None else mask(str(error))
    for pattern, problem in _OF_PYTHON:
        if found := pattern.search(text):
            return EnvironmentProblem(
                problem.format(*(_last_line(group) for group in found.groups())),
                f"let {_what_names_python()} name a Python with the same Tidegate on every machine, as this program has"
                f" it in {sys.executable}",
            )
    if found := re.search(_PROGRAM, text):
        return EnvironmentProblem(
            f"Spark cannot run {found[1]}: {found[2]}",
            "install this program on every machine of Spark, or correct the setting or variable that names it",
        )
    if _FULL.search(text):
        return EnvironmentProblem(
            "a disk is full where Spark keeps temporary files",
            "free some space there, or set TMPDIR or SPARK_LOCAL_DIRS to a larger disk",
        )
    return None


def _what_names_python() -> str:
    """What the running session uses as the Python of its workers."""
    context = getattr(getattr(sys.modules.get("pyspark"), "SparkContext", None), "_active_spark_context", None)
    if context is None:
        return "PYSPARK_PYTHON, or spark.pyspark.python,"
    if context.getConf().get(DAEMON_SETTING) != DAEMON:
        return "PYSPARK_PYTHON, before that session starts,"
    return "spark.pyspark.python" if context.master.startswith("local") else "spark.pyspark.python, or PYSPARK_PYTHON,"


def _last_line(told: str | None) -> str:
    lines = [line.strip() for line in (told or "").splitlines() if line.strip()]
    return shorten(lines[-1], 200) if lines else ""


def task_failure(error: Exception, remedy: str, mask: Mask | None = None) -> TidegateError:
    """Why Spark gave up on a task; :class:`EnvironmentProblem` if the machines of the workers are the cause."""
    found = machine_problem(error, mask)
    return found or TidegateError(f"Spark gave up on a task: {cause(error, mask)}", remedy)


def cause(error: Exception, mask: Mask | None = None) -> str:
    """The telling part of Spark's long message: what ended a worker, or the last Python exception; never a secret."""
    text = str(error) if mask is None else mask(str(error))
    if _ENDED in text:
        return "a Python worker died (out of memory, or killed)"
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("at ")]
    telling = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line) and not line.startswith("java.")]
    return shorten((telling or lines or [type(error).__name__])[-1])


_NOISE = re.compile(r"^\s*(at |\.\.\. \d+ more|Caused by: org\.apache\.spark\.SparkException: Job aborted)")


def telling_line(error: Exception, mask: Mask | None = None) -> str:
    """The telling part of Spark's long message; for a failed Python function, its exception.

    ``mask`` is applied before anything is left out.
    """
    text = str(error) if mask is None else mask(str(error))
    if "Traceback (most recent call last)" in text:
        return cause(error, mask)
    lines = [line.strip() for line in text.splitlines() if line.strip() and not _NOISE.match(line)]
    caused = [line for line in lines if line.startswith("Caused by:")]
    told = next((line for line in lines if re.match(r":?\s*[\w.$]+(Exception|Error): ", line)), "")
    chosen = caused[-1] if caused else told or (lines or [type(error).__name__])[0]
    return shorten(f"{chosen.lstrip(': ')}{_list_after(chosen, lines)}")


def _list_after(chosen: str, lines: list[str]) -> str:
    """The values that a line announces, such as those of the row that breaks a constraint."""
    if not chosen.endswith(":"):
        return ""
    listed = takewhile(lambda line: line.startswith("- "), lines[lines.index(chosen) + 1 :])
    return " " + ", ".join(line[2:].replace(" : ", " = ") for line in listed)


POLL_SECONDS = 0.25
# An empty `mapInArrow` task costs 35 to 70 ms, more than many a small group takes to read.
TASK_BYTES = 128 * 1024 * 1024
"""The total size of the groups of one task; a larger one is a task of its own."""

ALONE_SECONDS = 10.0
"""How long a job that is to run alone waits for the end of the others, and new ones wait for its own."""

_OPENING = 64 * 1024
_CANCEL_SECONDS = 20.0
"""How long to wait for the end of a cancelled job."""


class Parts:
    """The groups of one task; the results of each are taken once, whoever brings them."""

    def __init__(self, parts: Sequence[Part], pool: TaskPool, active: ActiveTasks) -> None:
        self.parts = parts
        self.active = active
        self._pool = pool
        self._taken: set[int] = set()

    def take(self, number: int, results: tuple[GroupResult, ...]) -> None:
        """Take the results of group ``number``."""
        if self._pool.take(self._taken, number):
            self._pool.put(FinishedGroup(*self.parts[number], results))

    def report(self, number: int, results: tuple[GroupResult, ...]) -> None:
        """The same, reported by a task with more to read; returns when it may continue."""
        self.take(number, results)
        self._pool.wait_for_leave()

    def list_unread(self) -> list[int]:
        """The numbers of groups without results."""
        return [number for number in range(len(self.parts)) if number not in self._taken]


class TaskPool:
    """Carries out tasks by ``read``, at most ``most`` at once, each in a thread of ``tags``.

    A task has one group, or with ``bundles`` several small ones. Once ``stop`` is set no task is begun, and those under
    way have ``grace_secs`` to finish. ``hear`` gets the activity of all of them, if they can report. ``admit`` makes
    each wait until it is its turn among those of all sources.
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
        admit: Callable[[Callable[[], bool]], AbstractContextManager[bool]] = lambda is_over: nullcontext(True),
    ) -> None:
        self._read = read
        self._admit = admit
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
        """The number of groups submitted and not handed over."""
        return self._count

    def submit(self, task: ReadTask, group: FileGroup) -> None:
        """Read ``group`` as soon as there is room; groups with small numbers come first."""
        with self._changed:
            heappush(self._waiting, (group.number, next(self._order), (task, group)))
            self._weight += _weight((task, group))
            self._share = max(self._share, self._weight // self._most)
            self._count += 1
            self._changed.notify_all()

    def take_finished(self, seconds: float | None = None) -> list[FinishedGroup]:
        """All finished groups; waits for the first, at most that many seconds. Raises what else ended a task."""
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
                self._obey_stop()
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
        """The groups that were not begun; they will not be read."""
        with self._changed:
            groups = [group for *_, (_, group) in sorted(self._waiting, key=lambda each: each[:2])]
            self._waiting.clear()
            self._weight = 0
            self._count -= len(groups)
        return groups

    def take(self, taken: set[int], number: int) -> bool:
        """Whether these are the first results of a group, and wanted."""
        with self._changed:
            # Results come twice: by a report, and again when the job ends.
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
            # A crash repeats what is finished and not committed, so a task must not run far ahead of a long commit.
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
                # Repeatedly: a thread may submit its job just after a cancellation, which finds only existing jobs.
                self._tags.cancel()
                thread.join(POLL_SECONDS)

    def _start_threads(self) -> None:
        while len(self._threads) < min(self._most, self._count):
            thread = threading.Thread(target=self._tags.around(self._work), name="task", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _work(self) -> None:
        while self._wait_for_parts():
            # Before the groups are chosen: meanwhile others may be withdrawn, or arrive with a smaller number.
            with self._admit(self._is_closed) as admitted:
                parts = self._next_parts() if admitted else []
                try:
                    if parts:
                        self._read(Parts(parts, self, self._active))
                # Whatever ends a thread has to reach the driver, or it would wait for that group for ever.
                except BaseException as error:
                    self._done.put(error)

    def _is_closed(self) -> bool:
        return self._closed

    def _wait_for_parts(self) -> bool:
        """Wait until there is a group to begin; False if there is to be no other."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._closed or (self._waiting and not self._enough.are_reached(self._finished))
            )
            return not self._closed

    def _next_parts(self) -> list[Part]:
        """The groups of the next task; none if another thread, or the end, was first."""
        with self._changed:
            if self._closed or not self._waiting:
                return []
            # At most an equal share of the backlog, so that one bundle does not keep the other slots idle.
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

    def _obey_stop(self) -> None:
        """If the run was told to stop, begin nothing, and cancel what is under way when grace is over."""
        if not self._stop.is_set():
            return
        self.withdraw()
        self._stopped_at = self._stopped_at or time.monotonic()
        if time.monotonic() - self._stopped_at > self._grace_secs:
            self._tags.cancel()


def _weight(part: Part) -> int:
    """The approximate work of a group: opening a file costs as much as reading some of it."""
    return part[1].bytes + part[1].files * _OPENING


def is_fresh(part: Part) -> bool:
    """Whether no file of a group has failed before: one that has may harm others."""
    return not any(file.attempts for file in part[1].slices)


class JobTag:
    """A mark on the jobs of some threads, so that these can be cancelled, and no others."""

    def __init__(self, session: SparkSession) -> None:
        self._tag = f"tidegate-{uuid4()}"
        # The marks of a context hold in every session that is derived from this one, unlike those of a session.
        context: Any = getattr(session, "sparkContext", None) if hasattr(session, "newSession") else None
        self._session: Any = session
        self._owner = session if context is None else context
        named = ("addTag", "removeTag", "interruptTag")
        self._names = named if context is None else ("addJobTag", "removeJobTag", "cancelJobsWithTag")

    def around(self, work: Callable[[], None]) -> Callable[[], None]:
        """``work`` for its own thread; its jobs have the mark, and the properties of the calling thread."""
        from pyspark.util import inheritable_thread_target

        def mark() -> None:
            self._call(0)

        with suppress(Exception):  # a signal to the whole group has ended the JVM before us: jobs will report it
            mark = inheritable_thread_target(self._session)(mark)

        def run_marked() -> None:
            with suppress(Exception):
                mark()
            work()

        return run_marked

    @contextmanager
    def mark_this_thread(self) -> Iterator[None]:
        """While inside, jobs of this thread have the mark."""
        self._call(0)
        try:
            yield
        finally:
            self._call(1)

    def cancel(self) -> None:
        """Cancel the jobs that are under way."""
        self._call(2)

    def _call(self, which: int) -> None:
        with suppress(Exception):  # a session that is gone has no jobs
            getattr(self._owner, self._names[which])(self._tag)


class Turns:
    """Jobs that run at once, and now and then one that runs alone."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = self._alone = 0

    @contextmanager
    def submit_beside_others(self) -> Iterator[None]:
        """While a job runs that others may run beside."""
        with self._changed:
            # Not for ever: what runs alone may take hours, or hang, and others must not wait for that.
            self._changed.wait_for(lambda: not self._alone, ALONE_SECONDS)
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    @contextmanager
    def run_alone(self) -> Iterator[None]:
        """While jobs run that no other may run beside; waits until the others are done, but not for ever."""
        with self._changed:
            self._changed.wait_for(lambda: not self._alone, ALONE_SECONDS)
            # Before the wait: no new job begins, so the running ones come to an end.
            self._alone += 1
            # A job of another source may hang, and must not hold up everybody else's: then it stays beside.
            self._changed.wait_for(lambda: not self._running, ALONE_SECONDS)
        try:
            yield
        finally:
            with self._changed:
                self._alone -= 1
                self._changed.notify_all()
