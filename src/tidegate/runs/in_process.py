"""The engine inside this process: no Spark, one thing after the other.

Column sources are read once, and filtered here: CSV, JSON and Parquet files, Delta and Iceberg tables, HTTP APIs and
Python functions. Databases filter themselves. What would differ from Spark's result is refused.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from bisect import insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, cached_property, partial
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self, TypeVar
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.core.columns.predicates import RowFilter, matches, predicate
from tidegate.core.dialects.dialect import SPARK
from tidegate.core.files.plan import FileGroup
from tidegate.errors import RunStopped, SourceError
from tidegate.formats.excel import WorkbookScan, infer_workbooks, workbooks_of
from tidegate.protocol.delta import pin_table
from tidegate.protocol.table import arrow_schema
from tidegate.runs.engine import WaitingFrame
from tidegate.schema.inference import check_agreement, infer_json
from tidegate.schema.types import TIMESTAMP, table_type
from tidegate.schema.types import arrow_schema as arrow_schema_of
from tidegate.sources.databases import DatabaseReader, instants
from tidegate.sources.http.bounds import http_read, parts, upper
from tidegate.sources.http.responses import Counts, Fetch, LineBlock, Shapes, blocks
from tidegate.sources.reader import (
    FunctionRequest,
    GreatestValues,
    Reader,
    StreamedRows,
    UnitRequest,
    choose_rows,
    fit_bounds,
    kinds_of_times,
    needs_spark,
)
from tidegate.sources.units.work import UnitWave, UnitWork, WaveResult, moment_of
from tidegate.specs.columns import (
    ColumnSource,
    FunctionRead,
    HttpRead,
    JdbcRead,
    NullWatermark,
    TableFormat,
    TableRead,
    Value,
)
from tidegate.specs.locations import Location
from tidegate.specs.masking import Mask
from tidegate.specs.table import FieldSpec, SchemaSpec
from tidegate.specs.units import UnitSource
from tidegate.specs.user_code import load_function, name_errors, show
from tidegate.storage.port import Scope
from tidegate.storage.stores import open_store
from tidegate.tasks.admission import Admission
from tidegate.tasks.read_task import (
    CommitLimits,
    FinishedGroup,
    GroupResult,
    Hear,
    ReadTask,
    files_of,
    infer_files,
    list_files,
    scan_files,
)
from tidegate.tasks.row_task import Batch, Greatest, RowsWritten, RowTask, WorkRows, write_batches
from tidegate.tasks.task import read_group
from tidegate.tasks.unit_columns import RecordBlocks
from tidegate.tasks.unit_segments import DatabaseSegments, carry_out_segments
from tidegate.tasks.unit_share import carry_out_here
from tidegate.tasks.unit_task import ReplacedUnit

if TYPE_CHECKING:
    from tidegate.sources.iceberg import IcebergTable


class InProcessEngine:
    """Executes everything in this process, without Spark: files, work units and column sources.

    It appends. Merges, replaced rows and transforms need Spark, and so does what it would read differently; it says so.
    """

    is_ready = True

    # Everything of a pass happens in its own thread.
    _pass = threading.local()

    def for_pass(self, source: str, stop: threading.Event, admission: Admission) -> Self:
        """This engine; a task under way ends by itself, the pass begins no other."""
        self._pass.admit = partial(admission.admit, source, stop.is_set)
        return self

    def catalog(self) -> None:
        """There is none: tables by name lie where the configuration says, and Spark registers them."""

    def prepare(self) -> None:
        """Nothing to get ready."""

    def check_write(self, source: str, only_spark: Sequence[str]) -> None:
        """Raise for what the table itself, or a reset of work units, asks for."""
        if only_spark:
            raise needs_spark(source, f"only Spark can write this table: {'; '.join(only_spark)}")

    def tasks(self, most: int, limits: CommitLimits, hear: Hear) -> SerialTasks:
        """Tasks that run here, one whenever somebody waits for it."""

        def read(task: ReadTask, group: FileGroup) -> tuple[GroupResult, ...]:
            with getattr(self._pass, "admit", partial(nullcontext, True))() as admitted:
                if not admitted:
                    raise RunStopped("stopped while the tasks of other sources were running")
                return self.read(task, group, hear)

        return SerialTasks(read)

    def read(self, task: ReadTask, group: FileGroup, hear: Hear) -> tuple[GroupResult, ...]:
        """One task: read a group here."""
        return tuple(read_group(task, group, hear))

    def frame(self, rows: WorkRows) -> WaitingFrame:
        """Not without Spark."""
        raise needs_spark(rows.pipeline.name, "only Spark can write this table")

    def reader(self, source: ColumnSource, schema: SchemaSpec, now: datetime) -> Reader:
        """The reader of a source that needs no Spark."""
        return open_arrow_reader(source, schema, now)

    def count(self, frame: pa.Table | StreamedRows) -> int:
        """The number of rows of a table."""
        return int(frame.num_rows)

    def columns(self, frame: pa.Table | StreamedRows) -> pa.Schema:
        """The columns of a table."""
        return frame.schema

    def write_rows(self, frame: pa.Table | StreamedRows, task: RowTask) -> RowsWritten:
        """Write the rows of a table."""
        return write_batches(task, frame.to_batches())

    def load(self, batch: Batch, window: RowFilter | None, *, chunk: bool) -> WaitingFrame:
        """Not without Spark."""
        raise needs_spark(batch.pipeline.name, f"load_type {batch.pipeline.sink.load.type} is Spark's")

    def carry_out(self, wave: UnitWave) -> WaveResult:
        """Read and write the work units here."""
        match wave.source.read:
            case JdbcRead() as read:
                return carry_out_segments(wave, DatabaseSegments(wave, read))
            case FunctionRead() as function:
                with TemporaryDirectory() as folder:
                    return carry_out_segments(wave, FunctionSegments(wave, function, Path(folder)))
            case _:
                return carry_out_here(wave)

    def replace_units(self, batch: Batch, source: UnitSource, replaced: Sequence[ReplacedUnit]) -> WaitingFrame:
        """Not without Spark."""
        raise needs_spark(batch.pipeline.name, "only Spark replaces rows of work units")

    def excerpt_log(self, error: BaseException, mask: Mask) -> str:
        """Empty: there is no log."""
        return ""

    def close(self) -> None:
        """Nothing is held."""


class SerialTasks:
    """Tasks, one after the other in the thread that waits for them."""

    def __init__(self, read: Callable[[ReadTask, FileGroup], tuple[GroupResult, ...]]) -> None:
        self._read = read
        self._waiting: list[tuple[ReadTask, FileGroup]] = []

    @property
    def count(self) -> int:
        return len(self._waiting)

    def submit(self, task: ReadTask, group: FileGroup) -> None:
        # Rests of groups come back while others wait, and the smallest name holds the watermark.
        insort(self._waiting, (task, group), key=lambda each: each[1].number)

    def take_finished(self, seconds: float | None = None) -> list[FinishedGroup]:
        """The next group, read now."""
        if not self._waiting:
            return []
        task, group = self._waiting.pop(0)
        return [FinishedGroup(task, group, self._read(task, group))]

    def withdraw(self) -> list[FileGroup]:
        groups = [group for _, group in self._waiting]
        self._waiting.clear()
        return groups

    def __enter__(self) -> SerialTasks:
        return self

    def __exit__(self, *error: object) -> None:
        self._waiting.clear()


def open_arrow_reader(source: ColumnSource, schema: SchemaSpec, now: datetime) -> Reader:
    """The reader of ``source``. :class:`EnvironmentProblem` if only Spark reads it exactly."""
    match source.read:
        case JdbcRead() as database:
            return DatabaseReader(source, database, schema)
        case HttpRead():
            return HttpArrowReader(source, schema, now)
        case TableRead(format=TableFormat.CSV | TableFormat.JSON) as scan:
            return ArrowReader(source, cache(lambda: _checked(source, _scanned_files(source, scan, schema))))
        case TableRead(format=TableFormat.EXCEL) as workbooks:
            return ArrowReader(source, cache(lambda: _checked(source, _scan_workbooks(source, workbooks, schema))))
    if schema.fields:
        raise needs_spark(source.name, "its values must be converted to declared columns")
    match source.read:
        case TableRead(format=TableFormat.PARQUET, location=location, pattern=None):
            rows = _checked(source, _parquet_files(source, location))
        case TableRead(format=TableFormat.DELTA, location=location):
            rows = _checked(source, _delta_table(location))
        case TableRead(format=TableFormat.ICEBERG, location=location):
            return IcebergArrowReader(source, location)
        case FunctionRead() as read:
            return FunctionArrowReader(source, read, now)
        case _:
            raise needs_spark(source.name, "only Spark reads files of its type, or files chosen by a pattern")
    return ArrowReader(source, lambda: rows, fixed_first=True)


class _BatchReader(ABC):
    """Reads a superset of the rows and filters it here."""

    source: ColumnSource
    fixed_first: bool

    def greatest(self, rows: RowFilter) -> GreatestValues:
        """The greatest values among the matching rows; counts rows without any."""
        seen = Greatest(self.source.watermark_columns, self.source.mode)
        # With nulls, whatever the setting: rows without a watermark have to be counted to be reported.
        for batch in self.read(replace(rows, nulls=NullWatermark.INCLUDE)).to_batches():
            seen.see(batch)
        return GreatestValues(seen.values, seen.nulls)

    def read(self, rows: RowFilter) -> pa.Table:
        """The matching rows."""
        if rows.extra is not None:
            raise needs_spark(self.source.name, "only Spark understands filter_expression")
        if self.source.watermark_filter is not None:
            return choose_rows(self.source, rows, self.batch, _match_rows)
        return _match_rows(self.batch(rows), rows)

    @abstractmethod
    def batch(self, rows: RowFilter) -> pa.Table:
        """A superset of the matching rows."""


Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


_COMPARED_ROWS = 16_384
"""Rows whose values are Python objects at the same time: those take many times the memory of the columns."""


def _match_rows(found: Rows, rows: RowFilter) -> Rows:
    if not rows.ranges:
        return found
    values = found.select(list(rows.columns))
    parts = (values.slice(at, _COMPARED_ROWS).to_pylist() for at in range(0, found.num_rows, _COMPARED_ROWS))
    return found.filter(pa.array((matches(rows, row) for part in parts for row in part), pa.bool_()))


@dataclass
class ArrowReader(_BatchReader):
    """Rows of a table in memory, or of files that are read on first use."""

    source: ColumnSource
    rows: Callable[[], pa.Table]
    fixed_first: bool = False

    def batch(self, rows: RowFilter) -> pa.Table:
        return self.rows()


@dataclass
class IcebergArrowReader:
    """The rows of an Iceberg table, pinned to the newest snapshot on first use, a batch at a time.

    The user's own filter gets them all at once.
    """

    source: ColumnSource
    location: Location
    fixed_first: bool = True

    def greatest(self, rows: RowFilter) -> GreatestValues:
        """The greatest values among the matching rows; counts rows without any."""
        columns = self._fit(rows).columns
        seen = Greatest(columns, rows.mode)
        for batch in self._chosen(replace(rows, nulls=NullWatermark.INCLUDE), columns):
            seen.see(batch)
        return GreatestValues(dict(zip(rows.columns, seen.values.values(), strict=True)), seen.nulls)

    def kinds(self, columns: Sequence[str]) -> dict[str, str]:
        """The columns with times."""
        return kinds_of_times(columns, self._table.kinds, self.source.name)

    def read(self, rows: RowFilter) -> StreamedRows:
        """The matching rows; times without a zone become instants."""
        columns, zone = self._table.columns(), self.source.source_timezone
        local = [n for n, each in enumerate(columns) if each.type == pa.timestamp("us")]
        whole = pa.schema([pa.field(each.name, TIMESTAMP) if n in local else each for n, each in enumerate(columns)])

        def batches() -> Iterator[pa.RecordBatch]:
            for batch in self._chosen(rows):
                arrays = [instants(each, zone) if n in local else each for n, each in enumerate(batch.columns)]
                yield pa.record_batch(arrays, whole)

        return StreamedRows(
            whole,
            batches,
            lambda: sum(each.num_rows for each in self._chosen(rows, self._fit(rows).columns or None)),
        )

    @cached_property
    def _table(self) -> IcebergTable:
        try:
            from tidegate.sources.iceberg import IcebergTable
        except ImportError as error:
            problem = f"reading Iceberg tables needs pyiceberg, which is missing ({error.name})"
            raise needs_spark(self.source.name, problem, "pip install 'tidegate[iceberg]', or ") from error
        return IcebergTable(self.location, self.source.name)

    def _chosen(self, rows: RowFilter, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The matching rows, by our filter or the user's own."""
        if rows.extra is not None:
            raise needs_spark(self.source.name, "only Spark understands filter_expression")
        if self.source.watermark_filter is not None:
            return iter(choose_rows(self.source, rows, self._read_all, self._filter).to_batches())
        return (self._filter(batch, rows) for batch in self._table.scan(self._fit(rows), columns))

    def _read_all(self, rows: RowFilter) -> pa.Table:
        return pa.Table.from_batches(self._table.scan(self._fit(rows)), self._table.columns())

    def _filter(self, found: Rows, rows: RowFilter) -> Rows:
        return _match_rows(found, self._fit(rows))

    def _fit(self, rows: RowFilter) -> RowFilter:
        return fit_bounds(rows, self._table.kinds, self.source.source_timezone, self.source.name)


