"""The part of a table that a batch takes the place of, and the guards in front of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from tidegate.column_specs import Value
from tidegate.errors import RowsRefused, SchemaMismatch
from tidegate.spark.loading.keys import Keys, column
from tidegate.spark.loading.target import Target
from tidegate.watermarks.dialects import Dialect
from tidegate.watermarks.local_times import jump_around
from tidegate.watermarks.predicate_text import predicate
from tidegate.watermarks.row_filter import Bound, ColumnRange, RowFilter
from tidegate.watermarks.windows import renamed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_THERE = "__tidegate_there"


@dataclass(frozen=True, slots=True)
class TableWindow:
    """Rows of the table that a read covers. ``names`` has the table's name of a column where it is another one.

    ``zone`` is where times without a zone belong: they are compared with the moments that the table has.
    """

    rows: RowFilter
    owner: str
    names: Mapping[str, str]
    zone: str = "UTC"

    @classmethod
    def of_bounds(cls, bounds: Mapping[str, tuple[Value, Value]], owner: str) -> TableWindow:
        """From lower to upper, both inside."""
        ranges = (
            ColumnRange(name, Bound(lower, inclusive=True), Bound(upper, inclusive=True))
            for name, (lower, upper) in bounds.items()
        )
        return cls(RowFilter(tuple(ranges)), owner, {})

    @property
    def columns(self) -> tuple[str, ...]:
        """Its columns, by their names in the table."""
        return tuple(self.names.get(name, name) for name in self.rows.columns)

    def condition(self, columns: pa.Schema) -> str:
        """The window in SQL over a table with these ``columns``; ``SchemaMismatch`` where one is missing."""
        import pyarrow.types as kinds

        rows = renamed(replace(self.rows, extra=None), self.names)
        for name in rows.columns:
            if name not in columns.names:
                raise SchemaMismatch(
                    f"{self.owner}: the window is one of column {name!r}, which the table does not have",
                    "say with sink.window_columns how it is called there, or do not replace by watermark",
                )
        moments = {each.name for each in columns if kinds.is_timestamp(each.type) and each.type.tz is not None}
        ranges = tuple(self._zoned(each) if each.column in moments else each for each in rows.ranges)
        return predicate(replace(rows, ranges=ranges), Dialect.SPARK) or "true"

    def later(self, columns: pa.Schema) -> str | None:
        """The rows above the window in SQL; None where the table does not have its columns."""
        ranges = tuple(
            ColumnRange(each.column, Bound(each.upper.value, inclusive=not each.upper.inclusive))
            for each in self.rows.ranges
            if each.upper is not None
        )
        is_known = bool(ranges) and all(name in columns.names for name in self.columns)
        return replace(self, rows=RowFilter(ranges)).condition(columns) if is_known else None

    def check(self, columns: tuple[str, ...]) -> None:
        """``SchemaMismatch`` where the rows to write do not have the columns of the window."""
        for each, name in zip(self.rows.columns, self.columns, strict=True):
            if name not in columns:
                raise SchemaMismatch(
                    f"{self.owner}: the transform does not give {name!r}, the column of the window to replace",
                    f"select it, or name what it became: sink.window_columns: {{{each}: …}}",
                )

    def _zoned(self, each: ColumnRange) -> ColumnRange:
        return replace(each, lower=self._moment(each.lower), upper=self._moment(self._behind_jump(each.upper)))

    def _behind_jump(self, bound: Bound | None) -> Bound | None:
        """An upper bound that lies where clocks jump, behind that: rows below it in local time may be later moments."""
        is_local = bound is not None and isinstance(bound.value, datetime) and bound.value.tzinfo is None
        jump = jump_around(bound.value, self.zone) if is_local else None  # type: ignore[union-attr, arg-type]  # a time
        return bound if jump is None else Bound(jump.until)

    def _moment(self, bound: Bound | None) -> Bound | None:
        """The bound as a moment: a time without a zone, and the midnight that a day is, belong to the source's."""
        if bound is None or not isinstance(bound.value, date):
            return bound
        value = bound.value if isinstance(bound.value, datetime) else datetime.combine(bound.value, time())
        return replace(
            bound, value=value if value.tzinfo else value.replace(tzinfo=ZoneInfo(self.zone)).astimezone(UTC)
        )


@dataclass(frozen=True, slots=True)
class Guard:
    """What must not happen to a window without somebody's word.

    It counts before the statement, in the table as it is then: what others commit between the two is not in the count.
    """

    owner: str
    max_delete_fraction: float = 0.5
    allow_empty_window: bool = False

    def inside(self, outside: int, condition: str) -> None:
        """``RowsRefused`` where rows to write are not in the window: they would be written again next time."""
        if outside:
            raise RowsRefused(
                f"{self.owner}: {outside} rows lie outside the window that they are to replace ({condition})",
                "nothing was committed; a transform must not change the watermark column of a window",
            )

    def check(self, rows: DataFrame, count: int, keys: Keys, target: Target, condition: str) -> None:
        """``RowsRefused`` where more would be deleted than is allowed."""
        if not count:
            return self.check_empty(rows, target, condition)
        there, gone = _fate(target.read(rows.sparkSession).where(condition), keys.distinct(rows), keys)
        if there and gone / there > self.max_delete_fraction:
            raise RowsRefused(
                f"{self.owner}: {gone} of the table's {there} rows in the window ({condition}) did not come back from "
                f"the source, more than max_delete_fraction ({self.max_delete_fraction:g}) allows",
                "nothing was committed; if they were deleted at the source, raise sink.max_delete_fraction for one run",
            )
        return None

    def check_empty(self, rows: DataFrame, target: Target, condition: str) -> None:
        """``RowsRefused`` where nothing came and the table has rows in the window."""
        if self.allow_empty_window:
            return
        there = target.read(rows.sparkSession).where(condition).count()
        if there:
            raise RowsRefused(
                f"{self.owner}: the source has no row in the window ({condition}), and the table has {there}",
                "nothing was committed; if they were deleted at the source, set sink.allow_empty_window: true",
            )

    def check_whole(self, rows: DataFrame, target: Target) -> None:
        """``RowsRefused`` where nothing came, and all rows of the table would go."""
        if self.allow_empty_window or not rows.isEmpty():
            return
        there = target.read(rows.sparkSession).count()
        if there:
            raise emptied(self.owner, f"{there:,} rows")


def emptied(owner: str, there: str) -> RowsRefused:
    """Why a source without a row does not take the place of what a destination has."""
    return RowsRefused(
        f"{owner}: there is no row to write, and the table has {there}, which an overwrite would delete",
        "nothing was committed; if they were deleted at the source, set sink.allow_empty_window: true for one run",
    )


def _fate(window: DataFrame, keys: DataFrame, by: Keys) -> tuple[int, int]:
    """How many rows of the table lie in the window, and how many of them have a key that did not come back."""
    from pyspark.sql import functions as f

    names = {name: f"__tidegate_{position}" for position, name in enumerate(by.names)}
    came = keys.select(*(column(name).alias(other) for name, other in names.items()), f.lit(True).alias(_THERE))
    same = [column(name).eqNullSafe(f.col(other)) for name, other in names.items()]
    found = window.join(came, same, "left").agg(f.count(f.lit(1)), f.count_if(f.col(_THERE).isNull())).head()
    assert found is not None
    return int(found[0]), int(found[1])
