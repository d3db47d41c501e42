"""Column sources that Arrow reads without Spark: Parquet files and Delta tables, whole, filtered in this process."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.core.columns.predicates import RowFilter, matches
from tidegate.errors import EnvironmentProblem
from tidegate.protocol.table_rows import query
from tidegate.sink.greatest import Greatest
from tidegate.sources.reader import GreatestValues, Reader
from tidegate.specs.columns import ColumnSource, TableFormat, TableRead
from tidegate.specs.locations import Location
from tidegate.storage.listing_scope import Scope
from tidegate.storage.stores import open_store


def open_arrow_reader(source: ColumnSource) -> Reader:
    """The reader of ``source``; reads it once. :class:`EnvironmentProblem` where only Spark can."""
    match source.read:
        case TableRead(format=TableFormat.PARQUET, location=location):
            return ArrowReader(source, _parquet_files(location))
        case TableRead(format=TableFormat.DELTA, location=location):
            return ArrowReader(source, pa.Table.from_pylist(query(location, "select * from t")))
        case _:
            raise EnvironmentProblem(f"source {source.name!r}: {source.uri} is read by Spark", "use `tidegate run`")


@dataclass
class ArrowReader:
    """Rows of a table in memory."""

    source: ColumnSource
    rows: pa.Table
    fixed_first: bool = True

    def greatest(self, rows: RowFilter) -> GreatestValues:
        """The greatest values among the rows that match."""
        return GreatestValues(self._greatest(self.read(rows)).values, self._greatest(self.rows).nulls)

    def read(self, rows: RowFilter) -> pa.Table:
        """The rows that match."""
        return self.rows.filter(pa.array([matches(rows, row) for row in self.rows.to_pylist()], pa.bool_()))

    def _greatest(self, rows: pa.Table) -> Greatest:
        found = Greatest(self.source.watermark_columns, self.source.mode)
        for batch in rows.to_batches():
            found.see(batch)
        return found


def _parquet_files(location: Location) -> pa.Table:
    """All rows of the Parquet files below ``location``."""
    store = open_store(location)
    names = sorted(info.path for info in store.list(scope=Scope()) if info.path.endswith(".parquet"))
    if not names:
        raise EnvironmentProblem(f"{location.uri} has no Parquet file", "correct source_uri")
    return pa.concat_tables([pq.read_table(BytesIO(store.get(name))) for name in names], promote_options="default")
