"""Who executes reads and writes: the ports, and the engine inside this process.

Files are decoded by the same tasks as ever, bad lines and all, only into a work area instead of the table. From there
Spark takes the rows through the transform into the table, by its own writer, under the same commit protocol.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from tidegate.core.columns.predicates import RowFilter
from tidegate.core.files.plan import FileGroup
from tidegate.errors import EnvironmentProblem, StorageError, TidegateError, UnsupportedTable
from tidegate.protocol.change import Change, Frame
from tidegate.protocol.position import Position
from tidegate.protocol.table import schema_json
from tidegate.protocol.table_checks import brought, check_frame_place, lane_reasons
from tidegate.protocol.work_areas import clean_old, new_work_area, remove_work
from tidegate.runs.bound_source import Place
from tidegate.runs.table_columns import TableColumnsPlan
from tidegate.sink.read_task import GroupResult, ReadTask
from tidegate.sink.row_task import WorkRows
from tidegate.sink.task import read_units
from tidegate.sources.reader import Reader
from tidegate.sources.units.work import UnitWave, WaveResult
from tidegate.spark.jars import S3
from tidegate.specs.columns import ColumnSource
from tidegate.specs.project import SchemaSpec
from tidegate.specs.units import UnitSource
from tidegate.storage.durability import announce

if TYPE_CHECKING:
    from tidegate.sink.row_task import Batch, RowsWritten, RowTask
    from tidegate.sink.unit_task import ReplacedUnit


class WaitingFrame(Frame, Protocol):
    """Rows that Spark is to write, and their columns."""

    def columns(self, table: pa.Schema | None) -> pa.Schema:
        """The columns as they will be written into ``table``."""
        ...


class Lane(Protocol):
    """Reads units somewhere. What ``execute`` returns is complete and durable; nothing else counts.

    A unit may have failed by itself: its result says so, and covers nothing.
    """

    def prepare(self) -> None:
        """Get ready to execute; a deadline is better set after this."""
        ...

    def execute(
        self, task: ReadTask, slots: Sequence[Sequence[FileGroup]], progress: Callable[[int], None]
    ) -> tuple[GroupResult, ...]:
        """Read every unit; one task per slot. ``progress`` hears how many slots are done."""
        ...

    def frame(self, rows: WorkRows) -> WaitingFrame:
        """Decoded rows for the DataFrame lane; raises where this lane cannot write them."""
        ...

    def close(self) -> None:
        """Give back what the lane holds."""
        ...


class InProcessLane:
    """Reads units one after the other in this process: for tests, and for faults without Spark."""

    def prepare(self) -> None:
        """Nothing to get ready."""

    def execute(
        self, task: ReadTask, slots: Sequence[Sequence[FileGroup]], progress: Callable[[int], None]
    ) -> tuple[GroupResult, ...]:
        """Read every unit here."""
        results: list[GroupResult] = []
        for number, slot in enumerate(slots):
            results.extend(read_units(task, slot))
            progress(number + 1)
        return tuple(results)

    def frame(self, rows: WorkRows) -> WaitingFrame:
        """Not without Spark."""
        raise EnvironmentProblem(f"{rows.pipeline.name}: only Spark can write this table", "use `tidegate run`")

    def close(self) -> None:
        """Nothing is held."""


def raise_failures(results: Iterable[GroupResult]) -> None:
    """Raise what the first failed unit met; to be called when the others need nothing more."""
    for result in results:
        if result.failure is not None:
            raise result.failure


def deal(units: Sequence[FileGroup], slots: int) -> tuple[tuple[FileGroup, ...], ...]:
    """Units dealt to at most ``slots`` tasks of about the same size; inside a task they keep the plan's order.

    A task costs some tens of milliseconds however little it reads, so there are few of them; the largest units
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


class ColumnLane(Protocol):
    """Spark, as far as column sources need it. Frames go through as they are; nothing here looks into them."""

    def prepare(self) -> None:
        """Get ready; to be called before several threads use the lane."""

    def reader(self, source: ColumnSource, schema: SchemaSpec, now: datetime) -> Reader:
        """Who reads ``source``."""

    def count(self, frame: Any) -> int:
        """How many rows a frame has that a reader gave."""

    def columns(self, frame: Any) -> pa.Schema:
        """The columns of a frame that a reader gave."""

    def write_rows(self, frame: Any, task: RowTask) -> RowsWritten:
        """Write every row, once; what it returns is complete and durable, and nothing is visible yet."""

    def load(self, batch: Batch, window: RowFilter | None, *, chunk: bool) -> WaitingFrame:
        """Rows of a work area, to be written by the load strategy of their pipeline."""


