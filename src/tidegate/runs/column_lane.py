"""Where the rows of column sources are read and written: the port that a pass needs beside the lanes for files."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from tidegate.column_specs import ColumnSource
from tidegate.runs.lanes import WaitingFrame
from tidegate.sources.reading import Reader
from tidegate.specs import SchemaSpec
from tidegate.watermarks.row_filter import RowFilter

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.sink.batches import Batch
    from tidegate.sink.row_task import RowsWritten, RowTask


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
