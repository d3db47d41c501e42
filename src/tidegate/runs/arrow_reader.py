"""Column sources that are read without Spark: Parquet files, Delta tables, HTTP APIs and Python functions.

A source is read once, and filtered in this process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.core.columns.predicates import RowFilter, SqlDialect, matches, predicate
from tidegate.errors import EnvironmentProblem, SourceError
from tidegate.protocol.table_rows import query
from tidegate.schema.inference import agreeing, look
from tidegate.sink.greatest import Greatest
from tidegate.sink.unit_columns import RecordBlocks, RecordColumns
from tidegate.sources.http.answers import Shapes
from tidegate.sources.http.bounds import http_read, parts, upper
from tidegate.sources.http.read import Counts, Fetch, LineBlock, blocks
from tidegate.sources.reader import FunctionRequest, GreatestValues, Reader
from tidegate.spark.rows import load_function
from tidegate.specs.columns import ColumnSource, FunctionRead, HttpRead, TableFormat, TableRead, Value
from tidegate.specs.locations import Location
from tidegate.specs.masking import Mask
from tidegate.specs.project import FieldSpec, SchemaSpec
from tidegate.storage.listing_scope import Scope
from tidegate.storage.stores import open_store


def open_arrow_reader(source: ColumnSource, schema: SchemaSpec, now: datetime) -> Reader:
    """The reader of ``source``. :class:`EnvironmentProblem` where only Spark can read it."""
    match source.read:
        case TableRead(format=TableFormat.PARQUET, location=location):
            return ArrowReader(source, _parquet_files(location))
        case TableRead(format=TableFormat.DELTA, location=location):
            return ArrowReader(source, pa.Table.from_pylist(query(location, "select * from t")))
        case HttpRead():
            return HttpArrowReader(source, schema, now)
        case FunctionRead() as read:
            return FunctionArrowReader(source, read, now)
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
        seen = _greatest(self.source, self.read(rows)).values
        return GreatestValues(seen, _greatest(self.source, self.rows).nulls)

    def read(self, rows: RowFilter) -> pa.Table:
        """The rows that match."""
        return _matching(self.rows, rows)


@dataclass
class HttpArrowReader:
    """The records of an HTTP API, asked for in this process."""

    source: ColumnSource
    schema: SchemaSpec
    now: datetime
    fixed_first: bool = False

    def upper(self, now: datetime) -> Mapping[str, Value]:
        """The greatest values that a read at ``now`` gives; none for columns that are not declared as times."""
        return upper(self.source, self.schema, now)

    def greatest(self, rows: RowFilter) -> GreatestValues:
        """The greatest values among the records that match."""
        seen = _greatest(self.source, self.read(rows))
        return GreatestValues(seen.values, seen.nulls)

    def read(self, rows: RowFilter) -> pa.Table:
        """The records that match."""
        fetch = Fetch(http_read(self.source), parts(self.source, rows, self.now))
        found = [block for slot in range(fetch.slots) for block in blocks(fetch, slot, Counts())]
        fields = self.schema.fields or self._inferred(found)
        if self.schema.rescued is not None:
            fields = (*fields, FieldSpec(self.schema.rescued, "string"))
        decoder = RecordBlocks(RecordColumns(fields, self.schema, fetch.parts, self.source.uri))
        return _matching(pa.Table.from_batches([decoder.rows(block) for block in found], decoder.schema), rows)

    def _inferred(self, found: list[LineBlock]) -> tuple[FieldSpec, ...]:
        """Columns that hold every record; each watermark column is there, also where it has no value."""
        shapes = Shapes()
        lines = [line for block in found for line in block.lines.splitlines()]
        telling = [each for line in lines if (each := shapes.telling(line)) is not None]
        fields: tuple[FieldSpec, ...] = ()
        if telling:
            fields = agreeing(
                look(
                    [telling],
                    coerce_conflicts_to_utf8=self.schema.coerce_conflicts_to_utf8,
                    rescued=self.schema.rescued is not None,
                )
            ).fields
        known = {each.name for each in fields}
        return (*fields, *(FieldSpec(each, "string") for each in self.source.watermark_columns if each not in known))


@dataclass
class FunctionArrowReader:
    """What a Python function returns that needs no session: an Arrow table, or a pandas DataFrame."""

    source: ColumnSource
    function: FunctionRead
    now: datetime
    fixed_first: bool = False

    def greatest(self, rows: RowFilter) -> GreatestValues:
        """The greatest values among the rows that match."""
        seen = _greatest(self.source, self.read(rows))
        return GreatestValues(seen.values, seen.nulls)

    def read(self, rows: RowFilter) -> pa.Table:
        """What the function returns, as far as it matches; its session is None."""
        said = f"{self.source.name}: function {self.function.function}"
        call, mask = load_function(self.function.function, said), Mask.around(self.function)
        text = predicate(rows, SqlDialect.SPARK)
        request = FunctionRequest(rows.columns, rows, text, self.now, dict(self.function.options))
        try:
            returned: Any = call(None, request)
        except Exception as error:
            problem = f"{said} failed without a Spark session ({mask(str(error)):.200})"
            raise SourceError(problem, "correct the function, or use `tidegate run`") from mask.cause(error)
        if isinstance(returned, pa.Table):
            return _matching(returned, rows)
        if hasattr(returned, "to_dict") and hasattr(returned, "columns"):
            return _matching(pa.Table.from_pandas(returned, preserve_index=False), rows)
        raise SourceError(f"{said} returned {mask(repr(returned)):.80}", "return an Arrow table or a pandas DataFrame")


def _matching(table: pa.Table, rows: RowFilter) -> pa.Table:
    return table.filter(pa.array([matches(rows, row) for row in table.to_pylist()], pa.bool_()))


def _greatest(source: ColumnSource, rows: pa.Table) -> Greatest:
    found = Greatest(source.watermark_columns, source.mode)
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
