"""Plan, status and health: what would be read and where every source stands. Changes nothing, starts no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from tidegate.core.columns.planner import AHEAD_REMEDY, plan_columns, stored_ahead
from tidegate.core.columns.state import ColumnState, column_watermark_text, text_of
from tidegate.core.files.plan import Plan
from tidegate.core.files.state import Failed, RecordsRead
from tidegate.errors import ObjectMissing, StateError, TidegateError
from tidegate.protocol.mirror import Recorded, read_recorded
from tidegate.protocol.position import Position
from tidegate.protocol.staging import Signal, signals_of
from tidegate.reports.run import ColumnSourcePlan, FailedFile, SourcePlan, SourceStatus, WatermarkView
from tidegate.runs.bound_source import ColumnPlace, Place, decoded
from tidegate.runs.tracker import SourceState
from tidegate.sources.reader import explained
from tidegate.specs.columns import HttpRead, JdbcRead, TableRead, Watermark
from tidegate.specs.project import Delivery


def with_pending(
    place: Place, state: SourceState, known: SourceStatus, waiting: Sequence[Signal], now: datetime
) -> tuple[Place, SourceState, SourceStatus]:
    """The status with what waits for the committer, and the place and state on top of it.

    Where the units do not follow the state that was read, or cannot be read, the state stays as it is: a note says so.
    """
    from tidegate.runs.staged import folded, read_unit, remembering

    oldest = min(signal.since for signal in waiting)
    known = replace(known, pending_units=len(waiting), pending_seconds=max(0.0, (now - oldest).total_seconds()))
    try:
        units = [read_unit(place.positions.site, signal.seq) for signal in waiting]
        known = replace(known, pending_files=sum(len(unit.data_files) for unit in units))
        if [signal.seq for signal in waiting] != list(range(known.version + 1, known.version + 1 + len(waiting))):
            raise StateError("they do not follow the position that was read", "look again")
        there = remembering(place)
        return there, folded(there, state, units), known
    except (StateError, ObjectMissing) as error:
        note = f"the backlog is told without the staged units: {error.problem}"
        return place, state, replace(known, notes=(*known.notes, note))


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
        watermark=column_watermark_text(state),
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


BACKLOG_LIMIT = 10_000
ARROW, DATAFRAME = "arrow", "dataframe"


def planned(place: Place, now: datetime) -> SourcePlan:
    """The plan of the next pass, by the same steps, with nothing written."""
    place = _delivering(place)
    opened = place.positions.open(read_only=True)
    state = place.opened_state(opened)
    listing = place.discover(state, now, polls=0)
    plan = place.plan(state, opened.version, listing, now)
    waiting = _units_above(place, 0 if opened.parent is None else opened.parent.version)
    lane, why = _lane(place, opened)
    notes = (*opened.warnings, *why, *_obstacles(place, opened, plan), *_pending_notes(place, len(waiting)))
    return SourcePlan(
        place.pipeline.name,
        place.source.name,
        plan,
        place.pipeline.sink.table.uri,
        lane=lane,
        notes=notes,
        pending_units=len(waiting),
    )


def _delivering(place: Place) -> Place:
    """The place as a run uses it; what only staged sources need is not loaded for others."""
    if place.pipeline.delivery is Delivery.DIRECT:
        return place
    from tidegate.runs.staged import delivering

    return delivering(place)


def _units_above(place: Place, version: int) -> tuple[Signal, ...]:
    """The staged units that wait above a committed position."""
    return tuple(signal for signal in signals_of(place.table_store, place.key) if signal.seq > version)


def _pending_notes(place: Place, units: int) -> tuple[str, ...]:
    if not units:
        return ()
    if place.pipeline.delivery is Delivery.STAGED:
        return (f"on top of staged units that wait for `tidegate commit`: {units:,}",)
    return (f"a run would stop: staged units wait ({units:,}); commit them with `tidegate commit CONFIG --once`",)


def _lane(place: Place, opened: Position) -> tuple[str, tuple[str, ...]]:
    """Which lane a run would take, and why, or why it could not."""
    if place.pipeline.transform is None and not opened.needs_frames:
        return ARROW, ()
    from tidegate.runs.engine import frame_reasons

    try:
        return DATAFRAME, (f"written by Spark itself (DataFrame lane): {'; '.join(frame_reasons(place, opened))}",)
    except TidegateError as error:
        return DATAFRAME, (f"a run would stop: {error}",)


def _obstacles(place: Place, opened: Position, plan: Plan) -> tuple[str, ...]:
    """Why a run would stop before it read anything, as far as that can be told from here."""
    if not plan.units or opened.schema_json is None:
        return ()
    from tidegate.runs.engine import as_read
    from tidegate.runs.table_columns import declared_columns

    try:
        declared_columns(place, as_read(place, opened))
    except TidegateError as error:
        return (f"a run would stop: {error}",)
    return ()


def status_of(place: Place, now: datetime) -> SourceStatus:
    """Where a source stands by its mirror or documents, and what waits above its watermark."""
    blank = SourceStatus(
        pipeline=place.pipeline.name,
        source=place.source.name,
        table_uri=place.pipeline.sink.table.uri,
        state="Unknown",
        watermark=None,
        version=0,
        table_version=None,
        updated=None,
        lag_seconds=None,
        backlog_files=0,
        backlog_bytes=0,
        backlog_complete=False,
        in_progress=0,
    )
    try:
        recorded = read_recorded(place.table_store, place.key)
        known = _recorded_status(place, blank, recorded)
        return _with_backlog(place, known, recorded, now)
    except TidegateError as error:
        return replace(blank, error=str(error))


def _state_looking(place: Place, recorded: Recorded | None) -> SourceState:
    return place.state_of(None if recorded is None else recorded.state)


def _recorded_status(place: Place, blank: SourceStatus, recorded: Recorded | None) -> SourceStatus:
    state = _state_looking(place, recorded)
    told = place.tracker.told(state)
    blank = replace(blank, tracking=told.tracking)
    if recorded is None:
        return replace(blank, state="Initial")
    return replace(
        blank,
        state=type(state.watermark).__name__,
        watermark=state.value,
        version=recorded.version,
        table_version=recorded.table_version if recorded.table_version >= 0 else None,
        updated=_moment(state),
        in_progress=sum(1 for _, each in state.unfinished() if isinstance(each, RecordsRead)),
        failed=failed_files(state),
        open_partitions=len(told.partitions),
        sealed=told.sealed_directories,
        remembered=told.remembered,
        state_files=told.files,
        open_letters=recorded.letters,
        shown_from="mirror" if recorded.shown_by == "mirror" else "document",
    )


def _with_backlog(place: Place, known: SourceStatus, recorded: Recorded | None, now: datetime) -> SourceStatus:
    state = _state_looking(place, recorded)
    waiting = _units_above(place, known.version)
    if waiting:
        place, state, known = with_pending(place, state, known, waiting, now)
    listing = place.discover(state, now, polls=0, limit=BACKLOG_LIMIT)
    plan = place.plan(state, known.version, listing, now)
    lag = (now - known.updated).total_seconds() if known.updated and plan.files else None
    return replace(
        known,
        backlog_files=plan.files,
        backlog_bytes=plan.bytes,
        backlog_complete=plan.complete,
        lag_seconds=lag if plan.files else (None if recorded is None else 0.0),
        notes=(*known.notes, *plan.notes),
    )


def failed_files(state: SourceState) -> tuple[FailedFile, ...]:
    """The files that could not be read."""
    return tuple(
        FailedFile(path, each.reason, each.attempts) for path, each in state.unfinished() if isinstance(each, Failed)
    )


def watermark_of(place: Place) -> WatermarkView:
    """The recorded state of a source, in full."""
    recorded = read_recorded(place.table_store, place.key)
    state = _state_looking(place, recorded)
    told = place.tracker.told(state)
    return WatermarkView(
        pipeline=place.pipeline.name,
        source=place.source.name,
        version=0 if recorded is None else recorded.version,
        state=type(state.watermark).__name__,
        value=state.value,
        partitions=told.partitions,
        files=_mapping(_mapping(place.tracker.encode(state)["source_state"])["files"]),
        sealed=told.sealed,
        last_committed_file=state.last_committed_file,
        updated=_moment(state),
        tracking=told.tracking,
        remembered=told.remembered,
    )


def _mapping(value: object) -> dict[str, object]:
    assert isinstance(value, dict)
    return value


def _moment(state: SourceState) -> datetime | None:
    return datetime.fromtimestamp(state.last_update_ts, UTC) if state.last_update_ts else None
