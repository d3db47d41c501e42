"""The table that a strategy writes, the merge keys of a batch, and the window of the table that it replaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from tidegate.core.calendar import jump_around
from tidegate.core.columns.predicates import Bound, ColumnRange, RowFilter, predicate, rename_columns
from tidegate.core.dialects.dialect import SPARK
from tidegate.errors import RowsRefused, SchemaMismatch
from tidegate.reports.wording import count
from tidegate.spark.filters import exact_column
from tidegate.spark.session import check_text, quote
from tidegate.specs.columns import Value, WatermarkMode

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

_SOURCE = "tidegate_rows"


@dataclass(frozen=True, slots=True)
class Target:
    """A Delta table at ``path``. ``columns`` is None before it exists; ``new_columns``: the rows bring columns that it
    lacks. ``partitioned_by`` is for a table that is created now. ``gathered`` is the number of rows to write, if known.
    """

    path: str
    columns: pa.Schema | None
    new_columns: bool = False
    partitioned_by: tuple[str, ...] = ()
    gathered: int | None = None

    def read(self, session: SparkSession) -> DataFrame:
        """The table's rows; inside a MERGE into the same table, those of the version that the MERGE writes to.

        Delta reads the table at the statement's own version and fails the statement if others commit meanwhile; it is
        then retried, and reads again.
        """
        return session.read.format("delta").load(self.path)

    def check_read(self, rows: int) -> None:
        """Raise ``RowsRefused`` if more or fewer rows were read than were gathered."""
        if self.gathered not in (None, rows):
            raise RowsRefused(
                f"{self.gathered} rows were gathered for {self.path}, but Spark finds {rows}",
                "nothing was committed, and the next run reads them again; find out who changes files below _tidegate",
            )

    def save(self, rows: DataFrame, mode: str = "append", replaced: str | None = None) -> None:
        """Append ``rows``, or replace all rows, or replace those that match ``replaced``."""
        # With `dynamic`, which a session may set, an overwrite replaces only the partitions that its rows have.
        writer = rows.write.format("delta").mode(mode).option("partitionOverwriteMode", "static")
        if replaced is not None:
            writer = writer.option("replaceWhere", check_text(rows.sparkSession, replaced))
        if self.new_columns:
            writer = writer.option("mergeSchema", "true")
        if self.columns is None and self.partitioned_by:
            writer = writer.partitionBy(*self.partitioned_by)
        writer.save(self.path)

    def merge(self, rows: DataFrame, condition: str, *clauses: str) -> None:
        """One MERGE of ``rows``, alias ``s``, into the table, alias ``t``.

        The columns are known to fit; schema evolution is on for structs that lack a field.
        """
        rows.createOrReplaceTempView(_SOURCE)
        statement = (
            f"MERGE WITH SCHEMA EVOLUTION INTO delta.{quote(self.path)} AS t USING {_SOURCE} AS s ON {condition}"
        )
        rows.sparkSession.sql(check_text(rows.sparkSession, "\n".join([statement, *clauses])))


_PLACE = "__tidegate_place"


@dataclass(frozen=True, slots=True)
class Keys:
    """The merge keys, and what decides between rows with equal keys.

    ``order`` are the watermark columns: the row with the latest greatest value wins (as a ``tuple``: compared in
    order), then the one that is greatest in ``tie_break``. ``owner`` names the source in messages.
    """

    names: tuple[str, ...]
    owner: str
    order: tuple[str, ...] = ()
    mode: WatermarkMode = WatermarkMode.ANY
    tie_break: tuple[str, ...] = ()

    def check(self, rows: DataFrame) -> None:
        """Raise ``SchemaMismatch`` if a key or a tie-breaker is no column of the rows."""
        for role, names in (("merge key", self.names), ("tie_break", self.tie_break)):
            for name in names:
                if name not in rows.columns:
                    raise SchemaMismatch(
                        f"{self.owner}: {role} {name!r} is not a column of the rows",
                        f"they have: {', '.join(rows.columns)}",
                    )

    def columns(self) -> list[Column]:
        return [exact_column(name) for name in self.names]

    def distinct(self, rows: DataFrame) -> DataFrame:
        """Each key once."""
        return rows.select(*self.columns()).distinct()

    def survey(self, rows: DataFrame, window: str | None = None) -> KeySurvey:
        """Count rows, repeated keys, null keys, and rows outside ``window``."""
        from pyspark.sql import functions as f

        outside = f.lit(0) if window is None else f.count_if(~f.coalesce(f.expr(window), f.lit(False)))
        nulls = f.lit(False)
        for column in self.columns():
            nulls = nulls | column.isNull()
        keys = rows.groupBy(*self.columns()).agg(f.count(f.lit(1)).alias("n"), outside.alias("o"))
        found = keys.agg(f.sum("n"), f.max("n"), f.max(nulls), f.sum("o")).head()
        assert found is not None
        return KeySurvey(found[0] or 0, found[1] or 0, bool(found[2]), found[3] or 0)

    def latest(self, rows: DataFrame) -> DataFrame:
        """One row per key; raises ``RowsRefused`` if nothing decides between two different rows."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        by = Window.partitionBy(*self.columns()).orderBy(*self._order(rows))
        best = rows.withColumn(_PLACE, f.rank().over(by)).where(f.col(_PLACE) == 1).drop(_PLACE)
        # As JSON, because Spark cannot compare maps.
        whole = f.to_json(f.struct(*map(exact_column, rows.columns)), {"ignoreNullFields": "false"})
        unclear = best.groupBy(*self.columns()).agg(f.count_distinct(whole).alias(_PLACE)).where(f.col(_PLACE) > 1)
        found = unclear.drop(_PLACE).head()
        if found is not None:
            compared = (*self.order, *self.tie_break)
            raise RowsRefused(
                f"{self.owner}: several rows of the batch have the key {self.key_text(found)}, and nothing shows which "
                "is the latest",
                "nothing was committed; set sink.tie_break to a column that is greatest in the row to keep"
                + (f" (they are equal in {', '.join(compared)})" if compared else ""),
            )
        # Rows that are equal in every column remain; which of them is kept makes no difference.
        return rows.withColumn(_PLACE, f.row_number().over(by)).where(f.col(_PLACE) == 1).drop(_PLACE)

    def _order(self, rows: DataFrame) -> list[Column]:
        from pyspark.sql import functions as f

        watermarks = [exact_column(name) for name in self.order if name in rows.columns]
        if len(watermarks) > 1 and self.mode is WatermarkMode.ANY:
            watermarks = [f.greatest(*watermarks)]
        order = [watermark.desc_nulls_last() for watermark in (*watermarks, *map(exact_column, self.tie_break))]
        # A constant puts all rows of a key first, so that any difference between them is noticed.
        return order or [f.lit(0).asc()]

    def key_text(self, found: Sequence[object]) -> str:
        return ", ".join(f"{name} = {value!r:.80}" for name, value in zip(self.names, found, strict=True))


