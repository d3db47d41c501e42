"""Load strategies that are one write or one MERGE: what becomes of the rows of a batch.

Each gets rows that are stable, however often it looks at them, and a table that is there; a table that is not is begun
with :meth:`Strategy.first`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tidegate.spark.loading.target import Guard, Keys, KeySurvey, TableWindow, Target, equal_keys, inserted, updated
from tidegate.spark.session import quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_IS_ROW = "__tidegate_is_row"


class Strategy(Protocol):
    """How rows get into a table."""

    looks_twice: bool
    """Whether the rows are evaluated more than once, so that they must be kept where a transform made them."""

    reads_table: bool
    """Whether what it writes is computed from the table, too, which is done once and kept."""

    def columns(self, rows: pa.Schema) -> pa.Schema:
        """The columns that the table gets for rows with these."""
        ...

    def check(self, rows: DataFrame) -> None:
        """Refuse rows that the strategy cannot work with, by their columns."""
        ...

    def first(self, rows: DataFrame) -> DataFrame:
        """The rows of a table that begins with this batch."""
        ...

    def save(self, rows: DataFrame, target: Target) -> None:
        """Write ``rows`` in one statement."""
        ...


class Plain:
    """The columns of the rows are those of the table."""

    reads_table = False

    def columns(self, rows: pa.Schema) -> pa.Schema:
        return rows

    def check(self, rows: DataFrame) -> None:
        """Nothing to refuse."""

    def first(self, rows: DataFrame) -> DataFrame:
        return rows


class Append(Plain):
    """Rows are added."""

    looks_twice = False

    def save(self, rows: DataFrame, target: Target) -> None:
        target.save(rows)


@dataclass(frozen=True)
class Overwrite(Plain):
    """Rows take the place of all that the table has; no rows do so only if that is allowed."""

    guard: Guard
    looks_twice = True

    def save(self, rows: DataFrame, target: Target) -> None:
        self.guard.check_whole(rows, target)
        target.save(rows, mode="overwrite")


@dataclass(frozen=True)
class ReplaceWindow(Plain):
    """Rows take the place of those that the table has in the window; for a replay into a table that only grows.

    With ``keys`` each comes once, as when production appends them.
    """

    window: TableWindow
    guard: Guard
    keys: Keys | None = None
    looks_twice = True

    def check(self, rows: DataFrame) -> None:
        self.window.check(tuple(rows.columns))
        if self.keys is not None:
            self.keys.check(rows)

    def first(self, rows: DataFrame) -> DataFrame:
        return rows if self.keys is None else self.keys.latest(rows)

    def save(self, rows: DataFrame, target: Target) -> None:
        assert target.columns is not None
        rows = self.first(rows)
        condition = self.window.condition(target.columns)
        if rows.isEmpty():
            self.guard.check_empty(rows, target, condition)
        target.save(rows, mode="overwrite", replaced=condition)


@dataclass(frozen=True)
class _Keyed(Plain):
    """Rows are told apart by keys."""

    keys: Keys
    looks_twice = True

    def check(self, rows: DataFrame) -> None:
        self.keys.check(rows)

    def once(self, rows: DataFrame) -> tuple[DataFrame, KeySurvey]:
        """Each key once, and what the keys look like."""
        survey = self.keys.survey(rows)
        return (self.keys.latest(rows) if survey.most > 1 else rows), survey


@dataclass(frozen=True)
class Upsert(_Keyed):
    """Rows whose key the table has take the place of what it has, the others are added.

    ``chunk`` is the window of a replay: what the table has later than that is newer than the rows, and stays. So does
    what is greater in ``newer``, columns that are compared in their order, where rows do not come in the order of time.
    """

    chunk: TableWindow | None = None
    newer: tuple[str, ...] = ()

    def first(self, rows: DataFrame) -> DataFrame:
        return self.once(rows)[0]

    def save(self, rows: DataFrame, target: Target) -> None:
        assert target.columns is not None
        rows, survey = self.once(rows)
        target.check_read(survey.rows)
        later = _greater_in_table(self.newer) if self.chunk is None else self.chunk.later(target.columns)
        called = {} if self.chunk is None or later is None else _renamed(self.chunk)
        matched = "WHEN MATCHED" if later is None else f"WHEN MATCHED AND NOT coalesce({later}, false)"
        others = [name for name in rows.columns if name not in self.keys.names]
        update = [f"{matched} THEN UPDATE SET {updated(others, called)}"] if others else []
        insert = f"WHEN NOT MATCHED THEN INSERT {inserted(rows.columns, called)}"
        same = equal_keys(self.keys.names, nulls=survey.has_nulls, called=called)
        target.merge(rows.withColumnsRenamed(called), same, *update, insert)


def _greater_in_table(columns: Sequence[str]) -> str | None:
    """The condition that the table has the newer row, told by the first of ``columns`` in which both differ."""
    condition = ""
    for name in reversed(columns):
        one, other = (f"{side}.{quoted(name)}" for side in "ts")
        condition = f"{one} > {other}" + (f" OR ({one} = {other} AND ({condition}))" if condition else "")
    return condition or None


@dataclass(frozen=True)
class Deduplicated(_Keyed):
    """Rows are added whose key the table does not have in the window, each key once.

    The window is one of the table alone, so that its columns are called otherwise in the batch.
    """

    window: TableWindow | None = None

    def first(self, rows: DataFrame) -> DataFrame:
        return self.once(rows)[0]

    def save(self, rows: DataFrame, target: Target) -> None:
        assert target.columns is not None
        rows, survey = self.once(rows)
        target.check_read(survey.rows)
        window = "true" if self.window is None else self.window.condition(target.columns)
        called = {} if self.window is None else _renamed(self.window)
        same = equal_keys(self.keys.names, nulls=survey.has_nulls, called=called)
        insert = f"WHEN NOT MATCHED THEN INSERT {inserted(rows.columns, called)}"
        target.merge(rows.withColumnsRenamed(called), f"{same} AND ({window})", insert)


def _renamed(window: TableWindow) -> dict[str, str]:
    """Other names in the batch for the columns of a window of the table."""
    return {name: f"__tidegate_{number}" for number, name in enumerate(window.columns)}


@dataclass(frozen=True)
class KeyOverwrite(_Keyed):
    """All rows of the table whose key occurs in the batch, and with a window those in it, give way to the batch.

    One MERGE: each key once, to delete what matches it, and beside them the rows, which match nothing. In a ``chunk``
    of a replay, rows whose key the table has later than the window are left out: what it has is newer.
    """

    window: TableWindow | None = None
    guard: Guard | None = None
    chunk: bool = False

    def check(self, rows: DataFrame) -> None:
        self.keys.check(rows)
        if self.window is not None:
            self.window.check(tuple(rows.columns))

    def looked_at(self, rows: DataFrame, target: Target) -> tuple[str | None, KeySurvey]:
        """The window in SQL and what the keys look like; ``RowsRefused`` where more would go than is allowed."""
        assert target.columns is not None
        condition = None if self.window is None else self.window.condition(target.columns)
        survey = self.keys.survey(rows, condition)
        target.check_read(survey.rows)
        if condition is not None:
            assert self.guard is not None
            self.guard.inside(survey.outside, condition)
            self.guard.check(rows, survey.rows, self.keys, target, condition)
        return condition, survey

    def save(self, rows: DataFrame, target: Target) -> None:
        from pyspark.sql import functions as f

        condition, survey = self.looked_at(rows, target)
        rows = self._current(rows, target) if self.chunk else rows
        gone = [] if condition is None else [f"WHEN NOT MATCHED BY SOURCE AND ({condition}) THEN DELETE"]
        both = rows.withColumn(_IS_ROW, f.lit(True)).unionByName(
            self.keys.distinct(rows).withColumn(_IS_ROW, f.lit(False)), allowMissingColumns=True
        )
        target.merge(
            both,
            f"NOT s.{_IS_ROW} AND {equal_keys(self.keys.names, nulls=survey.has_nulls)}",
            "WHEN MATCHED THEN DELETE",
            f"WHEN NOT MATCHED AND s.{_IS_ROW} THEN INSERT {inserted(rows.columns)}",
            *gone,
        )

    def _current(self, rows: DataFrame, target: Target) -> DataFrame:
        """The rows without those whose key the table has later than the window."""
        from pyspark.sql import functions as f

        assert target.columns is not None
        later = None if self.window is None else self.window.later(target.columns)
        if later is None:
            return rows
        newer = self.keys.distinct(target.read(rows.sparkSession).where(later)).alias("s")
        same = f.expr(equal_keys(self.keys.names, nulls=True))
        return rows.alias("t").join(newer, same, "left_anti")
