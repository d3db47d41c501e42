"""A wave of work units in three steps: fetch each, agree on columns, write each.

Each step is a function of picklable values, so that any of them may run elsewhere. Here are the steps for a single work
unit; ``unit_share`` has those of a task with many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import SchemaMismatch, SourceError
from tidegate.formats.json import LineTooLong
from tidegate.formats.port import refuse_bad_records
from tidegate.protocol.change import DataFile
from tidegate.schema.literals import escape_halves
from tidegate.schema.names import spell
from tidegate.schema.types import TIMESTAMP, arrow_schema
from tidegate.sources.units.fetch import Senders, fetch_unit
from tidegate.sources.units.work import (
    Fetched,
    FetchedFile,
    FetchTask,
    UnitFailure,
    UnitWave,
    UnitWork,
    UnitWritten,
    WaveResult,
    failure_of,
)
from tidegate.specs.table import FieldSpec, SchemaSpec
from tidegate.specs.units import FileRead, Replace, UnitSource
from tidegate.tasks.row_task import RowTask, row_task, write_batches
from tidegate.tasks.unit_columns import (
    UnitColumnReport,
    conflict_error,
    file_format,
    name_file,
    open_fetched,
    wave_columns,
)

_MILLISECONDS = pa.timestamp("ms", tz="UTC")

Ready = TypeVar("Ready")
"""A work unit that waits to be written, as an engine has it."""


@dataclass(frozen=True, slots=True)
class ReplacedUnit:
    """Rows of ``unit`` whose segment, or time column, lies in ``[low, high)``, in milliseconds."""

    unit: str
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class WriteTask:
    """Everything that writing needs besides the fetched data; picklable.

    ``rows`` is None if there is nothing to write. ``fields`` are the columns of the records. ``refused`` units, by
    index, contradict the others.
    """

    source: UnitSource
    schema: SchemaSpec
    fields: tuple[FieldSpec, ...] = ()
    rows: RowTask | None = None
    refused: Mapping[int, str] = field(default_factory=dict)

    @property
    def columns(self) -> pa.Schema | None:
        """All written columns, partition columns included; None if nothing is written."""
        return None if self.rows is None else self.rows.written

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The partition columns of the table."""
        return () if self.rows is None else self.rows.partition_columns


def plan_write(wave: UnitWave, fetched: Sequence[Fetched]) -> WriteTask:
    """Plan how to write the rows of a wave; raises if none of them can be."""
    source, schema = wave.source, wave.pipeline.schema
    fields, refused = wave_columns(wave, fetched)
    if fields is None:
        return WriteTask(source, schema, refused=refused)
    records = arrow_schema(fields)
    if source.time_column is not None:
        check_time_column(records, source.time_column)
    columns = pa.schema([*declare_unit_columns(source, records.names), *records])
    rows = row_task(wave.pipeline, source.rows, columns, wave.table, work=wave.place)
    return WriteTask(source, schema, fields, rows, refused)


def declare_unit_columns(source: UnitSource, others: Sequence[str]) -> list[pa.Field]:
    """The columns that identify the work unit of a row; none if keys do. They come before ``others``."""
    if source.replace is Replace.MERGE_KEYS:
        return []
    own = [pa.field(source.unit_column, pa.string()), pa.field(source.segment_column, TIMESTAMP)]
    taken = {name.lower() for name in others} & {column.name.lower() for column in own}
    if taken:
        raise SchemaMismatch(
            f"source {source.name!r}: the records have a column {min(taken)!r}, which the table needs for work units",
            "choose other names with unit_column and segment_column",
        )
    return own


def add_own_columns(rows: pa.RecordBatch, source: UnitSource, units: pa.Array, lows: pa.Array) -> pa.RecordBatch:
    """Add the columns for work unit and segment, first; ``lows`` in milliseconds."""
    own = declare_unit_columns(source, rows.schema.names)
    arrays = (units, lows.cast(_MILLISECONDS).cast(TIMESTAMP))[: len(own)]
    return pa.RecordBatch.from_arrays([*arrays, *rows.columns], schema=pa.schema([*own, *rows.schema]))


def write(task: WriteTask, fetched: Fetched) -> UnitWritten | UnitFailure:
    """Write the rows of one work unit; complete and durable, or a failure of which nothing counts."""
    rows = UnitRows(task, fetched)
    try:
        if task.rows is None:
            rows.check()
            return UnitWritten(requests=fetched.requests)
        written = write_batches(task.rows, rows.batches())
    except Exception as error:
        return failure_of(error)
    return rows.to_result(written.data_files, written.rows)


