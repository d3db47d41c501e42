"""The table that a strategy writes, and the two statements that all of them are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.spark.frames import quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_SOURCE = "tidegate_rows"


@dataclass(frozen=True, slots=True)
class Target:
    """A Delta table at ``path``. ``columns`` is None where it is not there yet; with ``new_columns`` the rows bring
    some that it lacks. ``partitioned_by`` is for a table that is made now.
    """

    path: str
    columns: pa.Schema | None
    new_columns: bool = False
    partitioned_by: tuple[str, ...] = ()

    def read(self, session: SparkSession) -> DataFrame:
        """Its rows as they are now."""
        return session.read.format("delta").load(self.path)

    def save(self, rows: DataFrame, mode: str = "append", replaced: str | None = None) -> None:
        """Append ``rows``, or put them in the place of all rows, or of those for which ``replaced`` holds."""
        writer = rows.write.format("delta").mode(mode).option("partitionOverwriteMode", "static")
        if replaced is not None:
            writer = writer.option("replaceWhere", replaced)
        if self.new_columns:
            writer = writer.option("mergeSchema", "true")
        if self.columns is None and self.partitioned_by:
            writer = writer.partitionBy(*self.partitioned_by)
        writer.save(self.path)

    def merge(self, rows: DataFrame, condition: str, *clauses: str) -> None:
        """One MERGE of ``rows``, which are called ``s`` in the texts, into the table, called ``t``.

        That the columns fit is known by now; with evolution Delta also takes structs that lack a field.
        """
        rows.createOrReplaceTempView(_SOURCE)
        statement = (
            f"MERGE WITH SCHEMA EVOLUTION INTO delta.{quoted(self.path)} AS t USING {_SOURCE} AS s ON {condition}"
        )
        rows.sparkSession.sql("\n".join([statement, *clauses]))
