"""Where a source stands with what it staged: for ``tidegate status``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from tidegate.errors import ObjectMissing, StateError
from tidegate.reports import SourceStatus
from tidegate.runs.place import Place
from tidegate.runs.staged_pending import folded, read_unit, remembering
from tidegate.runs.tracking import SourceState
from tidegate.state.pending import Signal


def with_pending(
    place: Place, state: SourceState, known: SourceStatus, waiting: Sequence[Signal], now: datetime
) -> tuple[Place, SourceState, SourceStatus]:
    """The status with what waits for the committer, and the place and state on top of it.

    Where the units do not follow the state that was read, or cannot be read, the state stays as it is: a note says so.
    """
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
