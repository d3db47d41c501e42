"""Which files are blamed where workers end; Spark is a function here that knows which files end a worker."""

from __future__ import annotations

import pickle
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.errors import check_names, raises
from support.lake import Lake
from tidegate.core.files.plan import FileGroup, FileSlice
from tidegate.core.files.state import Covered, Refused
from tidegate.errors import EnvironmentProblem, RunStopped, TidegateError
from tidegate.spark.engine import SparkEngine
from tidegate.spark.reports import ReportListener
from tidegate.spark.tasks import Packed, machine_problem, task_failure, worker_ended
from tidegate.specs.locations import Location
from tidegate.specs.project import SparkSpec
from tidegate.specs.table import FieldSpec
from tidegate.tasks.read_task import CommitLimits, ReadTask

ENDED = "Python worker exited unexpectedly (crashed): Fatal Python error: Bus error\n"
LOST = "ExecutorLostFailure (executor 3 exited caused by one of the running tasks) Reason: Command exited with code 137"
AWAY = "ExecutorLostFailure (executor 3 exited unrelated to the running tasks) Reason: Node was drained"


class Cluster:
    """A session whose jobs fail as ``failure`` says of the paths in them; ``jobs`` has those of each job."""

    def __init__(self, failure: Callable[[list[str]], str | None]) -> None:
        self.jobs: list[list[str]] = []
        self._failure = failure

    def range(self, start: int, end: int, step: int, parts: int) -> Cluster:
        self._tasks = [pa.record_batch({"id": [number]}) for number in range(start, end, step)]
        return self

    def mapInArrow(self, work: Packed, _: str) -> Cluster:  # noqa: N802  # as Spark calls it
        self._work = work
        return self

    def collect(self) -> list[dict[str, Any]]:
        _, (_, parts, _) = pickle.loads(zlib.decompress(self._work._payload))
        paths = [each.path for _, group in parts for each in group.slices]
        self.jobs.append(paths)
        problem = self._failure(paths)
        if problem is not None:
            raise RuntimeError(problem)
        return [row for task in self._tasks for batch in self._work(iter([task])) for row in batch.to_pylist()]


@pytest.fixture
def task(tmp_path: Path) -> ReadTask:
    lake = Lake(tmp_path)
    for number in range(10):
        lake.arrive(f"{number}.ndjson", records=1)
    fields = (FieldSpec("id", "int64"),)
    schema = pa.schema([pa.field("id", pa.int64())]).serialize().to_pybytes()
    (tmp_path / "table").mkdir()
    return ReadTask(Location((tmp_path / "data").as_uri()), Location((tmp_path / "table").as_uri()), fields, schema)


def lane(cluster: Cluster, stop: threading.Event | None = None) -> SparkEngine:
    made = SparkEngine(SparkSpec(), stop=stop)
    made._spark.session = cluster  # type: ignore[assignment]  # as much of a session as is used
    return made


def group(task: ReadTask, attempts: int = 0, failed: str = "") -> FileGroup:
    """Ten files."""
    root = Path(task.source.uri.removeprefix("file://"))
    names = [f"{number}.ndjson" for number in range(10)]
    return FileGroup(
        1,
        tuple(
            FileSlice(name, (root / name).stat().st_size, attempts=attempts if name == failed else 0) for name in names
        ),
    )


def read(cluster: Cluster, task: ReadTask, **how: Any) -> dict[str, object]:
    """The outcome of each file."""
    results = lane(cluster).read(task, group(task, **how))
    outcomes = [outcome for result in results for outcome in result.outcomes]
    assert len(outcomes) == 10, "each file has one outcome"
    return {outcome.path: outcome for outcome in outcomes}


def deadly(*names: str, problem: str = ENDED) -> Callable[[list[str]], str | None]:
    return lambda paths: problem if set(names) & set(paths) else None


@pytest.mark.parametrize("names", [("4.ndjson",), ("0.ndjson", "8.ndjson", "9.ndjson")])
def test_only_files_that_end_a_worker_while_they_are_alone_are_refused(task: ReadTask, names: tuple[str, ...]) -> None:
    cluster = Cluster(deadly(*names))
    found = read(cluster, task)
    refused = {path: each for path, each in found.items() if isinstance(each, Refused)}
    assert set(refused) == set(names)
    assert all(each.reason == "ended the worker (SIGBUS, bus error)" and each.counts for each in refused.values())
    assert all(isinstance(each, Covered) and each.eof for path, each in found.items() if path not in names)
    assert all([name] in cluster.jobs for name in names)


