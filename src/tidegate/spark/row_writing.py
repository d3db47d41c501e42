"""Rows of a DataFrame as finished files, straight into a table's folder or a work area: one Spark job, evaluated once.

Only what the driver received counts: a retried or speculative attempt leaves files nobody refers to, never rows.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidegate.errors import SourceError, TidegateError
from tidegate.sink.row_task import RowsWritten, RowTask, joined, write_batches
from tidegate.sources.jdbc_errors import is_of_database
from tidegate.spark.own_session import COLUMNAR_INPUT, put, quoted
from tidegate.spark.packing import cause
from tidegate.spark.readers.jdbc_connection import database_refusal

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def write_rows(frame: DataFrame, task: RowTask) -> RowsWritten:
    """Write every row of ``frame``, each partition of it by a task of its own; it has the columns of the task.

    Raises :class:`TidegateError` when Spark gave up; then nothing counts.
    """
    from pyspark.sql.functions import col

    numbered = frame.select(*(col(quoted(name)).alias(f"c{n}") for n, name in enumerate(task.names)))
    results = numbered.mapInArrow(_Writer(zlib.compress(pickle.dumps(task), level=1)), "result binary")
    try:
        put(frame.sparkSession, {COLUMNAR_INPUT: "false"})
        received = [pickle.loads(bytes(row["result"])) for row in results.collect()]
    except Exception as error:
        if is_of_database(str(error)):
            refused = database_refusal(error, task.mask)
            raise SourceError(refused.problem, refused.remedy) from task.mask.cause(error)
        raise TidegateError(
            f"Spark gave up on a task: {cause(error, task.mask)}",
            "nothing was committed; the same rows are read again next time",
        ) from task.mask.cause(error)
    for each in received:
        if isinstance(each, TidegateError):
            raise each
    return joined(task, received)


class _Writer:
    """The function that runs in the task: rows in, one pickled result out.

    Columns come with numbers for names: Spark takes a name with a dot in it for two.
    """

    def __init__(self, payload: bytes) -> None:
        self._payload = payload

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        task: RowTask = pickle.loads(zlib.decompress(self._payload))
        try:
            result: RowsWritten | TidegateError = write_batches(
                task, (batch.rename_columns(task.names) for batch in batches)
            )
        except TidegateError as error:
            result = error
        yield pa.record_batch({"result": [pickle.dumps(result)]})
