"""Load strategies: how the rows of a batch, after the transform, get into the table.

A strategy gets rows that do not change however often it reads them, and an existing table; :meth:`Strategy.first` is
for a table that the batch creates. Its one statement runs in a Spark session of its own, whose settings carry position
and commit tag. Most strategies are one write or one MERGE and stand here; ``scd2`` has a module of its own.

The rows of work units that were read again are replaced, all of them in one statement. Its condition names each unit,
so that Delta skips files by their statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Protocol, assert_never
from zoneinfo import ZoneInfo

from tidegate.core.columns.predicates import RowFilter
from tidegate.core.dialects.dialect import SPARK
from tidegate.errors import SchemaMismatch, TableError
from tidegate.protocol.table import CommitNote
from tidegate.schema.evolution import require_as
from tidegate.schema.names import MADE_COLUMNS, spell
from tidegate.sources.units.work import moment_of
from tidegate.spark.frames import SparkFrame, codec_of, fit_types, read_rows, write_rows
from tidegate.spark.loading.equality import leave_out, same_values
from tidegate.spark.loading.scd2 import Versions
from tidegate.spark.loading.target import (
    Guard,
    Keys,
    KeySurvey,
    TableWindow,
    Target,
    equal_keys,
    insert_values,
    update_values,
)
from tidegate.spark.session import put, quote
from tidegate.specs.columns import ColumnSource, Load, LoadType
from tidegate.specs.units import Replace, UnitSource
from tidegate.tasks.row_task import Batch, row_task
from tidegate.tasks.unit_task import ReplacedUnit

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


_APP_ID = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"
_NOTE = "spark.databricks.delta.commitInfo.userMetadata"
_CODEC = "spark.sql.parquet.compression.codec"
_KEEPING = "spark.databricks.delta.merge.materializeSource"
"""Whether MERGE keeps a copy of its source, which it reads twice; the files of a batch do not change."""
_IS_ROW = "__tidegate_is_row"


class Strategy(Protocol):
    """How rows get into a table."""

    looks_twice: bool
    """Whether the rows are evaluated more than once, so that the result of a transform must be kept."""

    @property
    def reads_table(self) -> bool:
        """Whether what it writes is computed from the table, too, which is done once and kept."""
        ...

    keeps_rest: bool
    """Whether the rows that it neither inserts nor updates leave the table as it was."""

    def columns(self, rows: pa.Schema) -> pa.Schema:
        """The columns that a table gets from rows with these columns."""
        ...

    def check(self, rows: DataFrame) -> None:
        """Refuse rows whose columns the strategy cannot use."""
        ...

    def first(self, rows: DataFrame) -> DataFrame:
        """The rows for a table that this batch creates."""
        ...

    def save(self, rows: DataFrame, target: Target) -> None:
        """Write ``rows`` in one statement."""
        ...

    def changes_nothing(self, rows: DataFrame, target: Target) -> bool:
        """Whether the table has all that ``rows`` would make of it; also False if only :meth:`save` finds out."""
        ...


class Plain:
    """A strategy that writes the rows with their own columns."""

    keeps_rest = False

    @property
    def reads_table(self) -> bool:
        return False

    def columns(self, rows: pa.Schema) -> pa.Schema:
        return rows

    def check(self, rows: DataFrame) -> None:
        """Refuse nothing."""

    def first(self, rows: DataFrame) -> DataFrame:
        return rows

    def changes_nothing(self, rows: DataFrame, target: Target) -> bool:
        return False


class Append(Plain):
    """Appends the rows."""

    looks_twice = False

    def save(self, rows: DataFrame, target: Target) -> None:
        target.save(rows)


@dataclass(frozen=True)
class Overwrite(Plain):
    """Replaces all rows of the table; an empty batch does so only with permission."""

    guard: Guard
    looks_twice = True

    def save(self, rows: DataFrame, target: Target) -> None:
        # A source that was emptied by mistake must not empty the table, too.
        self.guard.check_whole(rows, target)
        target.save(rows, mode="overwrite")


@dataclass(frozen=True)
class ReplaceWindow(Plain):
    """Replaces the table's rows in the window: a replay into an append-only table.

    With ``keys``, each key is written once, as when production appends with ``deduplicate``.
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
    """A strategy with merge keys."""

    keys: Keys
    looks_twice = True

    def check(self, rows: DataFrame) -> None:
        self.keys.check(rows)

    def drop_repeated(self, rows: DataFrame) -> tuple[DataFrame, KeySurvey]:
        """One row per key, and a survey of the keys."""
        survey = self.keys.survey(rows)
        return (self.keys.latest(rows) if survey.most > 1 else rows), survey


