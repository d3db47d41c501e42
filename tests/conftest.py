"""Fixtures that every folder of tests may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from servers import azure as azure_server
from servers import gcs as gcs_server
from servers import mariadb as mariadb_server
from servers import postgres as postgres_server
from servers import s3 as s3_server
from support import canary
from support.long_runs import LONG, examples
from tidegate.schema.literals import SWITCH, find_native
from tidegate.spark.jars import S3, TESTED
from tidegate.spark.session import open_session
from tidegate.specs.locations import Options
from tidegate.specs.project import SparkSpec
from tidegate.storage import local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

if find_native() is None:
    os.environ[SWITCH] = "0"  # without Rust: else every run of a test would say that the native reader is missing

QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m -XX:MetaspaceSize=256m"
"""For Java machines that live for minutes: most of their time would go into compiling code that runs once.

What Spark generates and compiles does not fit into the 48 MB that go with the first option.
"""
SMALL = {"spark.sql.shuffle.partitions": "2", "spark.databricks.delta.snapshotPartitions": "1"}
"""For tables of a few rows: Spark generates code anew for each task that reads the log of a table."""
INTERPRETED = {"spark.sql.codegen.factoryMode": "NO_CODEGEN", "spark.sql.codegen.wholeStage": "false"}
"""For statements over a few rows: a quarter of the time went into code that ran once. Long runs do generate it."""

os.environ.setdefault("SPARK_SUBMIT_OPTS", QUICK_START)
os.environ.setdefault("SPARK_LAUNCHER_OPTS", QUICK_START)
hypothesis.settings.register_profile("tidegate", deadline=None, max_examples=examples(100))
hypothesis.settings.load_profile("tidegate")


TESTS = Path(__file__).parent


@pytest.fixture(scope="module", params=["native", "strict"])
def each_reader(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run the tests of a module with the native reader of JSON, and without it."""
    if request.param == "native" and find_native() is None:
        pytest.skip("tidegate-native is not installed")
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "strict":
            patch.setenv(SWITCH, "0")
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--beside", type=Path, help="run the files that no other process with this folder has taken")


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """File after file that nobody else has taken; so several processes end together, whatever takes how long."""
    taken: Path | None = session.config.getoption("--beside")
    if taken is None or session.testsfailed or session.config.option.collectonly:
        return None
    files: dict[Path, list[pytest.Item]] = {}
    for item in session.items:
        files.setdefault(item.path, []).append(item)
    for path, items in files.items():
        if not _take(taken / str(path.relative_to(TESTS)).replace(os.sep, "-")):
            continue
        for item, following in pairwise([*items, None]):
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail or session.shouldstop:
                raise session.Interrupted(session.shouldfail or session.shouldstop)
    return True


def _take(mark: Path) -> bool:
    try:
        mark.mkdir(parents=True)
    except FileExistsError:
        return False
    return True


@pytest.fixture(scope="session", autouse=True)
def _unforced() -> Iterator[None]:
    """Nothing is forced to disk in this process: thousands of small writes would wait for it.

    Processes that tests start do so, and the tests of it put something else here.
    """
    real, local.force = local.force, lambda descriptor: None
    yield
    local.force = real


@pytest.fixture(scope="session")
def s3() -> Iterator[s3_server.Server]:
    """One real S3 server for the whole session, started by the first test that asks for it."""
    with s3_server.running() as server:
        yield server


@pytest.fixture(scope="session")
def azure() -> Iterator[azure_server.Server]:
    """One Azure blob server for the whole session (``make test-clouds``)."""
    with azure_server.running() as server:
        yield server


@pytest.fixture(scope="session")
def gcs() -> Iterator[gcs_server.Server]:
    """One server that answers reads as Google Cloud Storage does, for the whole session (``make test-clouds``)."""
    with gcs_server.running() as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[postgres_server.Server]:
    """One real PostgreSQL server for the whole session, started by the first test that asks for it."""
    with postgres_server.running() as server:
        yield server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[mariadb_server.Server]:
    """One real MariaDB server for the whole session, started by the first test that asks for it."""
    with mariadb_server.running() as server:
        yield server


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one Spark session of a test run, with two threads and the jars that tests need.

    A later session of the same process could not load the jars any more, so every test that starts Spark in this
    process asks for this one.
    """
    canary.plant()
    config = Options(SMALL if LONG else SMALL | INTERPRETED)
    session = open_session(SparkSpec(master="local[2]", config=config), delta=True, packages=(S3, *TESTED))
    yield session
    session.stop()
