"""Fixtures that every folder of tests may use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from servers import postgres as postgres_server
from servers import s3 as s3_server
from support import canary
from tidegate.spark.jars import S3
from tidegate.spark.packages import POSTGRESQL
from tidegate.spark.session import open_session
from tidegate.specs import SparkSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def s3() -> Iterator[s3_server.Server]:
    """One real S3 server for the whole session, started by the first test that asks for it."""
    with s3_server.running() as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[postgres_server.Server]:
    """One real PostgreSQL server for the whole session, started by the first test that asks for it."""
    with postgres_server.running() as server:
        yield server


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one Spark session of a test run, with two threads and the jars that tests need.

    A later session of the same process could not load the jars any more, so every test that starts Spark in this
    process asks for this one.
    """
    canary.plant()
    session = open_session(SparkSpec(master="local[2]"), delta=True, packages=(S3, POSTGRESQL))
    yield session
    session.stop()
