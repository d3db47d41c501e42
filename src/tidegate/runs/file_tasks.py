"""Groups of files on their way through tasks, and when what they brought is due for a commit.

Tasks begin one after the other, a few at once, and go on while the driver commits. What they bring is gathered until a
commit is due; then everything that is finished goes into it. So a task that takes long holds up no other, and a run
that is killed repeats at most what a commit waits for and what was under way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from time import monotonic

from tidegate.core.files.plan import FileGroup, FileSlice
from tidegate.core.files.state import Covered, FileOutcome, NotReached
from tidegate.errors import RunStopped, TidegateError
from tidegate.runs.engine import Engine, Tasks
from tidegate.sink.read_task import CommitLimits, FinishedGroup, FinishedResults, GroupResult, Hear, ReadTask

ADDS_PER_COMMIT = 10_000

Progress = Callable[[int, int, int], None]


class GroupQueue:
    """The groups of a plan: those that wait, those that tasks are reading, and what is finished and not committed.

    ``task`` makes the task of a group, ``at_once`` is how many of them there are at a time. At most ``uncommitted``
    files are under way or finished at once, and at least one group: that bounds memory, and what may fail together.
    ``take`` may change results as they come in; ``progress`` hears how many tasks are done, and how many bytes
    of the source and rows they read that are not committed; ``hear`` hears what they are at, from any thread.
    """

    def __init__(
        self,
        groups: Sequence[FileGroup],
        task: Callable[[FileGroup], ReadTask],
        *,
        at_once: int,
        limits: CommitLimits | None = None,
        uncommitted: int | None = None,
        stop: threading.Event | None = None,
        take: Callable[[FinishedGroup], tuple[GroupResult, ...]] = lambda done: done.results,
        progress: Progress = lambda done, size, rows: None,
        hear: Hear = lambda now: None,
    ) -> None:
        self.left = list(groups)
        self.is_full = False
        self._task = task
        self._at_once = at_once
        self._limits = limits or CommitLimits()
        self._uncommitted = uncommitted
        self._stop = stop or threading.Event()
        self._take = take
        self._progress = progress
        self._hear = hear
        self._finished = FinishedResults()
        self._under_way = 0
        self._done = 0
        self._failures: list[TidegateError] = []
        self._last = monotonic()

    def batches(self, engine: Engine) -> Generator[list[GroupResult]]:
        """What is due for a commit, again and again until nothing is left or nothing more may be read.

        Set ``is_full`` in between to begin no further group. Raises what ended a task, or failed a group, after
        everything that is finished was handed over.
        """
        with engine.tasks(self._at_once, self._limits, self._hear) as tasks:
            problem: TidegateError | None = None
            while problem is None:
                self._submit(tasks)
                if not tasks.count:
                    break
                try:
                    for done in tasks.finished(self._patience()):
                        self._receive(done)
                except TidegateError as error:
                    problem = error
                if self._is_due():
                    yield from self._hand_over()
            yield from self._hand_over()
            if problem or self._failures:
                raise problem or self._failures[0]

    def _submit(self, tasks: Tasks) -> None:
        if self._stop.is_set() or self.is_full or len(self._failures) >= self._at_once:
            withdrawn = tasks.withdraw()
            self._under_way -= sum(group.files for group in withdrawn)
            self.left[:0] = withdrawn
            return
        while self.left and not self._failures and self._has_room(self.left[0]):
            group = self.left.pop(0)
            self._under_way += group.files
            tasks.submit(self._task(group), group)

    def _has_room(self, group: FileGroup) -> bool:
        waiting = self._under_way + self._finished.files
        return self._uncommitted is None or not waiting or waiting + group.files <= self._uncommitted

    def _is_due(self) -> bool:
        return self._limits.are_reached(self._finished, monotonic() - self._last)

    def _patience(self) -> float | None:
        """How long to wait for the next task before a commit is due."""
        if not self._finished.results or self._limits.seconds is None:
            return None
        return max(0.0, self._last + self._limits.seconds - monotonic())

    def _receive(self, done: FinishedGroup) -> None:
        self._done += 1
        self._under_way -= done.group.files
        results = self._take(done)
        for result in results:
            self._finished.add(result)
        failures = [result.failure for result in results if result.failure is not None]
        self._failures.extend(failures)
        if not failures:
            rest = left_of((done.group,), outcomes_of(results))
            if rest == (done.group,):
                raise TidegateError(
                    f"a task read nothing of {done.group.files} files, the first is {done.group.slices[0].path}",
                    "look at the log of the tasks; nothing was committed",
                )
            self.left[:0] = rest
        rows = sum(result.rows for result in self._finished.results)
        self._progress(self._done, self._finished.source_bytes, rows)

    def _hand_over(self) -> Iterator[list[GroupResult]]:
        """Everything that is finished, in as few commits as hold it."""
        finished, self._finished = self._finished, FinishedResults()
        yield from in_commits(finished.results)
        self._last = monotonic()


def read_all(
    engine: Engine,
    task: ReadTask,
    groups: Sequence[FileGroup],
    *,
    at_once: int,
    stop: threading.Event | None = None,
    check: Callable[[Sequence[FileOutcome]], None] = lambda outcomes: None,
    progress: Progress = lambda done, size, rows: None,
) -> tuple[GroupResult, ...]:
    """Everything that ``groups`` hold; raises where a part of them could not be read, or ``stop`` was set before.

    ``check`` sees what became of the files of each task, and may raise.
    """

    def take(done: FinishedGroup) -> tuple[GroupResult, ...]:
        check(outcomes_of(done.results))
        return done.results

    engine.prepare()
    queue = GroupQueue(groups, lambda group: task, at_once=at_once, stop=stop, take=take, progress=progress)
    results = tuple(result for batch in queue.batches(engine) for result in batch)
    if queue.left:
        raise RunStopped("stopped while files were read again; nothing was changed")
    return results


def in_commits(results: Iterable[GroupResult]) -> Iterator[list[GroupResult]]:
    """Whole results in the order of their groups, together as long as a commit does not grow too large."""
    group: list[GroupResult] = []
    adds = 0
    for result in sorted(results, key=lambda result: result.number):
        if group and adds + len(result.data_files) > ADDS_PER_COMMIT:
            yield group
            group, adds = [], 0
        group.append(result)
        adds += len(result.data_files)
    if group:
        yield group


def outcomes_of(results: Iterable[GroupResult]) -> list[FileOutcome]:
    """What became of each file."""
    return [outcome for result in results for outcome in result.outcomes]


def left_of(groups: Sequence[FileGroup], outcomes: Iterable[FileOutcome]) -> tuple[FileGroup, ...]:
    """What is still to be read: files that were not reached, and the rest of those read in part."""
    by_path = {outcome.path: outcome for outcome in outcomes}
    left = (
        FileGroup(group.number, tuple(rest for each in group.slices if (rest := _rest(each, by_path.get(each.path)))))
        for group in groups
    )
    return tuple(group for group in left if group.slices)


def _rest(each: FileSlice, outcome: FileOutcome | None) -> FileSlice | None:
    match outcome:
        case None | NotReached():
            return each
        case Covered(eof=False, end=end):
            return replace(each, start_record=end, rounds=each.rounds + 1)
        case _:
            return None
