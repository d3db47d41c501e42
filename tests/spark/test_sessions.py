"""The same run on other kinds of sessions: separate executors, Spark Connect.

Each in a process of its own, which leaves nothing behind among the machine's temporary files.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.lake import Lake
from support.long_runs import LONG, chosen

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TWICE = """
import sys, tidegate
first = tidegate.run(sys.argv[1])
assert first.ok, first
assert sum(source.rows for source in first.sources) == 60, first
second = tidegate.run(sys.argv[1])
assert second.ok and second.sources[0].state == "Idle", second
"""


SESSIONS = {"local-cluster": {"master": "local-cluster[2,1,1024]"}, "connect": {"remote": "local"}}
"""A cluster is also what ``test_spark_faults`` runs on."""


@pytest.mark.parametrize("kind", chosen(list(SESSIONS), "connect"))
def test_a_run_gives_the_same_on_every_kind_of_session(tmp_path: Path, kind: str) -> None:
    lake = Lake(tmp_path, settings={"spark": SESSIONS[kind]})
    for number in range(6):
        lake.arrive(f"date=2026-01-28/hour=12/{number}.ndjson.gz")
    done, left = in_a_process(tmp_path, TWICE, str(lake.config))
    assert done.returncode == 0, done.stderr[-3000:]
    lake.assert_exactly_once()
    assert left == []


def in_a_process(
    folder: Path, script: str, *given: str, **environment: str
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """How a process ended that runs ``script``, and what it left of temporary files."""
    place = folder / "tmp"
    place.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", script, *given],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=folder,
        env={**os.environ, "TMPDIR": str(place), **environment},
    )
    return done, sorted(each.name for each in place.iterdir() if each.name != "hsperfdata_root")


OPEN = """
import os
os.environ.pop("PYSPARK_PYTHON", None)
from tidegate.spark.session import open_session
from tidegate.specs.project import SparkSpec
config = {"spark.driver.extraJavaOptions": "-Xss2m -Dmine='a b' -XX:StartFlightRecording=filename=mine.jfr"}
session = open_session(SparkSpec(master="local[1]", config=config))
java = session.sparkContext._jvm.java
assert "PYSPARK_PYTHON" not in os.environ, os.environ["PYSPARK_PYTHON"]
print(java.util.TimeZone.getDefault().getID(), java.lang.System.getProperty("mine"), session.range(3).count())
session.stop()
raise SystemExit("on purpose")
"""


def test_the_users_options_of_java_are_added_to_ours_and_a_failure_leaves_nothing(tmp_path: Path) -> None:
    done, left = in_a_process(tmp_path, OPEN, TZ="America/New_York")
    assert ("UTC a b 3" in done.stdout.splitlines(), done.stderr.strip().splitlines()[-1]) == (True, "on purpose")
    assert left == []
    assert (tmp_path / "mine.jfr").stat().st_size > 0


@pytest.mark.skipif(not LONG, reason="TIDEGATE_LONG=1 starts more sessions")
@pytest.mark.parametrize(
    "environment",
    [
        {"_JAVA_OPTIONS": "-Duser.timezone=Asia/Tokyo"},
        {"PYSPARK_SUBMIT_ARGS": "--conf spark.driver.extraJavaOptions=-Duser.timezone=Asia/Tokyo pyspark-shell"},
    ],
)
def test_java_in_another_zone_is_refused_wherever_that_comes_from(tmp_path: Path, environment: dict[str, str]) -> None:
    done, left = in_a_process(tmp_path, OPEN, **environment)
    assert "Java's zone is Asia/Tokyo" in done.stderr
    assert left == []


LOGGED = "Error: no room for the heap\nmore about it"


def broken_java(folder: Path, why: str = "room for the heap") -> str:
    """A Java that tells its version, and cannot start anything."""
    program = folder / "java" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        '#!/bin/sh\n[ "$1" = -version ] && { echo \'openjdk version "17.0.1"\' >&2; exit 0; }\n'
        f"echo 'Error: no {why}' >&2; echo 'more about it' >&2; exit 1\n"
    )
    program.chmod(0o755)
    return str(program.parent.parent)


CALL = "from tidegate.cli.main import main; main()"


def test_a_spark_that_does_not_start_is_told_once(tmp_path: Path) -> None:
    environment = {"JAVA_HOME": broken_java(tmp_path), "TIDEGATE_HOME": str(tmp_path / "home")}
    done, left = in_a_process(tmp_path, CALL, "demo", **environment)
    log = tmp_path / "home" / "spark-start.log"
    assert (done.returncode, left) == (3, [])
    assert done.stderr.splitlines() == [
        "starting Spark (local[*])",
        "error: Spark did not start (local[*]): no room for the heap",
        f"remedy: correct this and run again; Spark's own log is {log}",
    ]
    assert "more about it" in log.read_text()


def test_the_next_source_does_not_start_spark_again_and_debug_shows_its_log(tmp_path: Path) -> None:
    environment = {"JAVA_HOME": broken_java(tmp_path), "TIDEGATE_HOME": str(tmp_path / "home")}
    done, _ = in_a_process(tmp_path, CALL, "--debug", "demo", **environment)
    assert f"Spark's log is {tmp_path}/home/spark-start.log; its last lines, without calls:\n{LOGGED}" in done.stderr
    (tmp_path / "tmp").rmdir()
    done, _ = in_a_process(tmp_path, CALL, "run", "tidegate-demo/tidegate.yml", **environment)
    assert (done.returncode, done.stderr.count("starting Spark")) == (3, 1)
    assert done.stdout.count("no room for the heap") == 1


TWO = """
spark: {config: {spark.mine.password: swordfish}}
pipelines:
  a: {source: {source_uri: in, format: csv}, schema: {infer: true}, sink: {table_uri: a}}
  b: {source: {source_uri: in, format: csv}, schema: {infer: true}, sink: {table_uri: b}}
