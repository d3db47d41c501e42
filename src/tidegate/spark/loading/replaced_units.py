"""Replaces the rows of work units that were read again, all of them in one statement.

The condition names each unit, so that Delta skips files by their statistics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from tidegate.core.columns.predicates import SqlDialect, literal
from tidegate.errors import SchemaMismatch
from tidegate.schema.names import spell
from tidegate.sink.row_task import Batch
from tidegate.sink.unit_task import ReplacedUnit
from tidegate.sources.units.work import moment_of
from tidegate.spark.loading.strategies import LoadFrame, Plain, Strategy, Upsert
from tidegate.spark.loading.target import Keys, Target
from tidegate.spark.session import put, quote
from tidegate.specs.units import Replace, UnitSource

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_ONE_FILE_EACH = {"spark.sql.files.maxPartitionBytes": "128m", "spark.sql.files.openCostInBytes": "128m"}
"""Opening a file is said to cost a whole task, so that no two files, which hold neighbouring units, become one."""

_COMPARISONS = 200
"""With thousands of them, Spark takes longer to plan the statement than to carry it out."""


def unit_frame(session: SparkSession, batch: Batch, source: UnitSource, replaced: Sequence[ReplacedUnit]) -> LoadFrame:
    """The rows of ``batch``, ready to replace those of ``replaced``; without ``replaced`` they are appended.

    With merge keys, rows replace those with equal keys unless the table's row is newer: work units are read again in
    any order.
    """
    owner = f"{batch.pipeline.name}/{source.name}"

    def strategy(columns: Sequence[str]) -> Strategy:
        named = source.time_column
        time = None if named is None else spell(named, columns)
        if source.replace is not Replace.MERGE_KEYS:
            return ReplaceUnits(replace(source, time_column=time), tuple(replaced), owner)
        load = batch.pipeline.sink.load
        ties = tuple(spell(name, columns) for name in load.tie_break)
        times = () if time is None else (time,)
        keys = Keys(tuple(spell(name, columns) for name in load.merge_keys), owner, times, tie_break=ties)
        return Upsert(keys, newer=(*times, *ties))

    return LoadFrame(session, batch, strategy)


@dataclass(frozen=True)
class ReplaceUnits(Plain):
    """Replaces the table's rows of the units in ``replaced``; a unit without new rows loses its old ones.

    Delta checks that every row belongs to one of these units. Otherwise the next replacement would leave it in twice.
    """

    source: UnitSource
    replaced: tuple[ReplacedUnit, ...]
    owner: str
    looks_twice = False

    def check(self, rows: DataFrame) -> None:
        for name in self._columns:
            if name not in rows.columns:
                raise SchemaMismatch(
                    f"{self.owner}: the transform does not return {name!r}, which marks the rows to replace when a "
                    "work unit is read again",
                    "select it",
                )

    def first(self, rows: DataFrame) -> DataFrame:
        put(rows.sparkSession, _ONE_FILE_EACH)
        return rows

    def save(self, rows: DataFrame, target: Target) -> None:
        assert target.columns is not None
        rows = self.first(rows)
        if not self.replaced:
            return target.save(rows)
        return target.save(rows, mode="overwrite", replaced=self.condition(target.columns))

    def condition(self, columns: pa.Schema) -> str:
        """SQL for the rows to delete from a table with these ``columns``; a time range stands once, with its units."""
        for name in self._columns:
            if name not in columns.names:
                raise SchemaMismatch(
                    f"{self.owner}: the table has no column {name!r}, so Tidegate cannot tell which of its rows "
                    "belong to a work unit",
                    "load into a table that this pipeline made, or set source.replace: merge_keys",
                )
        units: dict[tuple[int, int], dict[str, None]] = {}
        for each in self.replaced:
            units.setdefault((each.low, each.high), {})[each.unit] = None
        return " OR ".join(
            f"(({self._of(sorted(values))}) AND {self._inside(columns, low, high)})"
            for (low, high), values in units.items()
        )

    def _of(self, units: list[str]) -> str:
        """The condition of some units; where there are very many, neighbours share an ``IN`` list.

        Delta compares the least and greatest value of a list with the statistics of a file.
        """
        size = -(-len(units) // _COMPARISONS)
        column = quote(self.source.unit_column)
        lists = [units[start : start + size] for start in range(0, len(units), size)]
        return " OR ".join(
            f"{column} IN ({', '.join(literal(each, SqlDialect.SPARK) for each in some)})" for some in lists
        )

    @property
    def _columns(self) -> tuple[str, str]:
        """The columns that identify a work unit."""
        return self.source.unit_column, self._ranged

    @property
    def _ranged(self) -> str:
        by_time = self.source.replace is Replace.TIME_COLUMN and self.source.time_column is not None
        return self.source.time_column or "" if by_time else self.source.segment_column

    def _inside(self, columns: pa.Schema, low: int, high: int) -> str:
        """SQL for "the column lies in ``[low, high)``", by the column's type."""
        import pyarrow.types as kinds

        column = quote(self._ranged)
        kind = columns.field(self._ranged).type
        if kinds.is_timestamp(kind) and kind.tz is not None:
            return _between(column, moment_of(low), moment_of(high))
        if kinds.is_timestamp(kind):
            return _local_between(column, moment_of(low), moment_of(high), self.source.timezone)
        if kinds.is_date(kind):
            return _between(column, first_day(low, self.source.timezone), first_day(high, self.source.timezone))
        raise SchemaMismatch(
            f"{self.owner}: {self._ranged!r} must mark the rows to replace, but the table has it as {kind}",
            "declare it in the schema as timestamp or date, or choose another source.replace",
        )


def first_day(milliseconds: int, zone: str) -> date:
    """The first day that does not begin before the moment."""
    local = moment_of(milliseconds).astimezone(ZoneInfo(zone))
    midnight = datetime.combine(local.date(), time(), local.tzinfo)
    return local.date() if midnight >= local else local.date() + timedelta(days=1)


def _between(column: str, low: date, high: date) -> str:
    return f"{column} >= {literal(low, SqlDialect.SPARK)} AND {column} < {literal(high, SqlDialect.SPARK)}"


def _local_between(column: str, low: datetime, high: datetime, zone: str) -> str:
    """SQL for local times of ``zone`` in a range of instants, with a day of margin so that statistics can be used."""
    day, there = timedelta(days=1), ZoneInfo(zone)
    near = [each.astimezone(there).replace(tzinfo=None) for each in (low, high)]
    in_utc = f"convert_timezone({literal(zone, SqlDialect.SPARK)}, 'UTC', {column})"
    exact = _between(in_utc, low.replace(tzinfo=None), high.replace(tzinfo=None))
    return f"{_between(column, near[0] - day, near[1] + day)} AND {exact}"
