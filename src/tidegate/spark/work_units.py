"""Work units on Spark: read by Spark itself, or fetched and written by Python tasks.

One job writes the rows of several work units, each with its own tasks and files. If that job fails, they are retried
one by one, so that only the bad one fails. Only what the driver received counts.

Python tasks have many requests under way at once. If the columns are declared, one job fetches and writes. Otherwise
the driver learns them between two jobs, and no record passes through it. A retried attempt leaves files that nobody
refers to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, Protocol

from tidegate.core.columns.predicates import RowFilter, predicate
from tidegate.core.dialects.dialect import SPARK
from tidegate.errors import RunStopped, TidegateError
from tidegate.sources.http.client import slot_count
from tidegate.sources.jdbc import JdbcStatements
from tidegate.sources.reader import UnitRequest
from tidegate.sources.units.work import (
    Fetched,
    UnitFailure,
    UnitWave,
    UnitWork,
    UnitWritten,
    WaveResult,
    failure_of,
    fill_query,
    moment_of,
    time_range,
    values_of,
    widen_range,
)
from tidegate.spark.arrow_types import to_spark_columns
from tidegate.spark.filters import filter_rows, fit_to_schema
from tidegate.spark.frames import columns_of
from tidegate.spark.readers.jdbc import JdbcConnection
from tidegate.spark.readers.jdbc_columns import JdbcColumns
from tidegate.spark.readers.reader import (
    FUNCTION_REMEDY,
    call_function,
    check_given,
    declare_columns,
    task_count,
    unreadable,
    utc_session,
    with_instants,
)
from tidegate.spark.session import COLUMNAR_INPUT, put, quote
from tidegate.spark.tasks import run_tasks, slot_frame, slot_numbers, task_failure, worker_ended
from tidegate.specs.columns import FunctionRead, JdbcRead
from tidegate.specs.masking import Mask
from tidegate.specs.units import Replace, UnitSource
from tidegate.tasks.row_task import RowsWritten, RowTask, join_results, row_task, write_batches
from tidegate.tasks.unit_share import (
    fetch_and_write,
    most_in_flight,
    pack_share,
    write_declared_wave,
    write_fetched,
    write_packed,
)
from tidegate.tasks.unit_task import WriteTask, declare_unit_columns, fetch_task, write_wave

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


class JdbcUnits:
    """A table or query of a database; with a time column the range goes into the statement."""

    together = True

    def __init__(self, session: SparkSession, wave: UnitWave, read: JdbcRead) -> None:
        self._connection = JdbcConnection(utc_session(session), read, wave.source.name)
        self._wave = wave
        self._read = read
        self._columns: JdbcColumns | None = None

    def segments(self, work: UnitWork) -> list[FrameSegment]:
        """One statement per segment, each for its own connection."""
        return [FrameSegment(low, self._rows(work, low, high)) for low, high in work.segments]

    def problem(self, error: Exception) -> TidegateError:
        return self._connection.problem(error)

    def _rows(self, work: UnitWork, low: int, high: int) -> DataFrame:
        source = self._wave.source
        asked = JdbcStatements(self._ask(work, low, high))
        if self._columns is None:
            found = self._connection.frame(asked.rows(RowFilter())).schema
            self._columns = JdbcColumns(found, self._connection.dialect)
        # Wider than the range near a clock change, where local times have no order; `inside` removes the surplus.
        pushed = fit_to_schema(widen_range(source, low, high), self._columns.schema, source.timezone, source.name)
        statement = replace(asked, columns=self._columns.select_columns()).rows(pushed)
        fetched = self._connection.frame(statement, self._columns.fetched_schema())
        frame = self._columns.restore_columns(fetched, declare_columns(self._wave.pipeline.schema))
        timed = with_instants(frame, source.timezone)
        inside = fit_to_schema(
            time_range(source, moment_of(low), moment_of(high)), timed.schema, source.timezone, source.name
        )
        return check_given(filter_rows(timed, inside), self._wave.pipeline.schema, source.timezone, source.name)

    def _ask(self, work: UnitWork, low: int, high: int) -> JdbcRead:
        """The read, with its variables filled."""
        if self._read.query is None:
            return self._read
        values = values_of(self._wave.source, work, (low, high))
        return replace(self._read, query=fill_query(self._read.query, values, self._connection.dialect))


class FunctionUnits:
    """Calls one function in the driver per segment, with the session and a request."""

    together = False

    def __init__(self, session: SparkSession, wave: UnitWave, read: FunctionRead) -> None:
        self._session = utc_session(session)
        self._wave = wave
        self._read = read
        self._said = f"{wave.source.name}: function {read.function}"
        self._mask = Mask.around(read, [dict(work.secrets) for work in wave.works])

    def segments(self, work: UnitWork) -> list[FrameSegment]:
        """The function's result; with a time column, rows outside the range are removed."""
        source = self._wave.source
        found = []
        for low, high in work.segments:
            rows = check_given(self._call(work, low, high), self._wave.pipeline.schema, source.timezone, source.name)
            inside = fit_to_schema(
                time_range(source, moment_of(low), moment_of(high)), rows.schema, source.timezone, source.name
            )
            found.append(FrameSegment(low, rows, predicate(inside, SPARK)))
        return found

    def problem(self, error: Exception) -> TidegateError:
        return unreadable(self._said, error, FUNCTION_REMEDY, self._mask)

    def _call(self, work: UnitWork, low: int, high: int) -> DataFrame:
        bounds, options = (moment_of(low), moment_of(high)), dict(self._read.options)
        request = UnitRequest(work.unit, dict(work.variables), *bounds, self._wave.now, options, dict(work.secrets))
        return call_function(self._session, self._read, request, self._said, self._mask)


