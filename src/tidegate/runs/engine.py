"""The ports of an engine, which executes what walks decide: tasks over files, rows of a column source, work units.

A walk asks for the port that it needs. What an engine hands back is complete and durable, and nothing of it is visible:
only the pass commits. Frames of rows are passed on without a look into them.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from tidegate.protocol.change import Frame

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.core.columns.predicates import RowFilter
    from tidegate.core.files.plan import FileGroup
    from tidegate.sources.reader import Reader
    from tidegate.sources.units.work import UnitWave, WaveResult
    from tidegate.spark.catalog import CatalogEntry
    from tidegate.specs.columns import ColumnSource
    from tidegate.specs.locations import Location
    from tidegate.specs.masking import Mask
    from tidegate.specs.table import SchemaSpec
    from tidegate.specs.units import UnitSource
    from tidegate.tasks.admission import Admission
    from tidegate.tasks.read_task import CommitLimits, FinishedGroup, Hear, ReadTask
    from tidegate.tasks.row_task import Batch, RowsWritten, RowTask, WorkRows
    from tidegate.tasks.unit_task import ReplacedUnit


class WaitingFrame(Frame, Protocol):
    """Rows for Spark to write, and their columns."""

    def columns(self, table: pa.Schema | None) -> pa.Schema:
        """The columns as they will be written into ``table``."""
        ...

    def changes_nothing(self, table: pa.Schema) -> bool:
        """Whether a table with these columns has all that the rows would make of it.

        False where that is not known without writing them.
        """
        ...


class Tasks(Protocol):
    """Tasks that read groups of files, each begun as soon as there is room for it.

    A context: the rest is cancelled at its end, and does not count.
    """

    @property
    def count(self) -> int:
        """The number of groups submitted and not yet returned by :meth:`take_finished`."""

    def submit(self, task: ReadTask, group: FileGroup) -> None:
        """Read ``group`` as soon as there is room; groups with small numbers come first.

        A task may read several groups, one after the other; each is handed over when finished.
        """

    def take_finished(self, seconds: float | None = None) -> list[FinishedGroup]:
        """All finished groups; waits for the first, at most that many seconds. Nothing if there is none to wait for.

        A group may have failed by itself: its result says so, and covers nothing. Raises what else ended a task.
        """

    def withdraw(self) -> list[FileGroup]:
        """The groups that were not begun; they will not be read."""

    def __enter__(self) -> Tasks: ...

    def __exit__(self, *error: object) -> None:
        """Cancel what is left."""


class CatalogPort(Protocol):
    """Tables by name."""

    @property
    def forgets(self) -> bool:
        """Whether names that are registered end with the session."""

    def find(self, name: str) -> CatalogEntry | None:
        """The table of that name; raises :class:`TableError` for a view."""

    def place_of_new(self, name: str) -> str:
        """Where a new table of that name belongs; raises :class:`TableError` if there is no such schema."""

    def register(self, name: str, location: Location) -> None:
        """Let the name point at the Delta table that lies there, unless it exists."""


class Lifecycle(Protocol):
    """Something that is slow to start, and is started as late as possible."""

    @property
    def is_ready(self) -> bool:
        """Whether reading can begin at once; otherwise a pass first tries to find out whether anything is new."""

    def catalog(self) -> CatalogPort | None:
        """The catalog that knows tables by name; None if the engine has none."""

    def prepare(self) -> None:
        """Start it, so that several threads can use it."""

    def check_write(self, source: str, only_spark: Sequence[str]) -> None:
        """Raise :class:`EnvironmentProblem` if ``only_spark`` has reasons and this is not Spark.

        Asked as soon as a position is open or a plan is made: before anything of the source is read.
        """


class FileTasks(Lifecycle, Protocol):
    """Reads groups of files."""

    def tasks(self, most: int, limits: CommitLimits, hear: Hear) -> Tasks:
        """Tasks that read groups of files, at most ``most`` at once; ``hear`` gets their activity, if possible.

        None begins while so much is finished, and not handed over, that a commit of it would be due for each of them.
        """

    def frame(self, rows: WorkRows) -> WaitingFrame:
        """Decoded rows for the DataFrame lane; raises if this engine cannot write them."""


class ColumnRows(Lifecycle, Protocol):
    """Reads the rows of a column source and writes them once."""

    def reader(self, source: ColumnSource, schema: SchemaSpec, now: datetime) -> Reader:
        """The reader of a column source."""

    def count(self, frame: Any) -> int:
        """The number of rows in a frame of a reader."""

    def columns(self, frame: Any) -> pa.Schema:
        """The columns of a frame of a reader."""

    def write_rows(self, frame: Any, task: RowTask) -> RowsWritten:
        """Write every row, once."""

    def load(self, batch: Batch, window: RowFilter | None, *, chunk: bool) -> WaitingFrame:
        """Rows of a work area, to be written by the load strategy of their pipeline."""


class UnitRunner(Lifecycle, Protocol):
    """Reads and writes work units."""

    def carry_out(self, wave: UnitWave) -> WaveResult:
        """Read and write the work units of a wave; one that fails does not stop the others.

        Raises only if none of them could be tried.
        """

    def replace_units(self, batch: Batch, source: UnitSource, replaced: Sequence[ReplacedUnit]) -> WaitingFrame:
        """Rows of a work area that replace those of ``replaced``, or with equal keys, in one commit."""


class Engine(FileTasks, ColumnRows, UnitRunner, Protocol):
    """All three, as a run over sources of any kind needs them; threads may share it, each with a view of its own."""

    def for_pass(self, source: str, stop: threading.Event, admission: Admission) -> Engine:
        """This engine for one pass: its tasks count as those of ``source``, and end when ``stop`` is set."""

    def excerpt_log(self, error: BaseException, mask: Mask) -> str:
        """Where the engine's own log is kept, masked, and its end, if ``error`` came from the engine."""

    def close(self) -> None:
        """Release the engine's resources."""