class UnitRows:
    """The rows of one work unit, file after file."""

    def __init__(self, task: WriteTask, fetched: Fetched) -> None:
        self.left_out = 0
        self.unknown: Counter[str] = Counter()
        self._task = task
        self._fetched = fetched

    def to_result(self, files: tuple[DataFile, ...], rows: int) -> UnitWritten:
        return UnitWritten(files, rows, self.left_out, self._fetched.requests, dict(self.unknown))

    def check(self) -> None:
        """Raise if the work unit contradicts the others of its wave."""
        if self._fetched.index in self._task.refused:
            raise conflict_error(self._task.refused[self._fetched.index])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows that belong to their segment, with the columns of the work unit."""
        self.check()
        source = self._task.source
        for file in self._fetched.files:
            low, high = self._fetched.segments[file.segment]
            for rows in self.records(file):
                kept = rows
                if source.time_column is not None:
                    kept = filter_within(rows, source.time_column, low, high, source.timezone)
                self.left_out += rows.num_rows - kept.num_rows
                units = pa.repeat(pa.scalar(self._fetched.unit, pa.string()), kept.num_rows)
                yield add_own_columns(kept, source, units, pa.repeat(pa.scalar(low, pa.int64()), kept.num_rows))

    def records(self, file: FetchedFile) -> Iterator[pa.RecordBatch]:
        """The records of one file; raises for the first bad one."""
        format = file_format(self._task.source.read, self._task.schema, self._task.fields, file)
        remedy = (
            "this work unit was discarded; declare the column with a type that fits, or see "
            "schema.coerce_conflicts_to_utf8 and schema.rescued"
        )
        try:
            with closing(open_fetched(file, seeks=format.seeks)) as raw:
                blocks = format.read(raw, file.slice)
                yield from refuse_bad_records(blocks, lambda number: file.place(number, format.noun), remedy)
        except (SourceError, LineTooLong) as error:
            raise name_file(error, file) from error
        self.unknown.update({escape_halves(name): count for name, count in format.unknown.items() if count})


def check_time_column(columns: pa.Schema, name: str) -> str:
    """Return ``name`` as the rows spell it; :class:`SourceError` if it is no column of times or dates."""
    name = spell(name, columns.names)
    if name not in columns.names:
        raise SourceError(
            f"time_column: the rows have no column {name!r}; they have {', '.join(columns.names) or 'none'}",
            "name the column of the rows' own time, or leave out time_column",
        )
    kind = columns.field(name).type
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        raise SourceError(
            f"time_column: the column {name!r} is {kind}, which tells no moment",
            f"declare it in schema.fields: {{name: {name}, type: timestamp}} (or date)",
        )
    return name


def filter_within(rows: pa.RecordBatch, column: str, low: int, high: int, zone: str) -> pa.RecordBatch:
    """Keep the rows whose ``column`` lies in ``[low, high)``, in milliseconds since 1970."""
    return rows.filter(are_within(rows, column, pa.scalar(low, pa.int64()), pa.scalar(high, pa.int64()), zone))


def are_within(
    rows: pa.RecordBatch, column: str, low: pa.Scalar | pa.Array, high: pa.Scalar | pa.Array, zone: str
) -> pa.Array:
    """Tell which rows have a ``column`` in ``[low, high)``, in milliseconds since 1970; null without a value.

    A time without a zone, and the beginning of a day, are in ``zone``: shifted forward if clocks skip it, the first if
    they show it twice.
    """
    moments = rows.column(spell(column, rows.schema.names))
    if pa.types.is_date(moments.type):
        moments = moments.cast(pa.timestamp("s"))
    if moments.type.tz is None:
        moments = pc.assume_timezone(moments, zone, ambiguous="earliest", nonexistent="latest")
    moments = moments.cast(pa.timestamp(moments.type.unit, tz="UTC"))
    begin, end = (bound.cast(_MILLISECONDS) for bound in (low, high))
    return pc.and_(pc.greater_equal(moments, begin), pc.less(moments, end))


def fetch_task(wave: UnitWave, slots: int = 1, in_flight: int = 1) -> FetchTask:
    """What fetching needs to know of a wave: ``slots`` tasks have ``in_flight`` work units under way together."""
    return FetchTask(
        wave.source,
        wave.scratch,
        slots,
        infers=not wave.pipeline.schema.fields,
        in_flight=max(1, in_flight // slots),
        seconds=wave.seconds,
        # Tasks do not see each other's failures, so that the allowance is divided among them.
        failures=None if wave.failures is None else max(1, wave.failures // slots),
    )


def fetch(task: FetchTask, work: UnitWork, index: int, senders: Senders | None = None) -> Fetched | UnitFailure:
    """Fetch one work unit as a whole. ``senders`` keep connections for further units of the same task."""
    fetched = fetch_unit(task, work, index, senders)
    read = task.source.read
    if not (task.infers and isinstance(read, FileRead) and isinstance(fetched, Fetched)):
        return fetched
    report = UnitColumnReport(read)
    try:
        samples = [sample for file in fetched.files for sample in report.of(file)]
    except Exception as error:
        return failure_of(error)
    return replace(fetched, samples=tuple(samples))


def write_wave(
    wave: UnitWave,
    ready: Mapping[int, Ready | UnitFailure],
    plan: Callable[[Mapping[int, Ready]], WriteTask],
    write_all: Callable[[WriteTask, Mapping[int, Ready]], Mapping[int, UnitWritten | UnitFailure]],
) -> WaveResult:
    """Write the work units of a wave that are ``ready``; the others have failed before.

    Only the kept ones decide the columns. If one fails that had columns of its own, the others are written again
    without these; the first files are left, and nobody refers to them.
    """
    done: dict[int, UnitWritten | UnitFailure] = {}
    left: dict[int, Ready] = {}
    for number, unit in ready.items():
        if isinstance(unit, UnitFailure):
            done[number] = unit
        else:
            left[number] = unit
    task = plan(left)
    while True:
        done |= write_all(task, left)
        kept = {number: unit for number, unit in left.items() if wave.keeps(done[number])}
        # A unit that failed may have been the only one with some column, which the table must not get.
        again = task if len(kept) == len(left) else plan(kept)
        if _same_columns(again.columns, task.columns):
            results = tuple(map(done.get, range(len(wave.works))))
            return WaveResult(results, task.columns, task.partition_columns)
        left, task = kept, again


def _same_columns(one: pa.Schema | None, other: pa.Schema | None) -> bool:
    """True if both have the same columns, in any order."""
    return (None if one is None else set(one)) == (None if other is None else set(other))
