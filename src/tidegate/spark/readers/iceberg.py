"""Iceberg tables: the files of one snapshot that can hold wanted rows, read by Spark's own Parquet reader.

Columns are found by the numbers that Iceberg gives them, under whatever name a file has them. Spark's fast reader and
the filters it takes look at names, too: where a name has meant something else, rows are read one by one, and no row
group is passed over.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from tidegate.errors import EnvironmentProblem
from tidegate.spark.own_session import put
from tidegate.spark.readers.iceberg_columns import as_written, spark_columns
from tidegate.spark.readers.paths import spark_path
from tidegate.spark.readers.tables import TableReader
from tidegate.watermarks.row_filter import RowFilter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.sources.iceberg import IcebergTable

_BY_NUMBER = "spark.sql.parquet.fieldId.read.enabled"
_BY_NAME = ("spark.sql.parquet.enableVectorizedReader", "spark.sql.parquet.filterPushdown")
_GLOB = re.compile(r"([\\\[\]{}*?])")
"""What Spark would take for a pattern in a path."""


class IcebergReader(TableReader):
    """Reads one Iceberg table, pinned to the snapshot that is the newest when it is first asked."""

    def _holding(self, rows: RowFilter) -> DataFrame:
        planned = self._table.planned(rows)
        roots = {each.root: spark_path(self._session, each.root, self._source.name) for each in planned}
        return self._scan([roots[each.root] + _GLOB.sub(r"\\\1", each.path) for each in planned])

    @cached_property
    def _frame(self) -> DataFrame:
        return self._scan([])

    @cached_property
    def _table(self) -> IcebergTable:
        spark_path(self._session, self._read.location, self._source.name)
        try:
            from tidegate.sources.iceberg import IcebergTable
        except ImportError as error:
            raise EnvironmentProblem(
                f"{self._source.name}: Iceberg tables are read by pyiceberg, which is missing ({error.name})",
                "pip install 'tidegate[iceberg]'",
            ) from error
        return IcebergTable(self._read.location, self._source.name)

    def _scan(self, paths: list[str]) -> DataFrame:
        fields = self._table.fields
        columns = spark_columns(fields, self._source.name)
        put(self._session, {_BY_NUMBER: "true"})
        if not self._table.keeps_names:
            put(self._session, dict.fromkeys(_BY_NAME, "false"))
        if not paths:
            return as_written(self._session.createDataFrame([], columns), fields)
        return as_written(self._session.read.schema(columns).parquet(*paths), fields)