@dataclass
class HttpArrowReader(_BatchReader):
    """The records of an HTTP API, fetched in this process."""

    source: ColumnSource
    schema: SchemaSpec
    now: datetime
    fixed_first: bool = False

    def upper(self, now: datetime) -> Mapping[str, Value]:
        """The greatest values of a read at ``now``; none for columns that are not declared as times."""
        return upper(self.source, self.schema, now)

    def batch(self, rows: RowFilter) -> pa.Table:
        fetch = Fetch(http_read(self.source), parts(self.source, rows, self.now))
        found = [block for slot in range(fetch.slots) for block in blocks(fetch, slot, Counts())]
        fields = self.schema.fields or self._infer_fields(found)
        if self.schema.rescued is not None:
            fields = (*fields, FieldSpec(self.schema.rescued, "string"))
        decoder = RecordBlocks(fields, self.schema, fetch.parts, self.source.uri)
        return pa.Table.from_batches([decoder.rows(block) for block in found], decoder.schema)

    def _infer_fields(self, found: list[LineBlock]) -> tuple[FieldSpec, ...]:
        """Columns for every record; each watermark column is included, even without a value."""
        shapes = Shapes()
        lines = [line for block in found for line in block.lines.splitlines()]
        telling = [each for line in lines if (each := shapes.sample(line)) is not None]
        fields: tuple[FieldSpec, ...] = ()
        if telling:
            fields = check_agreement(
                infer_json(
                    [telling],
                    coerce_conflicts_to_utf8=self.schema.coerce_conflicts_to_utf8,
                    rescued=self.schema.rescued is not None,
                )
            ).fields
        known = {each.name for each in fields}
        return (*fields, *(FieldSpec(each, "string") for each in self.source.watermark_columns if each not in known))


