"""A batch on its way into a folder of plain Parquet files: what the folder shall hold afterwards.

Where rows are replaced, those of the files that are there stay whose key is not in the batch and that lie outside the
window; they are written anew beside the batch, and the files that were read give way to both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tidegate.spark.frames import columns_of, fitted
from tidegate.spark.loading.frames import LoadFrame
from tidegate.spark.loading.keys import Keys, column
from tidegate.spark.loading.opening import strategy_of
from tidegate.spark.loading.strategies import KeyOverwrite
from tidegate.spark.loading.target import Target
from tidegate.spark.own_session import put

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.sink.batches import Batch
    from tidegate.watermarks.row_filter import RowFilter

_TYPED_FOLDERS = "spark.sql.sources.partitionColumnTypeInference.enabled"


def folder_rows(session: SparkSession, batch: Batch, window: RowFilter | None, files: Sequence[str]) -> DataFrame:
    """The rows of ``batch`` after the transform, with those of ``files`` that stay where the strategy replaces rows.

    ``files`` are relative to the folder. Keys of folders that are made from other columns are left out.
    """
    owner = f"{batch.pipeline.name}/{batch.source.name}"
    strategy = partial(strategy_of, batch.pipeline.sink.load, batch.source, owner, window)
    return _FolderFrame(session, batch, lambda columns: strategy(columns=columns)).merged(files)


@dataclass(frozen=True, slots=True)
class _Present(Target):
    """The files that are there, in the place of a table."""

    rows: DataFrame | None = None

    def read(self, session: SparkSession) -> DataFrame:
        assert self.rows is not None
        return self.rows


class _FolderFrame(LoadFrame):
    """The rows of one change, computed when they are written."""

    def merged(self, files: Sequence[str]) -> DataFrame:
        rows, strategy = self._rows(), self._strategy
        if not files or not isinstance(strategy, KeyOverwrite):
            return rows
        there = self._there(rows, files)
        columns = columns_of(there, f"{self._table}")
        rows = fitted(rows, columns)
        condition, _ = strategy.looked_at(rows, _Present(self._table, columns, rows=there))
        outside = there if condition is None else there.where(f"NOT coalesce(({condition}), false)")
        kept = _without(outside, strategy.keys.distinct(rows), strategy.keys)
        return kept.unionByName(rows, allowMissingColumns=True)

    def _there(self, rows: DataFrame, files: Sequence[str]) -> DataFrame:
        """What the files hold; values of their folders have the types of the batch."""
        session = rows.sparkSession
        put(session, {_TYPED_FOLDERS: "false"})
        paths = [f"{self._table}/{each}" for each in files]
        found = session.read.option("mergeSchema", "true").option("basePath", self._table).parquet(*paths)
        by = self._pipeline.sink.partition_by
        names = [] if by is None else [part.partition("=")[0] for part in by.prefix_template.strip("/").split("/")]
        for name in names:
            if name not in rows.columns:
                found = found.drop(name)
            elif name in found.columns:
                found = found.withColumn(name, column(name).cast(rows.schema[name].dataType))
        return found


def _without(rows: DataFrame, gone: DataFrame, by: Keys) -> DataFrame:
    """The rows whose key is not among ``gone``; null is a key like any other."""
    from pyspark.sql import functions as f

    names = {name: f"__tidegate_{position}" for position, name in enumerate(by.names)}
    came = gone.select(*(column(name).alias(other) for name, other in names.items()))
    same = [column(name).eqNullSafe(f.col(other)) for name, other in names.items()]
    return rows.join(came, same, "left_anti")