@dataclass(frozen=True, slots=True)
class KeySurvey:
    """``rows`` in a batch, the ``most`` with one key, whether a key holds a null, and rows ``outside`` the window."""

    rows: int
    most: int
    has_nulls: bool
    outside: int


def equal_keys(names: Sequence[str], *, nulls: bool, called: Mapping[str, str] | None = None) -> str:
    """SQL for "table and batch have the same key"; null equals null.

    ``called`` maps a key to its name in the batch where that differs.
    """
    sign = "<=>" if nulls else "="
    return " AND ".join(f"t.{quote(name)} {sign} {_of_batch(name, called)}" for name in names)


def insert_values(columns: Sequence[str], called: Mapping[str, str] | None = None) -> str:
    return f"({', '.join(map(quote, columns))}) VALUES ({', '.join(_of_batch(name, called) for name in columns)})"


def update_values(columns: Sequence[str], called: Mapping[str, str] | None = None) -> str:
    return ", ".join(f"{quote(name)} = {_of_batch(name, called)}" for name in columns)


def _of_batch(name: str, called: Mapping[str, str] | None) -> str:
    return f"s.{quote((called or {}).get(name, name))}"


_THERE = "__tidegate_there"


@dataclass(frozen=True, slots=True)
class TableWindow:
    """The part of the table that a read covers. ``names`` maps a column to its name in the table where that differs.

    ``zone`` is the zone of times without one; they are compared with the table's instants.
    """

    rows: RowFilter
    owner: str
    names: Mapping[str, str]
    zone: str = "UTC"

    @classmethod
    def of_bounds(cls, bounds: Mapping[str, tuple[Value, Value]], owner: str) -> TableWindow:
        """The window from lower to upper bound, both included."""
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
        """The window as SQL over a table with these ``columns``; raises ``SchemaMismatch`` if one is missing."""
        import pyarrow.types as kinds

        rows = rename_columns(replace(self.rows, extra=None), self.names)
        for name in rows.columns:
            if name not in columns.names:
                raise SchemaMismatch(
                    f"{self.owner}: the window is one of column {name!r}, which the table does not have",
                    "give its name there in sink.window_columns, or set replace_by_watermark: false",
                )
        moments = {column.name for column in columns if kinds.is_timestamp(column.type) and column.type.tz is not None}
        ranges = tuple(
            replace(each, lower=self._moment(each.lower), upper=self._moment(self._move_behind_jump(each.upper)))
            if each.column in moments
            else each
            for each in rows.ranges
        )
        return predicate(replace(rows, ranges=ranges), SPARK) or "true"

    def later(self, columns: pa.Schema) -> str | None:
        """SQL for rows above the window; None if the table lacks its columns."""
        ranges = tuple(
            ColumnRange(interval.column, Bound(interval.upper.value, inclusive=not interval.upper.inclusive))
            for interval in self.rows.ranges
            if interval.upper is not None
        )
        is_known = bool(ranges) and all(name in columns.names for name in self.columns)
        return replace(self, rows=RowFilter(ranges)).condition(columns) if is_known else None

    def check(self, columns: tuple[str, ...]) -> None:
        """Raise ``SchemaMismatch`` if the rows to write lack a column of the window."""
        for column, name in zip(self.rows.columns, self.columns, strict=True):
            if name not in columns:
                raise SchemaMismatch(
                    f"{self.owner}: the transform does not return {name!r}, the column of the window to replace",
                    f"select it, or name what it became: sink.window_columns: {{{column}: …}}",
                )

    def _move_behind_jump(self, bound: Bound | None) -> Bound | None:
        """An upper bound inside a clock change, moved after it: lower local times may be later instants."""
        jump = None if bound is None else jump_around(bound.value, self.zone)
        return bound if jump is None else Bound(jump.until)

    def _moment(self, bound: Bound | None) -> Bound | None:
        """The bound as an instant; times without a zone, and dates as midnight, are in the source's zone."""
        if bound is None or not isinstance(bound.value, date):
            return bound
        value = bound.value if isinstance(bound.value, datetime) else datetime.combine(bound.value, time())
        return replace(
            bound, value=value if value.tzinfo else value.replace(tzinfo=ZoneInfo(self.zone)).astimezone(UTC)
        )


