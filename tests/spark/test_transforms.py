"""Transforms: rows go through SQL or a function on their way into the table, with the position in the same commit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidegate
from spark.frame_tables import rows
from support.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FUNCTIONS = """
from pyspark.sql import functions as f

def doubled(frame):
    return frame.withColumn("twice", f.col("id") * 2).drop("ts")

def by_python(frame):
    import pandas
    shout = f.udf(lambda text: text.upper(), "string")
    again = f.pandas_udf(lambda texts: texts + "!", "string")
    return frame.withColumn("loud", shout("event")).withColumn("louder", again("event"))

def row_by_row(frame):
    return frame.withColumn("never", f.udf(lambda number: 1 // (number - number), "long")("id"))

def broken(frame):
    raise ValueError("it broke")

def nothing(frame):
    return None

def leaves(frame):
    import sys
    sys.exit("enough")

def leaves_in_worker(frame):
    def leave(number):
        raise SystemExit("enough of this")
    return frame.withColumn("never", f.udf(leave, "long")("id"))

def far(frame):
    return frame.withColumn("date", f.lit("x" * 300))

number = 7
"""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path, settings={"spark": {"master": "local[2]"}})
    lake.sink_settings = {"partition_by": {"prefix_template": "date"}}
    lake.arrive("date=2026-01-28/1.ndjson.gz", records=3)
    lake.arrive("date=2026-01-29/2.ndjson.gz", records=3)
    return lake


def by(lake: Lake, **transform: str) -> Path:
    lake.pipeline_settings = {"transform": transform}
    return lake.config


def commits(lake: Lake) -> int:
    return len(list((lake.root / "lake/events/_delta_log").glob("*.json")))


def test_a_query_makes_the_table_goes_on_and_brings_new_columns(spark: SparkSession, lake: Lake) -> None:
    (plan,) = tidegate.plan(by(lake, sql="select id, upper(event) as what, date from source where id % 2 = 0"))
    assert (plan.lane, "transform.sql select id" in plan.notes[0]) == ("dataframe", True)
    report = tidegate.run(lake.config)
    assert (report.ok, report.sources[0].files, report.sources[0].rows) == (True, 2, 3)
    expected = [(0, "VIEW", "2026-01-28"), (2, "VIEW", "2026-01-28"), (4, "VIEW", "2026-01-29")]
    assert [(row["id"], row["what"], row["date"]) for row in rows(spark, lake)] == expected
    assert sorted(path.name for path in (lake.root / "lake/events").glob("date=*")) == [
        "date=2026-01-28",
        "date=2026-01-29",
    ]
    lake.write("date=2026-01-29/3.ndjson", '{"id": 7}\n')
    empty = tidegate.run(lake.config)
    assert (empty.ok, empty.sources[0].files, empty.sources[0].rows, empty.sources[0].commits) == (True, 1, 0, 1)
    lake.write("date=2026-01-29/4.ndjson", '{"id": 8}\n')
    assert tidegate.run(by(lake, sql="select id, date, cast(id as int) as small from source")).ok
    assert tidegate.run(lake.config).sources[0].state == "Idle"
    assert [row["small"] for row in rows(spark, lake)] == [None, None, None, 8]


def test_a_function_makes_the_rows(spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    (lake.root / "shop_cleaning.py").write_text(FUNCTIONS)
    (lake.root / "shop_that_exits.py").write_text("raise SystemExit('closed')")
    monkeypatch.syspath_prepend(str(lake.root))
    for name, named in {
        "shop_cleaning:broken": "it broke",
        "shop_cleaning:row_by_row": "ZeroDivisionError",
        "shop_cleaning:nothing": "returned None",
        "shop_cleaning:number": "is not a function",
        "shop_cleaning:absent": "cannot be loaded",
        "shop_of_nobody:clean": "cannot be loaded",
        "shop_that_exits:clean": "SystemExit: closed",
        "shop_cleaning:leaves": "SystemExit: enough",
        "shop_cleaning:leaves_in_worker": "SystemExit: enough of this",
        "shop_cleaning:far": "'date' has values of up to 300 bytes",
    }.items():
        (source,) = tidegate.run(by(lake, python=name)).sources
        assert source.error is not None
        assert all(part in source.error for part in ("events", f"transform.python {name}", named)), source.error
        assert commits(lake) == 0
    report = tidegate.run(by(lake, python="shop_cleaning:doubled"))
    assert (report.ok, report.sources[0].rows) == (True, 6)
    assert [(row["id"], row["twice"]) for row in rows(spark, lake)] == [(number, number * 2) for number in range(6)]
    assert "ts" not in rows(spark, lake)[0]


def test_python_functions_on_single_rows_and_on_batches_work(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    (lake.root / "shop_words.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(str(lake.root))
    assert tidegate.run(by(lake, python="shop_words:by_python")).ok
    assert {(row["loud"], row["louder"]) for row in rows(spark, lake)} == {("VIEW", "view!")}
    lake.assert_exactly_once()


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("select nothing_such, date from source", "nothing_such"),
        ("select id, date, id as ID from source", "twice"),
        ("select id, date, null as x from source", "no type"),
        ("select id, date, parse_json('1') as x from source", "variant"),
        (f"select id, date, {'array(' * 33}id{')' * 33} as x from source", "33 nested levels"),
        ("select id from source", "partition column 'date'"),
        ("select id, date, raise_error('not today') as x from source", "not today"),
    ],
)
def test_a_query_that_fails_commits_nothing(spark: SparkSession, lake: Lake, query: str, named: str) -> None:
    (source,) = tidegate.run(by(lake, sql=query)).sources
    assert source.error is not None
    assert all(part in source.error for part in ("events", "transform.sql", named)), source.error
    assert commits(lake) == 0
    assert tidegate.status(lake.config)[0].version == 0


def test_the_result_keeps_to_the_evolution_rules(spark: SparkSession, lake: Lake) -> None:
    path = str(lake.root / "lake/events")
    spark.sql(f"create table delta.`{path}` (id bigint not null, date string) using delta partitioned by (date)")
    assert tidegate.run(by(lake, sql="select cast(id as int) as id, date from source")).ok
    assert [row["id"] for row in rows(spark, lake)] == lake.expected
    lake.arrive("date=2026-01-29/3.ndjson.gz", records=1)
    before = commits(lake)
    (source,) = tidegate.run(by(lake, sql="select cast(id as string) as id, date from source")).sources
    assert "column 'id' is int64 in the table and string" in (source.error or "")
    lake.pipeline_settings = {"transform": {"sql": "select id, date, 1 as x from source"}, "schema_evolution": "strict"}
    (source,) = tidegate.run(lake.config).sources
    assert "'x'" in (source.error or "")
    assert commits(lake) == before
