"""Writes rows that an engine hands over, as finished files into a table's folder or a work area.

A source may change while it is read, and a statement such as MERGE looks at its rows twice. So rows are read once and
written down; what a statement sees does not change any more (decision 0017).

The same rolling writer as for source files, so also the same sizes and statistics. No Spark in here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial, reduce
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegate.errors import RowsRefused, SchemaMismatch
from tidegate.parquet.parquet_file import RowOrigin, keep_memory
from tidegate.parquet.partitions import Partitioning, with_keys
from tidegate.parquet.writer import RollingWriter, WriterSettings
from tidegate.protocol.change import DataFile
from tidegate.schema.evolution import require_as, write_schema
from tidegate.schema.names import spell
from tidegate.schema.types import simplify_schema
from tidegate.specs.columns import ColumnSource, Value, WatermarkMode
from tidegate.specs.locations import Location
from tidegate.specs.masking import Mask
from tidegate.specs.project import PipelineSpec
from tidegate.specs.table import PartitionBy
from tidegate.storage.port import ObjectStore, name_limits
from tidegate.storage.stores import open_store
from tidegate.tasks.read_task import writer_settings


@dataclass(frozen=True, slots=True)
class WorkRows:
    """What one commit of the DataFrame lane is about to write.

    ``files`` count, relative to ``work``: others in there are leftovers of repeated tasks. Partition columns are in
    ``columns`` and, as directories, in the paths; directories above those are work areas of single tasks.
    ``partitioned_by`` partitions a table that does not exist yet. ``sizes`` are the bytes of the files, and ``rows``
    their number of rows: both are compared with what a statement finds.
    """

    pipeline: PipelineSpec
    work: Location
    files: tuple[str, ...]
    columns: pa.Schema
    partitioned_by: tuple[str, ...]
    sizes: tuple[int, ...]
    rows: int


@dataclass(frozen=True, slots=True)
class Batch(WorkRows):
    """The rows of a column source or of work units, in a work area.

    ``again``: the table may have some of them already, since the read did not begin right behind the last one.
    """

    source: ColumnSource
    again: bool = True

    @classmethod
    def of(cls, pipeline: PipelineSpec, source: ColumnSource, task: RowTask, written: RowsWritten) -> Batch:
        """Describe what ``task`` left in its work area."""
        files = tuple(file.path for file in written.data_files)
        sizes = tuple(file.size for file in written.data_files)
        return cls(pipeline, task.place, files, task.written, task.partition_columns, sizes, written.rows, source)


FILE_BYTES = 32 * 1024 * 1024
"""Size of files that are written to be read again: one at a time is in memory, so they are kept small."""

_ROWS = 8192


def rows_of(store: ObjectStore, files: Sequence[DataFile], columns: pa.Schema) -> pa.RecordBatchReader:
    """Read the rows of ``files`` in ``columns``: partition values become columns, missing columns are null."""

    def read_batches() -> Iterator[pa.RecordBatch]:
        for file in files:
            content = pq.ParquetFile(pa.BufferReader(store.get(file.path)))
            for batch in content.iter_batches(_ROWS):
                yield _fit_file(batch, file, columns)

    return pa.RecordBatchReader.from_batches(columns, read_batches())


def _fit_file(batch: pa.RecordBatch, file: DataFile, columns: pa.Schema) -> pa.RecordBatch:
    names = [*batch.schema.names, *file.partition_values]
    unknown = [name for name in names if name not in columns.names]
    if unknown:
        raise SchemaMismatch(
            f"columns {', '.join(unknown)} of {file.path} are not in the table", "add them to the table first"
        )
    arrays = [_fill_column(batch, file, field) for field in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=columns)


def _fill_column(batch: pa.RecordBatch, file: DataFile, field: pa.Field) -> pa.Array:
    if field.name in file.partition_values:
        return pa.repeat(_parse_value(file.partition_values[field.name], field.type), batch.num_rows)
    if field.name in batch.schema.names:
        return batch.column(field.name).cast(field.type)
    return pa.nulls(batch.num_rows, field.type)


def _parse_value(text: str | None, kind: pa.DataType) -> pa.Scalar:
    """Parse a partition value from Delta's text; a moment is in UTC."""
    # Delta writes moments without a zone, and means UTC.
    zoned = text is not None and pa.types.is_timestamp(kind) and kind.tz is not None
    return pa.scalar(f"{text}Z" if zoned else text, pa.string()).cast(kind)


