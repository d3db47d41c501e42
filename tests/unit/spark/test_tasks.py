"""Tasks under way: what is handed over and when the next begins; a function stands for Spark."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

import pytest

from support.errors import raises
from tidegate.core.files.plan import FileGroup, FileSlice
from tidegate.core.files.state import Covered
from tidegate.errors import RunStopped, TidegateError
from tidegate.spark.reports import ActiveTasks, ReportAddress, ReportListener
from tidegate.spark.tasks import Parts, TaskPool, Turns
from tidegate.specs.locations import Location
from tidegate.tasks.read_task import CommitLimits, GroupResult, ReadTask, TaskActivity

UNHEARD = ActiveTasks(lambda now: None)
TASK = ReadTask(Location("memory://source"), Location("memory://table"), (), b"")


class Tags:
    """Jobs without Spark; ``cancelled`` is set when they are to end."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()

    def around(self, work: Callable[[], None]) -> Callable[[], None]:
        return work

    def cancel(self) -> None:
        self.cancelled.set()


def group(number: int, files: int = 10, attempts: int = 0) -> FileGroup:
    return FileGroup(number, tuple(FileSlice(f"{number}-{each}", 1, attempts=attempts) for each in range(files)))


def results(group: FileGroup) -> tuple[GroupResult, ...]:
    outcomes = tuple(Covered(each.path, each.size, None, 0, 1, eof=True) for each in group.slices)
    return (GroupResult(group.number, outcomes),)


def read_all(parts: Parts) -> None:
    for number, (_, group) in enumerate(parts.parts):
        parts.take(number, results(group))


def pool(
    read: Callable[[Parts], None],
    most: int = 1,
    *,
    bundles: bool = False,
    limits: CommitLimits | None = None,
    stop: threading.Event | None = None,
    tags: Tags | None = None,
    grace: float = 60.0,
) -> TaskPool:
    return TaskPool(
        read,
        lambda: bundles,
        most,
        limits or CommitLimits(),
        lambda files, parts: None,
        tags or Tags(),  # type: ignore[arg-type]  # as much as is used
        stop or threading.Event(),
        grace,
    )


def drain(tasks: TaskPool) -> list[int]:
    """The numbers of all groups that finish."""
    found = []
    while tasks.count:
        found += [done.group.number for done in tasks.take_finished()]
    return found


def test_groups_are_read_by_number_whenever_they_were_submitted() -> None:
    with pool(read_all) as tasks:
        for number in (3, 1, 2):
            tasks.submit(TASK, group(number))
        assert drain(tasks) == [1, 2, 3]


@pytest.mark.parametrize(
    ("bundles", "tasks_begun"), [(True, [[1, 2, 3], [4], [5]]), (False, [[1], [2], [3], [4], [5]])]
)
def test_small_groups_share_a_task_where_it_can_report(bundles: bool, tasks_begun: list[list[int]]) -> None:
    begun: list[list[int]] = []

    def read(parts: Parts) -> None:
        begun.append([group.number for _, group in parts.parts])
        read_all(parts)

    with pool(read, bundles=bundles) as tasks:
        for number in range(1, 4):
            tasks.submit(TASK, group(number))
        tasks.submit(TASK, group(4, attempts=1))
        tasks.submit(TASK, group(5))
        drain(tasks)
    assert begun == tasks_begun, "a group that failed before has a task of its own"


def test_a_result_that_comes_twice_is_handed_over_once() -> None:
    def read(parts: Parts) -> None:
        parts.report(0, results(parts.parts[0][1]))
        read_all(parts)
        read_all(parts)

    with pool(read) as tasks:
        tasks.submit(TASK, group(1))
        assert drain(tasks) == [1]


def test_no_task_begins_while_what_is_finished_is_enough_for_a_commit() -> None:
    begun: list[int] = []
    second = threading.Event()

    def read(parts: Parts) -> None:
        begun.append(parts.parts[0][1].number)
        read_all(parts)
        if len(begun) == 2:
            second.set()

    with pool(read, limits=CommitLimits(source_files=10)) as tasks:
        for number in range(1, 5):
            tasks.submit(TASK, group(number))
        assert [done.group.number for done in tasks.take_finished()] == [1]
        assert second.wait(30), "the next began although nobody asked for it"
        assert begun == [1, 2]
        assert drain(tasks) == [2, 3, 4]


def test_what_was_finished_is_handed_over_before_the_error_of_another() -> None:
    def read(parts: Parts) -> None:
        if parts.parts[0][1].number == 2:
            raise TidegateError("a task failed", "nothing")
        read_all(parts)

    with pool(read) as tasks:
        tasks.submit(TASK, group(1))
        tasks.submit(TASK, group(2))
        assert [done.group.number for done in tasks.take_finished()] == [1]
        with raises(TidegateError, "a task failed"):
            tasks.take_finished()