def test_files_that_end_a_worker_only_together_are_all_read(task: ReadTask) -> None:
    """As where memory suffices for each of them."""
    cluster = Cluster(lambda paths: ENDED if len(paths) > 2 else None)
    assert all(isinstance(each, Covered) for each in read(cluster, task).values())


def test_no_file_is_blamed_where_workers_end_that_read_none(task: ReadTask) -> None:
    cluster = Cluster(lambda paths: ENDED)
    with raises(TidegateError, "Python workers", "SIGBUS"):
        read(cluster, task)
    assert cluster.jobs[1:] == [[]]


def test_what_failed_before_takes_no_other_file_along(task: ReadTask) -> None:
    cluster = Cluster(deadly("4.ndjson"))
    found = read(cluster, task, attempts=1, failed="4.ndjson")
    assert isinstance(found["4.ndjson"], Refused)
    assert [len(paths) for paths in cluster.jobs] == [9, 1, 0, 1]


def test_an_executor_that_a_lone_file_loses_twice_counts(task: ReadTask) -> None:
    cluster = Cluster(deadly("4.ndjson", problem=LOST))
    found = read(cluster, task)["4.ndjson"]
    assert isinstance(found, Refused)
    assert found.reason == "ended the worker (its executor was lost: Command exited with code 137)"
    assert cluster.jobs.count(["4.ndjson"]) == 2


def test_an_executor_that_is_lost_once_blames_nobody(task: ReadTask) -> None:
    left = [LOST] * 4
    cluster = Cluster(lambda paths: left.pop() if left and "4.ndjson" in paths else None)
    assert all(isinstance(each, Covered) for each in read(cluster, task).values())


@pytest.mark.parametrize("problem", [AWAY, "Job aborted: Master removed our application: FAILED", "ValueError: no"])
def test_other_failures_end_the_task_and_blame_nobody(task: ReadTask, problem: str) -> None:
    cluster = Cluster(lambda paths: problem)
    with raises(TidegateError, "Spark", "committed"):
        read(cluster, task)
    assert len(cluster.jobs) == 1


def test_a_run_that_is_told_to_stop_looks_no_further(task: ReadTask) -> None:
    stop = threading.Event()
    stop.set()
    cluster = Cluster(deadly("4.ndjson"))
    with pytest.raises(RunStopped):
        lane(cluster, stop).read(task, group(task))
    assert len(cluster.jobs) == 1


@pytest.mark.parametrize(
    ("text", "how"),
    [
        ("Python worker exited unexpectedly (crashed): \n\tat org", "it was killed or vanished"),
        ("Python worker exited unexpectedly (crashed): Fatal Python error: Segmentation fault\n", "SIGSEGV"),
        ("Python worker exited unexpectedly (crashed): Fatal Python error: Stack overflow\n", "Stack overflow"),
    ],
)
def test_the_reason_says_what_is_known(text: str, how: str) -> None:
    ended = worker_ended(RuntimeError(text))
    assert ended is not None
    assert how in ended.how


def test_where_memory_runs_out_the_files_of_a_unit_are_read_one_by_one(task: ReadTask) -> None:
    from tidegate import failpoints

    failpoints.arm("sink.file.before=exhaust%1~4.ndj")
    try:
        found = read(Cluster(lambda paths: None), task)
    finally:
        failpoints.arm("")
    assert [path for path, each in found.items() if isinstance(each, Refused)] == ["4.ndjson"]
    bad = found["4.ndjson"]
    assert isinstance(bad, Refused)
    assert bad.reason == "ran out of memory while reading the file (sink.file.before)"


def read_in_turn(engine: SparkEngine, task: ReadTask) -> list[int]:
    """Two groups, one after the other, then three together; the numbers of those that are handed over."""
    slices = group(task).slices
    groups = [FileGroup(number, slices[2 * number : 2 * number + 2]) for number in range(5)]
    found: list[int] = []
    with engine.tasks(1, CommitLimits(), lambda now: None) as tasks:
        for together in (groups[:1], groups[1:2], groups[2:]):
            for each in together:
                tasks.submit(task, each)
            while tasks.count:
                found += [done.group.number for done in tasks.take_finished()]
    return found


