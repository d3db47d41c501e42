"""Which rows of a source are wanted: bounds per watermark column, as a value that any language can be made from.

Lower bounds say what is new: a row is wanted if one of its columns lies above (``any``), or if the whole cursor does
(``tuple``). Upper bounds hold for every column, so that no row is taken that the next watermark would take again; null
is below every cap.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.column_specs import NullWatermark, Value, WatermarkMode


@dataclass(frozen=True, slots=True)
class Bound:
    """A value that is or is not itself inside."""

    value: Value
    inclusive: bool = False


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """What is wanted of one column.

    ``any_value``: no value was ever seen, so that whatever is not null is new. Without bounds and
    without it, the column wants every row. ``only_null`` is the cap of a column of which no value was seen when the
    read was fixed: a value that appears since belongs to the next read.
    """

    column: str
    lower: Bound | None = None
    upper: Bound | None = None
    any_value: bool = False
    only_null: bool = False


@dataclass(frozen=True, slots=True)
class RowFilter:
    """The rows of one read. ``extra`` is a condition in the language of the source, taken as it is.

    ``nulls`` is what becomes of rows with null in every watermark column (in a cursor: in any).
    """

    ranges: tuple[ColumnRange, ...] = ()
    mode: WatermarkMode = WatermarkMode.ANY
    nulls: NullWatermark = NullWatermark.EXCLUDE
    extra: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The watermark columns, in order."""
        return tuple(each.column for each in self.ranges)

    @property
    def is_unbounded(self) -> bool:
        """Whether nothing was stored yet: every row is new."""
        return all(each.lower is None and not each.any_value for each in self.ranges)

    def capped(self, upper: dict[str, Bound]) -> RowFilter:
        """The same with upper bounds, by column."""
        ranges = tuple(replace(each, upper=upper.get(each.column, each.upper)) for each in self.ranges)
        return replace(self, ranges=ranges)