@dataclass(frozen=True)
class _Merge:
    """The parts of a MERGE by key; ``called`` maps columns to their names in ``source`` where these differ.

    ``same`` is SQL for "``t`` and ``s`` are the same row", and ``stays`` for "``t`` is newer and stays", or None.
    """

    source: DataFrame
    columns: tuple[str, ...]
    called: Mapping[str, str]
    same: str
    stays: str | None


@dataclass(frozen=True)
class _KeyMerge(_Keyed):
    """One MERGE by key, with one row per key."""

    keeps_rest = True

    def first(self, rows: DataFrame) -> DataFrame:
        return self.drop_repeated(rows)[0]

    def prepare(
        self, rows: DataFrame, target: Target, window: TableWindow | None, inside: str = "", stays: str | None = None
    ) -> _Merge:
        """Match rows of the batch with those of the table that have their key, and lie ``inside``.

        The batch gets other names for the columns of a ``window``, so that conditions refer to the table's.
        """
        rows, survey = self.drop_repeated(rows)
        target.check_read(survey.rows)
        called = {} if window is None else {name: f"__tidegate_{n}" for n, name in enumerate(window.columns)}
        same = equal_keys(self.keys.names, nulls=survey.has_nulls, called=called)
        return _Merge(rows.withColumnsRenamed(called), tuple(rows.columns), called, f"{same}{inside}", stays)


@dataclass(frozen=True)
class Upsert(_KeyMerge):
    """Updates rows whose key the table has, and inserts the others.

    ``chunk`` is the window of a replay: rows of the table above it are newer than the batch, and stay. Where rows do
    not arrive in time order, a row of the table also stays if it is greater in ``newer``, compared column by column.
    With ``compares``, rows that the table has already are left out.
    """

    chunk: TableWindow | None = None
    newer: tuple[str, ...] = ()
    compares: bool = False

    @property
    def reads_table(self) -> bool:
        return self.compares

    def save(self, rows: DataFrame, target: Target) -> None:
        merge = self._prepare(rows, target)
        source = self._select_changed(merge, target) if self.compares else merge.source
        others = [name for name in merge.columns if name not in self.keys.names]
        matched = "WHEN MATCHED" if merge.stays is None else f"WHEN MATCHED AND NOT {merge.stays}"
        update = [f"{matched} THEN UPDATE SET {update_values(others, merge.called)}"] if others else []
        insert = f"WHEN NOT MATCHED THEN INSERT {insert_values(merge.columns, merge.called)}"
        target.merge(source, merge.same, *update, insert)

    def changes_nothing(self, rows: DataFrame, target: Target) -> bool:
        return self.compares and self._select_changed(self._prepare(rows, target), target).isEmpty()

    def _prepare(self, rows: DataFrame, target: Target) -> _Merge:
        assert target.columns is not None
        later = _greater_in_table(self.newer) if self.chunk is None else self.chunk.later(target.columns)
        window = None if later is None else self.chunk
        return self.prepare(rows, target, window, stays=None if later is None else f"coalesce({later}, false)")

    def _select_changed(self, merge: _Merge, target: Target) -> DataFrame:
        """The rows that are not in the table, or differ from its rows and are not older."""
        # When and from where a row was read is no news about the row.
        ignored = (*self.keys.names, *MADE_COLUMNS)
        original = merge.source.withColumnsRenamed({other: name for name, other in merge.called.items()})
        table = target.read(merge.source.sparkSession)
        equal = f"({same_values(original.schema, table.schema, ignored, merge.called)})"
        stays = equal if merge.stays is None else f"({equal} OR {merge.stays})"
        return leave_out(merge.source, target, self.keys, merge.same, stays, merge.called)


