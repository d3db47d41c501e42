"""Looking without touching: what a run would do, where sources stand, what is recorded. Starts no Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from tidegate.errors import TidegateError
from tidegate.planning.plan import Plan
from tidegate.reports import FailedFile, SourcePlan, SourceStatus, WatermarkView
from tidegate.runs.place import Place
from tidegate.runs.tracking import SourceState
from tidegate.specs import Delivery
from tidegate.state.opened import Opened
from tidegate.state.pending import Signal, signals_of
from tidegate.state.status import Recorded, read_recorded
from tidegate.watermarks.path_state import Failed, RecordsRead

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
    from tidegate.runs.staged_positions import delivering

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


def _lane(place: Place, opened: Opened) -> tuple[str, tuple[str, ...]]:
    """Which lane a run would take, and why, or why it could not."""
    if place.pipeline.transform is None and not opened.needs_frames:
        return ARROW, ()
    from tidegate.runs.frames import frame_reasons

    try:
        return DATAFRAME, (f"written by Spark itself (DataFrame lane): {'; '.join(frame_reasons(place, opened))}",)
    except TidegateError as error:
        return DATAFRAME, (f"a run would stop: {error}",)


def _obstacles(place: Place, opened: Opened, plan: Plan) -> tuple[str, ...]:
    """Why a run would stop before it read anything, as far as that can be told from here."""
    if not plan.units or opened.schema_json is None:
        return ()
    from tidegate.runs.columns import declared_columns
    from tidegate.runs.frames import as_read

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


def _state(place: Place, recorded: Recorded | None) -> SourceState:
    return place.state_of(None if recorded is None else recorded.state)


def _recorded_status(place: Place, blank: SourceStatus, recorded: Recorded | None) -> SourceStatus:
    state = _state(place, recorded)
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
    state = _state(place, recorded)
    waiting = _units_above(place, known.version)
    if waiting:
        from tidegate.runs.staged_looking import with_pending

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
    state = _state(place, recorded)
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