class UnitLane(Protocol):
    """Spark, as far as work units need it."""

    def prepare(self) -> None:
        """Get ready; to be called before several threads use the lane."""

    def carry_out(self, wave: UnitWave) -> WaveResult:
        """Read and write the work units of a wave; a unit that fails keeps no other from being done.

        Raises only where none of them could be tried.
        """

    def replace_units(self, batch: Batch, source: UnitSource, replaced: Sequence[ReplacedUnit]) -> WaitingFrame:
        """Rows of a work area, to take the place of those of ``replaced``, or with equal keys, in one commit."""


def frame_reasons(place: Place, opened: Position) -> tuple[str, ...]:
    """Why Spark writes this source itself; nothing where the Arrow lane does."""
    transform = place.pipeline.transform
    if transform is None:
        return opened.needs_frames
    reason = f"the pipeline has a transform ({transform})"
    uri = place.pipeline.sink.table.uri
    check_frame_place(uri, f"{place.pipeline.name} needs the DataFrame lane: {reason}")
    return (reason, *opened.needs_frames)


def refuse_frames(place: Place, opened: Position, problem: str) -> None:
    """Stop a command that only knows the Arrow lane."""
    reasons = frame_reasons(place, opened)
    if reasons:
        uri = place.pipeline.sink.table.uri
        raise UnsupportedTable(f"table {uri}: {problem}: {'; '.join(reasons)}", "replace them with Spark")


def any_frames(places: Sequence[Place]) -> bool:
    """Whether Spark will have to write one of these tables, as far as can be told now."""
    return any(place.pipeline.transform is not None or _needs_frames(place) for place in places)


def frame_packages(places: Sequence[Place]) -> tuple[str, ...]:
    """What Spark needs to write those of these tables that only it can, besides Delta itself."""
    on_s3 = [place for place in places if place.pipeline.sink.table.uri.startswith("s3:")]
    return (S3,) if any_frames(on_s3) else ()


def _needs_frames(place: Place) -> bool:
    """What cannot be read says nothing here: the run itself tells."""
    uri = place.pipeline.sink.table.uri
    with suppress(TidegateError):
        snapshot = place.positions.site.delta.snapshot()
        return snapshot is not None and bool(lane_reasons(snapshot.facts, uri))
    return False


def as_read(place: Place, opened: Position) -> Position:
    """``opened`` with the columns that source files are fitted to: the table's, without those that Spark fills.

    With a transform there are none: the files have the source's columns, the result has the table's.
    """
    table = opened.schema()
    if table is None or opened.schema_json is None or not frame_reasons(place, opened):
        return opened
    if place.pipeline.transform is not None:
        return replace(opened, schema_json=None, partition_columns=())
    kept = opened.partition_columns if place.pipeline.sink.partition_by else ()
    return replace(opened, schema_json=schema_json(brought(table, opened.schema_json)), partition_columns=kept)


class FrameCommit:
    """One commit of the DataFrame lane, from decoding to what is committed."""

    def __init__(self, place: Place, lane: Lane, now: datetime) -> None:
        self._place = place
        self._lane = lane
        with suppress(StorageError):
            clean_old(place.table_store, place.key, now)
        announce(place.pipeline.sink.table)
        self._area = new_work_area(place.key, place.pipeline.sink.table)

    @classmethod
    def of(cls, place: Place, lane: Lane, opened: Position, now: datetime) -> FrameCommit | None:
        """The work of a commit on top of ``opened``; None where the Arrow lane does it."""
        reasons = frame_reasons(place, opened)
        if reasons and place.positions.staged:
            raise UnsupportedTable(
                f"table {place.pipeline.sink.table.uri} cannot be written by staged delivery: {'; '.join(reasons)}",
                "set delivery: direct, so that Spark commits what it writes",
            )
        return cls(place, lane, now) if reasons else None

    def task(self, task: ReadTask) -> ReadTask:
        """The same task, writing whole files into the work area."""
        return replace(task, table=self._area.location, whole_files=True)

    def change(self, change: Change, opened: Position, columns: TableColumnsPlan) -> Change:
        """``change`` with the rows as Spark will write them, in the place of the decoded files."""
        files = tuple(file.path for file in change.data_files)
        debts = (*change.debts, self._area.debt())
        if not files and opened.table_id is not None:
            return replace(change, schema=None, partition_columns=(), debts=debts)
        pipeline = self._place.pipeline
        keys = columns.partition_columns
        sizes = tuple(file.size for file in change.data_files)
        rows = sum(file.record_count for file in change.data_files)
        frame = self._lane.frame(WorkRows(pipeline, self._area.location, files, columns.table, keys, sizes, rows))
        return replace(
            change,
            data_files=(),
            frame=frame,
            written_rows=rows if pipeline.transform is None else None,
            schema=frame.columns(opened.schema()),
            partition_columns=keys if pipeline.sink.partition_by else opened.partition_columns,
            debts=debts,
        )

    def drop(self) -> None:
        """Remove the work area of a commit that was not made, if that is possible now."""
        with suppress(StorageError):
            remove_work(self._place.table_store, self._area.directory)