"""


def test_a_log_tells_once_what_stops_several_sources_and_debug_the_log_of_spark(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("id\n1\n")
    (tmp_path / "two.yml").write_text(TWO)
    environment = {"JAVA_HOME": broken_java(tmp_path, "room: swordfish"), "TIDEGATE_HOME": str(tmp_path / "home")}
    done, _ = in_a_process(tmp_path, CALL, "run", "two.yml", **environment)
    assert done.stderr.count("Spark did not start") == 1
    told = [f"failed: {one}/default: for the same reason as {other}/default" for one, other in ("ab", "ba")]
    assert sum(each in done.stderr for each in told) == 1
    (tmp_path / "tmp").rmdir()
    done, _ = in_a_process(tmp_path, CALL, "run", "two.yml", "--debug", **environment)
    assert done.stderr.count("Traceback (most recent call last)") >= 1
    assert (
        f"  Spark's log is {tmp_path}/home/spark-start.log; its last lines, without calls:\n  Error: no room: ***"
        in done.stderr
    )
    assert "swordfish" not in done.stdout + done.stderr + (tmp_path / "home" / "spark-start.log").read_text()


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"SPARK_HOME": "/nowhere"}, "SPARK_HOME is /nowhere, which has no bin/spark-submit"),
        ({"PYSPARK_SUBMIT_ARGS": "--nonsense"}, "Spark did not start"),
    ],
)
def test_a_session_that_cannot_start_says_why(tmp_path: Path, environment: dict[str, str], said: str) -> None:
    done, left = in_a_process(tmp_path, OPEN, TIDEGATE_HOME=str(tmp_path / "home"), **environment)
    assert f"EnvironmentProblem: {said}" in done.stderr
    assert left == []


def test_a_full_disk_for_temporary_files_is_told_in_a_sentence(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk]).returncode:
        pytest.skip("mounting needs root")
    lake = Lake(
        tmp_path / "lake",
        settings={"spark": {"config": {"spark.local.dir": str(disk)}}},
        pipeline_settings={"transform": {"sql": "select * from source"}},  # needs jars, which are copied there
    )
    lake.arrive("date=2026-01-28/hour=12/1.ndjson.gz")
    try:
        done, _ = in_a_process(tmp_path, CALL, "run", str(lake.config))
    finally:
        subprocess.run(["umount", disk], check=True)
    assert done.returncode == 3
    (told,) = [line.strip() for line in done.stdout.splitlines() if "error:" in line]
    assert told.startswith(
        "error: events/default: Spark did not start (local[*]): a disk is full where Spark keeps temporary files - "
        "free some space there, or set TMPDIR or SPARK_LOCAL_DIRS to a larger disk and run again; Spark's own log is "
    )
