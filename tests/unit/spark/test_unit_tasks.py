"""How work units are dealt to tasks, and what happens where Spark gives up on one; no Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from support.errors import raises
from tidegate.errors import RunStopped, TidegateError
from tidegate.sources.units.work import UnitFailure
from tidegate.spark.tasks import deal
from tidegate.spark.work_units import Item, Jobs, fetch_slots
from tidegate.specs.columns import HttpRead, RateLimit
from tidegate.specs.locations import Location
from tidegate.specs.units import FileFormat, FileRead, UnitSource
from tidegate.tasks.unit_share import most_in_flight

DEAD = "dead"
ENDED = "Spark gave up on a task: it ended the worker (it was killed or vanished, most often for lack of memory)"


class Session:
    """Runs what ``mapInArrow`` is given in this process, a task at a time; ``jobs`` has the number of tasks of each."""

    def __init__(self) -> None:
        self.jobs: list[int] = []

    def range(self, start: int, end: int, step: int, parts: int) -> Session:
        self.jobs.append(parts)
        self._tasks = [pa.record_batch({"id": [number]}) for number in range(start, end, step)]
        return self

    def mapInArrow(self, work: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], _: str) -> Session:  # noqa: N802  # as Spark calls it
        self._work = work
        return self

    def collect(self) -> list[dict[str, Any]]:
        return [row for task in self._tasks for batch in self._work(iter([task])) for row in batch.to_pylist()]


def act(needs: str, items: Sequence[Item]) -> Iterator[Item]:
    """What a task does here; one of its items ends the worker."""
    for number, item in items:
        if item == DEAD:
            raise RuntimeError("Python worker exited unexpectedly (crashed)")
        yield number, f"{needs} {item}"


def ends(needs: str, items: Sequence[Item]) -> Iterator[Item]:
    """Ends the worker whatever there is to do."""
    raise RuntimeError("Python worker exited unexpectedly (crashed): Fatal Python error: Aborted\n")
    yield


def fails(needs: str, items: Sequence[Item]) -> Iterator[Item]:
    """Fails, and the worker lives."""
    raise RuntimeError("ModuleNotFoundError: no module")
    yield


def jobs(session: Session, *, stopped: bool = False) -> Jobs:
    return Jobs(session, lambda: stopped)  # type: ignore[arg-type]  # as much of a session as is used


def test_items_are_dealt_in_turn() -> None:
    assert deal([(number, "") for number in range(5)], 2) == [[(0, ""), (2, ""), (4, "")], [(1, ""), (3, "")]]
    assert deal([(0, "")], 6) == [[(0, "")]]
    session = Session()
    done = jobs(session).run(act, "read", list(enumerate("abcde")), 2)
    assert (done[1], sorted(done), session.jobs) == ("read b", [0, 1, 2, 3, 4], [2])


def test_a_unit_that_ends_its_worker_fails_alone() -> None:
    session = Session()
    done = jobs(session).run(act, "read", [(0, "a"), (1, DEAD), (2, "c")], 2)
    assert (done[0], done[2]) == ("read a", "read c")
    assert done[1] == UnitFailure(ENDED, "this work unit was discarded; it runs again next time")
    assert session.jobs == [2, 1, 1, 1, 1], "one job tells whether workers live at all"


@pytest.mark.parametrize("items", [[(0, DEAD)], [(0, DEAD), (1, DEAD)]])
def test_so_does_the_only_one_and_so_do_all(items: list[Item]) -> None:
    done = jobs(Session()).run(act, "read", items, 2)
    assert {each.problem for each in done.values()} == {ENDED}


def test_where_workers_end_without_anything_to_do_the_wave_fails() -> None:
    with raises(TidegateError, "Spark", "worker", "SIGABRT"):
        jobs(Session()).run(ends, "read", [(0, "a"), (1, "b")], 2)


@pytest.mark.parametrize("items", [[(0, "a")], [(0, "a"), (1, "b")]])
def test_where_none_could_be_tried_the_wave_fails(items: list[Item]) -> None:
    with raises(TidegateError, "Spark", "ModuleNotFoundError"):
        jobs(Session()).run(fails, "read", items, 2)


def test_a_stopped_run_tries_nothing_again() -> None:
    session = Session()
    with pytest.raises(RunStopped):
        jobs(session, stopped=True).run(act, "read", [(0, "a"), (1, DEAD)], 2)
    assert session.jobs == [2]


@pytest.mark.parametrize(
    ("read", "works", "slots"),
    [
        (HttpRead("http://h"), 100, 4),
        (HttpRead("http://h"), 3, 3),
        (HttpRead("http://h", max_in_flight=1), 100, 1),
        (HttpRead("http://h", parallelism=2), 100, 2),
        (HttpRead("http://h", rate_limit=RateLimit(100)), 100, 4),
        (HttpRead("http://h", rate_limit=RateLimit(2, 60.0)), 100, 2),
        (FileRead(FileFormat.CSV, http=HttpRead("http://h", rate_limit=RateLimit(1))), 100, 1),
        (FileRead(FileFormat.CSV, location=Location("s3://b/x")), 100, 4),
    ],
)
def test_tasks_are_few_and_keep_the_rate_limit(read: HttpRead | FileRead, works: int, slots: int) -> None:
    source = UnitSource("s", read)
    assert fetch_slots(source, most_in_flight(source, works), cores=4) == slots
