"""Who executes reads and writes: the port, the engine inside this process, and how files are dealt to tasks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from tidegate.core.columns.predicates import RowFilter
from tidegate.core.files.plan import FileGroup
from tidegate.errors import EnvironmentProblem
from tidegate.protocol.change import Frame
from tidegate.sink.read_task import GroupResult, ReadTask
from tidegate.sink.row_task import WorkRows
from tidegate.sink.task import read_units
from tidegate.sources.reader import Reader
from tidegate.sources.units.work import UnitWave, WaveResult
from tidegate.specs.columns import ColumnSource, FunctionRead, JdbcRead
from tidegate.specs.project import SchemaSpec
from tidegate.specs.units import UnitSource

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.sink.row_task import Batch, RowsWritten, RowTask
    from tidegate.sink.unit_task import ReplacedUnit


class WaitingFrame(Frame, Protocol):
    """Rows that Spark is to write, and their columns."""

    def columns(self, table: pa.Schema | None) -> pa.Schema:
        """The columns as they will be written into ``table``."""
        ...


class Engine(Protocol):
    """Executes what walks decide. What it returns is complete and durable, and nothing is visible yet.

    Frames of rows go through as they are; walks do not look into them.
    """

    def prepare(self) -> None:
        """Get ready: a deadline is better set after this, and several threads may use the engine then."""

    def execute(
        self, task: ReadTask, slots: Sequence[Sequence[FileGroup]], progress: Callable[[int], None]
    ) -> tuple[GroupResult, ...]:
        """Read every group of files; one task per slot. ``progress`` hears how many slots are done.

        A group may have failed by itself: its result says so, and covers nothing.
        """

    def frame(self, rows: WorkRows) -> WaitingFrame:
        """Decoded rows for the DataFrame lane; raises where this engine cannot write them."""

    def reader(self, source: ColumnSource, schema: SchemaSpec, now: datetime) -> Reader:
        """Who reads a column source."""

    def count(self, frame: Any) -> int:
        """How many rows a frame has that a reader gave."""

    def columns(self, frame: Any) -> pa.Schema:
        """The columns of a frame that a reader gave."""

    def write_rows(self, frame: Any, task: RowTask) -> RowsWritten:
        """Write every row, once."""

    def load(self, batch: Batch, window: RowFilter | None, *, chunk: bool) -> WaitingFrame:
        """Rows of a work area, to be written by the load strategy of their pipeline."""

    def carry_out(self, wave: UnitWave) -> WaveResult:
        """Read and write the work units of a wave; a unit that fails keeps no other from being done.

        Raises only where none of them could be tried.
        """

    def replace_units(self, batch: Batch, source: UnitSource, replaced: Sequence[ReplacedUnit]) -> WaitingFrame:
        """Rows of a work area, to take the place of those of ``replaced``, or with equal keys, in one commit."""

    def close(self) -> None:
        """Give back what the engine holds."""


class InProcessEngine:
    """Executes everything in this process, without Spark: files, work units, and Arrow tables as column sources.

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
        """The reader of a source that Arrow can read."""
        from tidegate.runs.arrow_reader import open_arrow_reader

        return open_arrow_reader(source)

    def count(self, frame: pa.Table) -> int:
        """How many rows a table has."""
        return int(frame.num_rows)

    def columns(self, frame: pa.Table) -> pa.Schema:
        """The columns of a table."""
        return frame.schema

    def write_rows(self, frame: pa.Table, task: RowTask) -> RowsWritten:
        """Write the rows of a table."""
        from tidegate.sink.row_task import write_batches

        return write_batches(task, frame.to_batches())

    def load(self, batch: Batch, window: RowFilter | None, *, chunk: bool) -> WaitingFrame:
        """Not without Spark."""
        raise _needs_spark(batch.pipeline.name, f"load_type {batch.pipeline.sink.load.type} is Spark's")

    def carry_out(self, wave: UnitWave) -> WaveResult:
        """Read and write the work units here; databases and functions need Spark."""
        from tidegate.sink.unit_task import carry_out_here

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


def raise_failures(results: Iterable[GroupResult]) -> None:
    """Raise what the first failed group met; to be called when the others need nothing more."""
    for result in results:
        if result.failure is not None:
            raise result.failure


def deal(units: Sequence[FileGroup], slots: int) -> tuple[tuple[FileGroup, ...], ...]:
    """Groups dealt to at most ``slots`` tasks of about the same size; inside a task they keep the plan's order.

    A task costs some tens of milliseconds however little it reads, so there are few of them; the largest groups
    are dealt first, each to the emptiest slot.
    """
    loads = [0] * min(slots, len(units))
    dealt: list[list[FileGroup]] = [[] for _ in loads]
    for unit in sorted(units, key=lambda unit: (-unit.bytes, unit.number)):
        emptiest = loads.index(min(loads))
        loads[emptiest] += unit.bytes + 1
        dealt[emptiest].append(unit)
    return tuple(tuple(sorted(slot, key=lambda unit: unit.number)) for slot in dealt)


def deadline_in(seconds: float) -> float:
    """A wall-clock moment that tasks on other machines can compare with, too."""
    return time.time() + seconds
