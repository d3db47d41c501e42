"""Locations as Spark opens them itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.errors import EnvironmentProblem
from tidegate.locations import Location
from tidegate.spark.s3a import reach
from tidegate.storage.options import split_uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark_path(session: SparkSession, location: Location, source: str) -> str:
    """The path of ``location`` as ``session`` takes it."""
    if split_uri(location.uri)[0] in ("file", "s3"):
        return reach(session, location)
    raise EnvironmentProblem(
        f"{source}: Spark {session.version} reads {location.uri} itself, and cannot reach it",
        "read from a local path or s3://, or files as 'type: files'",
    )