@dataclass(frozen=True, slots=True)
class Guard:
    """Refuses to delete more of a window than the configuration allows.

    It counts before the statement; what others commit in between is not counted.
    """

    owner: str
    max_delete_fraction: float = 0.5
    allow_empty_window: bool = False

    def check_inside(self, outside: int, condition: str) -> None:
        """Raise ``RowsRefused`` if rows to write lie outside the window: the next run would write them again."""
        if outside:
            raise RowsRefused(
                f"{self.owner}: {outside} rows lie outside the window that they must replace ({condition})",
                "nothing was committed; a transform must not change the watermark column of a window",
            )

    def check(self, rows: DataFrame, count: int, keys: Keys, target: Target, condition: str) -> None:
        """Raise ``RowsRefused`` if more rows would be deleted than allowed."""
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
        """Raise ``RowsRefused`` if the batch is empty and the table has rows in the window."""
        if self.allow_empty_window:
            return
        there = target.read(rows.sparkSession).where(condition).count()
        if there:
            raise RowsRefused(
                f"{self.owner}: the source has no row in the window ({condition}), and the table has {there}",
                "nothing was committed; if they were deleted at the source, set sink.allow_empty_window: true",
            )

    def check_whole(self, rows: DataFrame, target: Target) -> None:
        """Raise ``RowsRefused`` if the batch is empty and would delete all rows of the table."""
        if self.allow_empty_window or not rows.isEmpty():
            return
        there = target.read(rows.sparkSession).count()
        if there:
            raise RowsRefused(
                f"{self.owner}: there is no row to write, and the table has {count(there, 'row')}, which an overwrite "
                "would delete",
                "nothing was committed; if they were deleted at the source, set sink.allow_empty_window: true for one "
                "run",
            )


def _fate(window: DataFrame, keys: DataFrame, by: Keys) -> tuple[int, int]:
    """How many rows of the table lie in the window, and how many of them have a key that did not come back."""
    from pyspark.sql import functions as f

    names = {name: f"__tidegate_{position}" for position, name in enumerate(by.names)}
    came = keys.select(*(exact_column(name).alias(other) for name, other in names.items()), f.lit(True).alias(_THERE))
    same = [exact_column(name).eqNullSafe(f.col(other)) for name, other in names.items()]
    found = window.join(came, same, "left").agg(f.count(f.lit(1)), f.count_if(f.col(_THERE).isNull())).head()
    assert found is not None
    return int(found[0]), int(found[1])
