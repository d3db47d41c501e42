"""Work units that are read again take the place of their rows, and of nothing else: the log of the table tells."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from spark.unit_tables import DAY, UnitTable
from support.errors import raises
from support.long_runs import LONG
from tidegate.errors import RowsRefused, SchemaMismatch
from tidegate.spark.loading.strategies import ReplaceUnits
from tidegate.specs.units import Replace
from tidegate.tasks.unit_task import ReplacedUnit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

VALUE = {"v": pa.int64()}
UNITS = 150 if LONG else 30
HOSTILE = ("a'; DROP TABLE x --", 'a" OR `v` > 0', "back\\slash\\' OR true", "数 💧\n${v}", "")


def test_only_the_segments_that_are_read_again_give_way(spark: SparkSession, tmp_path: Path) -> None:
    """Hostile units included; one file holds one unit before and after, and the position is in the commit."""
    table = UnitTable(spark, tmp_path, VALUE)
    table.append({unit: [(0, 1), (17, 2)] for unit in (*HOSTILE, "a", "b")})
    table.replace({unit: [(17, 3), (20, 4)] for unit in HOSTILE}, *((unit, 17, 22) for unit in HOSTILE))
    kept = [(unit, value) for unit in ("a", "b") for value in (1, 2)]
    assert table.rows("_tidegate_unit", "v") == sorted([*kept, *((u, v) for u in HOSTILE for v in (1, 3, 4))])
    units = table.units_of_files()
    assert all(least == greatest for least, greatest in units.values())
    removed = [units[each["path"]][0] for each in table.actions("remove")]
    assert sorted(removed) == sorted(HOSTILE)
    assert len(table.actions("add")) == 2 * len(HOSTILE)
    assert [each["version"] for each in table.actions("txn")] == [2]


def test_rows_of_others_in_a_shared_file_stay(spark: SparkSession, tmp_path: Path) -> None:
    """Of two files of four units one is touched; what is read again takes the place of its own segments alone."""
    table = UnitTable(spark, tmp_path, VALUE)
    table.shares_files = True
    for units in ("abcd", "efgh"):
        table.append({unit: [(0, 1), (17, 2)] for unit in units})
    table.replace({"b": [(17, 3)], "c": []}, ("b", 17, 18), ("c", 0, 22))
    kept = [(unit, value) for unit in "adefgh" for value in (1, 2)]
    assert table.rows("_tidegate_unit", "v") == sorted([*kept, ("b", 1), ("b", 3)])
    assert len(table.actions("remove")) == 1
    assert len(table.actions("add")) == 2, "what is left of the file, and what came"


def test_many_units_look_at_their_own_files_only(spark: SparkSession, tmp_path: Path) -> None:
    """Files that hold more than what is replaced are divided, unit by unit; a unit without rows is emptied."""
    table = UnitTable(spark, tmp_path, {"t": pa.timestamp("us", "UTC")}, replace=Replace.TIME_COLUMN, time_column="t")
    days = [datetime(1970, 1, day, 12, tzinfo=UTC) for day in (1, 2, 3)]
    table.append({f"unit-{number:03}": [(0, day) for day in days] for number in range(UNITS)})
    again = [f"unit-{number:03}" for number in range(UNITS) if number % 3]
    replaced = [(unit, 1, 2 + number % 2) for number, unit in enumerate(again)]
    given = tuple(ReplacedUnit(unit, low * DAY, high * DAY) for unit, low, high in replaced)
    condition = ReplaceUnits(table.source, given, "").condition(table.columns)
    alone = spark.newSession()
    alone.conf.set("spark.sql.files.openCostInBytes", "128m")
    assert alone.read.format("delta").load(str(table.path)).where(condition).rdd.getNumPartitions() == len(again)
    table.replace({unit: [(1, days[1])] for unit in again[1:]}, *replaced)
    units = table.units_of_files()
    assert all(least == greatest for least, greatest in units.values())
    assert sorted(units[each["path"]][0] for each in table.actions("remove")) == again
    found = table.rows("_tidegate_unit", "day(t)")
    assert [day for unit, day in found if unit == again[0]] == [1, 3]
    assert [day for unit, day in found if unit == again[1]] == [1, 2]
    assert len(found) == 3 * UNITS - 1 - len(again) // 2


def test_nothing_came_and_the_rows_go_all_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """Also where nothing is there to go: the position is committed in any case. Rows of nobody are refused."""
    table = UnitTable(spark, tmp_path, VALUE)
    table.append({"a": [(0, 1), (1, 2)], "b": [(1, 3)]})
    table.replace({}, ("a", 1, 2))
    table.replace({}, ("c", 1, 2))
    assert table.rows("_tidegate_unit", "v") == [("a", 1), ("b", 3)]
    assert [each["version"] for each in table.actions("txn")] == [3]
    with raises(RowsRefused, "answers", "DELTA_REPLACE_WHERE_MISMATCH"):
        table.replace({"b": [(5, 1)]}, ("a", 1, 2))


def test_a_transform_must_keep_what_tells_units_apart(spark: SparkSession, tmp_path: Path) -> None:
    table = UnitTable(spark, tmp_path, VALUE, transform="select _tidegate_unit, v from source")
    with raises(SchemaMismatch, "answers/api", "transform", "'_tidegate_segment'"):
        table.replace({"a": [(0, 1)]}, ("a", 0, 1))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.date32(), [date(1970, 1, day) for day in (1, 2, 3)]),
        (pa.timestamp("us"), [datetime(1970, 1, day, 0, 30) for day in (1, 2, 3)]),
    ],
)
def test_days_and_local_times_are_replaced_by_the_zone_of_the_source(
    spark: SparkSession, tmp_path: Path, kind: pa.DataType, values: list[date]
) -> None:
    """The second of January in UTC is in Berlin what lies between one o'clock of that day and of the next."""
    columns = {"t": kind, "v": pa.int64()}
    by_time = Replace.TIME_COLUMN
    table = UnitTable(spark, tmp_path, columns, replace=by_time, time_column="t", timezone="Europe/Berlin")
    table.append({"a": [(0, value, 1) for value in values]})
    table.replace({"a": [(0, values[2], 2)]}, ("a", 1, 2))
    assert [value for _, value in table.rows("t", "v")] == [1, 1, 2]