def _greater_in_table(columns: Sequence[str]) -> str | None:
    """SQL for "the table's row is newer": the first of ``columns`` that differs decides."""
    condition = ""
    for name in reversed(columns):
        one, other = (f"{side}.{quote(name)}" for side in "ts")
        condition = f"{one} > {other}" + (f" OR ({one} = {other} AND ({condition}))" if condition else "")
    return condition or None


@dataclass(frozen=True)
class Deduplicated(_KeyMerge):
    """Appends rows whose key the table does not have in the window, one per key."""

    window: TableWindow | None = None

    def save(self, rows: DataFrame, target: Target) -> None:
        merge = self._prepare(rows, target)
        insert = f"WHEN NOT MATCHED THEN INSERT {insert_values(merge.columns, merge.called)}"
        target.merge(merge.source, merge.same, insert)

    def changes_nothing(self, rows: DataFrame, target: Target) -> bool:
        merge = self._prepare(rows, target)
        return leave_out(merge.source, target, self.keys, merge.same, "true", merge.called).isEmpty()

    def _prepare(self, rows: DataFrame, target: Target) -> _Merge:
        assert target.columns is not None
        window = "true" if self.window is None else self.window.condition(target.columns)
        return self.prepare(rows, target, self.window, inside=f" AND ({window})")


@dataclass(frozen=True)
class KeyOverwrite(_Keyed):
    """Replaces all rows of the table whose key occurs in the batch and, with a window, those inside it.

    One MERGE: one row per key deletes what matches, and the batch's rows, which match nothing, are inserted. In a
    ``chunk`` of a replay, rows whose key the table has above the window are dropped: the table's are newer.
    """

    window: TableWindow | None = None
    guard: Guard | None = None
    chunk: bool = False

    def check(self, rows: DataFrame) -> None:
        self.keys.check(rows)
        if self.window is not None:
            self.window.check(tuple(rows.columns))

    def survey_window(self, rows: DataFrame, target: Target) -> tuple[str | None, KeySurvey]:
        """The window as SQL and a survey of the keys; raises ``RowsRefused`` where too many rows would be deleted."""
        assert target.columns is not None
        condition = None if self.window is None else self.window.condition(target.columns)
        survey = self.keys.survey(rows, condition)
        target.check_read(survey.rows)
        if condition is not None:
            assert self.guard is not None
            self.guard.check_inside(survey.outside, condition)
            self.guard.check(rows, survey.rows, self.keys, target, condition)
        return condition, survey

    def save(self, rows: DataFrame, target: Target) -> None:
        from pyspark.sql import functions as f

        condition, survey = self.survey_window(rows, target)
        rows = self._current(rows, target) if self.chunk else rows
        gone = [] if condition is None else [f"WHEN NOT MATCHED BY SOURCE AND ({condition}) THEN DELETE"]
        both = rows.withColumn(_IS_ROW, f.lit(True)).unionByName(
            self.keys.distinct(rows).withColumn(_IS_ROW, f.lit(False)), allowMissingColumns=True
        )
        target.merge(
            both,
            f"NOT s.{_IS_ROW} AND {equal_keys(self.keys.names, nulls=survey.has_nulls)}",
            "WHEN MATCHED THEN DELETE",
            f"WHEN NOT MATCHED AND s.{_IS_ROW} THEN INSERT {insert_values(rows.columns)}",
            *gone,
        )

    def _current(self, rows: DataFrame, target: Target) -> DataFrame:
        """The rows, without those whose key the table has above the window."""
        from pyspark.sql import functions as f

        assert target.columns is not None
        later = None if self.window is None else self.window.later(target.columns)
        if later is None:
            return rows
        newer = self.keys.distinct(target.read(rows.sparkSession).where(later)).alias("s")
        same = f.expr(equal_keys(self.keys.names, nulls=True))
        return rows.alias("t").join(newer, same, "left_anti")


