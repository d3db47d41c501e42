"""Times that lie ahead: a row at ``9999-12-31`` must not become the watermark, or every row before it would be hidden.

Up to the horizon (now and ``future_tolerance``) a time is taken for what it is. Rows above it are left out of the read
and counted; they are read, once, when their time has come.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from tidegate.column_specs import ColumnSource, Value, Watermark, WatermarkMode
from tidegate.errors import WatermarkError
from tidegate.planning.column_plan import ColumnPlan
from tidegate.watermarks.calendar import check_zone
from tidegate.watermarks.column_values import is_above
from tidegate.watermarks.look_back import moment_like
from tidegate.watermarks.row_filter import Bound, ColumnRange, RowFilter

AHEAD_REMEDY = (
    "set it to the last value that is right: `tidegate watermark set`; if times ahead are right here, set "
    "future_tolerance: none, or a longer one"
)
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]|$)", re.ASCII)


def horizon_of(source: ColumnSource, now: datetime) -> datetime | None:
    """Up to when a time is taken for what it is; None where every time is."""
    return None if source.future_tolerance is None else now.astimezone(UTC) + source.future_tolerance


def stored_ahead(source: ColumnSource, stored: Watermark, now: datetime) -> Iterator[str]:
    """What is wrong with stored values that lie beyond the horizon, one sentence for each column."""
    horizon = horizon_of(source, now)
    for column in source.watermark_columns if horizon is not None else ():
        value = stored.get(column)
        if value is not None and _is_ahead(value, horizon, source.source_timezone):
            yield (
                f"the watermark of {column} is {value}, which is further ahead than future_tolerance allows: whatever "
                "comes before it is passed over"
            )


def ahead(plan: ColumnPlan, seen: Watermark) -> dict[str, Value]:
    """The latest value that is taken, of columns whose greatest lies beyond the horizon; nothing where none does."""
    columns = plan.reads.columns[:1] if plan.reads.mode is WatermarkMode.TUPLE else plan.reads.columns
    found: dict[str, Value] = {}
    if plan.horizon is None:
        return found
    for column in columns:
        value = seen.get(column)
        cap = None if value is None else moment_like(value, plan.horizon, plan.source_timezone)
        if value is not None and cap is not None and is_above(value, cap):
            found[column] = cap
    return found


def waiting(plan: ColumnPlan, caps: Mapping[str, Value]) -> RowFilter:
    """The rows above these caps: the plan reads each of them, as they lie above every watermark, too."""
    ranges = tuple(ColumnRange(column, Bound(cap)) for column, cap in caps.items())
    return RowFilter(ranges, extra=plan.reads.extra)


def up_to(plan: ColumnPlan, caps: Mapping[str, Value]) -> ColumnPlan:
    """The plan without the rows above these caps."""
    upper = {column: Bound(cap, inclusive=True) for column, cap in caps.items()}
    return replace(plan, reads=plan.reads.capped(upper))


def check_text(plan: ColumnPlan, column: str, value: str) -> None:
    """``WatermarkError`` for a text that is a time beyond the horizon: a read by texts cannot end at a time."""
    if plan.horizon is None or not _is_ahead(value, plan.horizon, plan.source_timezone):
        return
    raise WatermarkError(
        f"{plan.pipeline}/{plan.source}: the greatest value of watermark column {column!r} is the text {value!r}, a"
        f" time further ahead than future_tolerance allows ({plan.horizon.isoformat()}): as the watermark it would hide"
        " every row before it",
        "declare the column as a timestamp or a date, so that such rows wait; or leave them out with"
        " filter_expression; or set future_tolerance: none",
    )


def _is_ahead(value: Value, horizon: datetime | None, zone: str) -> bool:
    moment = _read_as_time(value, zone) if isinstance(value, str) else value
    latest = None if moment is None or horizon is None else moment_like(moment, horizon, zone)
    return moment is not None and latest is not None and is_above(moment, latest)


def _read_as_time(text: str, zone: str) -> datetime | None:
    """The time that a text is in ISO 8601; None for other texts."""
    if not _ISO.match(text):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=check_zone(zone))
