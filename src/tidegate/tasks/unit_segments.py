"""Work units of databases and functions, read and written in this process, one after the other.

A work unit counts as a whole or not at all, and one that fails does not stop the others. Columns that are not declared
are collected from all work units of a wave before the first row is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Protocol

import pyarrow as pa

from tidegate.sources.database_columns import DatabaseColumns
from tidegate.sources.databases import open_database, read_columns, stream
from tidegate.sources.reader import StreamedRows, column_named, fit_bounds
from tidegate.sources.units.work import (
    UnitFailure,
    UnitWave,
    UnitWork,
    UnitWritten,
    WaveResult,
    failure_of,
    fill_query,
    values_of,
    widen_range,
)
from tidegate.specs.columns import JdbcRead
from tidegate.specs.table import SchemaSpec
from tidegate.tasks.row_task import RowTask, join_results, row_task, write_batches
from tidegate.tasks.unit_task import (
    WriteTask,
    add_own_columns,
    check_time_column,
    declare_unit_columns,
    filter_within,
    write_wave,
)


class UnitSegments(Protocol):
    """Reads the segments of work units; rows outside a segment are left out, and counted if they ``count``."""

    counts: bool

    def rows(self, work: UnitWork, low: int, high: int) -> StreamedRows:
        """Read the rows of a segment."""


class DatabaseSegments:
    """A table or query of a database; with a time column the range is in the statement."""

    counts = False

    def __init__(self, wave: UnitWave, read: JdbcRead) -> None:
        self._wave = wave
        self._database = open_database(read, wave.source.name)
        self._columns: DatabaseColumns | None = None

    def rows(self, work: UnitWork, low: int, high: int) -> StreamedRows:
        """Prepare one statement; it is sent when the rows are read."""
        source, database = self._wave.source, self._database
        read = database.read
        if read.query is not None:
            values = values_of(source, work, (low, high))
            read = replace(read, query=fill_query(read.query, values, database.dialect))
        # Asked once per wave: all work units are the same statement with other literals.
        if self._columns is None:
            self._columns = database.columns(read)
        columns = self._columns
        asked = fit_bounds(widen_range(source, low, high), columns.kinds, source.timezone, source.name)
        selected = read_columns(database, columns, self._wave.pipeline.schema)
        if source.time_column is not None and asked.columns[0] not in [column.name for column in selected]:
            selected += [
                column for column in read_columns(database, columns, SchemaSpec()) if column.name == asked.columns[0]
            ]
        statement = replace(database.statements(columns), read=read).rows(asked)
        schema = pa.schema([column.field for column in selected])
        return StreamedRows(schema, lambda: stream(database, statement, selected, source.timezone), lambda: 0)


Prepared = list[tuple[int, int, StreamedRows]]
"""The segments of a work unit, in milliseconds since 1970, and their rows."""


@dataclass(frozen=True, slots=True)
class _SegmentJob:
    wave: UnitWave
    segments: UnitSegments

    def prepare(self, work: UnitWork) -> Prepared | UnitFailure:
        """Prepare the segments of one work unit; their columns must fit those of the table."""
        try:
            prepared = [(low, high, self.segments.rows(work, low, high)) for low, high in work.segments]
            for _, _, rows in prepared:
                if self.wave.source.time_column is not None:
                    check_time_column(rows.schema, self.wave.source.time_column)
                self._task(self._columns(rows.schema))
        # Code of the user's own and drivers raise anything; one work unit must not fail the others.
        except Exception as error:
            return failure_of(error)
        return prepared

    def plan(self, ready: Mapping[int, Prepared]) -> WriteTask:
        """Plan how to write these; only their columns count."""
        schemas = [self._columns(rows.schema) for prepared in ready.values() for _, _, rows in prepared]
        task = self._task(reduce(_unify, schemas)) if schemas else None
        return WriteTask(self.wave.source, self.wave.pipeline.schema, rows=task)

    def write_all(self, task: WriteTask, ready: Mapping[int, Prepared]) -> dict[int, UnitWritten | UnitFailure]:
        """Write them, each by itself."""
        return {number: self._write_unit(task.rows, number, prepared) for number, prepared in ready.items()}

    def _write_unit(self, task: RowTask | None, number: int, unit: Prepared) -> UnitWritten | UnitFailure:
        """Write one work unit; each segment has its own files."""
        if task is None:
            return UnitWritten()
        name, left_out = self.wave.works[number].unit, Counter[str]()
        try:
            parts = [write_batches(task, self._batches(task, name, segment, left_out)) for segment in unit]
        except Exception as error:
            return failure_of(error)
        written = join_results(task, parts)
        return UnitWritten(written.data_files, written.rows, left_out[name] if self.segments.counts else 0)

    def _batches(
        self, task: RowTask, name: str, segment: tuple[int, int, StreamedRows], left_out: Counter[str]
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a segment, with the columns of the work unit."""
        source, (low, high, rows) = self.wave.source, segment
        for batch in rows.to_batches():
            kept = batch
            if source.time_column is not None:
                kept = filter_within(batch, source.time_column, low, high, source.timezone)
            left_out[name] += batch.num_rows - kept.num_rows
            units, lows = pa.repeat(pa.scalar(name), len(kept)), pa.repeat(pa.scalar(low, pa.int64()), len(kept))
            yield _fill_missing(add_own_columns(kept, source, units, lows), task.columns)

    def _columns(self, schema: pa.Schema) -> pa.Schema:
        """The columns of the table: the declared ones, or all, after those of the work unit."""
        fields = self.wave.pipeline.schema.fields
        kept = [schema.field(column_named(field.name, schema.names, self.wave.source.name)) for field in fields]
        records = pa.schema(kept) if fields else schema
        return pa.schema([*declare_unit_columns(self.wave.source, records.names), *records])

    def _task(self, columns: pa.Schema) -> RowTask:
        wave = self.wave
        table = wave.table if wave.place is None else None
        return row_task(wave.pipeline, wave.source.rows, columns, table, work=wave.place)


def _unify(one: pa.Schema, other: pa.Schema) -> pa.Schema:
    return pa.unify_schemas([one, other])


def _fill_missing(batch: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    """Add columns that only other work units have, as nulls."""
    present = set(batch.schema.names)
    arrays = [
        batch.column(column.name) if column.name in present else pa.nulls(len(batch), column.type) for column in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, columns.names)


def carry_out_segments(wave: UnitWave, segments: UnitSegments) -> WaveResult:
    """Read and write all work units of the wave."""
    job = _SegmentJob(wave, segments)
    ready: dict[int, Prepared | UnitFailure] = {}
    columns: pa.Schema | None = None
    for number, work in enumerate(wave.works):
        prepared = ready[number] = job.prepare(work)
        if isinstance(prepared, UnitFailure):
            continue
        try:
            columns = reduce(_unify, [*([columns] if columns else []), *(rows.schema for _, _, rows in prepared)])
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            ready[number] = UnitFailure(
                f"unit {work.unit!r} has other columns than the units before it: {error}",
                "declare the columns in the schema, or cast them",
            )
    return write_wave(wave, ready, job.plan, job.write_all)
