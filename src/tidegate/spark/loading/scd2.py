"""``scd2``: keeps every version of a row, with the time it began and the time it ended.

For each key in the batch, the table's versions and the new ones form one timeline. A new version equal to the one
before it is dropped. A new version at a time that the table already has corrects that version. Any other is inserted
where it belongs and ends the version before it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegate.errors import RowsRefused, SchemaMismatch
from tidegate.spark.filters import exact_column
from tidegate.spark.loading.equality import comparable
from tidegate.spark.loading.target import Keys, Target, equal_keys, insert_values, update_values
from tidegate.spark.session import quote

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

VALID_FROM, VALID_TO, IS_CURRENT = "__valid_from", "__valid_to", "__is_current"
_KNOWN, _CORRECTS, _BEFORE, _NEXT, _ENDS = (
    f"__tidegate_{name}" for name in ("known", "corrects", "before", "next", "ends")
)


@dataclass(frozen=True)
class Versions:
    """Versions per key. ``effective`` is the column with a version's start; by default it is the latest watermark.

    A change in one of ``attributes`` makes a new version; by default these are all columns but keys and watermarks.
    """

    keys: Keys
    effective: str | None = None
    attributes: tuple[str, ...] = ()
    looks_twice = reads_table = True
    keeps_rest = False

    def columns(self, rows: pa.Schema) -> pa.Schema:
        """The columns of the rows, then start and end of a version and whether it is current."""
        import pyarrow

        moment = pyarrow.timestamp("us", tz="UTC")
        kinds = {VALID_FROM: moment, VALID_TO: moment, IS_CURRENT: pyarrow.bool_()}
        for name in kinds:
            if name in rows.names:
                raise SchemaMismatch(f"{self.keys.owner}: the rows already have a column {name!r}", "rename it")
            rows = rows.append(pyarrow.field(name, kinds[name]))
        return rows

    def check(self, rows: DataFrame) -> None:
        """Refuse rows that lack a key, an attribute or the effective time."""
        self.keys.check(rows)
        named = [*self.attributes, *([self.effective] if self.effective else [])]
        for name in named:
            if name not in rows.columns:
                raise SchemaMismatch(
                    f"{self.keys.owner}: {name!r} is not a column of the rows", f"they have: {', '.join(rows.columns)}"
                )
        self._effective(rows)

    def first(self, rows: DataFrame) -> DataFrame:
        """The versions for a table that this batch creates."""
        from pyspark.sql import functions as f

        timeline = self._timeline(self._versions_of_batch(rows))
        return timeline.where(~f.col(_KNOWN)).drop(_KNOWN)

    def save(self, rows: DataFrame, target: Target) -> None:
        """Add new versions and end those before them, in one MERGE."""
        timeline = self._changes(rows, target)
        columns = [name for name in timeline.columns if name != _KNOWN]
        names = (*self.keys.names, VALID_FROM)
        target.merge(
            timeline,
            equal_keys(names, nulls=True),
            f"WHEN MATCHED THEN UPDATE SET {update_values([name for name in columns if name not in names])}",
            f"WHEN NOT MATCHED AND NOT s.{_KNOWN} THEN INSERT {insert_values(columns)}",
        )

    def changes_nothing(self, rows: DataFrame, target: Target) -> bool:
        """Whether the table has all versions of the batch already."""
        return self._changes(rows, target).isEmpty()

    def _changes(self, rows: DataFrame, target: Target) -> DataFrame:
        """What to write into a table that exists."""
        arrived = self._versions_of_batch(rows, target)
        known = self._versions_in_table(rows, target)
        return self._timeline(known.unionByName(arrived, allowMissingColumns=True))

    def _versions_of_batch(self, rows: DataFrame, target: Target | None = None) -> DataFrame:
        """The versions of the batch, one per key and time."""
        from pyspark.sql import functions as f

        dated = rows.withColumn(VALID_FROM, self._effective(rows))
        undated = dated.where(f.col(VALID_FROM).isNull()).select(*self.keys.columns()).head()
        if undated is not None:
            raise RowsRefused(
                f"{self.keys.owner}: the row with the key {self.keys.key_text(undated)} has no time at which it begins",
                "nothing was committed; leave such rows out, or name another column: sink.scd2_effective_column",
            )
        each = replace(self.keys, names=(*self.keys.names, VALID_FROM))
        survey = each.survey(dated)
        if target is not None:
            # The position moves past everything that was gathered, so fewer rows must not pass for all of them.
            target.check_read(survey.rows)
        dated = each.latest(dated) if survey.most > 1 else dated
        return dated.withColumns(
            {
                VALID_TO: f.lit(None).cast("timestamp"),
                IS_CURRENT: f.lit(None).cast("boolean"),
                _KNOWN: f.lit(False),
            }
        )

    def _versions_in_table(self, rows: DataFrame, target: Target) -> DataFrame:
        """All versions in the table of the keys in the batch."""
        from pyspark.sql import functions as f

        table = target.read(rows.sparkSession)
        if VALID_FROM not in table.columns:
            raise SchemaMismatch(
                f"{self.keys.owner}: the table has no column {VALID_FROM!r}, so its rows are not versions",
                "write into another table, or add and fill the columns __valid_from, __valid_to and __is_current",
            )
        names = [name for name in (*rows.columns, VALID_FROM, VALID_TO, IS_CURRENT) if name in table.columns]
        keys = self.keys.distinct(rows).alias("s")
        same = f.expr(equal_keys(self.keys.names, nulls=True))
        known = table.alias("t").join(keys, same, "left_semi").select(*map(exact_column, names))
        return known.withColumn(_KNOWN, f.lit(True))

    def _timeline(self, versions: DataFrame) -> DataFrame:
        """What to write: new versions, and versions of the table that change."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        others = {*self.keys.names, *self.keys.order, self.effective, VALID_FROM, VALID_TO, IS_CURRENT, _KNOWN}
        attributes = self.attributes or tuple(name for name in versions.columns if name not in others)
        # The constant keeps the struct from being empty where the rows have only keys and watermarks.
        said = f.struct(f.lit(0), *(_comparable(versions, name) for name in attributes))
        line = Window.partitionBy(*self.keys.columns()).orderBy(VALID_FROM)
        kept = _merge_simultaneous(versions, said, [*self.keys.columns(), f.col(VALID_FROM)])
        before = kept.withColumn(_BEFORE, f.lag(said).over(line))
        changing = before.where(f.col(_KNOWN) | f.col(_BEFORE).isNull() | ~f.col(_BEFORE).eqNullSafe(said))
        following = changing.withColumns(
            {_NEXT: f.lead(VALID_FROM).over(line), _ENDS: f.coalesce(f.lead(~f.col(_KNOWN)).over(line), f.lit(False))}
        )
        is_new, ends = ~f.col(_KNOWN), f.col(_ENDS)
        # `least` skips nulls, so a version that has no end yet ends where the next begins.
        until = f.when(is_new, f.col(_NEXT)).when(ends, f.least(VALID_TO, _NEXT)).otherwise(f.col(VALID_TO))
        current = f.when(is_new, f.col(_NEXT).isNull()).otherwise(f.col(IS_CURRENT) & ~ends)
        shorter = ~f.col(VALID_TO).eqNullSafe(until) | ~f.col(IS_CURRENT).eqNullSafe(current)
        changed = following.where(is_new | f.col(_CORRECTS) | shorter)
        return changed.withColumns({VALID_TO: until, IS_CURRENT: current}).drop(_BEFORE, _NEXT, _ENDS, _CORRECTS)

    def _effective(self, rows: DataFrame) -> Column:
        from pyspark.sql import functions as f
        from pyspark.sql.types import DateType, TimestampNTZType, TimestampType

        names = [self.effective] if self.effective else [name for name in self.keys.order if name in rows.columns]
        for name in names:
            kind = rows.schema[name].dataType
            if not isinstance(kind, DateType | TimestampType | TimestampNTZType):
                raise SchemaMismatch(
                    f"{self.keys.owner}: versions begin at {name!r}, but that is a {kind.simpleString()}",
                    "name a column of dates or timestamps: sink.scd2_effective_column",
                )
        if not names:
            raise SchemaMismatch(
                f"{self.keys.owner}: no column says when a version began", "name one: sink.scd2_effective_column"
            )
        moments = [exact_column(name).cast("timestamp") for name in names]
        return moments[0] if len(moments) == 1 else f.greatest(*moments)


