"""Work units that Python tasks read: HTTP APIs and downloads. One job fetches a wave, a second one writes it.

Between the two the driver knows what the columns are, and nothing of the records goes through it. Only what the driver
received counts: a retried attempt leaves files that nobody refers to.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.column_specs import HttpRead
from tidegate.errors import RunStopped, TidegateError
from tidegate.sink.unit_rows import WriteTask, write
from tidegate.sink.unit_tasks import fetch, fetch_task, forget, write_kept
from tidegate.sources.http.pacing import slot_count
from tidegate.sources.units.fetched import Fetched, FetchTask
from tidegate.sources.units.senders import Senders
from tidegate.sources.units.work import UnitFailure, UnitWave, UnitWork, UnitWritten, WaveResult
from tidegate.spark.packing import Packed, pickled
from tidegate.spark.readers.rows import parallelism
from tidegate.unit_specs import FileRead, UnitSource

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_TASKS_PER_CORE = 3

Item = tuple[int, Any]
"""A work unit's number in the wave, and what a task needs of it."""

Work = Callable[[Any, Sequence[Item]], Iterator[Item]]
"""What a task does with its share: something for all of them, and the items, to an outcome for each."""


def carry_out_tasks(session: SparkSession, wave: UnitWave, stopped: Callable[[], bool]) -> WaveResult:
    """Fetch all work units of the wave, then write those that came."""
    cores = parallelism(session)
    slots = fetch_slots(wave.source, len(wave.works), cores)
    jobs = Jobs(session, stopped)
    outcomes = jobs.done(_fetch_share, fetch_task(wave, slots), list(enumerate(wave.works)), slots)
    fetched = {number: each for number, each in outcomes.items() if isinstance(each, Fetched)}

    def write_all(plan: WriteTask, left: Mapping[int, Fetched]) -> dict[int, UnitWritten | UnitFailure]:
        return (
            jobs.done(_write_share, plan, list(left.items()), min(len(left), cores * _TASKS_PER_CORE)) if left else {}
        )

    try:
        plan, written = write_kept(wave, fetched, write_all)
    finally:
        forget(fetched.values())
    results = outcomes | written
    return WaveResult(
        tuple(_result(results[number]) for number in range(len(wave.works))), plan.columns, plan.partition_columns
    )


def fetch_slots(source: UnitSource, works: int, cores: int) -> int:
    """How many tasks fetch: few for each core, and not more than run at once where they share a rate limit."""
    read = source.read.http if isinstance(source.read, FileRead) else source.read
    if not isinstance(read, HttpRead):
        return max(1, min(works, cores * _TASKS_PER_CORE))
    beside = cores if read.rate_limit is not None else cores * _TASKS_PER_CORE
    return slot_count(read.rate_limit, min(works, beside), read.parallelism)


def dealt(items: Sequence[Item], shares: int) -> list[list[Item]]:
    """Items in turn to so many shares, none of them empty."""
    return [list(items[first::shares]) for first in range(min(shares, len(items)))]


@dataclass(frozen=True, slots=True)
class Jobs:
    """Carries out items by Spark; where it gives up on a job, one by one, so that only those fail that it is about."""

    session: SparkSession
    stopped: Callable[[], bool]

    def done(self, work: Work, needs: object, items: Sequence[Item], shares: int) -> dict[int, Any]:
        """An outcome for each item; raises where none of them could be tried, or where no worker lives at all."""
        try:
            return self._job(work, needs, dealt(items, shares))
        except Exception as error:
            self._raise_if_stopped(error)
            problem, ended = _given_up(error)
        if ended:
            self._check_workers(work, needs)
        if len(items) == 1 and ended:
            return {items[0][0]: UnitFailure(problem.problem, problem.remedy)}
        found: dict[int, Any] = {}
        lost = 0
        for item in items if len(items) > 1 else ():
            try:
                found |= self._job(work, needs, [[item]])
            except Exception as error:
                self._raise_if_stopped(error)
                problem, ended = _given_up(error)
                found[item[0]] = UnitFailure(problem.problem, problem.remedy)
                lost += not ended
        if lost == len(found):
            raise problem
        return found

    def _check_workers(self, work: Work, needs: object) -> None:
        """Raise where a worker ends that has nothing to do: then no work unit is to blame."""
        try:
            self._job(work, needs, [[]])
        except Exception as error:
            self._raise_if_stopped(error)
            problem, _ = _given_up(error)
            raise problem from error

    def _job(self, work: Work, needs: object, shares: list[list[Item]]) -> dict[int, Any]:
        numbers = self.session.range(0, len(shares), 1, len(shares))
        rows = numbers.mapInArrow(Packed(_run, work, needs, shares), "result binary").collect()
        return dict(pickle.loads(bytes(row["result"])) for row in rows)

    def _raise_if_stopped(self, error: Exception) -> None:
        if self.stopped():
            raise RunStopped("stopped while tasks were reading; their work units are read again next time") from error


def _run(
    batches: Iterator[pa.RecordBatch], work: Work, needs: object, shares: list[list[Item]]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for share in batch.column(0).to_pylist():
            yield from map(pickled, work(needs, shares[share]))


def _fetch_share(task: FetchTask, works: Sequence[tuple[int, UnitWork]]) -> Iterator[Item]:
    with closing(Senders(task.slots)) as senders:
        for number, work in works:
            yield number, fetch(task, work, number, senders)


def _write_share(task: WriteTask, fetched: Sequence[tuple[int, Fetched]]) -> Iterator[Item]:
    for number, each in fetched:
        yield number, write(task, each)


def _given_up(error: Exception) -> tuple[TidegateError, bool]:
    """What Spark gave up for, and whether that is that a worker ended."""
    from tidegate.spark.packing import cause, worker_ended

    ended = worker_ended(error)
    problem = cause(error) if ended is None else f"it ended the worker ({ended.how})"
    remedy = "nothing of this work unit is kept; it runs again next time"
    return TidegateError(f"Spark gave up on a task: {problem}", remedy), ended is not None


def _result(outcome: object) -> UnitWritten | UnitFailure:
    assert isinstance(outcome, UnitWritten | UnitFailure)
    return outcome
