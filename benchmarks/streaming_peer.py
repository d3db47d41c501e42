"""Spark's Structured Streaming over the same files: what one trigger costs that finds nothing new.

A batch function that ignores its rows lets the first trigger take note of all files without reading them; the idle
triggers after it list and compare, which is what is measured (``triggerExecution`` of Spark's own progress reports).
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from tidegate.spark.session import open_session
from tidegate.specs.project import SparkSpec

TRIGGERS = 3
PATIENCE_SECONDS = 600


def idle_trigger_milliseconds(folder: Path) -> float:
    """The median of several triggers that find nothing, after one that saw everything."""
    session = open_session(SparkSpec(master="local[2]"), delta=True)
    session.conf.set("spark.sql.streaming.noDataProgressEventInterval", "0")
    source = session.readStream.option("recursiveFileLookup", "true").text(str(folder))
    with tempfile.TemporaryDirectory(prefix="tidegate-stream-") as checkpoint:
        query = (
            source.writeStream.foreachBatch(_ignore)
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime="100 milliseconds")
            .start()
        )
        try:
            return statistics.median(_idle(query))
        finally:
            query.stop()


def _ignore(frame: Any, number: int) -> None:
    """Read nothing."""


def _idle(query: Any) -> list[float]:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        reports = list(query.recentProgress)
        first = next((at for at, each in enumerate(reports) if "addBatch" in each["durationMs"]), None)
        idle = [] if first is None else [each["durationMs"]["triggerExecution"] for each in reports[first + 1 :]]
        if len(idle) >= TRIGGERS:
            return [float(each) for each in idle]
        time.sleep(0.5)
    raise TimeoutError(f"no idle trigger within {PATIENCE_SECONDS} s")
