"""What a read asks of its source, in the source's own language, told without touching it."""

from __future__ import annotations

from tidegate.column_specs import ColumnSource, FunctionRead, HttpRead, JdbcRead, TableRead
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
        case HttpRead() as read:
            return _parameters(read, rows)


def _where(rows: RowFilter, dialect: Dialect) -> str:
    condition = predicate(rows, dialect)
    return EVERYTHING if condition is None else f"WHERE {condition}"


def _parameters(read: HttpRead, rows: RowFilter) -> str:
    """The bounds by the parameter that carries them; the server's own words for them are made when it is asked."""
    sent = [
        f"{read.watermark.mapping[each.column]}={each.lower.value}"
        for each in rows.ranges
        if each.lower is not None and each.column in read.watermark.mapping
    ]
    upper = next((each.upper.value for each in rows.ranges if each.upper is not None), None)
    if read.watermark.to_param and upper is not None:
        sent.append(f"{read.watermark.to_param}={upper}")
    return f"{read.method} {read.path or '/'} with {' '.join(sent) or 'no bounds'}"
