"""Rows of a time range, by a column: what lies outside, or has no time, is left out."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import SourceError
from tidegate.schema.column_names import spelled

_MILLISECONDS = pa.timestamp("ms", tz="UTC")


def check_time_column(columns: pa.Schema, name: str) -> str:
    """``name`` as the rows spell it; :class:`SourceError` where it is no column that tells a moment or a day."""
    name = spelled(name, columns.names)
    if name not in columns.names:
        raise SourceError(
            f"time_column: the rows have no column {name!r}; they have {', '.join(columns.names) or 'none'}",
            "name the column of the rows' own time, or leave out time_column",
        )
    kind = columns.field(name).type
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        raise SourceError(
            f"time_column: the column {name!r} is {kind}, which tells no moment",
            f"declare it in schema.fields: {{name: {name}, type: timestamp}} (or date)",
        )
    return name


def within(rows: pa.RecordBatch, column: str, low: int, high: int, zone: str) -> pa.RecordBatch:
    """The rows whose ``column`` lies in ``[low, high)``, in milliseconds since 1970.

    A time without a zone, and the beginning of a day, are told in ``zone``: shifted forward where clocks leave it out,
    the first where they show it twice.
    """
    moments = rows.column(spelled(column, rows.schema.names))
    if pa.types.is_date(moments.type):
        moments = moments.cast(pa.timestamp("s"))
    if moments.type.tz is None:
        moments = pc.assume_timezone(moments, zone, ambiguous="earliest", nonexistent="latest")
    moments = moments.cast(pa.timestamp(moments.type.unit, tz="UTC"))
    begin, end = (pa.scalar(bound, _MILLISECONDS) for bound in (low, high))
    return rows.filter(pc.and_(pc.greater_equal(moments, begin), pc.less(moments, end)))