@dataclass(frozen=True, slots=True)
class RowTask:
    """Everything a task needs besides its rows; picklable.

    ``place`` is the table or a work area. ``columns`` are those of the incoming rows and ``files`` those of the files.
    With ``divided`` each partition value has its own files, without the keys; otherwise keys are ordinary columns.
    ``followed`` are the watermark columns as the rows spell them. ``drop_nulls``: rows without a watermark are counted
    and not written; so are rows with a time later than ``until`` in a watermark column, of a cursor in the first. Times
    without a zone are in ``timezone``. ``mask`` hides secrets in a task's errors; it stays in the driver.
    """

    place: Location
    columns: pa.Schema
    files: pa.Schema
    partition_by: PartitionBy | None = None
    divided: bool = True
    writer: WriterSettings = field(default_factory=WriterSettings)
    watermark_columns: tuple[str, ...] = ()
    followed: tuple[str, ...] = ()
    mode: WatermarkMode = WatermarkMode.ANY
    drop_nulls: bool = False
    mask: Mask = field(default_factory=Mask, repr=False, compare=False)
    until: datetime | None = None
    timezone: str = "UTC"

    @property
    def names(self) -> list[str]:
        """The columns of the incoming rows, in order."""
        return list(self.columns.names)

    @property
    def partitioning(self) -> Partitioning:
        """How the rows are divided into partitions of the table."""
        return Partitioning(self.partition_by, self.columns)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The partition columns of the table."""
        return self.partitioning.columns

    @property
    def written(self) -> pa.Schema:
        """All written columns, partition columns included."""
        files = {file.name: file for file in self.files}
        columns = with_keys(self.columns, self.partitioning.keys)
        return pa.schema([files.get(column.name, column) for column in columns])


@dataclass(frozen=True, slots=True)
class RowsWritten:
    """What tasks wrote: finished files, and the watermark values of their rows.

    ``greatest`` has None for a column that was always null; in ``tuple`` mode it is the greatest cursor. ``nulls`` are
    rows with null in every watermark column (in a cursor: in any), ``later`` those beyond ``until``.
    """

    data_files: tuple[DataFile, ...] = ()
    rows: int = 0
    greatest: Mapping[str, Value | None] = field(default_factory=dict)
    nulls: int = 0
    later: int = 0


def row_task(
    pipeline: PipelineSpec,
    source: ColumnSource | None,
    columns: pa.Schema,
    table: pa.Schema | None = None,
    *,
    work: Location | None = None,
) -> RowTask:
    """Build the task that writes rows with these ``columns``: into the table, or undivided into a work area.

    ``source`` names the columns whose greatest values the task reports; None for a source that follows none.
    ``table`` has the table's current columns; rows are written with its wider types and must meet its requirements;
    ``SchemaMismatch`` if they do not fit. A work area keeps the columns as they are.
    """
    # Only the result of the transform has the columns that partition the table.
    by = None if work is not None and pipeline.transform is not None else partition_by(pipeline)
    rows = require_as(simplify_schema(columns), table)
    keys = Partitioning(by, rows)
    if work is None:
        made_by = "the declared schema" if pipeline.schema.fields else "the source"
        files = write_schema(rows, table, pipeline.schema.evolution, keys.columns, made_by)
    else:
        files = with_keys(rows, keys.keys)
    task = RowTask(
        place=work or pipeline.sink.table,
        columns=rows,
        files=files,
        partition_by=by,
        divided=work is None,
        writer=writer_settings(pipeline.sink),
        mask=Mask.around(pipeline),
    )
    return task if source is None else _follow(task, pipeline, source)


def _follow(task: RowTask, pipeline: PipelineSpec, source: ColumnSource) -> RowTask:
    """The task with the watermark columns of its source, which its rows must have."""
    followed = tuple(spell(name, task.columns.names) for name in source.watermark_columns)
    missing = [name for name in followed if name not in task.columns.names]
    if missing:
        raise SchemaMismatch(
            f"{pipeline.name}/{source.name}: the rows have no watermark column {missing[0]!r}",
            f"they have: {', '.join(task.columns.names)}",
        )
    return replace(
        task,
        watermark_columns=source.watermark_columns,
        followed=followed,
        mode=source.mode,
        timezone=source.source_timezone,
    )


def partition_by(pipeline: PipelineSpec) -> PartitionBy | None:
    """Return the partitions of a table whose rows have no path: each key without a ``column`` is a column itself."""
    by = pipeline.sink.partition_by
    if by is None or by.column is not None:
        return by
    return replace(by, column=by.prefix_template.strip("/").split("/")[0].partition("=")[0])


class Greatest:
    """The greatest values so far. ``nulls`` counts rows with null in every column; for a cursor, in any column."""

    def __init__(self, columns: Sequence[str], mode: WatermarkMode = WatermarkMode.ANY) -> None:
        self.nulls = 0
        self._columns = tuple(columns)
        self._as_tuple = mode is WatermarkMode.TUPLE
        self._values: dict[str, Value | None] = dict.fromkeys(columns)

    @property
    def values(self) -> dict[str, Value | None]:
        """The greatest value per column; None if all were null."""
        return dict(self._values)

    def see(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Add a batch; return its rows that have a watermark."""
        if not self._columns:
            return batch
        nulls = [pc.is_null(batch.column(name)) for name in self._columns]
        missing = reduce(pc.or_ if self._as_tuple else pc.and_, nulls)
        self.nulls += pc.sum(missing).as_py() or 0
        dated = batch.filter(pc.invert(missing))
        self.include(self._greatest_cursor(dated) if self._as_tuple else self._greatest_by_column(dated))
        return dated

    def include(self, seen: Mapping[str, Value | None]) -> None:
        """Add the values of another task."""
        if self._as_tuple:
            # A cursor with a null in it is no place in the order.
            complete = [values for values in (self._values, seen) if None not in values.values()]
            self._values = dict(sorted(complete, key=self._place)[-1] if complete else seen)
        else:
            self._values = {name: _greater((self._values[name], seen[name])) for name in self._columns}

    def _place(self, values: Mapping[str, Value | None]) -> Any:
        return [_rank(value) for name in self._columns if (value := values[name]) is not None]

    def _greatest_by_column(self, batch: pa.RecordBatch) -> dict[str, Value | None]:
        return {name: _to_python(_greatest_of(batch.column(name))) for name in self._columns}

    def _greatest_cursor(self, batch: pa.RecordBatch) -> dict[str, Value | None]:
        """Find the lexicographically greatest row: of the rows greatest in one column, the greatest in the next."""
        cursor: dict[str, Value | None] = {}
        for name in self._columns:
            top = _greatest_of(batch.column(name))
            cursor[name] = _to_python(top)
            batch = batch.filter(_is_top(batch.column(name), top))
        return cursor