def _merge_simultaneous(versions: DataFrame, said: Column, moment: list[Column]) -> DataFrame:
    """Keep one version per key and time: a repeated one is dropped, a correction gets the end of the table's."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    twins = Window.partitionBy(*moment).orderBy(f.col(_KNOWN).desc())
    known = f.struct(said.alias("said"), f.col(VALID_TO).alias("until"), f.col(IS_CURRENT).alias("current"))
    found = versions.withColumns({_BEFORE: f.lag(known).over(twins), _NEXT: f.lead(said).over(twins)})
    is_twin, is_known = f.col(_BEFORE).isNotNull(), f.col(_KNOWN)
    repeated = is_twin & f.col(_BEFORE)["said"].eqNullSafe(said)
    replaced = f.col(_NEXT).isNotNull() & ~f.col(_NEXT).eqNullSafe(said)
    return (
        found.where(~repeated & ~replaced)
        .withColumns(
            {
                _KNOWN: is_known | is_twin,
                _CORRECTS: is_twin,
                VALID_TO: f.when(is_twin, f.col(_BEFORE)["until"]).otherwise(f.col(VALID_TO)),
                IS_CURRENT: f.when(is_twin, f.col(_BEFORE)["current"]).otherwise(f.col(IS_CURRENT)),
            }
        )
        .drop(_BEFORE, _NEXT)
    )


def _comparable(rows: DataFrame, name: str) -> Column:
    from pyspark.sql import functions as f

    return f.expr(comparable(quote(name), rows.schema[name].dataType))