@pytest.mark.parametrize("is_there", [True, False], ids=["the driver is reached", "it is not"])
def test_the_first_task_shows_whether_tasks_can_report_and_share_groups(task: ReadTask, is_there: bool) -> None:
    cluster = Cluster(lambda paths: None)
    engine = lane(cluster)
    engine._spark.listener = ReportListener("127.0.0.1", "127.0.0.1")
    if not is_there:
        engine._spark.listener.close()
    assert read_in_turn(engine, task) == [0, 1, 2, 3, 4]
    assert [len(paths) for paths in cluster.jobs] == ([2, 2, 6] if is_there else [2, 2, 2, 2, 2])
    engine.close()


def test_groups_that_share_a_task_with_a_deadly_file_are_read(task: ReadTask) -> None:
    cluster = Cluster(deadly("7.ndjson"))
    engine = lane(cluster)
    engine._spark.listener = ReportListener("127.0.0.1", "127.0.0.1")
    engine._spark.is_reached = engine._spark.was_tried = True
    assert sorted(read_in_turn(engine, task)) == [0, 1, 2, 3, 4]
    assert ["7.ndjson"] in cluster.jobs
    engine.close()


TRACE = "Job aborted.\n\tat org.apache.spark.X\nTraceback (most recent call last):\n  File a.py\n{}\n\tat java.lang.Y"


@pytest.mark.parametrize(
    ("raised", "problem"),
    [
        ("ModuleNotFoundError: No module named 'tidegate'", "workers … Tidegate"),
        ("ModuleNotFoundError: No module named 'tidegate.spark'", "workers … Tidegate"),
        (
            'java.io.IOException: Cannot run program "/opt/python": error=2, No such file or directory\n'
            "\tat java.lang.ProcessBuilder.start\n\tat org.apache.spark.api.python.PythonWorkerFactory.startDaemon",
            "workers … /opt/python … No such file or directory",
        ),
        (
            "PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in "
            "driver: 3.11, PySpark cannot run with different minor versions.",
            "workers … 3.12 … 3.11",
        ),
        (
            "Error from python worker:\n  File x\n  SyntaxError: invalid syntax\nPYTHONPATH was:\n  /a\n",
            "workers … SyntaxError: invalid syntax",
        ),
        ("Error from python worker:\n  No module named 'pandas'\nPYTHONPATH was:\n", "No module named 'pandas'"),
        ("SocketException: Python worker failed to connect back.", "workers … at once"),
    ],
)
def test_a_python_that_workers_cannot_use_is_one_sentence(raised: str, problem: str) -> None:
    found = task_failure(RuntimeError(TRACE.format(raised)), "run again")
    assert isinstance(found, EnvironmentProblem)
    check_names(found, problem, "PYSPARK_PYTHON")
    assert "\n" not in str(found)


@pytest.mark.parametrize("name", ["tidegate_native", "tidegates", "pandas"])
def test_another_module_that_is_missing_is_not_taken_for_tidegate(name: str) -> None:
    assert machine_problem(RuntimeError(TRACE.format(f"ModuleNotFoundError: No module named '{name}'"))) is None


def test_another_program_that_does_not_start_is_not_taken_for_a_python() -> None:
    said = 'java.io.IOException: Cannot run program "chmod": error=2, No such file or directory'
    found = machine_problem(RuntimeError(TRACE.format(f"{said}\n\tat org.apache.hadoop.util.Shell.runCommand")))
    assert found is not None
    check_names(found, "Spark", "chmod", "No such file or directory")
    assert "Python" not in str(found)


@pytest.mark.parametrize("said", ["OSError: [Errno 28] ", "org.apache.spark.SparkException: java.io.IOException: "])
def test_a_full_disk_of_spark_is_one_sentence(said: str) -> None:
    found = task_failure(RuntimeError(TRACE.format(f"{said}No space left on device")), "run again")
    assert isinstance(found, EnvironmentProblem)
    check_names(found, "disk", "TMPDIR")


def test_a_full_disk_of_a_database_is_not_taken_for_one_of_spark() -> None:
    said = "org.postgresql.util.PSQLException: ERROR: could not extend file: No space left on device"
    assert machine_problem(RuntimeError(TRACE.format(said))) is None


def test_any_other_failure_keeps_its_cause_and_remedy() -> None:
    found = task_failure(RuntimeError(TRACE.format("ValueError: x")), "run again")
    check_names(found.problem, "ValueError: x")
    assert found.remedy == "run again"