def _greater(values: Iterable[Value | None]) -> Value | None:
    return max((value for value in values if value is not None), key=_rank, default=None)


def _rank(value: Value) -> Any:
    """Sort NaN above every number, as Spark and databases do; otherwise its row would be read again."""
    is_nan = value != value
    return is_nan, 0.0 if is_nan else value


def _greatest_of(column: pa.Array) -> pa.Scalar:
    if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
        return pa.scalar(float("nan"), column.type)
    return pc.max(column)


def _is_top(column: pa.Array, top: pa.Scalar) -> pa.Array:
    value = top.as_py()
    return pc.equal(column, top) if value == value else pc.is_nan(column)


def _to_python(scalar: pa.Scalar) -> Value | None:
    """Convert to a Python value; instants in UTC."""
    value: Value | None = scalar.as_py()
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo is not None else value


def write_batches(task: RowTask, batches: Iterable[pa.RecordBatch]) -> RowsWritten:
    """Write the rows of one task. The result is complete and durable; after an error nothing counts."""
    keep_memory()
    keys = task.partitioning
    divide = partial((keys if task.divided else Partitioning(None, task.files)).split, path="", schema=task.files)
    seen = Greatest(task.followed, task.mode)
    later = 0
    with closing(RollingWriter(open_store(task.place), task.writer)) as writer:
        for batch in batches:
            fitted = _fit_rows(batch, task.columns)
            rows = _drop_later(fitted, task)
            later += fitted.num_rows - rows.num_rows
            dated = seen.see(rows)
            rows = dated if task.drop_nulls else rows
            if rows.num_rows:
                _check_paths(keys, rows, task)
                origin = RowOrigin.of_file("", np.arange(rows.num_rows))
                writer.scatter(rows if task.divided else keys.add_keys(rows), divide, "", origin)
        finished = writer.cut()
    greatest = {name: seen.values[spelled] for name, spelled in zip(task.watermark_columns, task.followed, strict=True)}
    return RowsWritten(
        tuple(
            DataFile(file.path, file.size, file.record_count, file.partition_values, file.stats) for file in finished
        ),
        sum(file.record_count for file in finished),
        greatest,
        seen.nulls,
        later,
    )


