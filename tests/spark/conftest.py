"""One Spark session for the whole run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tidegate.spark.session import open_session
from tidegate.specs import SparkSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Two threads, with the Delta jars, so that Spark can read what was written."""
    session = open_session(SparkSpec(master="local[2]"), delta=True)
    yield session
    session.stop()