@dataclass(frozen=True, slots=True)
class FrameSegment:
    """The rows of one segment; those that fail ``wanted``, in SQL, are counted and left out."""

    low: int
    rows: DataFrame
    wanted: str | None = None


class Frames(Protocol):
    """Reads work units as DataFrames."""

    together: bool
    """Whether many of them are worth one job; otherwise each is its own."""

    def segments(self, work: UnitWork) -> list[FrameSegment]:
        """The rows of a work unit; reads nothing yet."""

    def problem(self, error: Exception) -> TidegateError:
        """The error of a failed job, without secrets."""


@dataclass(frozen=True, slots=True)
class _UnitFrames:
    """The frames of a work unit, and their columns; None without a frame."""

    segments: list[FrameSegment]
    columns: pa.Schema | None


def carry_out_frames(wave: UnitWave, frames: Frames, stopped: Callable[[], bool]) -> WaveResult:
    """Read and write all work units of the wave."""
    job = _FrameJob(wave, frames, stopped)
    ready: dict[int, _UnitFrames | UnitFailure] = {}
    columns: pa.Schema | None = None
    for number, work in enumerate(wave.works):
        each = ready[number] = job.prepare(work, columns)
        if isinstance(each, _UnitFrames):
            columns = _merge_schemas(columns, each.columns)
    return write_wave(wave, ready, job.plan, job.write_all)


