"""Tables and queries of a database by JDBC: the condition is in the statement, and several connections share the rows.

The ranges of the connections are asked from the database by counting rows, so that a skewed key makes equal shares.
Every row meets the condition of exactly one of them, null included.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tidegate.column_specs import ColumnSource, JdbcRead, Value, WatermarkMode
from tidegate.errors import SourceError, TidegateError
from tidegate.sources.jdbc_statements import JdbcStatements
from tidegate.sources.reading import Seen
from tidegate.spark.bounds import column_named, fitted, kinds_of_times
from tidegate.spark.filters import count_in
from tidegate.spark.readers.jdbc_columns import JdbcColumns
from tidegate.spark.readers.jdbc_connection import JdbcConnection
from tidegate.spark.readers.rows import declared, given, parallelism, utc_session
from tidegate.specs import SchemaSpec
from tidegate.watermarks.column_values import is_finite
from tidegate.watermarks.dialects import Dialect
from tidegate.watermarks.row_filter import RowFilter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXACT_UP_TO = 1_000_000
SAMPLED_ROWS = 100_000
"""Of more rows than the first, so many tell where to divide: PostgreSQL takes them from pages at random."""


class JdbcReader:
    """Reads one table or query of a database."""

    fixed_first = True

    def __init__(self, session: SparkSession, source: ColumnSource, read: JdbcRead, schema: SchemaSpec) -> None:
        own = utc_session(session)
        self._connection = JdbcConnection(own, read, source.name)
        self._parallelism = read.parallelism or parallelism(own)
        self._source = source
        self._read = read
        self._schema = schema

    def greatest(self, rows: RowFilter) -> Seen:
        """The greatest values in the database now."""
        wanted = self._fitted(rows)
        if not wanted.ranges:
            return Seen()
        statements = self._statements
        if wanted.mode is WatermarkMode.TUPLE:
            found = self._asked(statements.greatest_tuple(wanted), wanted)
            counted = self._connection.asked(statements.nulls(wanted))
        else:
            found = counted = self._asked(statements.greatest(wanted), wanted)
        row = found[0] if found else {}
        seen = {
            column: self._columns.greatest(name, row.get(f"greatest_{index}"))
            for index, (column, name) in enumerate(zip(rows.columns, wanted.columns, strict=True))
        }
        return Seen(seen, count_in(counted[0]["nulls"]))

    def kinds(self, columns: Sequence[str]) -> dict[str, str]:
        """Which columns hold times, by the database's own account."""
        return kinds_of_times(columns, self._columns.schema, self._source.name)

    def read(self, rows: RowFilter) -> DataFrame:
        """The rows that match, by as many connections as are worth it."""
        wanted = self._fitted(rows)
        conditions = self._conditions(wanted)
        divided_by = self._partition_column(wanted) if len(conditions) > 1 else None
        statement = self._statements.rows(wanted, divided_by=divided_by)
        frame = self._connection.frame(statement, self._columns.fetched(), conditions)
        restored = self._columns.restored(frame, declared(self._schema))
        return given(restored, self._schema, self._source.source_timezone, self._source.name)

    def problem(self, error: Exception) -> TidegateError:
        """What went wrong while the rows of :meth:`read` were computed."""
        return self._connection.problem(error)

    @cached_property
    def _columns(self) -> JdbcColumns:
        """The columns by the database's own account."""
        everything = JdbcStatements(self._read).rows(RowFilter())
        return JdbcColumns(self._connection.frame(everything).schema, self._connection.dialect)

    def _fitted(self, rows: RowFilter) -> RowFilter:
        wanted = fitted(rows, self._columns.schema, self._source.source_timezone, self._source.name)
        for column in wanted.columns:
            self._columns.check_followed(column, self._source.name)
        return wanted

    @property
    def _statements(self) -> JdbcStatements:
        return JdbcStatements(self._read, self._columns.selected())

    def _asked(self, statement: str, rows: RowFilter) -> list[dict[str, Value | None]]:
        types = {f"greatest_{index}": self._columns.greatest_type(name) for index, name in enumerate(rows.columns)}
        return self._connection.asked(statement, types)

    def _conditions(self, rows: RowFilter) -> tuple[str, ...]:
        """One condition per connection: equal shares, each of ``fetch_size`` rows at least."""
        column = self._partition_column(rows)
        statements = self._statements
        if column is None or self._parallelism < 2 or not statements.sorts_as_we_do(column):
            return ()
        found = count_in(self._connection.asked(statements.count(rows))[0]["found"])
        parts = min(self._parallelism, found // self._read.fetch_size)
        if parts < 2:
            return ()
        bounds = sorted(self._bounds(statements, rows, column, parts, found))[1:]
        return statements.part_conditions(bounds)

    def _partition_column(self, rows: RowFilter) -> str | None:
        if self._read.partition_column is not None:
            return column_named(self._read.partition_column, self._columns.schema.names, self._source.name)
        return rows.columns[0] if rows.columns else None

    def _bounds(self, statements: JdbcStatements, rows: RowFilter, column: str, parts: int, found: int) -> set[Any]:
        """The least value of each share; those of a sample where the table is large and can be sampled."""
        can_sample = self._read.table is not None and self._connection.dialect is Dialect.POSTGRESQL
        if can_sample and found > EXACT_UP_TO:
            percent = 100 * SAMPLED_ROWS / found
            try:
                bounds = self._least(statements.parts(rows, column, parts, percent=percent), column)
            except SourceError:  # a view has no pages
                bounds = set()
            if len(bounds) > 1:
                return bounds
        return self._least(statements.parts(rows, column, parts), column)

    def _least(self, statement: str, column: str) -> set[Any]:
        rows = self._connection.asked(statement, {"bound": self._columns.greatest_type(column)})
        values = (self._columns.greatest(column, row["bound"]) for row in rows)
        return {value for value in values if value is not None and is_finite(value)}
