"""Which strategy writes a batch, and its way there through the transform.

The statement runs in a session of its own, whose settings give it position and note.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, assert_never

from tidegate.core.columns.predicates import RowFilter
from tidegate.errors import TableError
from tidegate.protocol.table import CommitNote
from tidegate.schema.evolution import require_as
from tidegate.schema.names import spell
from tidegate.sink.row_task import Batch, row_task
from tidegate.spark.frames import SparkFrame, codec_of, fitted, read_rows, write_rows
from tidegate.spark.loading.scd2 import Versions
from tidegate.spark.loading.strategies import (
    Append,
    Deduplicated,
    KeyOverwrite,
    Overwrite,
    ReplaceWindow,
    Strategy,
    Upsert,
)
from tidegate.spark.loading.target import Guard, Keys, TableWindow, Target
from tidegate.spark.session import put
from tidegate.specs.columns import ColumnSource, Load, LoadType

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
        return require_as(self._columns, table)

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


def load_frame(
    session: SparkSession, batch: Batch, *, window: RowFilter | None = None, chunk: bool = False
) -> LoadFrame:
    """The rows of ``batch`` as they wait for their commit, by the pipeline's transform and load strategy.

    ``window`` has the bounds of the read, for strategies that look at the same part of the table; ``chunk``: it is one
    of a replay, which takes the place of what the table has there.
    """
    owner = f"{batch.pipeline.name}/{batch.source.name}"
    strategy = partial(strategy_of, batch.pipeline.sink.load, batch.source, owner, window, chunk=chunk)
    return LoadFrame(session, batch, lambda columns: strategy(columns=columns))


def strategy_of(
    load: Load,
    source: ColumnSource,
    owner: str,
    window: RowFilter | None = None,
    *,
    chunk: bool = False,
    columns: Sequence[str] = (),
) -> Strategy:
    """How the rows of a read with these bounds get into the table; ``owner`` is for messages.

    Names are taken as ``columns``, those of the rows, spell them.
    """

    def own(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(spell(name, columns) for name in names)

    def in_table(name: str) -> str:
        return spell(load.window_columns.get(spell(name, tuple(load.window_columns)), name), columns)

    followed = () if window is None else window.columns
    names = {name: in_table(name) for name in followed}
    part = None if window is None else TableWindow(window, owner, names, source.source_timezone)
    guard = Guard(owner, load.max_delete_fraction, load.allow_empty_window)
    order = tuple(in_table(name) for name in source.watermark_columns)

    def keys(names: tuple[str, ...]) -> Keys:
        return Keys(own(names), owner, order, source.mode, own(load.tie_break))

    match load.type:
        case LoadType.APPEND if chunk and part is not None:
            return ReplaceWindow(part, guard, keys(load.deduplicate) if load.deduplicate else None)
        case LoadType.APPEND if load.deduplicate:
            return Deduplicated(keys(load.deduplicate), part)
        case LoadType.APPEND:
            return Append()
        case LoadType.OVERWRITE | LoadType.FULL_LOAD:
            if chunk:
                raise TableError(
                    f"{owner}: a chunk of a replay cannot be loaded by {load.type.value}: that replaces the table",
                    "run the pipeline: each run reads everything",
                )
            return Overwrite(guard)
        case LoadType.MERGE_UPSERT:
            return Upsert(keys(load.merge_keys), part if chunk else None)
        case LoadType.MERGE_OVERWRITE:
            replaces = part if chunk or load.replace_by_watermark else None
            return KeyOverwrite(keys(load.merge_keys), replaces, guard, chunk)
        case LoadType.SCD2:
            effective = load.scd2_effective_column
            return Versions(keys(load.merge_keys), effective and spell(effective, columns), own(load.scd2_attributes))
        case _:
            assert_never(load.type)