@dataclass(frozen=True, slots=True)
class _FrameJob:
    wave: UnitWave
    frames: Frames
    stopped: Callable[[], bool]

    def prepare(self, work: UnitWork, others: pa.Schema | None) -> _UnitFrames | UnitFailure:
        """The frames of one work unit; their columns must fit those of the table and of the ``others``."""
        import pyarrow as pa

        wave = self.wave
        own: pa.Schema | None = None
        try:
            segments = self.frames.segments(work)
            for segment in segments:
                found = add_own_columns(
                    columns_of(segment.rows, f"{wave.source.name}: unit {work.unit!r}"), wave.source
                )
                # Only for its refusals: a unit whose columns do not fit the table fails here, and not the job of all.
                row_task(wave.pipeline, wave.source.rows, found, wave.table)
                own = _merge_schemas(own, found)
            _merge_schemas(others, own)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            return UnitFailure(
                f"unit {work.unit!r} has other columns than the units before it: {error}",
                "declare the columns in the schema, or cast them",
            )
        except TidegateError as error:
            return failure_of(error)
        except Exception as error:
            return self._failure(error)
        return _UnitFrames(segments, own)

    def plan(self, ready: Mapping[int, _UnitFrames]) -> WriteTask:
        """How to write these; only their columns count."""
        wave = self.wave
        columns: pa.Schema | None = None
        for each in ready.values():
            columns = _merge_schemas(columns, each.columns)
        rows = None
        if columns is not None:
            table = wave.table if wave.place is None else None
            rows = row_task(wave.pipeline, wave.source.rows, columns, table, work=wave.place)
        return WriteTask(wave.source, wave.pipeline.schema, rows=rows)

    def write_all(self, task: WriteTask, ready: Mapping[int, _UnitFrames]) -> dict[int, UnitWritten | UnitFailure]:
        """Write them by one job, if that is worth it and succeeds; else each by its own."""
        if task.rows is None:
            return dict.fromkeys(ready, UnitWritten())
        if self.frames.together:
            try:
                return self._write(task.rows, ready)
            except TidegateError:
                raise
            # Which work unit was at fault is unknown; retried one by one, only that one fails.
            except Exception as error:
                _raise_if_stopped(self.stopped, error)
        outcomes: dict[int, UnitWritten | UnitFailure] = {}
        for number, each in ready.items():
            try:
                outcomes |= self._write(task.rows, {number: each})
            except Exception as error:
                outcomes[number] = self._failure(error)
        return outcomes

    def _failure(self, error: Exception) -> UnitFailure:
        _raise_if_stopped(self.stopped, error)
        return failure_of(self.frames.problem(error))

    def _write(self, task: RowTask, ready: Mapping[int, _UnitFrames]) -> dict[int, UnitWritten | UnitFailure]:
        """One job for these work units; evaluated once."""
        frames = [
            self._number_columns(task, number, segment) for number, unit in ready.items() for segment in unit.segments
        ]
        found: dict[int, list[_UnitPart]] = defaultdict(list)
        if frames:
            rows = union_all(frames)
            most = getattr(self.wave.source.read, "max_connections", None)
            if most is not None:
                # Each partition has a connection of its own; those of one task are read one after the other.
                rows = rows.coalesce(most)
            put(rows.sparkSession, {COLUMNAR_INPUT: "false"})
            for part in run_tasks(rows, _write_units, task):
                found[part.number].append(part)
        return {number: _outcome(task, found[number]) for number in ready}

    def _number_columns(self, task: RowTask, number: int, segment: FrameSegment) -> DataFrame:
        """The rows of a segment, with columns named by numbers: Spark splits a name with a dot in two."""
        source, unit = self.wave.source, self.wave.works[number].unit
        known = {name: quote(name) for name in segment.rows.columns}
        if source.replace is not Replace.MERGE_KEYS:
            known[source.unit_column] = SPARK.literal(unit)
            known[source.segment_column] = SPARK.literal(moment_of(segment.low))
        rows = _with_nulls(segment.rows, task, [name for name in task.names if name not in known])
        columns = [f"{known.get(name, quote(name))} AS c{n}" for n, name in enumerate(task.names)]
        wanted = "true" if segment.wanted is None else f"coalesce({segment.wanted}, false)"
        return rows.selectExpr(str(number), wanted, *columns)


def _with_nulls(rows: DataFrame, task: RowTask, missing: Sequence[str]) -> DataFrame:
    """``rows`` with null columns that only other work units have."""
    from pyspark.sql import functions as f

    types = {each.name: each.dataType for each in to_spark_columns(task.columns)} if missing else {}
    for name in missing:
        rows = rows.withColumn(name, f.lit(None).cast(types[name]))
    return rows


def _merge_schemas(one: pa.Schema | None, other: pa.Schema | None) -> pa.Schema | None:
    """The columns of both; raises if they contradict each other."""
    import pyarrow as pa

    if one is None or other is None:
        return other if one is None else one
    return pa.unify_schemas([one, other])


