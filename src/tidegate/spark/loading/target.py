"""The table that a strategy writes, and the two statements that all of them are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.errors import RowsRefused
from tidegate.spark.own_session import check_text, quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_SOURCE = "tidegate_rows"


@dataclass(frozen=True, slots=True)
class Target:
    """A Delta table at ``path``. ``columns`` is None where it is not there yet; with ``new_columns`` the rows bring
    some that it lacks. ``partitioned_by`` is for a table that is made now. ``gathered`` is how many rows there
    must be to write, where that is known.
    """

    path: str
    columns: pa.Schema | None
    new_columns: bool = False
    partitioned_by: tuple[str, ...] = ()
    gathered: int | None = None

    def read(self, session: SparkSession) -> DataFrame:
        """Its rows as they are now; in a MERGE into the same table, those of the version that it writes to.

        Delta reads a table inside a statement that writes it at the statement's own version, and fails the statement
        where others commit meanwhile: then it is given again, and reads again.
        """
        return session.read.format("delta").load(self.path)

    def check_read(self, rows: int) -> None:
        """``RowsRefused`` where a look at the rows to write found more or fewer than were gathered."""
        if self.gathered not in (None, rows):
            raise RowsRefused(
                f"{self.gathered} rows were gathered for {self.path}, and Spark finds {rows} of them",
                "nothing was committed, and the next run reads them again; look who changes files below _tidegate",
            )

    def save(self, rows: DataFrame, mode: str = "append", replaced: str | None = None) -> None:
        """Append ``rows``, or put them in the place of all rows, or of those for which ``replaced`` holds."""
        writer = rows.write.format("delta").mode(mode).option("partitionOverwriteMode", "static")
        if replaced is not None:
            writer = writer.option("replaceWhere", check_text(rows.sparkSession, replaced))
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
        rows.sparkSession.sql(check_text(rows.sparkSession, "\n".join([statement, *clauses])))
