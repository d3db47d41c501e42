"""Every load strategy as a pipeline over rows with numbers, times and notes, and runs of it that may end anywhere."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from support.column_lake import ColumnLake
from tidegate import SourceReport, failpoints, run
from tidegate.protocol.delta import query
from tidegate.specs.locations import Location
from tidegate.storage.options import absolute_uri

START = datetime(2026, 3, 1, tzinfo=UTC)
LOOK_BACK = {"watermark_columns": ["at"], "configure": {"backward": {"days": 2}}}
UPSERT = {"load_type": "merge_upsert", "merge_keys": ["id"]}
WINDOW = {"load_type": "merge_overwrite", "merge_keys": ["id"], "replace_by_watermark": True}
LOADS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "append": ({}, {}),
    "overwrite": ({}, {"load_type": "overwrite"}),
    "merge_upsert": (LOOK_BACK, UPSERT),
    "merge_overwrite": (LOOK_BACK, {"load_type": "merge_overwrite", "merge_keys": ["id"]}),
    "window": (LOOK_BACK, WINDOW),
    "scd2": ({"watermark_columns": ["at"]}, {"load_type": "scd2", "merge_keys": ["id"]}),
}


class Crash(BaseException):
    """As if the process had ended there: nothing catches it."""


def crash_at(wanted: str, nth: int = 1) -> None:
    """End this process's runs when they reach that failpoint for the ``nth`` time."""
    reached: list[str] = []

    def rule(place: str) -> str | None:
        if place == wanted:
            reached.append(place)
            if len(reached) == nth:
                raise Crash
        return None

    failpoints.arm_by(rule)


def row(number: int, day: int, note: str = "new") -> dict[str, Any]:
    """A row so many days after the start."""
    return {"id": number, "at": START + timedelta(days=day), "note": note}


def lake_of(folder: Path, load: str) -> ColumnLake:
    """A pipeline with that strategy, and nothing at its source."""
    source, sink = LOADS[load]
    return ColumnLake(folder, source_settings=source, sink_settings=sink)


def table(lake: ColumnLake) -> list[tuple[int, str]]:
    """What the table holds: numbers and notes; of versions, the current ones."""
    columns = query(Location(absolute_uri("lake/orders", lake.root)), "select * from t")
    rows = [each for each in columns if each.get("__is_current") is not False]
    return sorted((each["id"], each["note"]) for each in rows)


def go(lake: ColumnLake) -> SourceReport:
    """One run on the Spark session of this process, which must go well."""
    (source,) = run(lake.config).sources
    assert source.error is None, source.error
    return source


def refused(lake: ColumnLake) -> str:
    """Why a run stops, which commits nothing."""
    (source,) = run(lake.config).sources
    assert source.error is not None
    assert source.commits == 0
    return source.error
