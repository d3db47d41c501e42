"""Work units that Spark itself reads: queries and tables of databases, and Python functions.

Rows of several work units are written by one job, in which each has tasks and files of its own. Where that job fails,
they are tried one by one, so that only the bad one fails. Only what the driver received counts.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Protocol

from tidegate.errors import RunStopped, TidegateError
from tidegate.sink.row_task import RowsWritten, RowTask, joined, row_task, write_batches
from tidegate.sink.unit_rows import own_columns
from tidegate.sink.unit_tasks import same_columns
from tidegate.sources.units.variables import moment_of
from tidegate.sources.units.work import UnitFailure, UnitWave, UnitWork, UnitWritten, WaveResult
from tidegate.spark.frames import columns_of
from tidegate.spark.own_session import COLUMNAR_INPUT, put
from tidegate.spark.packing import Packed, pickled
from tidegate.unit_specs import Replace, UnitSource
from tidegate.watermarks.dialects import Dialect, literal, quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

Done = UnitWritten | UnitFailure


@dataclass(frozen=True, slots=True)
class Segment:
    """The rows of one segment; those for which ``wanted``, in SQL, does not hold are counted and left out."""

    low: int
    rows: DataFrame
    wanted: str | None = None


class Frames(Protocol):
    """Who reads work units as DataFrames."""

    together: bool
    """Whether many of them are worth one job; otherwise each is one by itself."""

    def segments(self, work: UnitWork) -> list[Segment]:
        """The rows of a work unit; reads nothing yet."""

    def problem(self, error: Exception) -> TidegateError:
        """What a job that failed told, without secrets."""


def carry_out_frames(wave: UnitWave, frames: Frames, stopped: Callable[[], bool]) -> WaveResult:
    """Read and write all work units of the wave."""
    return _Carrying(wave, frames, stopped).carried_out()


@dataclass(slots=True)
class _Carrying:
    wave: UnitWave
    frames: Frames
    stopped: Callable[[], bool]
    done: dict[int, Done] = field(default_factory=dict)
    ready: dict[int, list[Segment]] = field(default_factory=dict)
    found: dict[int, pa.Schema] = field(default_factory=dict)
    columns: pa.Schema | None = None

    def carried_out(self) -> WaveResult:
        for number, work in enumerate(self.wave.works):
            self._prepare(number, work)
        task = None if self.columns is None else self._task(self.columns)
        while task is not None:
            self._write_ready(task)
            before = self.columns
            self._keep_ready()
            if same_columns(self.columns, before):
                break
            task = None if self.columns is None else self._task(self.columns)
        return WaveResult(
            tuple(self.done[number] for number in range(len(self.wave.works))),
            None if task is None else task.written,
            () if task is None else task.partition_columns,
        )

    def _prepare(self, number: int, work: UnitWork) -> None:
        """The frames of one work unit, and their columns beside those of the table and of the others."""
        import pyarrow as pa

        own: pa.Schema | None = None
        try:
            segments = self.frames.segments(work)
            for each in segments:
                found = with_own(
                    columns_of(each.rows, f"{self.wave.source.name}: unit {work.unit!r}"), self.wave.source
                )
                row_task(self.wave.pipeline, self.wave.source.rows, found, self.wave.table)
                own = _unified(own, found)
            self.columns = _unified(self.columns, own)
            self.ready[number] = segments
            if own is not None:
                self.found[number] = own
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            self.done[number] = UnitFailure(
                f"unit {work.unit!r} has other columns than the units before it: {error}",
                "declare the columns in the schema, or cast them",
            )
        except TidegateError as error:
            self.done[number] = UnitFailure(error.problem, error.remedy)
        except Exception as error:
            self._raise_if_stopped(error)
            problem = self.frames.problem(error)
            self.done[number] = UnitFailure(problem.problem, problem.remedy)

    def _task(self, columns: pa.Schema) -> RowTask:
        wave = self.wave
        table = wave.table if wave.place is None else None
        return row_task(wave.pipeline, wave.source.rows, columns, table, work=wave.place)

    def _keep_ready(self) -> None:
        """Only those that were written and are kept stay, and only their columns: the rest gives the table none."""
        self.ready = {number: each for number, each in self.ready.items() if self.wave.keeps(self.done[number])}
        self.columns = None
        for number in self.ready:
            self.columns = _unified(self.columns, self.found.get(number))

    def _write_ready(self, task: RowTask) -> None:
        if self.frames.together:
            self._write_together(task)
            return
        for number in self.ready:
            self._write_alone(task, number)

    def _write_together(self, task: RowTask) -> None:
        try:
            self._write(task, list(self.ready))
        except TidegateError:
            raise
        except Exception as error:
            self._raise_if_stopped(error)
            for number in self.ready:
                self._write_alone(task, number)

    def _write_alone(self, task: RowTask, number: int) -> None:
        try:
            self._write(task, [number])
        except Exception as error:
            self._raise_if_stopped(error)
            problem = self.frames.problem(error)
            self.done[number] = UnitFailure(problem.problem, problem.remedy)

    def _raise_if_stopped(self, error: Exception) -> None:
        if self.stopped():
            raise RunStopped("stopped while rows were read; they are read again next time") from error

    def _write(self, task: RowTask, numbers: Sequence[int]) -> None:
        """One job for these work units; evaluated once."""
        parts = [self._numbered(task, number, each) for number in numbers for each in self.ready[number]]
        found: dict[int, list[_Part]] = defaultdict(list)
        for part in _job(task, parts) if parts else ():
            found[part.number].append(part)
        self.done |= {number: _told(task, found[number]) for number in numbers}

    def _numbered(self, task: RowTask, number: int, segment: Segment) -> DataFrame:
        """The rows of a segment, with numbers for names: Spark takes a name with a dot in it for two."""
        source, unit = self.wave.source, self.wave.works[number].unit
        known = {name: quoted(name, Dialect.SPARK) for name in segment.rows.columns}
        if source.replace is not Replace.MERGE_KEYS:
            known[source.unit_column] = literal(unit, Dialect.SPARK)
            known[source.segment_column] = literal(moment_of(segment.low), Dialect.SPARK)
        rows = self._with_nulls(segment.rows, [name for name in task.names if name not in known])
        columns = [f"{known.get(name, quoted(name, Dialect.SPARK))} AS c{n}" for n, name in enumerate(task.names)]
        wanted = "true" if segment.wanted is None else f"coalesce({segment.wanted}, false)"
        return rows.selectExpr(str(number), wanted, *columns)

    def _with_nulls(self, rows: DataFrame, missing: Sequence[str]) -> DataFrame:
        """``rows`` with columns that other work units have."""
        from pyspark.sql import functions as f
        from pyspark.sql.pandas.types import from_arrow_schema

        assert self.columns is not None
        types = {each.name: each.dataType for each in from_arrow_schema(self.columns)} if missing else {}
        for name in missing:
            rows = rows.withColumn(name, f.lit(None).cast(types[name]))
        return rows


def _unified(one: pa.Schema | None, other: pa.Schema | None) -> pa.Schema | None:
    """The columns of both; raises where they contradict each other."""
    import pyarrow as pa

    if one is None or other is None:
        return other if one is None else one
    return pa.unify_schemas([one, other])


def _job(task: RowTask, frames: Sequence[DataFrame]) -> list[_Part]:
    rows = united(frames)
    put(rows.sparkSession, {COLUMNAR_INPUT: "false"})
    results = rows.mapInArrow(Packed(_write_units, task), "result binary").collect()
    return [pickle.loads(bytes(row["result"])) for row in results]


def united(frames: Sequence[DataFrame]) -> DataFrame:
    """All rows of ``frames``, by unions as deep as need be: Spark looks at each of them anew with every further one."""
    if len(frames) == 1:
        return frames[0]
    half = len(frames) // 2
    return united(frames[:half]).union(united(frames[half:]))


def with_own(columns: pa.Schema, source: UnitSource) -> pa.Schema:
    """``columns`` with those of the work unit before them, so that Delta keeps statistics of these."""
    import pyarrow as pa

    return pa.schema([*own_columns(source, columns.names), *columns])


@dataclass(frozen=True, slots=True)
class _Part:
    """What a task wrote for a work unit, or why not."""

    number: int
    written: RowsWritten | TidegateError
    left_out: int = 0


def _told(task: RowTask, parts: Sequence[_Part]) -> Done:
    """What became of a work unit; one that no task had rows of has none."""
    for part in parts:
        if isinstance(part.written, TidegateError):
            return UnitFailure(part.written.problem, part.written.remedy)
    written = joined(task, [part.written for part in parts if isinstance(part.written, RowsWritten)])
    return UnitWritten(written.data_files, written.rows, sum(part.left_out for part in parts))


def _write_units(batches: Iterator[pa.RecordBatch], task: RowTask) -> Iterator[pa.RecordBatch]:
    """What runs in the task: rows in, one result per work unit out."""
    for number, group in groupby(_by_unit(batches), key=lambda each: each[0]):
        yield pickled(_written(task, number, (batch for _, batch in group)))


def _by_unit(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Each batch with the work unit that it belongs to; one that belongs to several is divided."""
    import pyarrow.compute as pc

    for batch in batches:
        runs = pc.run_end_encode(batch.column(0))
        start = 0
        for number, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            yield number, batch.slice(start, end - start)
            start = end


def _written(task: RowTask, number: int, batches: Iterator[pa.RecordBatch]) -> _Part:
    left_out = 0

    def wanted() -> Iterator[pa.RecordBatch]:
        nonlocal left_out
        for batch in batches:
            inside = batch.filter(batch.column(1))
            left_out += batch.num_rows - inside.num_rows
            yield inside.select(range(2, inside.num_columns)).rename_columns(task.names)

    try:
        return _Part(number, write_batches(task, wanted()), left_out)
    except TidegateError as error:
        return _Part(number, error)
