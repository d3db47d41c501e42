"""Locations as Spark opens them itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.errors import EnvironmentProblem
from tidegate.locations import Location
from tidegate.storage.opening import split_uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark_path(session: SparkSession, location: Location, source: str) -> str:
    """The path of ``location`` as ``session`` takes it."""
    if location.uri.startswith("file:"):
        return f"/{split_uri(location.uri)[2]}"
    raise EnvironmentProblem(
        f"{source}: Spark {session.version} reads {location.uri} itself, and cannot reach it",
        "read local files, or files as 'type: files'",
    )
