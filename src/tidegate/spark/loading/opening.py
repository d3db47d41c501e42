"""Which strategy writes a batch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, assert_never

from tidegate.column_specs import ColumnSource, Load, LoadType
from tidegate.errors import TableError
from tidegate.schema.column_names import spelled
from tidegate.sink.batches import Batch
from tidegate.spark.loading.frames import LoadFrame
from tidegate.spark.loading.keys import Keys
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
from tidegate.spark.loading.windows import Guard, TableWindow
from tidegate.watermarks.row_filter import RowFilter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
        return tuple(spelled(name, columns) for name in names)

    def in_table(name: str) -> str:
        return spelled(load.window_columns.get(spelled(name, tuple(load.window_columns)), name), columns)

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
            return Versions(keys(load.merge_keys), effective and spelled(effective, columns), own(load.scd2_attributes))
        case _:
            assert_never(load.type)
