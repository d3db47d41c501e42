"""A batch on its way into the table: through the transform, then by its strategy, in one statement.

The statement runs in a session of its own, whose settings give it position and note.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.schema.evolution import as_required
from tidegate.sink.batches import Batch
from tidegate.sink.row_task import row_task
from tidegate.spark.frames import SparkFrame, codec_of, fitted, read_rows
from tidegate.spark.loading.strategies import Strategy
from tidegate.spark.loading.target import Target
from tidegate.spark.own_session import put
from tidegate.spark.row_writing import write_rows
from tidegate.state.table import CommitNote

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_APP_ID = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"
_NOTE = "spark.databricks.delta.commitInfo.userMetadata"
_CODEC = "spark.sql.parquet.compression.codec"
_KEEPING = "spark.databricks.delta.merge.materializeSource"
"""Whether MERGE keeps a copy of its source, which it reads twice; the files of a batch do not change."""


class LoadFrame(SparkFrame):
    """The rows of one commit, and how they are loaded."""

    def __init__(self, session: SparkSession, batch: Batch, strategy: Callable[[Sequence[str]], Strategy]) -> None:
        """``strategy`` gets the columns of the rows, whose spelling it takes for the names in a configuration."""
        super().__init__(session, batch.work_rows)
        self._batch = batch
        self._given = self._work
        self._strategy = strategy(self._frame.columns)
        self._is_stable = self._pipeline.transform is None or not self._strategy.looks_twice
        self._strategy.check(self._frame)
        self._columns = self._strategy.columns(self._columns)

    def columns(self, table: pa.Schema | None) -> pa.Schema:
        """The columns that will be written; what ``table`` requires is taken to be there, since Delta looks."""
        return as_required(self._columns, table)

    def _save(self, note: CommitNote, table: pa.Schema | None, *, new_columns: bool) -> None:
        rows = self._rows()
        ((app_id, version),) = note.transactions.items()
        settings = {
            _APP_ID: app_id,
            _VERSION: str(version),
            _NOTE: note.user_metadata,
            _CODEC: codec_of(self._pipeline.sink.compression),
            _KEEPING: "auto" if self._strategy.reads_table else "none",
        }
        put(rows.sparkSession, settings)
        target = Target(self._table, table, new_columns, self._partitioned_by, self._gathered)
        if table is None:
            target.save(self._strategy.first(rows))
        else:
            self._strategy.save(fitted(rows, table), target)

    @property
    def _gathered(self) -> int | None:
        """How many rows a statement must find in the work area; unknown where a transform runs inside of it."""
        is_read_as_is = self._pipeline.transform is None or self._work is not self._given
        return self._work.rows if is_read_as_is else None

    def _rows(self) -> DataFrame:
        """The rows after the transform, which runs once: what it made is kept beside the batch."""
        if not self._is_stable:
            work = replace(self._batch.work, uri=f"{self._batch.work.uri}/transformed")
            source = replace(self._batch.source, watermark_columns=())
            task = row_task(self._pipeline, source, self._computed(), work=work)
            written = write_rows(self._frame, task)
            kept = Batch.of(self._pipeline, source, task, written)
            self._work = kept.work_rows
            self._frame = read_rows(self._frame.sparkSession, self._work)
            self._is_stable = True
        return self._frame