@dataclass
class FunctionArrowReader(_BatchReader):
    """The result of a Python function without a session: an Arrow table, or a pandas DataFrame."""

    source: ColumnSource
    function: FunctionRead
    now: datetime
    fixed_first: bool = False

    def batch(self, rows: RowFilter) -> pa.Table:
        """The result of the function; its session is None."""
        text = predicate(rows, SPARK)
        request = FunctionRequest(rows.columns, rows, text, self.now, dict(self.function.options))
        return _call_function(self.source, self.function, request, Mask.around(self.function))


class FunctionSegments:
    """The result of a Python function per segment of a work unit; rows wait on disk until all have come."""

    counts = True

    def __init__(self, wave: UnitWave, function: FunctionRead, folder: Path) -> None:
        if wave.pipeline.schema.fields:
            raise needs_spark(wave.source.name, "its values must be converted to declared columns")
        self._wave = wave
        self._function = function
        self._folder = folder

    def rows(self, work: UnitWork, low: int, high: int) -> StreamedRows:
        """The function's result for a segment."""
        bounds, options = (moment_of(low), moment_of(high)), dict(self._function.options)
        request = UnitRequest(work.unit, dict(work.variables), *bounds, self._wave.now, options, dict(work.secrets))
        mask = Mask.around(self._function, dict(work.secrets))
        found = _call_function(self._wave.source.rows, self._function, request, mask)
        path = str(self._folder / f"{uuid4()}.arrow")
        # On disk: a unit counts only when all of its segments have come, and they may be larger than memory.
        with pa.OSFile(path, "wb") as output, pa.ipc.new_file(output, found.schema) as writer:
            writer.write_table(found, max_chunksize=8192)

        def batches() -> Iterator[pa.RecordBatch]:
            with pa.memory_map(path) as kept:
                content = pa.ipc.open_file(kept)
                yield from map(content.get_batch, range(content.num_record_batches))

        return StreamedRows(found.schema, batches, lambda: 0)


