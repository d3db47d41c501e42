"""What a read asks of its source, in the source's own language, told without touching it."""

from __future__ import annotations

from tidegate.column_specs import ColumnSource
from tidegate.watermarks.row_filter import RowFilter


def explained(source: ColumnSource, rows: RowFilter) -> str:
    """The condition that is sent to ``source``: SQL, request parameters, or what Spark filters after a full scan."""
    raise NotImplementedError(f"{source.name}: {rows}")
