"""What a table is due after the commits of a pass; nothing is loaded for tables that want no care."""

from __future__ import annotations

import threading

from tidegate.observe.events import Emit
from tidegate.specs import Maintenance, PipelineSpec
from tidegate.state.opened import Opened


def care_if_due(
    pipeline: PipelineSpec, source: str, opened: Opened | None, commits: int, emit: Emit, stop: threading.Event
) -> None:
    """Care for the table if one of the last ``commits`` made it due; ``opened`` is the position after them."""
    if pipeline.sink.maintenance == Maintenance() or opened is None or stop.is_set():
        return
    from tidegate.runs.table_care import care_after

    care_after(pipeline, source, opened.version - commits, opened.version, emit)