def _check_paths(keys: Partitioning, rows: pa.RecordBatch, task: RowTask) -> None:
    """Refuse all rows if a value makes no path: a column source has no dead letters for single records."""
    # A work area lies deeper than the table that Spark will write, so its own path must not count.
    limits = name_limits(task.place) if task.divided else replace(name_limits(task.place), path=None)
    for reason in keys.find_too_long(rows, "", limits).values():
        raise RowsRefused(reason, "nothing was committed; leave such rows out, or partition by another column")


def join_results(task: RowTask, parts: Sequence[RowsWritten]) -> RowsWritten:
    """Combine the results of all tasks."""
    seen = Greatest(task.watermark_columns, task.mode)
    for part in parts:
        seen.include(part.greatest)
    return RowsWritten(
        tuple(file for part in parts for file in part.data_files),
        sum(part.rows for part in parts),
        seen.values,
        sum(part.nulls for part in parts),
        sum(part.later for part in parts),
    )


def _drop_later(batch: pa.RecordBatch, task: RowTask) -> pa.RecordBatch:
    """Leave out rows beyond ``until``: one at 9999-12-31 would become the watermark (decision 0020)."""
    leading = task.followed[:1] if task.mode is WatermarkMode.TUPLE else task.followed
    for name in leading if task.until is not None else ():
        column = batch.column(name)
        if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
            until = _until_like(column.type, task)
            batch = batch.filter(pc.fill_null(pc.less_equal(column, pa.scalar(until, column.type)), True))
    return batch


def _until_like(kind: pa.DataType, task: RowTask) -> Value:
    """Convert ``until`` to a value of a time or date column."""
    assert task.until is not None
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return task.until
    local = task.until.astimezone(ZoneInfo(task.timezone)).replace(tzinfo=None)
    return local if pa.types.is_timestamp(kind) else local.date()


def _fit_rows(batch: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    """Select and cast exactly these columns; ``RowsRefused`` if a required value is missing."""
    for column in columns:
        if not column.nullable and batch.column(column.name).null_count:
            raise RowsRefused(
                f"a row has null in column {column.name!r}, which the table requires",
                "nothing was committed; leave such rows out (filter_expression), or give them a value",
            )
    return batch.select(columns.names).cast(columns)
