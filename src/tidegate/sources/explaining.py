"""What a read asks of its source, in the source's own language, told without touching it."""

from __future__ import annotations

from tidegate.column_specs import ColumnSource, FunctionRead, HttpRead, JdbcRead, TableRead
from tidegate.sources.http.bounds import described
from tidegate.watermarks.dialects import Dialect, dialect_of
from tidegate.watermarks.predicate_text import predicate
from tidegate.watermarks.row_filter import RowFilter

EVERYTHING = "every row"


def explained(source: ColumnSource, rows: RowFilter) -> str:
    """The condition that is sent to ``source``: SQL, request parameters, or what Spark filters after a full scan."""
    match source.read:
        case JdbcRead(url=url):
            return _where(rows, dialect_of(url))
        case TableRead(format=format_) if format_.is_pushed_down:
            return _where(rows, Dialect.SPARK)
        case TableRead():
            return f"full scan, filtered in Spark: {_where(rows, Dialect.SPARK)}"
        case FunctionRead(function=function):
            return f"{function}, filtered in Spark: {_where(rows, Dialect.SPARK)}"
        case HttpRead():
            return described(source, rows)


def _where(rows: RowFilter, dialect: Dialect) -> str:
    condition = predicate(rows, dialect)
    return EVERYTHING if condition is None else f"WHERE {condition}"
