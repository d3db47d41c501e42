"""The Arrow lane: units of a plan as ``mapInArrow`` tasks, one Spark job per wave, results collected once.

Only what the driver received counts: a retried or speculative attempt leaves files nobody refers to, never rows.
Works the same on classic sessions and on Spark Connect; no RDD code.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tidegate.core.columns.predicates import RowFilter
from tidegate.core.files.plan import FileGroup
from tidegate.core.files.state import Refused
from tidegate.errors import RunStopped, TidegateError
from tidegate.sink.read_task import GroupResult, ReadTask
from tidegate.sink.row_task import WorkRows
from tidegate.sources.reader import Reader
from tidegate.spark.readers.files import FilesReader
from tidegate.spark.readers.http import HttpReader
from tidegate.spark.readers.iceberg import IcebergReader
from tidegate.spark.readers.jdbc import JdbcReader
from tidegate.spark.readers.reader import FunctionReader
from tidegate.spark.readers.tables import TableReader
from tidegate.spark.tasks import WorkerEnded, cause, read_slots, run_tasks, slot_frame, worker_ended
from tidegate.specs.columns import ColumnSource, FunctionRead, HttpRead, JdbcRead, TableFormat, TableRead
from tidegate.specs.project import SchemaSpec, SparkSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.sink.row_task import Batch, RowsWritten, RowTask
    from tidegate.sink.unit_task import ReplacedUnit
    from tidegate.sources.units.work import UnitWave, WaveResult
    from tidegate.spark.frames import SparkFrame
    from tidegate.specs.units import UnitSource

_POLL_SECONDS = 0.25

_Slots = Sequence[Sequence[FileGroup]]


class SparkEngine:
    """Runs units on Spark; starts the session when the first wave needs it.

    ``delta`` is asked then whether Spark itself will have to read or write Delta tables, ``packages`` what else it
    needs.
    """

    def __init__(
        self,
        spec: SparkSpec,
        *,
        stop: threading.Event | None = None,
        grace_secs: float = 15.0,
        starting: Callable[[str], None] = lambda where: None,
        delta: Callable[[], bool] = lambda: False,
        packages: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._spec = spec
        self._stop = stop or threading.Event()
        self._grace_secs = grace_secs
        self._starting = starting
        self._delta = delta
        self._packages = packages
        self._session: SparkSession | None = None
        self._started = False

    def session(self) -> SparkSession:
        """The running session, started on first use."""
        if self._session is None:
            from tidegate.spark.session import active_session, open_session

            self._session = active_session()
            if self._session is None:
                self._starting(self._spec.remote or self._spec.master or "local[*]")
                self._session = open_session(self._spec, delta=self._delta(), packages=self._packages())
                self._started = True
        return self._session

    @property
    def is_ready(self) -> bool:
        """Whether a session is running."""
        from tidegate.spark.session import active_session

        return self._session is not None or active_session() is not None

    def prepare(self) -> None:
        """Start the session."""
        self.session()

    def execute(
        self, task: ReadTask, slots: Sequence[Sequence[FileGroup]], progress: Callable[[int], None]
    ) -> tuple[GroupResult, ...]:
        """Read every unit; one task per slot, which takes its units one after the other.

        A file that ends the worker that reads it (a crash in native code, the memory limit, a signal) is refused, and
        the others are read. What failed before is read in a job of its own, so that it takes no other along.

        Raises :class:`TidegateError` when Spark gave up on a task or the run was stopped; then nothing counts.
        """
        now = _lasting(task)
        fresh, failed_before = _apart(slots)
        results = self._read(now, fresh, progress) if fresh else ()
        return (*results, *(self._read(now, failed_before, progress) if failed_before else ()))

    def _read(
        self, task: Callable[[], ReadTask], slots: _Slots, progress: Callable[[int], None]
    ) -> tuple[GroupResult, ...]:
        """Read every unit; where that ends a worker, find out which files it is about."""
        try:
            return self._job(task(), slots, progress)
        except WorkerEnded as ended:
            self._check_workers(task())
            return tuple(self._apart_from_what_ended(task, slots, ended))

    def _apart_from_what_ended(
        self, task: Callable[[], ReadTask], slots: _Slots, ended: WorkerEnded
    ) -> Iterator[GroupResult]:
        """The units of a job that ended a worker, in ever smaller jobs; only a file that was alone is to blame."""
        lone = _lone(slots)
        if lone is not None:
            yield self._blamed(task, lone, ended)
            return
        for half in _halves(slots):
            try:
                yield from self._job(task(), half, _ignore)
            except WorkerEnded as again:
                yield from self._apart_from_what_ended(task, half, again)

    def _blamed(self, task: Callable[[], ReadTask], unit: FileGroup, ended: WorkerEnded) -> GroupResult:
        """The result of a unit whose only file ended a worker, if it does so a second time: once may be chance."""
        try:
            (result,) = self._job(task(), ((unit,),), _ignore)
            return result
        except WorkerEnded as again:
            ended = again
        (each,) = unit.slices
        return GroupResult(unit.number, (Refused(each.path, each.size, each.etag, f"ended the worker ({ended.how})"),))

    def _check_workers(self, task: ReadTask) -> None:
        """Raise where a worker ends that reads no file at all: then no file is to blame."""
        try:
            self._job(task, ((FileGroup(0, ()),),), _ignore)
        except WorkerEnded as ended:
            raise TidegateError(
                f"Spark gave up on a task: Python workers end before they read a file ({ended.how})",
                "nothing was committed; look at the memory of the machine, and at the Python packages of its workers",
            ) from ended

    def _job(self, task: ReadTask, slots: _Slots, progress: Callable[[int], None]) -> tuple[GroupResult, ...]:
        """One job; :class:`WorkerEnded` where a Python worker, or a whole executor, ended in a task."""
        session = self.session()
        try:
            with self._watching(session, progress):
                results = run_tasks(slot_frame(session, len(slots)), read_slots, task, [list(slot) for slot in slots])
        except Exception as error:
            if self._stop.is_set():
                raise RunStopped("stopped while tasks were reading; their files are read again next time") from error
            ended = worker_ended(error)
            if ended is not None:
                raise ended from error
            raise TidegateError(
                f"Spark gave up on a task: {cause(error)}",
                "nothing was committed; the same files are read again by the next run",
            ) from error
        for each in results:
            if isinstance(each, TidegateError):
                raise each
        return tuple(results)

    def frame(self, rows: WorkRows) -> SparkFrame:
        """Decoded rows, to be written by Spark."""
        from tidegate.spark.frames import SparkFrame

        return SparkFrame(self.session(), rows)

    def reader(self, source: ColumnSource, schema: SchemaSpec, now: datetime) -> Reader:
        """Who reads a column source."""
        return open_reader(self.session(), source, schema, now)

    def count(self, frame: DataFrame) -> int:
        """How many rows a frame has that a reader gave."""
        try:
            return frame.count()
        except Exception as error:
            raise TidegateError(
                f"Spark gave up on a count: {cause(error)}", "nothing was committed; run again"
            ) from error

    def columns(self, frame: DataFrame) -> pa.Schema:
        """The columns of a frame that a reader gave; :class:`SchemaMismatch` for a type that no table can hold."""
        from tidegate.spark.frames import columns_of

        return columns_of(frame, "the source")

    def write_rows(self, frame: DataFrame, task: RowTask) -> RowsWritten:
        """Write the rows of a frame, once, each partition by a task of its own."""
        from tidegate.spark.frames import write_rows

        session = self.session()
        try:
            with self._watching(session, lambda done: None):
                return write_rows(frame, task)
        except TidegateError as error:
            if self._stop.is_set():
                raise RunStopped("stopped while rows were read; they are read again next time") from error
            raise

    def load(self, batch: Batch, window: RowFilter | None, *, chunk: bool) -> SparkFrame:
        """Rows of a work area, to be written by the load strategy of their pipeline."""
        from tidegate.spark.loading.strategies import load_frame

        return load_frame(self.session(), batch, window=window, chunk=chunk)

    def carry_out(self, wave: UnitWave) -> WaveResult:
        """Read and write the work units of a wave; a unit that fails keeps no other from being done."""
        from tidegate.spark.work_units import carry_out

        session = self.session()
        with self._watching(session, lambda done: None):
            return carry_out(session, wave, self._stop.is_set)

    def replace_units(self, batch: Batch, source: UnitSource, replaced: Sequence[ReplacedUnit]) -> SparkFrame:
        """Rows of a work area, to take the place of those of ``replaced`` in the table, in one commit."""
        from tidegate.spark.loading.replaced_units import unit_frame

        return unit_frame(self.session(), batch, source, replaced)

    def close(self) -> None:
        """Stop the session, if this lane started one."""
        if self._session is not None and self._started:
            with contextlib.suppress(Exception):  # a signal to the whole group has ended the JVM before us
                self._session.stop()
        self._session = None

    @contextlib.contextmanager
    def _watching(self, session: SparkSession, progress: Callable[[int], None]) -> Iterator[None]:
        """While inside: report finished tasks; cancel the job when the run was told to stop and grace is over."""
        finished = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(session, progress, finished), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            finished.set()
            watcher.join()

    def _watch(self, session: SparkSession, progress: Callable[[int], None], finished: threading.Event) -> None:
        stopped_at: float | None = None
        while not finished.wait(_POLL_SECONDS):
            progress(_tasks_done(session))
            if self._stop.is_set():
                stopped_at = stopped_at or time.monotonic()
                if time.monotonic() - stopped_at > self._grace_secs:
                    _cancel(session)


def _apart(slots: _Slots) -> tuple[_Slots, _Slots]:
    """The units without the files that have failed before, and these, each by itself."""
    fresh = [[unit for unit in map(_fresh, slot) if unit.slices] for slot in slots]
    failed = [
        [FileGroup(unit.number, (each,))] for slot in slots for unit in slot for each in unit.slices if each.attempts
    ]
    return [slot for slot in fresh if slot], failed


def _fresh(unit: FileGroup) -> FileGroup:
    return FileGroup(unit.number, tuple(each for each in unit.slices if not each.attempts))


def _halves(slots: _Slots) -> tuple[_Slots, ...]:
    """The same in two jobs: half of the tasks, of the only task's units, or of the only unit's files."""
    if len(slots) > 1:
        return slots[: len(slots) // 2], slots[len(slots) // 2 :]
    (units,) = slots
    if len(units) > 1:
        return (units[: len(units) // 2],), (units[len(units) // 2 :],)
    (unit,) = units
    half = unit.files // 2
    return ((FileGroup(unit.number, unit.slices[:half]),),), ((FileGroup(unit.number, unit.slices[half:]),),)


def _lone(slots: _Slots) -> FileGroup | None:
    """The only unit, if it has one file only."""
    units = [unit for slot in slots for unit in slot]
    return units[0] if len(units) == 1 and units[0].files == 1 else None


def _lasting(task: ReadTask) -> Callable[[], ReadTask]:
    """The task with as much time as it has now, whenever it is asked for."""
    if task.deadline is None:
        return lambda: task
    seconds = task.deadline - time.time()
    return lambda: replace(task, deadline=time.time() + seconds)


def _ignore(done: int) -> None:
    """Nobody follows the progress of a job that only finds something out."""


def open_reader(session: SparkSession, source: ColumnSource, schema: SchemaSpec, now: datetime) -> Reader:
    """The reader of ``source``; asks nothing of it yet."""
    match source.read:
        case JdbcRead() as read:
            return JdbcReader(session, source, read, schema)
        case TableRead(format=TableFormat.DELTA | TableFormat.PARQUET) as read:
            return TableReader(session, source, read, schema)
        case TableRead(format=TableFormat.ICEBERG) as read:
            return IcebergReader(session, source, read, schema)
        case TableRead() as read:
            return FilesReader(session, source, read, schema)
        case HttpRead():
            return HttpReader(session, source, schema, now)
        case FunctionRead() as read:
            return FunctionReader(session, source, read, schema, now)


def _is_connect(session: Any) -> bool:
    return type(session).__module__.startswith("pyspark.sql.connect")


def _tasks_done(session: Any) -> int:
    if _is_connect(session):
        return 0
    tracker = session.sparkContext.statusTracker()
    stages = (tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds())
    return sum(stage.numCompletedTasks for stage in stages if stage is not None)


def _cancel(session: Any) -> None:
    if _is_connect(session):
        session.interruptAll()
    else:
        session.sparkContext.cancelAllJobs()
