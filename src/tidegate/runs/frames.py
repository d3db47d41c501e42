"""Which lane writes a source, and how a commit of the DataFrame lane is put together.

Files are decoded by the same tasks as ever, bad lines and all, only into a work area instead of the table. From there
Spark takes the rows through the transform into the table, by its own writer, under the same commit protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from tidegate.errors import StorageError, TidegateError, UnsupportedTable
from tidegate.runs.columns import Columns
from tidegate.runs.lanes import Lane
from tidegate.runs.place import Place
from tidegate.sink.task import ReadTask
from tidegate.sink.work_rows import WorkRows
from tidegate.spark.jars import S3
from tidegate.state.arrow import schema_json
from tidegate.state.features import check_frame_place, lane_reasons
from tidegate.state.files import Change
from tidegate.state.fitting import brought
from tidegate.state.opened import Opened
from tidegate.state.work_areas import clean_old, new_work_area, remove_work
from tidegate.storage.exclusion import announce


def frame_reasons(place: Place, opened: Opened) -> tuple[str, ...]:
    """Why Spark writes this source itself; nothing where the Arrow lane does."""
    transform = place.pipeline.transform
    if transform is None:
        return opened.needs_frames
    reason = f"the pipeline has a transform ({transform})"
    uri = place.pipeline.sink.table.uri
    check_frame_place(uri, f"{place.pipeline.name} needs the DataFrame lane: {reason}")
    return (reason, *opened.needs_frames)


def refuse_frames(place: Place, opened: Opened, problem: str) -> None:
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


def as_read(place: Place, opened: Opened) -> Opened:
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


class FrameWork:
    """One commit of the DataFrame lane, from decoding to what is committed."""

    def __init__(self, place: Place, lane: Lane, now: datetime) -> None:
        self._place = place
        self._lane = lane
        with suppress(StorageError):
            clean_old(place.table_store, place.key, now)
        announce(place.pipeline.sink.table)
        self._area = new_work_area(place.key, place.pipeline.sink.table)

    @classmethod
    def of(cls, place: Place, lane: Lane, opened: Opened, now: datetime) -> FrameWork | None:
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

    def change(self, change: Change, opened: Opened, columns: Columns) -> Change:
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