def _call_function(source: ColumnSource, function: FunctionRead, request: object, mask: Mask) -> pa.Table:
    """The rows that a function returns; its session is None."""
    said = f"{source.name}: function {function.function}"
    call = load_function(function.function, said)
    remedy = "correct the function, or set engine: spark"
    with name_errors(f"{said} without a Spark session", remedy, SourceError, mask):
        returned: Any = call(None, request)
        # By its shape: importing pandas only to ask would slow down every function that has nothing to do with it.
        if hasattr(returned, "to_dict") and hasattr(returned, "columns"):
            returned = pa.Table.from_pandas(returned, preserve_index=False)
        is_table = isinstance(returned, pa.Table)
    if is_table:
        return _checked(source, returned)
    raise SourceError(f"{said} returned {show(returned, mask)}", "return an Arrow table or a pandas DataFrame")


def _checked(source: ColumnSource, rows: pa.Table) -> pa.Table:
    """``rows`` in the types that Spark gives them; raises if a watermark column is missing, or a type is unknown."""
    missing = [name for name in source.watermark_columns if name not in rows.column_names]
    if missing:
        raise SourceError(f"{source.uri} has no column {missing[0]!r}", "correct watermark_columns")
    lowered = [name.lower() for name in rows.column_names]
    twice = [name for name, low in zip(rows.column_names, lowered, strict=True) if lowered.count(low) > 1]
    if twice:
        raise needs_spark(source.name, f"its columns {', '.join(map(repr, twice))} differ in case alone")
    columns = []
    for column in rows.schema:
        kind = table_type(column.type)
        if kind is None:
            # Spark would read such times in its session's zone and cut nanoseconds; what is not Spark's is refused.
            why = f"{column.name!r} ({column.type}) has no zone, is finer than microseconds, or has no type of a table"
            raise needs_spark(source.name, why)
        if pa.types.is_nested(kind) and column.name in source.watermark_columns:
            problem = f"{source.uri}: the column {column.name!r} is {column.type}, which cannot be a watermark"
            raise SourceError(problem, "use a column of numbers, text, dates or times")
        columns.append(column.with_type(kind))
    try:
        return rows.cast(pa.schema(columns))
    except pa.ArrowException as error:
        raise needs_spark(source.name, f"its values cannot be converted ({error})") from error


