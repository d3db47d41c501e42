"""The engine inside this process: no Spark, one thing after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import pyarrow as pa

from tidegate.core.columns.predicates import RowFilter
from tidegate.core.files.plan import FileGroup
from tidegate.errors import EnvironmentProblem
from tidegate.runs.arrow_reader import open_arrow_reader
from tidegate.runs.engine import WaitingFrame
from tidegate.sink.read_task import GroupResult, ReadTask
from tidegate.sink.row_task import Batch, RowsWritten, RowTask, WorkRows, write_batches
from tidegate.sink.task import read_units
from tidegate.sink.unit_task import ReplacedUnit, carry_out_here
from tidegate.sources.reader import Reader
from tidegate.sources.units.work import UnitWave, WaveResult
from tidegate.specs.columns import ColumnSource, FunctionRead, JdbcRead
from tidegate.specs.project import SchemaSpec
from tidegate.specs.units import UnitSource


class InProcessEngine:
    """Executes everything in this process, without Spark: files, work units, and column sources that need no database.

    It appends. Merges, replaced rows, transforms and databases need Spark, and it says so.
    """

    def prepare(self) -> None:
        """Nothing to get ready."""

    def execute(
        self, task: ReadTask, slots: Sequence[Sequence[FileGroup]], progress: Callable[[int], None]
    ) -> tuple[GroupResult, ...]:
        """Read every group here, one after the other."""
        results: list[GroupResult] = []
        for number, slot in enumerate(slots):
            results.extend(read_units(task, slot))
            progress(number + 1)
        return tuple(results)

    def frame(self, rows: WorkRows) -> WaitingFrame:
        """Not without Spark."""
        raise _needs_spark(rows.pipeline.name, "only Spark can write this table")

    def reader(self, source: ColumnSource, schema: SchemaSpec, now: datetime) -> Reader:
        """The reader of a source that needs no Spark."""
        return open_arrow_reader(source, schema, now)

    def count(self, frame: pa.Table) -> int:
        """How many rows a table has."""
        return int(frame.num_rows)

    def columns(self, frame: pa.Table) -> pa.Schema:
        """The columns of a table."""
        return frame.schema

    def write_rows(self, frame: pa.Table, task: RowTask) -> RowsWritten:
        """Write the rows of a table."""
        return write_batches(task, frame.to_batches())

    def load(self, batch: Batch, window: RowFilter | None, *, chunk: bool) -> WaitingFrame:
        """Not without Spark."""
        raise _needs_spark(batch.pipeline.name, f"load_type {batch.pipeline.sink.load.type} is Spark's")

    def carry_out(self, wave: UnitWave) -> WaveResult:
        """Read and write the work units here; databases and functions need Spark."""
        if isinstance(wave.source.read, JdbcRead | FunctionRead):
            raise _needs_spark(wave.pipeline.name, "databases and Python functions are read by Spark")
        return carry_out_here(wave)

    def replace_units(self, batch: Batch, source: UnitSource, replaced: Sequence[ReplacedUnit]) -> WaitingFrame:
        """Not without Spark."""
        raise _needs_spark(batch.pipeline.name, "only Spark replaces rows of work units")

    def close(self) -> None:
        """Nothing is held."""


def _needs_spark(pipeline: str, why: str) -> EnvironmentProblem:
    return EnvironmentProblem(f"{pipeline}: {why}", "use `tidegate run`")