class LoadFrame(SparkFrame):
    """The rows of one commit and their load strategy."""

    def __init__(self, session: SparkSession, batch: Batch, strategy: Callable[[Sequence[str]], Strategy]) -> None:
        """``strategy`` gets the columns of the rows and uses their spelling for names in the configuration."""
        super().__init__(session, batch)
        self._batch = batch
        self._given = self._work
        self._strategy = strategy(self._frame.columns)
        self._is_stable = self._pipeline.transform is None or not self._strategy.looks_twice
        self._strategy.check(self._frame)
        self._columns = self._strategy.columns(self._columns)

    def columns(self, table: pa.Schema | None) -> pa.Schema:
        """The columns to be written; those that ``table`` requires count as required, since Delta checks values."""
        return require_as(self._columns, table)

    @property
    def offered(self) -> int | None:
        return self._work.rows if self._strategy.keeps_rest else None

    def _find_nothing(self, table: pa.Schema) -> bool:
        target = Target(self._table, table, gathered=self._gathered)
        return self._strategy.changes_nothing(fit_types(self._rows(), table), target)

    def _save(self, note: CommitNote, table: pa.Schema | None, *, new_columns: bool) -> None:
        rows = self._rows()
        ((app_id, version),) = note.transactions.items()
        # MERGE takes position and note from settings alone, and they stay set: each statement has its own session.
        settings = {
            _APP_ID: app_id,
            _VERSION: str(version),
            _NOTE: note.user_metadata,
            _CODEC: codec_of(self._pipeline.sink.compression),
            _KEEPING: "auto" if self._strategy.reads_table else "none",
        }
        put(rows.sparkSession, settings)
        target = Target(self._table, table, new_columns, self._partitioned_by, self._gathered)
        if table is None:
            target.save(self._strategy.first(rows))
        else:
            self._strategy.save(fit_types(rows, table), target)

    @property
    def _gathered(self) -> int | None:
        """How many rows the statement must find in the work area; None if a transform runs inside it."""
        is_read_as_is = self._pipeline.transform is None or self._work is not self._given
        return self._work.rows if is_read_as_is else None

    def _rows(self) -> DataFrame:
        """The rows after the transform, which runs once: its result is kept beside the batch."""
        # MERGE evaluates its source twice; a transform may give other rows the second time (decision 0017).
        if not self._is_stable:
            work = replace(self._batch.work, uri=f"{self._batch.work.uri}/transformed")
            source = replace(self._batch.source, watermark_columns=())
            task = row_task(self._pipeline, source, self._check_computed_columns(), work=work)
            written = write_rows(self._frame, task)
            self._work = Batch.of(self._pipeline, source, task, written)
            self._frame = read_rows(self._frame.sparkSession, self._work)
            self._is_stable = True
        return self._frame


def load_frame(
    session: SparkSession, batch: Batch, *, window: RowFilter | None = None, chunk: bool = False
) -> LoadFrame:
    """The rows of ``batch`` with the pipeline's transform and load strategy, ready to be committed.

    ``window`` has the bounds of the read, for strategies that replace the same part of the table. ``chunk`` says that
    it is the window of a replay, which replaces what the table has there.
    """
    load, owner = batch.pipeline.sink.load, f"{batch.pipeline.name}/{batch.source.name}"
    return LoadFrame(
        session,
        batch,
        lambda columns: strategy_of(load, batch.source, owner, window, chunk=chunk, columns=columns, again=batch.again),
    )


