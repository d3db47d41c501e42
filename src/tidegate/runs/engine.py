"""The port of engines, which execute what walks decide, and how files are dealt to tasks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from tidegate.core.columns.predicates import RowFilter
from tidegate.core.files.plan import FileGroup
from tidegate.protocol.change import Frame
from tidegate.sources.reader import Reader
from tidegate.specs.columns import ColumnSource
from tidegate.specs.project import SchemaSpec
from tidegate.specs.units import UnitSource

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.sink.read_task import GroupResult, ReadTask
    from tidegate.sink.row_task import Batch, RowsWritten, RowTask, WorkRows
    from tidegate.sink.unit_task import ReplacedUnit
    from tidegate.sources.units.work import UnitWave, WaveResult


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
