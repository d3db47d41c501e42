"""The port of engines, which execute what walks decide."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from tidegate.core.columns.predicates import RowFilter
from tidegate.core.files.plan import FileGroup
from tidegate.protocol.change import Frame
from tidegate.sources.reader import Reader
from tidegate.specs.columns import ColumnSource
from tidegate.specs.masking import Mask
from tidegate.specs.project import SchemaSpec
from tidegate.specs.units import UnitSource

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.sink.read_task import CommitLimits, FinishedGroup, Hear, ReadTask
    from tidegate.sink.row_task import Batch, RowsWritten, RowTask, WorkRows
    from tidegate.sink.unit_task import ReplacedUnit
    from tidegate.sources.units.work import UnitWave, WaveResult


class WaitingFrame(Frame, Protocol):
    """Rows that Spark is to write, and their columns."""

    def columns(self, table: pa.Schema | None) -> pa.Schema:
        """The columns as they will be written into ``table``."""
        ...


class Tasks(Protocol):
    """Tasks that read groups of files, each begun as soon as there is room for it.

    A context: what is left at its end is cancelled, and nothing of it counts.
    """

    @property
    def count(self) -> int:
        """How many groups were submitted and not handed over by :meth:`finished`."""

    def submit(self, task: ReadTask, group: FileGroup) -> None:
        """Read ``group`` as soon as there is room; groups with small numbers come first.

        A task may read several groups, one after the other; each is handed over when it is finished.
        """

    def finished(self, seconds: float | None = None) -> list[FinishedGroup]:
        """All that finished; waits for the first, at most so many seconds. Nothing where there is none to wait for.

        A group may have failed by itself: its result says so, and covers nothing. Raises what ended a task otherwise.
        """

    def withdraw(self) -> list[FileGroup]:
        """The groups that were not begun; they are not read any more."""

    def __enter__(self) -> Tasks: ...

    def __exit__(self, *error: object) -> None:
        """Cancel what is left."""


class Engine(Protocol):
    """Executes what walks decide. What it returns is complete and durable, and nothing is visible yet.

    Frames of rows go through as they are; walks do not look into them.
    """

    @property
    def is_ready(self) -> bool:
        """Whether reading can begin at once; otherwise a pass first tries to find out whether anything is new."""

    def prepare(self) -> None:
        """Get ready; several threads may use the engine then."""

    def tasks(self, most: int, limits: CommitLimits, hear: Hear) -> Tasks:
        """Tasks that read groups of files, at most so many at once; ``hear`` hears what they are at, if it can.

        None begins while so much is finished, and not handed over, that a commit of it would be due for each of them.
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

    def own_log(self, error: BaseException, mask: Mask) -> str:
        """Where the engine's own log is kept, masked, and how it ends, if ``error`` came from the engine."""

    def close(self) -> None:
        """Give back what the engine holds."""
