"""Python tasks on Spark: functions packed for them, and what ended them."""

from __future__ import annotations

import pickle
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeVar

from tidegate.core.files.plan import FileGroup
from tidegate.errors import EnvironmentProblem, TidegateError
from tidegate.sink.read_task import GroupResult, ReadTask
from tidegate.sink.task import read_group
from tidegate.spark.reports import ReportAddress
from tidegate.specs.masking import Mask, shorten

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Item = TypeVar("Item")


def deal(items: Sequence[Item], shares: int) -> list[list[Item]]:
    """``items`` in turn to so many shares, none of them empty; without an item there is one empty share."""
    count = max(1, min(shares, len(items)))
    return [list(items[first::count]) for first in range(count)]


def slot_frame(session: SparkSession, count: int) -> DataFrame:
    """The numbers of so many slots, each for a task of its own; :func:`slot_numbers` takes them there."""
    return session.range(0, count, 1, count)


def slot_numbers(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    """The slots of a task."""
    for batch in batches:
        yield from batch.column(0).to_pylist()


def run_tasks(rows: DataFrame, work: Callable[..., Iterator[Any]], *needs: object) -> list[Any]:
    """Everything that ``work`` yields in the tasks, which get the partitions of ``rows`` and ``needs``."""
    results = rows.mapInArrow(Packed(_pickle_results, work, *needs), "result binary").collect()
    return [pickle.loads(bytes(row["result"])) for row in results]


def _pickle_results(
    batches: Iterator[pa.RecordBatch], work: Callable[..., Iterator[Any]], *needs: object
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for result in work(batches, *needs):
        yield pa.record_batch({"result": [pickle.dumps(result)]})


Part = tuple[ReadTask, FileGroup]
"""A group of files, and how it is read."""


def read_in_task(
    batches: Iterator[pa.RecordBatch], parts: Sequence[Part], report_to: ReportAddress | None
) -> Iterator[tuple[int, tuple[GroupResult, ...]] | TidegateError]:
    """Read group after group: the number of each, and its results, which are also reported as soon as they are there.

    An error of ours travels as a value, so that the driver knows it by its class.
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
    """``work`` with further arguments ``needs``; both are unpacked in the task, and no plan of Spark's shows them."""

    def __init__(self, work: Callable[..., Iterator[pa.RecordBatch]], *needs: object) -> None:
        self._payload = zlib.compress(pickle.dumps((work, needs)), level=1)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        work, needs = pickle.loads(zlib.decompress(self._payload))
        yield from work(batches, *needs)


DAEMON_SETTING, DAEMON = "spark.python.daemon.module", "tidegate.spark.daemon"
"""What starts the workers of a session that Tidegate opened."""

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
    """A process that ran a task ended in the middle of it; ``how`` says as much as is known of that."""

    def __init__(self, how: str, *, executor_lost: bool = False) -> None:
        super().__init__(f"Spark gave up on a task: it ended the worker ({how})", "nothing of it was committed")
        self.how = how
        self.executor_lost = executor_lost

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(WorkerEnded, executor_lost=self.executor_lost), (self.how,)


def worker_ended(error: Exception) -> WorkerEnded | None:
    """What ended the worker, where Spark gave up for that; None where it was something else."""
    text = str(error)
    if _ENDED in text:
        fatal = _FATAL.search(text)
        if fatal is None:
            return WorkerEnded("it was killed or vanished, most often for lack of memory")
        return WorkerEnded(_SIGNALS.get(fatal[1].strip(), fatal[1].strip()[:200]))
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
"""What Spark says where workers have a Python that will not do, and what that is in words."""


_FULL = re.compile(r"(?:IOException|FileSystemException|OSError)[^\n]*No space left on device")
"""A disk of Spark's; servers of databases say the same of theirs, in exceptions of their own."""


def machine_problem(error: Exception, mask: Mask | None = None) -> EnvironmentProblem | None:
    """What is wrong with the machines of the workers, where Spark gave up for that; else None."""
    text = str(error) if mask is None else mask(str(error))
    for pattern, problem in _OF_PYTHON:
        if found := pattern.search(text):
            return EnvironmentProblem(
                problem.format(*(_last_line(each) for each in found.groups())),
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
    """What the session that runs here asks for the Python of its workers."""
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
    """What Spark gave up on a task for; :class:`EnvironmentProblem` where the machines of the workers are the cause."""
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
    """The telling part of Spark's long message; of a Python function that failed, its exception.

    ``mask`` is applied before anything is left out.
    """
    text = str(error) if mask is None else mask(str(error))
    if "Traceback (most recent call last)" in text:
        return cause(error, mask)
    lines = [line.strip() for line in text.splitlines() if line.strip() and not _NOISE.match(line)]
    caused = [line for line in lines if line.startswith("Caused by:")]
    told = next((line for line in lines if re.match(r":?\s*[\w.$]+(Exception|Error): ", line)), "")
    chosen = caused[-1] if caused else told or (lines or [type(error).__name__])[0]
    return shorten(f"{chosen.lstrip(': ')}{_listed_after(chosen, lines)}")


def _listed_after(chosen: str, lines: list[str]) -> str:
    """The values that a line announces, such as those of the row that breaks a constraint."""
    if not chosen.endswith(":"):
        return ""
    listed = takewhile(lambda line: line.startswith("- "), lines[lines.index(chosen) + 1 :])
    return " " + ", ".join(line[2:].replace(" : ", " = ") for line in listed)