def union_all(frames: Sequence[DataFrame]) -> DataFrame:
    """All rows of ``frames``, by nested unions: Spark analyses each again with every further one."""
    if len(frames) == 1:
        return frames[0]
    half = len(frames) // 2
    return union_all(frames[:half]).union(union_all(frames[half:]))


def add_own_columns(columns: pa.Schema, source: UnitSource) -> pa.Schema:
    """``columns`` after those of the work unit, so that Delta keeps statistics of these."""
    import pyarrow as pa

    return pa.schema([*declare_unit_columns(source, columns.names), *columns])


@dataclass(frozen=True, slots=True)
class _UnitPart:
    """What a task wrote for a work unit, or why not."""

    number: int
    written: RowsWritten | TidegateError
    left_out: int = 0


def _outcome(task: RowTask, parts: Sequence[_UnitPart]) -> UnitWritten | UnitFailure:
    """The outcome of a work unit; one without rows in any task has none."""
    for part in parts:
        if isinstance(part.written, TidegateError):
            return failure_of(part.written)
    written = join_results(task, [part.written for part in parts if isinstance(part.written, RowsWritten)])
    return UnitWritten(written.data_files, written.rows, sum(part.left_out for part in parts))


def _write_units(batches: Iterator[pa.RecordBatch], task: RowTask) -> Iterator[_UnitPart]:
    """Run in a task: rows in, one result per work unit out."""
    for number, group in groupby(_by_unit(batches), key=lambda each: each[0]):
        yield _write_part(task, number, (batch for _, batch in group))


