"""Keys of a batch: what they look like, and which of several rows with the same key counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.column_specs import WatermarkMode
from tidegate.errors import RowsRefused, SchemaMismatch
from tidegate.spark.own_session import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_PLACE = "__tidegate_place"


@dataclass(frozen=True, slots=True)
class Keys:
    """The columns that tell rows apart, and what decides between rows that have the same values in them.

    ``order`` are the watermark columns: the row counts whose greatest value is the latest (as a ``tuple``: in their
    order), then the one that is the greatest in ``tie_break``. ``owner`` is for messages.
    """

    names: tuple[str, ...]
    owner: str
    order: tuple[str, ...] = ()
    mode: WatermarkMode = WatermarkMode.ANY
    tie_break: tuple[str, ...] = ()

    def check(self, rows: DataFrame) -> None:
        """``SchemaMismatch`` where a key or a tie-breaker is no column of the rows."""
        for role, names in (("merge key", self.names), ("tie_break", self.tie_break)):
            for name in names:
                if name not in rows.columns:
                    raise SchemaMismatch(
                        f"{self.owner}: {role} {name!r} is not a column of the rows",
                        f"they have: {', '.join(rows.columns)}",
                    )

    def columns(self) -> list[Column]:
        """As Spark takes them."""
        return [column(name) for name in self.names]

    def distinct(self, rows: DataFrame) -> DataFrame:
        """Each key once."""
        return rows.select(*self.columns()).distinct()

    def survey(self, rows: DataFrame, window: str | None = None) -> Survey:
        """What the keys of ``rows`` look like, and how many rows lie outside ``window``."""
        from pyspark.sql import functions as f

        outside = f.lit(0) if window is None else f.count_if(~f.coalesce(f.expr(window), f.lit(False)))
        nulls = f.lit(False)
        for each in self.columns():
            nulls = nulls | each.isNull()
        keys = rows.groupBy(*self.columns()).agg(f.count(f.lit(1)).alias("n"), outside.alias("o"))
        found = keys.agg(f.sum("n"), f.max("n"), f.max(nulls), f.sum("o")).head()
        assert found is not None
        return Survey(found[0] or 0, found[1] or 0, bool(found[2]), found[3] or 0)

    def latest(self, rows: DataFrame) -> DataFrame:
        """One row for each key; ``RowsRefused`` where nothing decides between two that differ."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        by = Window.partitionBy(*self.columns()).orderBy(*self._order(rows))
        best = rows.withColumn(_PLACE, f.rank().over(by)).where(f.col(_PLACE) == 1).drop(_PLACE)
        whole = f.to_json(f.struct(*map(column, rows.columns)), {"ignoreNullFields": "false"})
        unclear = best.groupBy(*self.columns()).agg(f.count_distinct(whole).alias(_PLACE)).where(f.col(_PLACE) > 1)
        found = unclear.drop(_PLACE).head()
        if found is not None:
            raise RowsRefused(
                f"{self.owner}: several rows of the batch have the key {self.told(found)}, and nothing says which of "
                "them is the latest",
                f"nothing was committed; set sink.tie_break to a column that is greatest in the row that counts"
                f"{self._given()}",
            )
        return rows.withColumn(_PLACE, f.row_number().over(by)).where(f.col(_PLACE) == 1).drop(_PLACE)

    def _order(self, rows: DataFrame) -> list[Column]:
        from pyspark.sql import functions as f

        watermarks = [column(name) for name in self.order if name in rows.columns]
        if len(watermarks) > 1 and self.mode is WatermarkMode.ANY:
            watermarks = [f.greatest(*watermarks)]
        order = [each.desc_nulls_last() for each in (*watermarks, *map(column, self.tie_break))]
        return order or [f.lit(0).asc()]

    def told(self, found: Sequence[object]) -> str:
        """The values of a key, for a message."""
        return ", ".join(f"{name} = {value!r:.80}" for name, value in zip(self.names, found, strict=True))

    def _given(self) -> str:
        decided = (*self.order, *self.tie_break)
        return f" (they are equal in {', '.join(decided)})" if decided else ""


@dataclass(frozen=True, slots=True)
class Survey:
    """``rows`` of a batch, the ``most`` that have one key, whether a key has a null in it, and rows ``outside``."""

    rows: int
    most: int
    has_nulls: bool
    outside: int


def column(name: str) -> Column:
    """A column by its name, whatever letters that has."""
    from pyspark.sql.functions import col

    return col(quoted(name))


def equal_keys(names: Sequence[str], *, nulls: bool, called: Mapping[str, str] | None = None) -> str:
    """The condition that a row of the table has the key of a row of the batch; null is a key like any other.

    ``called`` has the name in the batch where it is another one.
    """
    sign = "<=>" if nulls else "="
    return " AND ".join(f"t.{quoted(name)} {sign} {_of_batch(name, called)}" for name in names)


def inserted(columns: Sequence[str], called: Mapping[str, str] | None = None) -> str:
    """The columns and values of an INSERT."""
    return f"({', '.join(map(quoted, columns))}) VALUES ({', '.join(_of_batch(name, called) for name in columns)})"


def updated(columns: Sequence[str], called: Mapping[str, str] | None = None) -> str:
    """The assignments of an UPDATE."""
    return ", ".join(f"{quoted(name)} = {_of_batch(name, called)}" for name in columns)


def _of_batch(name: str, called: Mapping[str, str] | None) -> str:
    return f"s.{quoted((called or {}).get(name, name))}"
