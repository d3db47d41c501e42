"""Column sources that Arrow reads without Spark: Parquet files and Delta tables, whole, filtered in this process."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.core.columns.predicates import RowFilter, matches
from tidegate.errors import EnvironmentProblem, SourceError
from tidegate.protocol.table import arrow_schema
from tidegate.protocol.table_rows import pinned
from tidegate.sink.greatest import Greatest
from tidegate.sources.reader import GreatestValues, Reader
from tidegate.specs.columns import ColumnSource, TableFormat, TableRead
from tidegate.specs.locations import Location
from tidegate.specs.project import SchemaSpec
from tidegate.storage.listing_scope import Scope
from tidegate.storage.stores import open_store


def open_arrow_reader(source: ColumnSource, schema: SchemaSpec) -> Reader:
    """The reader of ``source``; reads it once. :class:`EnvironmentProblem` where only Spark reads it exactly."""
    if schema.fields:
        raise _needs_spark(source, "its values are converted to declared columns")
    match source.read:
        case TableRead(format=TableFormat.PARQUET, location=location, pattern=None):
            rows = _parquet_files(source, location)
        case TableRead(format=TableFormat.DELTA, location=location):
            rows = _delta_table(location)
        case _:
            raise _needs_spark(source, "files of its type, or chosen by a pattern, are read by Spark")
    for column in rows.schema:
        if "timestamp" in str(column.type) and "timestamp[us, tz=" not in str(column.type):
            raise _needs_spark(source, f"{column.name!r} ({column.type}) has no zone, or is finer than microseconds")
    missing = [name for name in source.watermark_columns if name not in rows.column_names]
    if missing:
        raise SourceError(f"{source.uri} has no column {missing[0]!r}", "correct watermark_columns")
    return ArrowReader(source, rows)


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
        if rows.extra is not None:
            raise _needs_spark(self.source, "filter_expression is a condition in the language of Spark")
        return self.rows.filter(pa.array([matches(rows, row) for row in self.rows.to_pylist()], pa.bool_()))

    def _greatest(self, rows: pa.Table) -> Greatest:
        found = Greatest(self.source.watermark_columns, self.source.mode)
        for batch in rows.to_batches():
            found.see(batch)
        return found


def _needs_spark(source: ColumnSource, why: str) -> EnvironmentProblem:
    return EnvironmentProblem(f"source {source.name!r} of {source.uri} needs Spark: {why}", "use `tidegate run`")


def _delta_table(location: Location) -> pa.Table:
    """All rows of the newest version of a table."""
    found = pinned(location)
    if found is None:
        raise SourceError(f"{location.uri} is not a Delta table", "correct source_uri")
    schema = arrow_schema(found.snapshot.facts.schema_json)
    return pa.Table.from_batches([each.cast(schema) for each in found.rows(found.columns)], schema)


def _parquet_files(source: ColumnSource, location: Location) -> pa.Table:
    """All rows of the Parquet files below ``location``, which must not be in folders of partitions."""
    store = open_store(location)
    names = sorted(info.path for info in store.list(scope=Scope()) if not _is_hidden(info.path))
    if not names:
        raise SourceError(f"{location.uri} has no file", "correct source_uri")
    if any("=" in name.rpartition("/")[0] for name in names):
        raise _needs_spark(source, "its folders are columns (key=value)")
    try:
        parts = [pq.read_table(BytesIO(store.get(name))) for name in names]
        return pa.concat_tables(parts, promote_options="default")
    except pa.ArrowException as error:
        raise SourceError(
            f"{location.uri} cannot be read as Parquet: {error}", "see which of its files is none"
        ) from error


def _is_hidden(path: str) -> bool:
    """Whether Spark passes over a file of this name too."""
    return any(part.startswith(("_", ".")) for part in path.split("/"))