def _by_unit(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Each batch with its work unit; one with several is divided."""
    import pyarrow.compute as pc

    for batch in batches:
        runs = pc.run_end_encode(batch.column(0))
        start = 0
        for number, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            yield number, batch.slice(start, end - start)
            start = end


def _write_part(task: RowTask, number: int, batches: Iterator[pa.RecordBatch]) -> _UnitPart:
    left_out = 0

    def keep_wanted() -> Iterator[pa.RecordBatch]:
        nonlocal left_out
        for batch in batches:
            inside = batch.filter(batch.column(1))
            left_out += batch.num_rows - inside.num_rows
            yield inside.select(range(2, inside.num_columns)).rename_columns(task.names)

    try:
        return _UnitPart(number, write_batches(task, keep_wanted()), left_out)
    except TidegateError as error:
        return _UnitPart(number, error)


_TASKS_PER_CORE = 3
_UNITS_PER_TASK, _BYTES_PER_TASK = 250, 8 * 1024 * 1024
"""Work units, or bytes of fetched data, that are worth a task that writes them."""

Item = tuple[int, Any]
"""A work unit's number in the wave, and what a task needs of it."""

Work = Callable[[Any, Sequence[Item]], Iterator[Item]]
"""The work of a task on its share: something for all of them, and the items, to an outcome for each."""


def carry_out_tasks(session: SparkSession, wave: UnitWave, stopped: Callable[[], bool]) -> WaveResult:
    """Fetch and write all work units of the wave: by one job or, if fetched records decide the columns, by two."""
    cores = task_count(session)
    most = most_in_flight(wave.source, len(wave.works))
    slots = fetch_slots(wave.source, most, cores)
    jobs = Jobs(session, stopped)
    fetching, works = fetch_task(wave, slots, most), list(enumerate(wave.works))
    # Declared columns need no look at the records first, so one job fetches and writes (decision 0027).
    if wave.pipeline.schema.fields:
        return write_declared_wave(wave, lambda task: jobs.run(fetch_and_write, (fetching, task), works, slots))
    fetched = jobs.run(pack_share, fetching, works, slots)

    def write_all(task: WriteTask, left: Mapping[int, Fetched]) -> dict[int, UnitWritten | UnitFailure]:
        size = sum(file.slice.size for each in left.values() for file in each.files)
        shares = min(cores * _TASKS_PER_CORE, 1 + len(left) // _UNITS_PER_TASK + size // _BYTES_PER_TASK)
        return jobs.run(write_packed, task, list(left.items()), shares) if left else {}

    return write_fetched(wave, fetched, write_all)


def fetch_slots(source: UnitSource, in_flight: int, cores: int) -> int:
    """How many tasks fetch: as many as run at once, and at most one per request under way."""
    read = source.http
    return slot_count(None if read is None else read.rate_limit, min(in_flight, cores))


@dataclass(frozen=True, slots=True)
class Jobs:
    """Carries out items with Spark; if it gives up on a job, one by one, so that only the bad ones fail."""

    session: SparkSession
    stopped: Callable[[], bool]

    def run(self, work: Work, needs: object, items: Sequence[Item], shares: int) -> dict[int, Any]:
        """An outcome for each item; raises if none of them could be tried, or no worker lives at all."""
        try:
            return self._job(work, needs, _in_rows(items, shares))
        except Exception as error:
            _raise_if_stopped(self.stopped, error)
            problem, ended = _why_given_up(error)
        if ended:
            self._check_workers(work, needs)
        if len(items) == 1 and ended:
            return {items[0][0]: failure_of(problem)}
        found: dict[int, Any] = {}
        lost = 0
        for item in items if len(items) > 1 else ():
            try:
                found |= self._job(work, needs, [[item]])
            except Exception as error:
                _raise_if_stopped(self.stopped, error)
                problem, ended = _why_given_up(error)
                found[item[0]] = failure_of(problem)
                lost += not ended
        # Not one could be tried, so the machines are at fault and no work unit is.
        if lost == len(found):
            raise problem
        return found

    def _check_workers(self, work: Work, needs: object) -> None:
        """Raise if an idle worker ends: then no work unit is to blame."""
        try:
            self._job(work, needs, [[]])
        except Exception as error:
            _raise_if_stopped(self.stopped, error)
            problem, _ = _why_given_up(error)
            raise problem from error

    def _job(self, work: Work, needs: object, shares: list[list[Item]]) -> dict[int, Any]:
        done = run_tasks(slot_frame(self.session, len(shares)), _run_shares, work, needs, shares)
        return {number: outcome for share in done for number, outcome in share}


def _raise_if_stopped(stopped: Callable[[], bool], error: Exception) -> None:
    # A cancelled job fails in many ways; why it failed matters only if nobody asked for it.
    if stopped():
        raise RunStopped("stopped while work units were read; they are read again next time") from error


def _run_shares(
    batches: Iterator[pa.RecordBatch], work: Work, needs: object, shares: list[list[Item]]
) -> Iterator[list[Item]]:
    """Yield all outcomes of a share together: files named by many of them travel once."""
    for share in slot_numbers(batches):
        yield list(work(needs, shares[share]))


def _in_rows(items: Sequence[Item], shares: int) -> list[list[Item]]:
    """``items`` in ``shares`` shares of neighbours, so that few files have rows of any one unit."""
    count = max(1, min(shares, len(items)))
    size, more = divmod(len(items), count)
    ends = [place * size + min(place, more) for place in range(count + 1)]
    return [list(items[start:end]) for start, end in pairwise(ends)]


def _why_given_up(error: Exception) -> tuple[TidegateError, bool]:
    """Why Spark gave up, and whether a worker ended."""
    ended = worker_ended(error)
    remedy = "this work unit was discarded; it runs again next time"
    if ended is None:
        return task_failure(error, remedy), False
    return TidegateError(f"Spark gave up on a task: it ended the worker ({ended.how})", remedy), True


def carry_out(session: SparkSession, wave: UnitWave, stopped: Callable[[], bool]) -> WaveResult:
    """Read and write the work units of ``wave``; ``stopped`` says whether the run was told to stop."""
    match wave.source.read:
        case JdbcRead() as read:
            return carry_out_frames(wave, JdbcUnits(session, wave, read), stopped)
        case FunctionRead() as read:
            return carry_out_frames(wave, FunctionUnits(session, wave, read), stopped)
        case _:
            return carry_out_tasks(session, wave, stopped)
