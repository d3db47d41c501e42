"""The units of a source that wait for their commit: read, and folded into its state as if they were committed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tidegate.errors import StateError
from tidegate.runs.place import Place
from tidegate.runs.set_tracking import SetTracker
from tidegate.runs.staged_steps import after_step
from tidegate.runs.tracking import SourceState
from tidegate.state.site import Site
from tidegate.state.staging import StagedUnit, unit_path

THE_WAY_ON = "let `tidegate commit CONFIG --once` decide about it"


def remembering(place: Place) -> Place:
    """The same place with a tracker that remembers what pending units finished where its state cannot."""
    if not isinstance(place.tracker, SetTracker):
        return place
    return replace(place, tracker=replace(place.tracker, pending={}))


def read_unit(site: Site, seq: int) -> StagedUnit:
    """One pending unit; ``StateError`` for one that is none or is about something else, ``ObjectMissing`` for one
    that is gone.
    """
    path = unit_path(site.key, seq)
    content = site.store.get(path)
    try:
        unit = StagedUnit.from_bytes(content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StateError(f"{site.uri}/{path} cannot be read as a unit ({error!r})", THE_WAY_ON) from error
    changes = site.identity.differences(unit.identity)
    if changes or (unit.key, unit.seq) != (site.key, seq):
        found = "; ".join(changes) or f"it says that it is unit {unit.seq} of {unit.key}"
        raise StateError(f"{site.uri}/{path} is about another source: {found}", THE_WAY_ON)
    return unit


def folded(place: Place, state: SourceState, units: Iterable[StagedUnit]) -> SourceState:
    """The state once ``units`` are committed on top of ``state``; ``place`` is one that is ``remembering``."""
    tracker = place.tracker
    if isinstance(tracker, SetTracker) and tracker.pending is not None:
        tracker.pending.clear()
    for unit in units:
        try:
            state = tracker.written(after_step(tracker, state, unit.step))
        except StateError as error:
            site = place.positions.site
            path = unit_path(unit.key, unit.seq)
            raise StateError(f"{site.uri}/{path} does not fit: {error.problem}", THE_WAY_ON) from error
    return state
