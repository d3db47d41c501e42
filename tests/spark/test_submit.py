"""A program that spark-submit brings to a standalone cluster runs in the session that is there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tidegate.spark.jars import find_java, resolve_jars, spark_home

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

PROGRAM = """
import json, sys, tidegate
from pathlib import Path
from pyspark.sql import SparkSession

def run(config):
    return [(each.pipeline, each.rows, each.error) for each in tidegate.run(Path(config)).sources]

first, again = run(sys.argv[1]), run(sys.argv[1])
session = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
print(json.dumps({"first": first, "again": again, "master": session.sparkContext.master,
                  "name": session.sparkContext.appName, "alive": session.range(3).count()}))
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The address of a master of its own, with one worker."""
    with ExitStack() as stack:
        address = start(stack, tmp_path / "master.log", "master.Master", "--port", "0")
        start(stack, tmp_path / "worker.log", "worker.Worker", "--work-dir", str(tmp_path / "work"), "-c", "2", address)
        yield address


def start(stack: ExitStack, log: Path, part: str, *arguments: str) -> str:
    """Start a process of the cluster, which ends with ``stack``; returns the address it names once it is there."""
    command = [spark_home() / "bin" / "spark-class", f"org.apache.spark.deploy.{part}", "--host", "127.0.0.1"]
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, "--webui-port", "0", *arguments], stdout=output, stderr=subprocess.STDOUT, env=environment()
        )
    stack.callback(process.wait)
    stack.callback(process.terminate)
    for _ in range(600):
        if found := re.search(r"(?:Starting Spark|registered with) master(?: at)? (spark://\S+)", log.read_text()):
            return found[1]
        assert process.poll() is None, log.read_text()
        time.sleep(0.1)
    raise AssertionError(log.read_text())


def environment() -> dict[str, str]:
    ours = {"JAVA_HOME": str(find_java()), "SPARK_HOME": str(spark_home()), "SPARK_LOCAL_IP": "127.0.0.1"}
    pythons = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    return {**os.environ, **ours, **pythons}


def test_a_submitted_program_uses_the_session_of_spark_submit(cluster: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id,what\n1,x\n2,y\n")
    files = {"source_uri": str(tmp_path / "in"), "format": "csv"}
    rows = {"source_uri": str(tmp_path / "in"), "type": "csv", "watermark_columns": ["id"]}
    merge = {"load_type": "merge_upsert", "merge_keys": ["id"]}
    config = tmp_path / "pipelines.yml"
    pipelines = {
        "appended": {"sources": {"all": files}, "sink": {"table_uri": str(tmp_path / "appended")}},
        "merged": {"source": rows, "sink": {"table_uri": str(tmp_path / "merged"), **merge}},
    }
    config.write_text(json.dumps({"spark": {"managed": True}, "pipelines": pipelines}))
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    jars = ",".join(map(str, resolve_jars()))
    settings = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.executor.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    flags = [flag for key, value in settings.items() for flag in ("--conf", f"{key}={value}")]
    submit = [spark_home() / "bin" / "spark-submit", "--master", cluster, "--name", "nightly", "--jars", jars, *flags]
    done = subprocess.run([*submit, program, config], env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said == {
        "first": [["appended", 2, None], ["merged", 2, None]],
        "again": [["appended", 0, None], ["merged", 0, None]],
        "master": cluster,
        "name": "nightly",
        "alive": 3,
    }
    for name in pipelines:
        assert sorted(DeltaTable(tmp_path / name).to_pyarrow_table()["id"].to_pylist()) == [1, 2]
