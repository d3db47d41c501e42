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
from tidegate.protocol.change import Change
from tidegate.protocol.follow_ups import new_work_area, remove_old_work, remove_work
from tidegate.protocol.position import Position
from tidegate.protocol.table import schema_json
from tidegate.protocol.table_checks import brought, check_frame_place, lane_reasons
from tidegate.runs.engine import Engine
from tidegate.runs.file_source import FileSource
from tidegate.runs.table_columns import TableColumnsPlan
from tidegate.sink.read_task import ReadTask
from tidegate.sink.row_task import WorkRows
from tidegate.spark.jars import S3
from tidegate.storage.local import announce


def frame_reasons(source: FileSource, opened: Position) -> tuple[str, ...]:
    """Why Spark writes this source itself; nothing where the Arrow lane does."""
    transform = source.pipeline.transform
    if transform is None:
        return opened.needs_frames
    reason = f"the pipeline has a transform ({transform})"
    uri = source.pipeline.sink.table.uri
    check_frame_place(uri, f"{source.pipeline.name} needs the DataFrame lane: {reason}")
    return (reason, *opened.needs_frames)


def refuse_frames(source: FileSource, opened: Position, problem: str) -> None:
    """Stop a command that only knows the Arrow lane."""
    reasons = frame_reasons(source, opened)
    if reasons:
        uri = source.pipeline.sink.table.uri
        raise UnsupportedTable(f"table {uri}: {problem}: {'; '.join(reasons)}", "replace them with Spark")


def any_frames(sources: Sequence[FileSource]) -> bool:
    """Whether Spark will have to write one of these tables, as far as can be told now."""
    return any(source.pipeline.transform is not None or _needs_frames(source) for source in sources)


def frame_packages(sources: Sequence[FileSource]) -> tuple[str, ...]:
    """What Spark needs to write those of these tables that only it can, besides Delta itself."""
    on_s3 = [source for source in sources if source.pipeline.sink.table.uri.startswith("s3:")]
    return (S3,) if any_frames(on_s3) else ()


def _needs_frames(source: FileSource) -> bool:
    """What cannot be read says nothing here: the run itself tells."""
    uri = source.pipeline.sink.table.uri
    with suppress(TidegateError):
        snapshot = source.positions.site.delta.snapshot()
        return snapshot is not None and bool(lane_reasons(snapshot.facts, uri))
    return False


def as_read(source: FileSource, opened: Position) -> Position:
    """``opened`` with the columns that source files are fitted to: the table's, without those that Spark fills.

    With a transform there are none: the files have the source's columns, the result has the table's.
    """
    table = opened.schema()
    if table is None or opened.schema_json is None or not frame_reasons(source, opened):
        return opened
    if source.pipeline.transform is not None:
        return replace(opened, schema_json=None, partition_columns=())
    kept = opened.partition_columns if source.pipeline.sink.partition_by else ()
    return replace(opened, schema_json=schema_json(brought(table, opened.schema_json)), partition_columns=kept)


class FrameCommit:
    """One commit of the DataFrame lane, from decoding to what is committed."""

    def __init__(self, source: FileSource, engine: Engine, now: datetime) -> None:
        self._source = source
        self._engine = engine
        with suppress(StorageError):
            remove_old_work(source.table_store, source.key, now)
        announce(source.pipeline.sink.table)
        self._area = new_work_area(source.key, source.pipeline.sink.table)

    @classmethod
    def of(cls, source: FileSource, engine: Engine, opened: Position, now: datetime) -> FrameCommit | None:
        """The work of a commit on top of ``opened``; None where the Arrow lane does it."""
        reasons = frame_reasons(source, opened)
        if reasons and source.positions.staged:
            raise UnsupportedTable(
                f"table {source.pipeline.sink.table.uri} cannot be written by staged delivery: {'; '.join(reasons)}",
                "set delivery: direct, so that Spark commits what it writes",
            )
        return cls(source, engine, now) if reasons else None

    def task(self, task: ReadTask) -> ReadTask:
        """The same task, writing whole files into the work area."""
        return replace(task, table=self._area.location, whole_files=True)

    def change(self, change: Change, opened: Position, columns: TableColumnsPlan) -> Change:
        """``change`` with the rows as Spark will write them, in the place of the decoded files."""
        files = tuple(file.path for file in change.data_files)
        debts = (*change.debts, self._area.debt())
        if not files and opened.table_id is not None:
            return replace(change, schema=None, partition_columns=(), debts=debts)
        pipeline = self._source.pipeline
        keys = columns.partition_columns
        sizes = tuple(file.size for file in change.data_files)
        rows = sum(file.record_count for file in change.data_files)
        frame = self._engine.frame(WorkRows(pipeline, self._area.location, files, columns.table, keys, sizes, rows))
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
            remove_work(self._source.table_store, self._area.directory)