def test_a_stop_begins_nothing_more_and_cancels_what_is_under_way_when_grace_is_over() -> None:
    stop, tags = threading.Event(), Tags()
    begun = threading.Event()

    def read(parts: Parts) -> None:
        begun.set()
        assert tags.cancelled.wait(30)
        raise RunStopped("stopped")

    with pool(read, stop=stop, tags=tags, grace=0.0) as tasks:
        tasks.submit(TASK, group(1))
        tasks.submit(TASK, group(2))
        assert tasks.take_finished(0.0) == []
        assert begun.wait(30)
        stop.set()
        with pytest.raises(RunStopped):
            tasks.take_finished()
        assert tasks.withdraw() == []


def test_what_is_under_way_at_the_end_is_cancelled_and_does_not_count() -> None:
    tags = Tags()

    def read(parts: Parts) -> None:
        assert tags.cancelled.wait(30)
        read_all(parts)

    with pool(read, tags=tags) as tasks:
        tasks.submit(TASK, group(1))
        assert tasks.take_finished(0.0) == []
    assert tags.cancelled.is_set()
    assert tasks.take_finished(0.0) == []


def test_who_runs_alone_waits_for_others_and_keeps_others_waiting() -> None:
    turns, inside, order = Turns(), threading.Event(), []

    def alone() -> None:
        with turns.run_alone():
            order.append("alone")

    with turns.submit_beside_others():
        waiting = threading.Thread(target=alone)
        waiting.start()
        order.append("beside")
    waiting.join(30)
    with turns.submit_beside_others():
        inside.set()
    assert order == ["beside", "alone"]
    assert inside.is_set()


@pytest.fixture
def listener() -> ReportListener:
    return ReportListener("127.0.0.1", "127.0.0.1")


def test_a_report_arrives_before_the_task_goes_on(listener: ReportListener) -> None:
    received: list[tuple[int, object]] = []
    report = listener.expect(lambda number, results: received.append((number, results)), UNHEARD).open()
    assert report is not None
    report.result(0, results(group(1)))
    assert received == [(0, results(group(1)))]
    report.result(1, "more")
    assert len(received) == 2
    report.close()
    listener.close()


@pytest.mark.parametrize("wrong", ["key", "nonsense"])
def test_who_does_not_have_the_key_is_not_heard(listener: ReportListener, wrong: str) -> None:
    received: list[object] = []
    real = listener.expect(lambda number, results: received.append(results), UNHEARD)
    stranger = ReportAddress(real.address, b"0" * 32, real.job).open()
    assert stranger is not None
    if wrong == "nonsense":
        assert stranger._connection is not None
        stranger._connection.sendall(b"\x00\x00\x00\x04nonsense")
    stranger.result(0, "forged")
    assert received == []
    assert stranger._connection is None, "the driver hung up"
    listener.close()


def test_a_stranger_is_cut_off_before_much_is_received(listener: ReportListener) -> None:
    with socket.create_connection(listener.expect(lambda number, results: None, UNHEARD).address, timeout=20) as line:
        assert len(line.recv(16)) == 16
        line.sendall((1 << 20).to_bytes(4, "big"))
        assert line.recv(1) == b"", "the driver hung up without waiting for the rest"
    listener.close()


def test_a_job_that_is_done_is_not_reported_to_any_more(listener: ReportListener) -> None:
    received: list[object] = []
    to = listener.expect(lambda number, results: received.append(results), UNHEARD)
    report = to.open()
    assert report is not None
    listener.forget(to)
    report.result(0, "late")
    report.close()
    assert received == []
    listener.close()


def test_where_nobody_listens_a_task_reads_without_reports() -> None:
    listener = ReportListener("127.0.0.1", "127.0.0.1")
    to = listener.expect(lambda number, results: None, UNHEARD)
    listener.close()
    assert to.open() is None


def test_a_driver_that_hangs_up_does_not_end_the_task(listener: ReportListener) -> None:
    report = listener.expect(lambda number, results: None, UNHEARD).open()
    assert report is not None
    report.result(0, "heard")
    listener.close()
    report.result(1, "not heard")
    report.result(2, "not heard")


def test_uploads_of_all_tasks_are_added_up_and_end_with_their_task(listener: ReportListener) -> None:
    heard: list[tuple[int, int]] = []
    changed = threading.Condition()

    def hear(now: TaskActivity) -> None:
        with changed:
            heard.append((now.files, now.parts))
            changed.notify_all()

    def wait_for(*expected: tuple[int, int]) -> None:
        with changed:
            assert changed.wait_for(lambda: heard == list(expected), 30), heard

    to = listener.expect(lambda number, results: None, ActiveTasks(hear))
    first, second = to.open(), to.open()
    assert first is not None
    assert second is not None
    first.activity(TaskActivity(2, 8))
    wait_for((2, 8))
    second.activity(TaskActivity(1, 0))
    wait_for((2, 8), (3, 8))
    first.close()
    wait_for((2, 8), (3, 8), (1, 0))
    second.activity(TaskActivity())
    wait_for((2, 8), (3, 8), (1, 0), (0, 0))
    second.close()
    listener.close()
