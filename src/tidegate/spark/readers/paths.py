"""Locations as Spark opens them itself."""

from __future__ import annotations

from tidegate.errors import EnvironmentProblem
from tidegate.locations import Location
from tidegate.storage.opening import split_uri


def spark_path(location: Location, source: str) -> str:
    """The path of a location that Spark reads itself."""
    if location.uri.startswith("file:"):
        return f"/{split_uri(location.uri)[2]}"
    raise EnvironmentProblem(
        f"{source}: Spark itself reads {location.uri}, and this session cannot reach that",
        "read local files, or files as 'type: files'",
    )
