"""The window of a read: from where to where, by column, for loads that replace what lies in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tidegate.column_specs import Value, Watermark
from tidegate.watermarks.row_filter import RowFilter


@dataclass(frozen=True, slots=True)
class SourceRuntime:
    """The watermarks of one read: as stored, after look-back, and after the read."""

    watermark_before: Watermark | None = None
    watermark_effective: Watermark | None = None
    watermark_after: Watermark | None = None


def window_of(runtime: SourceRuntime, *, replace_by_watermark: bool) -> dict[str, tuple[Value, Value]] | None:
    """Lower and upper bound by column; None where nothing is replaced or a bound is not known."""
    before, effective, after = runtime.watermark_before, runtime.watermark_effective, runtime.watermark_after
    if not replace_by_watermark or before is None or effective is None or after is None:
        return None
    window = {}
    for column, lower in effective.items():
        upper = after.get(column)
        if lower is not None and upper is not None:
            window[column] = (lower, upper)
    return window or None


def renamed(rows: RowFilter, names: Mapping[str, str]) -> RowFilter:
    """The same rows in a table where columns have other names."""
    return replace(
        rows, ranges=tuple(replace(each, column=names.get(each.column, each.column)) for each in rows.ranges)
    )