def _delta_table(location: Location) -> pa.Table:
    """All rows of the newest version of a table."""
    found = pin_table(location)
    if found is None:
        raise SourceError(f"{location.uri} is not a Delta table", "correct source_uri")
    schema = arrow_schema(found.facts.schema_json)
    # The query engine gives view types for texts, which writers downstream do not expect.
    return pa.Table.from_batches([each.cast(schema) for each in found.rows(found.columns)], schema)


def _scanned_files(source: ColumnSource, read: TableRead, schema: SchemaSpec) -> pa.Table:
    """All records of CSV or JSON files, decoded as in tasks of Spark."""
    files = files_of(source.name, read)
    slices = list_files(files)
    fields = schema.fields or infer_files(files, slices, schema)
    return pa.Table.from_batches(scan_files(files, fields, schema, slices), arrow_schema_of(fields))


def _scan_workbooks(source: ColumnSource, read: TableRead, schema: SchemaSpec) -> pa.Table:
    """All rows of Excel workbooks, decoded as in tasks of Spark."""
    files, zone = workbooks_of(source.name, read), source.source_timezone
    slices = list_files(files)
    fields = schema.fields or infer_workbooks(files, slices, read.sheet, zone, schema)
    scan = WorkbookScan(files, fields, schema, read.sheet, zone, [slices])
    return pa.Table.from_batches(scan(iter([pa.record_batch({"slot": [0]})])), arrow_schema_of(fields))


def _parquet_files(source: ColumnSource, location: Location) -> pa.Table:
    """All rows of the Parquet files below ``location``, which must not be in partition folders."""
    store = open_store(location)
    names = sorted(info.path for info in store.list(scope=Scope()) if not _is_hidden(info.path))
    if not names:
        raise SourceError(f"{location.uri} has no file", "correct source_uri")
    # Spark infers types of such columns from all folders at once, by rules of its own.
    if any("=" in name.rpartition("/")[0] for name in names):
        raise needs_spark(source.name, "its folders are columns (key=value)")
    if below := [name for name in names if "/" in name]:
        # Spark would leave them out without a word, or with a pattern read all of them.
        raise needs_spark(
            source.name, f"files lie in folders below it ({below[0]})", "name a folder that has the files itself, or "
        )
    try:
        parts = [pq.read_table(BytesIO(store.get(name))) for name in names]
        return pa.concat_tables(parts, promote_options="default")
    except pa.ArrowException as error:
        raise SourceError(
            f"{location.uri} cannot be read as Parquet: {error}", "find the file that is not Parquet"
        ) from error


def _is_hidden(path: str) -> bool:
    """Whether Spark also ignores a file of this name."""
    return any(part.startswith(("_", ".")) for part in path.split("/"))
