"""Tables by name in the catalog of a real session: created, queried, renamed, read and refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidegate
from servers.s3 import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def project(folder: Path, **sinks: dict[str, str]) -> Path:
    """A configuration with a pipeline for each sink, all over the same files."""
    (folder / "data").mkdir(exist_ok=True)
    schema = {"fields": [{"name": "id", "type": "int64"}]}
    pipelines: dict[str, Any] = {
        name: {"source": {"source_uri": "data"}, "schema": schema, "sink": sink} for name, sink in sinks.items()
    }
    path = folder / "names.yml"
    path.write_text(json.dumps({"pipelines": pipelines}))
    return path


def arrive(folder: Path, *ids: int) -> None:
    lines = "".join(json.dumps({"id": each}) + "\n" for each in ids)
    (folder / "data" / f"{ids[0]}.ndjson").write_text(lines)


def test_a_table_is_created_queried_and_carried_on_by_its_name(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql(f"CREATE SCHEMA by_name LOCATION '{tmp_path}/by_name'")
    try:
        config = project(tmp_path, events={"table": "by_name.events"})
        arrive(tmp_path, 1, 2)
        first = tidegate.run(config).sources[0]
        assert (first.error, first.rows) == (None, 2)
        arrive(tmp_path, 3)
        assert tidegate.run(config).sources[0].rows == 1
        assert sorted(row.id for row in spark.table("by_name.events").collect()) == [1, 2, 3]
        assert (tmp_path / "by_name" / "events" / "_delta_log").is_dir()
        read = {"type": "delta", "table": "by_name.events", "watermark_columns": ["id"]}
        copied = {"source": read, "sink": {"table_uri": "copy", "load_type": "append"}}
        config.write_text(json.dumps({"pipelines": {"copy": copied}}))
        copy = tidegate.run(config).sources[0]
        assert (copy.error, copy.rows) == (None, 3)
    finally:
        spark.sql("DROP SCHEMA by_name CASCADE")


def test_a_view_and_a_missing_schema_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("SELECT 1L AS id").createOrReplaceTempView("a_view")
    config = project(tmp_path, view={"table": "a_view"}, nowhere={"table": "no_schema.events"})
    arrive(tmp_path, 1)
    view, nowhere = tidegate.run(config).sources
    assert (view.rows, "is a view" in str(view.error)) == (0, True)
    assert (nowhere.rows, "no schema no_schema" in str(nowhere.error)) == (0, True)
    spark.catalog.dropTempView("a_view")


@pytest.mark.s3
def test_a_table_on_s3_is_registered_queried_and_carried_on(spark: SparkSession, s3: Server, tmp_path: Path) -> None:
    table = s3.location("named/events")
    spark.sql(f"CREATE SCHEMA on_s3 LOCATION '{tmp_path}/on_s3'")
    try:
        sink = {"table": "on_s3.events", "location": table.uri, "storage_options": dict(table.options)}
        config = project(tmp_path, events=sink)
        for number in (1, 2):
            arrive(tmp_path, number)
            done = tidegate.run(config).sources[0]
            assert (done.error, done.rows) == (None, 1)
        assert sorted(row.id for row in spark.table("on_s3.events").collect()) == [1, 2]
    finally:
        spark.sql("DROP SCHEMA on_s3 CASCADE")


HIVE = """
import json, sys
from pathlib import Path
from pyspark.sql import SparkSession
import tidegate
from tidegate.spark.session import settings
from tidegate.specs.locations import Options
from tidegate.specs.project import SparkSpec

root = Path(sys.argv[1])
derby = f"jdbc:derby:;databaseName={root}/metastore_db;create=true"
given = {
    "spark.sql.catalogImplementation": "hive",
    "spark.sql.warehouse.dir": f"{root}/warehouse",
    "spark.hadoop.javax.jdo.option.ConnectionURL": derby,
}
builder = SparkSession.builder.master("local[2]")
for key, value in settings(SparkSpec(config=Options(given)), delta=True).items():
    builder = builder.config(key, value)
session = builder.getOrCreate()
session.sql("CREATE SCHEMA shop")

def run(name, number):
    (root / "data").mkdir(exist_ok=True)
    (root / "data" / f"{number}.ndjson").write_text(json.dumps({"id": number}))
    sink = {"table": name}
    pipeline = {"source": {"source_uri": "data"}, "schema": {"fields": [{"name": "id", "type": "int64"}]}, "sink": sink}
    (root / "p.yml").write_text(json.dumps({"pipelines": {"events": pipeline}, "spark": {"managed": True}}))
    report = tidegate.run(root / "p.yml").sources[0]
    return [report.rows, report.error]

told = [run("shop.events", 1)]
session.sql("ALTER TABLE shop.events RENAME TO shop.renamed")
told.append(run("shop.events", 2))
told.append(run("shop.renamed", 3))
told.append(sorted(row.id for row in session.table("shop.renamed").collect()))
print(json.dumps(told))
"""


def test_a_table_of_a_hive_metastore_is_carried_on_after_a_rename(tmp_path: Path) -> None:
    """In a process of its own: Hive support is chosen when a session starts."""
    done = subprocess.run(
        [sys.executable, "-c", HIVE, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    first, missing, carried_on, rows = json.loads(done.stdout.splitlines()[-1])
    assert first == [1, None]
    assert missing[0] == 0
    assert "no table shop.events any more" in missing[1]
    assert carried_on == [2, None]
    assert rows == [1, 2, 3]
