"""Looking at column sources without touching anything: what a run would ask for, where they stand. Starts no Spark."""

from __future__ import annotations

from datetime import datetime

from tidegate.column_reports import ColumnSourcePlan
from tidegate.column_specs import HttpRead, JdbcRead, TableRead, Value, Watermark
from tidegate.errors import TidegateError
from tidegate.planning.column_planner import plan_columns
from tidegate.planning.future import AHEAD_REMEDY, stored_ahead
from tidegate.reports import SourceStatus, WatermarkView
from tidegate.runs.column_place import ColumnPlace, decoded
from tidegate.sources.explaining import explained
from tidegate.state.status import Recorded
from tidegate.watermarks.column_state import ColumnState

NO_LOOK = "backlog unknown: only a run asks this source"


def planned_columns(place: ColumnPlace, now: datetime) -> ColumnSourcePlan:
    """What the next pass would ask for, by the same steps, with nothing written."""
    opened = place.open(read_only=True)
    state = place.state_of(opened)
    pipeline, source = place.pipeline, place.source
    plan = plan_columns(pipeline.name, source, pipeline.sink.load, state, opened.version, now)
    return ColumnSourcePlan(
        pipeline=pipeline.name,
        source=source.name,
        table_uri=pipeline.sink.table.uri,
        kind=kind_of(place),
        source_uri=source.uri,
        load_type=pipeline.sink.load.type.value,
        position=opened.version,
        stored=shown(plan.stored),
        effective=shown(plan.effective),
        predicate=explained(source, plan.reads),
        full=plan.full,
        cap=_cap(place),
        window=plan.window,
        notes=(*opened.warnings, *plan.notes),
    )


def kind_of(place: ColumnPlace) -> str:
    """What kind of source it is, in the word of the configuration."""
    match place.source.read:
        case JdbcRead():
            return "jdbc"
        case TableRead(format=kind):
            return kind.value
        case HttpRead():
            return "http"
        case _:
            return "python"


def _cap(place: ColumnPlace) -> str:
    """How the upper bound comes about."""
    source = place.source
    if not source.watermark_columns:
        return "none: without watermark_columns everything is read each time"
    if place.pipeline.sink.load.type.reads_everything:
        return "none: the table is replaced by what the source holds"
    lag = f", and not younger than {source.safety_lag} before the run" if source.safety_lag else ""
    match source.read:
        case JdbcRead() | TableRead() if _asked_first(source.read):
            return f"the greatest value when the run begins, asked first{lag}"
        case HttpRead(watermark=params) if params.to_param is not None:
            return f"the moment when the run begins, sent as {params.to_param!r}{lag}"
        case _:
            return f"the greatest value of what is read{lag}"


def _asked_first(read: JdbcRead | TableRead) -> bool:
    return isinstance(read, JdbcRead) or read.format.is_pushed_down


def shown(values: Watermark) -> dict[str, str | None]:
    """Values as people read them."""
    return {column: None if value is None else text_of(value) for column, value in values.items()}


def text_of(value: Value) -> str:
    """One value: times in ISO 8601, everything else as it is."""
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def watermark_text(state: ColumnState | None) -> str | None:
    """The watermark on one line.

    >>> watermark_text(ColumnState({"id": 7, "seen": None}))
    'id=7, seen=null'
    """
    if state is None or not state.values:
        return None
    parts = (f"{name}={'null' if value is None else text_of(value)}" for name, value in sorted(state.values.items()))
    return ", ".join(parts)


def column_status(place: ColumnPlace, now: datetime) -> SourceStatus:
    """Where a source stands by its mirror or documents; the source itself is not asked."""
    try:
        recorded = place.recorded()
        return _status(place, recorded, _state(recorded), None, now)
    except TidegateError as error:
        return _status(place, None, None, str(error), now)


def _state(recorded: Recorded | None) -> ColumnState | None:
    return None if recorded is None else decoded(recorded.state)


def _status(
    place: ColumnPlace, recorded: Recorded | None, state: ColumnState | None, error: str | None, now: datetime
) -> SourceStatus:
    updated = None if state is None else state.updated
    name = "Initial" if recorded is None else "Active"
    return SourceStatus(
        pipeline=place.pipeline.name,
        source=place.source.name,
        table_uri=place.pipeline.sink.table.uri,
        state="Unknown" if error else name,
        watermark=watermark_text(state),
        version=0 if recorded is None else recorded.version,
        table_version=None if recorded is None or recorded.table_version < 0 else recorded.table_version,
        updated=updated,
        lag_seconds=None if updated is None else (now - updated).total_seconds(),
        backlog_files=0,
        backlog_bytes=0,
        backlog_complete=False,
        in_progress=0,
        shown_from="none" if recorded is None else "mirror" if recorded.shown_by == "mirror" else "document",
        notes=() if error else (NO_LOOK, *ahead_notes(place, state, now)),
        error=error,
        tracking="columns",
    )


def ahead_notes(place: ColumnPlace, state: ColumnState | None, now: datetime) -> tuple[str, ...]:
    """What is to be said of a watermark that lies ahead: no run goes on from there."""
    if state is None or place.pipeline.sink.load.type.reads_everything:
        return ()
    return tuple(f"{told}; {AHEAD_REMEDY}" for told in stored_ahead(place.source, state.values, now))


def column_watermark(place: ColumnPlace) -> WatermarkView:
    """The recorded watermark of a source, in full."""
    recorded = place.recorded()
    state = _state(recorded)
    values = {} if state is None else shown(state.values)
    return WatermarkView(
        pipeline=place.pipeline.name,
        source=place.source.name,
        version=0 if recorded is None else recorded.version,
        state="Initial" if recorded is None else "Active",
        value=None if state is None else state.text(),
        partitions={column: "null" if value is None else value for column, value in values.items()},
        files={},
        sealed={},
        last_committed_file=None,
        updated=None if state is None else state.updated,
        tracking="columns",
    )
