"""Which strategy writes a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.sink.batches import Batch
from tidegate.spark.frames import SparkFrame
from tidegate.watermarks.row_filter import RowFilter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def load_frame(
    session: SparkSession, batch: Batch, *, window: RowFilter | None = None, chunk: bool = False
) -> SparkFrame:
    """The rows of ``batch`` as they wait for their commit, by the pipeline's transform and load strategy.

    ``window`` has the bounds of the read, for strategies that look at the same part of the table; ``chunk``: it is one
    of a replay, which takes the place of what the table has there.
    """
    raise NotImplementedError
