"""What data says is data: Spark and Hadoop replace ``${…}`` in what they are given, and nothing of ours gets there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from spark.loaded_tables import LoadedTable, window
from spark.unit_tables import UnitTable
from support.canary import CANARY, NAME
from support.errors import raises
from tidegate import MergeOverwriteStrategy, run
from tidegate.core.columns.state import decode_columns
from tidegate.errors import RowsRefused, SchemaMismatch, TableError
from tidegate.protocol.log import DeltaLog
from tidegate.spark.frames import columns_of
from tidegate.spark.session import derive_session, put
from tidegate.specs.columns import Load, LoadType
from tidegate.specs.locations import Location
from tidegate.storage.stores import open_store

pytestmark = pytest.mark.spark

CIRCULAR = "${a}"
HOSTILE = (
    "${env:TIDEGATE_CANARY}",
    "${system:line.separator}",
    "${spark.app.name}",
    "${hiveconf:a}",
    CIRCULAR,
    "$",
    "\\$",
)


def _whole(folder: Path) -> str:
    """Every byte below a folder, for a search."""
    files = [each for each in folder.rglob("*") if each.is_file()]
    assert files
    return "\n".join(each.read_bytes().decode("latin-1") for each in files)


def _csv(folder: Path, *values: str) -> Path:
    """A pipeline that follows the column ``v`` of a CSV file and merges by ``id``."""
    (folder / "data").mkdir(exist_ok=True)
    rows = "".join(f"{number},{value}\n" for number, value in enumerate(values))
    (folder / "data" / "rows.csv").write_text(f"id,v\n{rows}")
    source = {"type": "csv", "source_uri": "data", "watermark_columns": ["v"]}
    sink = {"table_uri": "lake/orders", "load_type": "merge_upsert", "merge_keys": ["id"]}
    config = folder / "tidegate.yml"
    config.write_text(json.dumps({"pipelines": {"orders": {"source": source, "sink": sink}}}))
    return config


def _marks(table: Path) -> list[dict[str, Any]]:
    """What the commits of a table say in the log alone, the newest last."""
    log = DeltaLog(open_store(Location(table.as_uri())))
    return [dict(mark.state()) for entry in log.tail(0) for mark in entry.tags]


def test_a_watermark_of_a_csv_file_is_kept_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    """Merged twice, so that table and watermark go through a MERGE with the value in its note and its condition."""
    first, second = ("~" + "".join(HOSTILE) + end for end in "ab")
    (source,) = run(_csv(tmp_path, "x", first)).sources
    assert source.error is None, source.error
    (source,) = run(_csv(tmp_path, "x", first, second)).sources
    assert source.error is None, source.error
    assert source.rows == 1
    states = _marks(tmp_path / "lake" / "orders")
    assert [decode_columns(state).values["v"] for state in states] == [first, second]
    assert CANARY not in _whole(tmp_path / "lake")
    rows = spark.read.format("delta").load(str(tmp_path / "lake" / "orders")).orderBy("id").collect()
    assert [row["v"] for row in rows] == ["x", first, second]


def test_units_and_what_went_wrong_with_them_are_kept_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    table = UnitTable(spark, tmp_path, {"v": pa.string()})
    table.more_state = {"error": "".join(HOSTILE)}
    table.append({unit: [(0, "old")] for unit in HOSTILE})
    table.replace({unit: [(0, unit)] for unit in HOSTILE}, *((unit, 0, 1) for unit in HOSTILE))
    assert table.rows("_tidegate_unit", "v") == sorted((unit, unit) for unit in HOSTILE)
    assert [state["error"] for state in _marks(table.path)] == ["".join(HOSTILE)] * 2
    assert CANARY not in _whole(tmp_path)


def test_a_window_of_text_is_not_read_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Bounds in a condition of a MERGE, of ``replaceWhere`` and of a scan."""
    low, high = "~${env:TIDEGATE_CANARY}", "~${spark.app.name}"
    load = Load(LoadType.MERGE_OVERWRITE, merge_keys=("id",), replace_by_watermark=True, max_delete_fraction=1.0)
    table = LoadedTable(spark, tmp_path, load, watermarks=("v",))
    table.load([(1, 1, low), (2, 1, "~~")])
    table.load([(3, 2, low), (4, 2, high)], window=window(v=(low, high)))
    assert table.rows() == [(2, 1, "~~"), (3, 2, low), (4, 2, high)]
    assert CANARY not in _whole(tmp_path)


@pytest.mark.parametrize("text", ["${env:TIDEGATE_CANARY}", CIRCULAR])
def test_sql_of_ours_and_of_a_transform_means_what_it_says(spark: SparkSession, text: str) -> None:
    own = derive_session(spark)
    from pyspark.sql import functions as f

    assert own.sql(f"select '{text}'").head() == (text,)
    assert own.range(1).select(f.expr(f"'{text}'")).head() == (text,)
    assert own.range(1).where(f"'{text}' like '$%'").count() == 1


@pytest.mark.parametrize("text", ["tidegate/${env:HOME}/db", CIRCULAR])
def test_a_setting_that_spark_would_read_otherwise_is_refused(spark: SparkSession, text: str) -> None:
    """In settings it replaces variables whatever ``spark.sql.variable.substitute`` says."""
    with raises(RowsRefused, "spark.databricks.delta.write.txnAppId"):
        put(derive_session(spark), {"spark.databricks.delta.write.txnAppId": text})


def test_a_session_of_somebody_else_is_not_given_such_a_statement(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "${spark.app.name}")
    rows = spark.createDataFrame([(1, "a")], "id bigint, v string")
    rows.write.format("delta").save(path)
    with raises(TableError, "spark.sql.variable.substitute"):
        MergeOverwriteStrategy(["id"]).write(rows, path)


def test_columns_that_hadoop_would_look_for_under_another_name_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Hadoop puts the variable into the list of columns to read: Spark finds none of that name, and gives nulls."""
    nested = pa.array([{"${env.HOME}": 1}])
    for column in ({"${user.name}": [1]}, {"s": nested}, {"l": pa.array([[{"${env.HOME}": 1}]])}):
        pq.write_table(pa.table(column), tmp_path / "rows.parquet")
        with raises(SchemaMismatch, "the test", "Hadoop", "${"):
            columns_of(spark.read.parquet(str(tmp_path / "rows.parquet")), "the test")


def test_the_canary_would_be_found(spark: SparkSession, tmp_path: Path) -> None:
    """What these tests look for is there to be found: Spark's own process has it, and puts it in where it may."""
    assert os.environ[NAME] == CANARY
    rows = spark.createDataFrame([(1,)], "id bigint")
    rows.write.format("delta").save(str(tmp_path / "t"))
    alone = spark.newSession()
    alone.conf.set("spark.databricks.delta.commitInfo.userMetadata", "${env:TIDEGATE_CANARY}")
    alone.sql(f"update delta.`{tmp_path / 't'}` set id = 2")
    assert CANARY in _whole(tmp_path)