def strategy_of(
    load: Load,
    source: ColumnSource,
    owner: str,
    window: RowFilter | None = None,
    *,
    chunk: bool = False,
    columns: Sequence[str] = (),
    again: bool = True,
) -> Strategy:
    """The load strategy of a read with these bounds; ``owner`` names it in messages.

    ``again`` says that the table may have rows of the read already. Configured names are matched to ``columns``, the
    names in the rows, whatever their case.
    """

    def spell_all(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(spell(name, columns) for name in names)

    def in_table(name: str) -> str:
        return spell(load.window_columns.get(spell(name, tuple(load.window_columns)), name), columns)

    part = None
    if window is not None:
        part = TableWindow(window, owner, {name: in_table(name) for name in window.columns}, source.source_timezone)
    guard = Guard(owner, load.max_delete_fraction, load.allow_empty_window)
    order = tuple(in_table(name) for name in source.watermark_columns)

    def keys(names: tuple[str, ...]) -> Keys:
        return Keys(spell_all(names), owner, order, source.mode, spell_all(load.tie_break))

    match load.type:
        # A chunk that is replayed takes the place of its window; appending it would double the rows.
        case LoadType.APPEND if chunk and part is not None:
            return ReplaceWindow(part, guard, keys(load.deduplicate) if load.deduplicate else None)
        case LoadType.APPEND if load.deduplicate:
            return Deduplicated(keys(load.deduplicate), part)
        case LoadType.APPEND:
            return Append()
        case LoadType.OVERWRITE | LoadType.FULL_LOAD:
            if chunk:
                raise TableError(
                    f"{owner}: {load.type.value} replaces the whole table, so it cannot load a chunk of a replay",
                    "run the pipeline: each run reads everything",
                )
            return Overwrite(guard)
        case LoadType.MERGE_UPSERT:
            compares = load.skip_unchanged and again
            return Upsert(keys(load.merge_keys), part if chunk else None, compares=compares)
        case LoadType.MERGE_OVERWRITE:
            replaces = part if chunk or load.replace_by_watermark else None
            return KeyOverwrite(keys(load.merge_keys), replaces, guard, chunk)
        case LoadType.SCD2:
            effective = load.scd2_effective_column
            begins = effective and spell(effective, columns)
            return Versions(keys(load.merge_keys), begins, spell_all(load.scd2_attributes))
        case _:
            assert_never(load.type)


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
        return Upsert(keys, newer=(*times, *ties), compares=load.skip_unchanged and batch.again)

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
        # Decision 0018: one overwrite with one predicate, since a commit may replace a hundred units.
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
            f"(({self._of(sorted(values))}) AND {self._select_range(columns, low, high)})"
            for (low, high), values in units.items()
        )

    def _of(self, units: list[str]) -> str:
        """The condition of some units; where there are very many, neighbours share an ``IN`` list.

        Delta compares the least and greatest value of a list with the statistics of a file.
        """
        size = -(-len(units) // _COMPARISONS)
        column = quote(self.source.unit_column)
        lists = [units[start : start + size] for start in range(0, len(units), size)]
        return " OR ".join(f"{column} IN ({', '.join(SPARK.literal(each) for each in some)})" for some in lists)

    @property
    def _columns(self) -> tuple[str, str]:
        return self.source.unit_column, self._ranged

    @property
    def _ranged(self) -> str:
        by_time = self.source.replace is Replace.TIME_COLUMN and self.source.time_column is not None
        return self.source.time_column or "" if by_time else self.source.segment_column

    def _select_range(self, columns: pa.Schema, low: int, high: int) -> str:
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
    return f"{column} >= {SPARK.literal(low)} AND {column} < {SPARK.literal(high)}"


def _local_between(column: str, low: datetime, high: datetime, zone: str) -> str:
    """SQL for local times of ``zone`` in a range of instants, with a day of margin so that statistics can be used."""
    day, there = timedelta(days=1), ZoneInfo(zone)
    near = [each.astimezone(there).replace(tzinfo=None) for each in (low, high)]
    in_utc = f"convert_timezone({SPARK.literal(zone)}, 'UTC', {column})"
    exact = _between(in_utc, low.replace(tzinfo=None), high.replace(tzinfo=None))
    return f"{_between(column, near[0] - day, near[1] + day)} AND {exact}"
