"""Functions that configurations of scenarios name."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate import UnitRequest


def tickets(session: SparkSession, request: UnitRequest) -> DataFrame:
    """The tickets of a branch, which stand in its option as ``number@day,…``; a branch without one is refused."""
    if request.unit not in request.options:
        raise ValueError("no such branch")
    rows: list[tuple[Any, ...]] = []
    for each in request.options[request.unit].split(","):
        number, _, day = each.partition("@")
        rows.append((int(number), datetime.fromisoformat(f"2020-{day}").replace(tzinfo=UTC)))
    return session.createDataFrame(rows, "id long, sold_at timestamp")
