"""The rows of one read, between the source and the load strategy: Parquet files in a work area.

They were read from the source once and do not change any more, however often a statement looks at them.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tidegate.column_specs import ColumnSource
from tidegate.sink.row_task import RowsWritten, RowTask
from tidegate.sink.work_rows import WorkRows
from tidegate.specs import Location, PipelineSpec


@dataclass(frozen=True, slots=True)
class Batch:
    """What one commit of a column source is about to write.

    ``files`` are those that count, relative to ``work``, and ``sizes`` theirs in bytes. ``columns`` are all columns of
    the rows, derived partition columns included; ``partitioned_by`` is how a table that does not exist yet is to be
    partitioned.
    """

    pipeline: PipelineSpec
    source: ColumnSource
    work: Location
    files: tuple[str, ...]
    columns: pa.Schema
    rows: int
    partitioned_by: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()

    @classmethod
    def of(cls, pipeline: PipelineSpec, source: ColumnSource, task: RowTask, written: RowsWritten) -> Batch:
        """What ``task`` left in its work area."""
        return cls(
            pipeline,
            source,
            task.place,
            tuple(file.path for file in written.data_files),
            task.written,
            written.rows,
            task.partition_columns,
            tuple(file.size for file in written.data_files),
        )

    @property
    def work_rows(self) -> WorkRows:
        """The same for the DataFrame lane."""
        return WorkRows(self.pipeline, self.work, self.files, self.columns, self.partitioned_by, self.sizes, self.rows)
