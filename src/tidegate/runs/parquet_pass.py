"""One pass over a column source into a folder of plain Parquet files.

The walk is that of every column source. New files wait in a work area; the marker of the destination decides, and from
then on the work area belongs to it: it is not removed here, whatever happens.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tidegate.column_specs import LoadType
from tidegate.errors import RowsRefused, StorageError
from tidegate.failpoints import failpoint
from tidegate.observe import events
from tidegate.observe.wording import count
from tidegate.planning.column_plan import ColumnPlan, Fixed
from tidegate.runs.column_pass import ColumnPass
from tidegate.runs.parquet_place import ParquetPlace, ParquetPositions, landed
from tidegate.specs import PipelineSpec
from tidegate.state.opened import Opened
from tidegate.state.work_areas import WorkArea, remove_work

if TYPE_CHECKING:
    from tidegate.sink.row_task import RowsWritten


@dataclass(frozen=True, slots=True)
class _Ready:
    """Rows in a work area, and the files of the destination that give way to them; ``read`` of the source."""

    written: RowsWritten
    bounds: Fixed
    read: int
    rows: int
    removed: tuple[str, ...] = ()


class ParquetPass(ColumnPass):
    """Carries one column source into its folder as far as it goes now."""

    @property
    def _positions(self) -> ParquetPositions:
        place = self._place
        assert isinstance(place, ParquetPlace)
        return place.positions

    def _written(self, opened: Opened, plan: ColumnPlan, frame: Any, bounds: Fixed | None) -> Opened:
        area = self._positions.destination.new_work_area()
        with self._kept_if_done(area):
            ready = self._ready(plan, frame, bounds, area)
        if not ready.read and not ready.removed and not plan.full:
            remove_work(self._place.table_store, area.directory)
            return self._nothing_new(opened)
        with self._kept_if_done(area):
            self._check_emptied(plan, ready)
        return self._landed(opened, area, ready)

    def _check_emptied(self, plan: ColumnPlan, ready: _Ready) -> None:
        """Nothing takes the place of everything only if that is allowed."""
        if not plan.full or ready.written.rows or self._place.pipeline.sink.load.allow_empty_window:
            return
        files = self._positions.destination.data_files()
        if files:
            raise RowsRefused(
                f"{'/'.join(self._names)}: there is no row to write, and the folder has {count(len(files), 'file')},"
                " which an overwrite would delete",
                "nothing was committed; if they were deleted at the source, set sink.allow_empty_window: true for one"
                " run",
            )

    def _ready(self, plan: ColumnPlan, frame: Any, bounds: Fixed | None, area: WorkArea) -> _Ready:
        pipeline = self._place.pipeline
        if pipeline.transform is None and pipeline.sink.load.type is not LoadType.MERGE_OVERWRITE:
            written = self._put(frame, area, plan, bounds)
            return _Ready(written, bounds or self._told_by(plan, written), written.rows, written.rows)
        return self._computed(plan, frame, bounds, area)

    def _put(
        self, frame: Any, area: WorkArea, plan: ColumnPlan, bounds: Fixed | None, *, is_read: bool = True
    ) -> RowsWritten:
        """The rows as finished files, in folders by their partition."""
        from tidegate.sink.row_task import row_task

        place = self._place
        source = place.source if is_read else replace(place.source, watermark_columns=())
        task = row_task(place.pipeline, source, self._lane.columns(frame))
        task = replace(task, place=area.location)
        return self._read(frame, self._limited(task, plan, bounds)) if is_read else self._lane.write_rows(frame, task)

    def _computed(self, plan: ColumnPlan, frame: Any, bounds: Fixed | None, area: WorkArea) -> _Ready:
        """Rows that Spark makes of the batch, and where rows are replaced, of the files that are there."""
        from tidegate.sink.batches import Batch
        from tidegate.sink.row_task import row_task

        place, destination = self._place, self._positions.destination
        raw = destination.new_work_area()
        try:
            pipeline = _undivided(place.pipeline)
            task = row_task(pipeline, place.source, self._lane.columns(frame), work=raw.location)
            read = self._read(frame, self._limited(task, plan, bounds))
            bounds = bounds or self._told_by(plan, read)
            if not read.rows and bounds.window is None and not plan.full:
                return _Ready(read, bounds, 0, 0)
            replaces = place.pipeline.sink.load.type is LoadType.MERGE_OVERWRITE
            removed = destination.data_files() if replaces else ()
            batch = replace(Batch.of(pipeline, place.source, task, read), pipeline=place.pipeline)
            made = self._lane.folder_rows(batch, bounds.window, removed)
            written = self._put(made, area, plan, bounds, is_read=False)
            return _Ready(written, bounds, read.rows, read.rows if replaces else written.rows, removed)
        finally:
            with suppress(StorageError):
                remove_work(place.table_store, raw.directory)

    @contextmanager
    def _kept_if_done(self, area: WorkArea) -> Iterator[None]:
        """A work area goes if what was to be written into it fails."""
        try:
            yield
        except Exception:
            with suppress(StorageError):
                remove_work(self._place.table_store, area.directory)
            raise

    def _landed(self, opened: Opened, area: WorkArea, ready: _Ready) -> Opened:
        started = time.monotonic()
        failpoint("runs.commit.before")
        after = self._positions.opened(self._swapped(opened, area, ready), ready.rows)
        failpoint("runs.commit.after")
        self.state = ready.bounds.state
        self.totals.commits += 1
        self.totals.rows += ready.rows
        self.totals.table_version = after.table_version
        self._emit(
            events.Committed(
                *self._names,
                position=after.version,
                table_version=after.table_version,
                source_files=0,
                source_bytes=0,
                data_files=len(ready.written.data_files),
                rows=ready.rows,
                seconds=time.monotonic() - started,
            )
        )
        return after

    def _swapped(self, opened: Opened, area: WorkArea, ready: _Ready) -> Any:
        destination, load = self._positions.destination, self._place.pipeline.sink.load
        text, position = ready.bounds.state.text(), landed(opened)
        files = frozenset(file.path for file in ready.written.data_files)
        if load.type.reads_everything:
            return destination.overwrite(position, area, text, files)
        if ready.removed:
            return destination.replace(position, area, ready.removed, text, files)
        return destination.append(position, area, text, files)


def _undivided(pipeline: PipelineSpec) -> PipelineSpec:
    """The pipeline without partitions: rows on their way have the columns of the source."""
    return replace(pipeline, sink=replace(pipeline.sink, partition_by=None))
