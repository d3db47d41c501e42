"""What a file source shows without touching anything: the plan of its next pass, and its backlog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from tidegate.core.files.plan import Plan
from tidegate.errors import ObjectMissing, StateError, TidegateError
from tidegate.protocol.position import Position
from tidegate.protocol.staging import Signal, signals_of
from tidegate.reports.run import SourcePlan
from tidegate.runs.file_source import FileSource, SourceState, discover_files, plan_files
from tidegate.runs.tracker import Backlog
from tidegate.specs.project import Delivery

BACKLOG_LIMIT = 10_000
ARROW, DATAFRAME = "arrow", "dataframe"


def plan_of(bound: FileSource, now: datetime) -> SourcePlan:
    """The plan of the next pass, by the same steps, with nothing written."""
    bound = bound.tracker.for_run(bound)
    opened = bound.open(read_only=True)
    state = bound.state_of(opened)
    plan = plan_files(bound, state, opened.version, discover_files(bound, state, now), now)
    waiting = _units_above(bound, 0 if opened.parent is None else opened.parent.version)
    lane, why = _lane(bound, opened)
    notes = (*opened.warnings, *why, *_obstacles(bound, opened, plan), *_pending_notes(bound, len(waiting)))
    return SourcePlan(*bound.names, plan, bound.table_uri, lane=lane, notes=notes, pending_units=len(waiting))


def backlog_of(bound: FileSource, state: SourceState, version: int, now: datetime) -> Backlog:
    """What waits above the watermark, staged units counted as done."""
    waiting = _units_above(bound, version)
    known = Backlog()
    if waiting:
        bound, state, known = _with_pending(bound, state, version, waiting, now)
    listing = discover_files(bound, state, now, limit=BACKLOG_LIMIT)
    plan = plan_files(bound, state, version, listing, now)
    return replace(
        known,
        files=plan.files,
        bytes=plan.bytes,
        complete=plan.complete,
        behind=bool(plan.files),
        notes=(*known.notes, *plan.notes),
    )


def _with_pending(
    bound: FileSource, state: SourceState, version: int, waiting: Sequence[Signal], now: datetime
) -> tuple[FileSource, SourceState, Backlog]:
    """What waits for the committer, and the source and its state on top of it.

    Where the units do not follow the state that was read, or cannot be read, the state stays as it is: a note says so.
    """
    from tidegate.runs.staged import folded, read_unit, remembering

    oldest = min(signal.since for signal in waiting)
    known = Backlog(pending_units=len(waiting), pending_seconds=max(0.0, (now - oldest).total_seconds()))
    try:
        units = [read_unit(bound.positions.site, signal.seq) for signal in waiting]
        known = replace(known, pending_files=sum(len(unit.data_files) for unit in units))
        if [signal.seq for signal in waiting] != list(range(version + 1, version + 1 + len(waiting))):
            raise StateError("they do not follow the position that was read", "look again")
        there = remembering(bound)
        return there, folded(there, state, units), known
    except (StateError, ObjectMissing) as error:
        return bound, state, replace(known, notes=(f"the backlog is told without the staged units: {error.problem}",))


def _units_above(bound: FileSource, version: int) -> tuple[Signal, ...]:
    """The staged units that wait above a committed position."""
    return tuple(signal for signal in signals_of(bound.table_store, bound.key) if signal.seq > version)


def _pending_notes(bound: FileSource, units: int) -> tuple[str, ...]:
    if not units:
        return ()
    if bound.pipeline.delivery is Delivery.STAGED:
        return (f"on top of staged units that wait for `tidegate commit`: {units:,}",)
    return (f"a run would stop: staged units wait ({units:,}); commit them with `tidegate commit CONFIG --once`",)


def _lane(bound: FileSource, opened: Position) -> tuple[str, tuple[str, ...]]:
    """Which lane a run would take, and why, or why it could not."""
    if bound.pipeline.transform is None and not opened.needs_frames:
        return ARROW, ()
    from tidegate.runs.frames import frame_reasons

    try:
        return DATAFRAME, (f"written by Spark itself (DataFrame lane): {'; '.join(frame_reasons(bound, opened))}",)
    except TidegateError as error:
        return DATAFRAME, (f"a run would stop: {error}",)


def _obstacles(bound: FileSource, opened: Position, plan: Plan) -> tuple[str, ...]:
    """Why a run would stop before it read anything, as far as that can be told from here."""
    if not plan.units or opened.schema_json is None:
        return ()
    from tidegate.runs.frames import as_read
    from tidegate.runs.table_columns import declared_columns

    try:
        declared_columns(bound, as_read(bound, opened))
    except TidegateError as error:
        return (f"a run would stop: {error}",)
    return ()
