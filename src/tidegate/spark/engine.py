"""The Arrow lane: groups of files as tasks in Python, one Spark job each, whose results are collected once.

Only what the driver received counts: a retried or speculative attempt leaves files nobody refers to, never rows. Works
the same on classic sessions and on Spark Connect, by ``mapInArrow``; sessions of our own have jobs without a query.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tidegate.core.columns.predicates import RowFilter
from tidegate.core.files.plan import FileGroup
from tidegate.core.files.state import Refused
from tidegate.errors import EnvironmentProblem, RunStopped, TidegateError, chain
from tidegate.sources.reader import Reader
from tidegate.spark.catalog import Catalog
from tidegate.spark.frames import SparkFrame, columns_of, write_rows
from tidegate.spark.loading.strategies import load_frame, unit_frame
from tidegate.spark.readers.http import HttpReader
from tidegate.spark.readers.jdbc import AdbcRows, JdbcReader, frame_of
from tidegate.spark.readers.reader import FunctionReader
from tidegate.spark.readers.tables import FilesReader, IcebergReader, TableReader
from tidegate.spark.reports import ReportAddress, ReportListener
from tidegate.spark.session import active_session, log_excerpt, open_session, stop_session, take_session
from tidegate.spark.tasks import (
    POLL_SECONDS,
    JobTag,
    Part,
    Parts,
    TaskPool,
    Turns,
    WorkerEnded,
    cause,
    is_fresh,
    machine_problem,
    read_in_task,
    run_task,
    run_tasks,
    slot_frame,
    task_failure,
    worker_ended,
)
from tidegate.spark.work_units import carry_out
from tidegate.specs.columns import ColumnSource, FunctionRead, HttpRead, JdbcRead, TableFormat, TableRead
from tidegate.specs.masking import Mask
from tidegate.specs.project import SparkSpec
from tidegate.specs.table import SchemaSpec
from tidegate.tasks.admission import Admission
from tidegate.tasks.read_task import CommitLimits, GroupResult, Hear, ReadTask
from tidegate.tasks.row_task import WorkRows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.core.rdd import RDD
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.sources.units.work import UnitWave, WaveResult
    from tidegate.spark.frames import SparkFrame
    from tidegate.specs.units import UnitSource
    from tidegate.tasks.row_task import Batch, RowsWritten, RowTask
    from tidegate.tasks.unit_task import ReplacedUnit


ENCRYPTED = ("spark.network.crypto.enabled", "spark.ssl.enabled", "spark.ssl.rpc.enabled")
"""Settings of a cluster that sends no data unencrypted."""

AGAIN_SECONDS = 5.0
"""For this long after a failed start, the next source gets the same error instead of a retry."""


class SharedSession:
    """The session of all passes, started by the first that needs it; thread-safe.

    Then ``delta`` says whether Spark itself has to read or write Delta tables, ``packages`` what else it needs.
    """

    def __init__(
        self,
        spec: SparkSpec,
        starting: Callable[[str], None],
        delta: Callable[[], bool],
        packages: Callable[[], Sequence[str]],
        mask: Mask | None,
    ) -> None:
        self._spec = spec
        self._starting = starting
        self._delta = delta
        self._packages = packages
        self._mask = mask
        self._refusal: tuple[float, EnvironmentProblem] | None = None
        self._lock = threading.Lock()
        self._is_closed = False
        self._thread = threading.local()
        self.session: SparkSession | None = None
        self._slot: RDD[int] | None = None
        self.is_ours = False
        self.turns = Turns()
        self.listener: ReportListener | None = None
        self.is_reached = self.was_tried = False

    def get(self) -> SparkSession:
        """The running session, started on first use."""
        # One thread starts it, and the others wait for that instead of starting another.
        with self._lock:
            if self._is_closed:
                raise RunStopped("the run is over, and its Spark session with it")
            if self.session is None:
                self.session = take_session(self._spec) or self._start()
            return self.session

    def _start(self) -> SparkSession:
        # Each source of a project asks for the session; without this, every one of them would wait for the same
        # failing start.
        if self._refusal is not None and time.monotonic() < self._refusal[0] + AGAIN_SECONDS:
            raise self._refusal[1]
        self._starting(self._spec.remote or self._spec.master or "local[*]")
        try:
            session = open_session(self._spec, delta=self._delta(), packages=self._packages(), mask=self._mask)
        except EnvironmentProblem as refusal:
            self._refusal = time.monotonic(), refusal
            raise
        self.is_ours = True
        return session

    def enter(self, session: Any, source: str) -> None:
        """Make this thread one of ``source``: user code finds the session, and its jobs have their fair share."""
        if getattr(self._thread, "source", None) == source or _is_connect(session):
            return
        self._thread.source = source
        with contextlib.suppress(Exception):  # a session that is gone: the next job reports it
            session._jvm.SparkSession.setActiveSession(session._jsparkSession)
            # Pools mean something only with the scheduler that our own sessions have.
            if self.is_ours and source:
                session.sparkContext.setLocalProperty("spark.scheduler.pool", source)

    def slot(self) -> RDD[int] | None:
        """A partition with one number, for tasks that need no query; None in a session that others brought.

        Platforms forbid such jobs in some of theirs, and Spark Connect has none.
        """
        session = self.get()
        with self._lock:
            if self._slot is None and self.is_ours and not _is_connect(session):
                self._slot = session.sparkContext.parallelize([0], 1)
            return self._slot

    def listen(self, listen: Callable[[SparkSession], None]) -> None:
        """Call ``listen`` unless somebody listens to tasks already."""
        session = self.get()
        with self._lock:
            if self.listener is None:
                listen(session)

    def close(self) -> None:
        """Stop the session, if it was started here; a pass that was left behind starts no other."""
        self._is_closed = True
        if self.listener is not None:
            self.listener.close()
            self.listener = None
        if self.session is not None and self.is_ours:
            with contextlib.suppress(Exception):  # a signal to the whole group has ended the JVM before us
                stop_session(self.session)
        self.session = self._slot = None


class SparkEngine:
    """Executes on Spark; starts the session on first use."""

    def __init__(
        self,
        spec: SparkSpec,
        *,
        stop: threading.Event | None = None,
        grace_secs: float = 15.0,
        starting: Callable[[str], None] = lambda where: None,
        delta: Callable[[], bool] = lambda: False,
        packages: Callable[[], Sequence[str]] = tuple,
        mask: Mask | None = None,
    ) -> None:
        self._spark = SharedSession(spec, starting, delta, packages, mask)
        self._stop = stop or threading.Event()
        self._grace_secs = grace_secs
        self._source = ""
        self._admission: Admission | None = None
        self._turns = Turns()

    def for_pass(self, source: str, stop: threading.Event, admission: Admission) -> SparkEngine:
        """This engine for one pass, on the same session."""
        view = copy(self)
        view._source, view._stop, view._admission = source, stop, admission
        view._turns = Turns()
        return view

    def session(self) -> SparkSession:
        """The running session, started on first use."""
        session = self._spark.get()
        self._spark.enter(session, self._source)
        return session

    @property
    def is_ready(self) -> bool:
        """Whether a session is running."""
        return self._spark.session is not None or active_session() is not None

    def catalog(self) -> Catalog:
        """The catalog of the session, which is started for it."""
        return Catalog(self.session())

    def prepare(self) -> None:
        """Start the session."""
        self.session()

    def check_write(self, source: str, only_spark: Sequence[str]) -> None:
        """Spark writes everything."""

    def tasks(self, most: int, limits: CommitLimits, hear: Hear) -> TaskPool:
        """Tasks that read groups of files, each a Spark job; at most ``most`` at once."""
        session = self.session()
        # A Spark Connect session has no context that tells the driver's host and whether the cluster encrypts.
        if not _is_connect(session):
            self._spark.listen(self._listen)
        tags, is_reached = JobTag(session), lambda: self._spark.is_reached
        return TaskPool(
            self._read_parts, is_reached, most, limits, hear, tags, self._stop, self._grace_secs, self._admit
        )

    def _admit(self, is_over: Callable[[], bool]) -> contextlib.AbstractContextManager[bool]:
        """The turn of a task among those of all sources."""
        room = self._admission
        return contextlib.nullcontext(True) if room is None else room.admit(self._source, is_over)

    def _listen(self, session: Any) -> None:
        """Let tasks report to this process; on one machine it is known at once whether they can.

        Reports have the least and greatest values of columns, and are not encrypted: a cluster that encrypts has none.
        """
        settings, is_local = session.sparkContext.getConf(), session.sparkContext.master.startswith("local")
        if not is_local and any(settings.get(key, "false") == "true" for key in ENCRYPTED):
            return
        host = "127.0.0.1" if is_local else settings.get("spark.driver.host", "127.0.0.1")
        # Reports only save jobs: without a socket, tasks read one group each and their results come when the job ends.
        with contextlib.suppress(OSError):
            self._spark.listener = ReportListener(host, host if is_local else "")
            self._spark.is_reached = self._spark.was_tried = is_local

    def _read_parts(self, parts: Parts) -> None:
        """One task over several groups, whose results it reports one by one.

        If it is unknown whether tasks can reach this process, the first one shows it.
        """
        listener = self._spark.listener
        may_report = self._spark.is_reached or not self._spark.was_tried
        # A file that failed before must not end a worker in the middle of the groups of others.
        if listener is None or not may_report or not is_fresh(parts.parts[0]):
            for number, (task, group) in enumerate(parts.parts):
                parts.take(number, self.read(task, group))
            return
        self._spark.was_tried = True

        def receive(number: int, results: tuple[GroupResult, ...]) -> None:
            self._spark.is_reached = True
            parts.report(number, results)

        report_to = listener.expect(receive, parts.active)
        try:
            with self._run_beside_others():
                for number, results in self._job(parts.parts, report_to):
                    parts.take(number, results)
        # What was reported before the end counts; only the other groups are read again.
        except WorkerEnded:
            for number in parts.list_unread():
                parts.take(number, self.read(*parts.parts[number]))
        finally:
            listener.forget(report_to)

    def read(self, task: ReadTask, group: FileGroup) -> tuple[GroupResult, ...]:
        """One task: read a group. Thread-safe.

        A file that ends the worker that reads it (a crash in native code, the memory limit, a signal) is refused, and
        the others are read. Files that failed before are read in their own jobs, so that they harm no other.

        Raises :class:`TidegateError` if Spark gave up on the task or the run was stopped; then nothing counts.
        """
        return tuple(result for part in _split_off_failed(group) for result in self._read(task, part))

    def _read(self, task: ReadTask, group: FileGroup) -> Iterable[GroupResult]:
        """Read the group; if that ends a worker, find out which files are to blame."""
        try:
            with self._run_beside_others():
                return self._group(task, group)
        except WorkerEnded as ended:
            # The end of an executor ends the tasks of every job on it, and memory is taken by all. Alone, a file cannot
            # be blamed for its neighbour. A worker that crashed did so by itself: other sources need not wait.
            with self._run_alone(ended):
                self._check_workers(task)
                return tuple(self._bisect_failing_files(task, group, ended))

    @contextlib.contextmanager
    def _run_alone(self, ended: WorkerEnded) -> Iterator[None]:
        """While jobs run that no other may run beside: of this source, or of any."""
        with contextlib.ExitStack() as stack:
            if ended.by_itself:
                stack.enter_context(self._turns.run_alone())
                stack.enter_context(self._spark.turns.submit_beside_others())
            else:
                stack.enter_context(self._spark.turns.run_alone())
            yield

    @contextlib.contextmanager
    def _run_beside_others(self) -> Iterator[None]:
        """While a job runs that those of this source and of all others may run beside."""
        with self._spark.turns.submit_beside_others(), self._turns.submit_beside_others():
            yield

    def _bisect_failing_files(self, task: ReadTask, group: FileGroup, ended: WorkerEnded) -> Iterator[GroupResult]:
        """Read the group again in halves until the file that ends the worker is isolated."""
        if group.files == 1:
            yield from self._blame(task, group, ended)
            return
        middle = group.files // 2
        for slices in (group.slices[:middle], group.slices[middle:]):
            half = FileGroup(group.number, slices)
            try:
                yield from self._group(task, half)
            except WorkerEnded as again:
                yield from self._bisect_failing_files(task, half, again)

    def _blame(self, task: ReadTask, group: FileGroup, ended: WorkerEnded) -> Iterable[GroupResult]:
        """The result of a group whose only file ended a worker, if it does so again: once may be chance."""
        try:
            return self._group(task, group)
        except WorkerEnded as again:
            ended = again
        (each,) = group.slices
        reason = f"ended the worker ({ended.how})"
        return (GroupResult(group.number, (Refused(each.path, each.size, each.etag, reason),)),)

    def _check_workers(self, task: ReadTask) -> None:
        """Raise if a worker ends without reading any file: then no file is to blame."""
        try:
            self._group(task, FileGroup(0, ()))
        except WorkerEnded as ended:
            raise TidegateError(
                f"Spark gave up on a task: Python workers end before they read a file ({ended.how})",
                "nothing of it was committed; check the memory of the machine and the Python packages of its workers",
            ) from ended

    def _group(self, task: ReadTask, group: FileGroup) -> tuple[GroupResult, ...]:
        """A job for one group."""
        ((_, results),) = self._job(((task, group),), None)
        return results

    def _job(
        self, parts: Sequence[Part], report_to: ReportAddress | None
    ) -> Iterator[tuple[int, tuple[GroupResult, ...]]]:
        """One job of one task; :class:`WorkerEnded` if a Python worker, or a whole executor, ended in it."""
        try:
            # Threads of tasks inherit what ``enter`` sets, and run no code that looks for the session.
            session, slot = self._spark.get(), self._spark.slot()
            work = read_in_task, tuple(parts), report_to
            found = run_tasks(slot_frame(session, 1), *work) if slot is None else run_task(slot, *work)
        except Exception as error:
            # A job that was cancelled fails in many ways; why it failed matters only if nobody asked for it.
            if self._stop.is_set():
                raise RunStopped("stopped while tasks were reading; their files are read again next time") from error
            ended = worker_ended(error)
            if ended is not None:
                raise ended from error
            remedy = "nothing of it was committed; the next run reads the same files again"
            raise task_failure(error, remedy) from error
        for each in found:
            if isinstance(each, TidegateError):
                raise each
            yield each

    def frame(self, rows: WorkRows) -> SparkFrame:
        """Decoded rows for Spark to write."""
        return SparkFrame(self.session(), rows)

    def reader(self, source: ColumnSource, schema: SchemaSpec, now: datetime) -> Reader:
        """The reader of a column source."""
        return open_reader(self.session(), source, schema, now)

    def count(self, frame: DataFrame | AdbcRows) -> int:
        """The number of rows of a reader's result."""
        try:
            return frame_of(frame).count()
        except Exception as error:
            problem = TidegateError(f"Spark gave up on a count: {cause(error)}", "nothing was committed; run again")
            raise machine_problem(error) or problem from error

    def columns(self, frame: DataFrame | AdbcRows) -> pa.Schema:
        """The columns of a reader's result; :class:`SchemaMismatch` for a type that no table can have."""
        return columns_of(frame_of(frame), "the source")

    def write_rows(self, frame: DataFrame | AdbcRows, task: RowTask) -> RowsWritten:
        """Write the rows of a frame, once, each partition by its own task."""
        session = self.session()
        try:
            with self._cancel_when_stopped(session):
                return write_rows(frame, task)
        except TidegateError as error:
            if self._stop.is_set():
                raise RunStopped("stopped while rows were read; they are read again next time") from error
            raise

    def load(self, batch: Batch, window: RowFilter | None, *, chunk: bool) -> SparkFrame:
        """Rows of a work area for the load strategy of their pipeline."""
        return load_frame(self.session(), batch, window=window, chunk=chunk)

    def carry_out(self, wave: UnitWave) -> WaveResult:
        """Read and write the work units of a wave; one that fails does not stop the others."""
        session = self.session()
        with self._cancel_when_stopped(session):
            return carry_out(session, wave, self._stop.is_set)

    def replace_units(self, batch: Batch, source: UnitSource, replaced: Sequence[ReplacedUnit]) -> SparkFrame:
        """Rows of a work area that replace those of ``replaced`` in the table, in one commit."""
        return unit_frame(self.session(), batch, source, replaced)

    def excerpt_log(self, error: BaseException, mask: Mask) -> str:
        """Where the log of the Spark that runs here is kept, and its end, if ``error`` came from Spark."""
        behind = chain(error) if self._spark.session is not None else ()
        is_sparks = any(type(each).__module__.partition(".")[0] in ("pyspark", "py4j") for each in behind)
        return log_excerpt(mask) if is_sparks else ""

    def close(self) -> None:
        """Stop the session, if this engine started one."""
        self._spark.close()

    @contextlib.contextmanager
    def _cancel_when_stopped(self, session: SparkSession) -> Iterator[None]:
        """While inside: cancel the jobs of this thread, and no others, if the pass has to stop and grace is over."""
        finished = threading.Event()
        jobs = JobTag(session)
        watcher = threading.Thread(target=self._watch, args=(jobs, finished), daemon=True)
        watcher.start()
        try:
            with jobs.mark_this_thread():
                yield
        finally:
            finished.set()
            watcher.join()

    def _watch(self, jobs: JobTag, finished: threading.Event) -> None:
        stopped_at: float | None = None
        while not finished.wait(POLL_SECONDS):
            if self._stop.is_set():
                stopped_at = stopped_at or time.monotonic()
                if time.monotonic() - stopped_at > self._grace_secs:
                    jobs.cancel()


def _split_off_failed(group: FileGroup) -> Iterator[FileGroup]:
    """The group without files that have failed before, and each of these by itself."""
    fresh = tuple(each for each in group.slices if not each.attempts)
    if fresh:
        yield FileGroup(group.number, fresh)
    yield from (FileGroup(group.number, (each,)) for each in group.slices if each.attempts)


def open_reader(session: SparkSession, source: ColumnSource, schema: SchemaSpec, now: datetime) -> Reader:
    """The reader of ``source``; sends nothing yet."""
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
