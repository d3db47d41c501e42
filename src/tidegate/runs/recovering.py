"""What stops a source, and going on past it once a person has decided to.

Without an acceptance this only explains. With one, the position is opened past that stop and recorded anew by an
empty commit of the ordinary protocol, so that the next run finds it in order. Rows are never touched.
"""

from __future__ import annotations

from collections.abc import Collection

from tidegate.errors import TidegateError
from tidegate.reports import Check
from tidegate.runs.place import Place
from tidegate.runs.tracking import SourceState
from tidegate.state.files import Change
from tidegate.state.opened import Opened
from tidegate.state.opening import Accept
from tidegate.state.rebuilding import finished_files

SET = "set"
"""Not a stop of OPEN: a lost part of a set of paths is rebuilt from the documents."""

ACCEPTED = (Accept.IDENTITY.value, Accept.RESTORE.value, SET)


def recover(place: Place, accept: Collection[str] = ()) -> Check:
    """Whether the position of a source can be opened; past the stops in ``accept``, it is recorded anew."""
    name = str(place.key)
    try:
        opened = place.positions.open(read_only=True)
        place.tracker.check(place.state_of(opened.state))
    except TidegateError as error:
        if not accept:
            return Check(name, "fail", error.problem, error.remedy)
        return _accepted(place, accept)
    where = (
        "nothing recorded yet"
        if opened.first_run
        else f"position {opened.version}, table version {opened.table_version}"
    )
    return Check(name, "ok", f"in order: {where}; nothing to accept")


def _accepted(place: Place, accept: Collection[str]) -> Check:
    name = str(place.key)
    try:
        opened = place.positions.open([Accept(each) for each in accept if each != SET])
        if opened.state is None:
            return Check(name, "fail", "there is no recorded state to go on from", "see the message of `tidegate run`")
        state = place.tracker.encode(_restored(place, opened, rebuild=SET in accept))
        after = place.positions.commit(opened, Change(state=state, embedded=place.tracker.embedded(state)))
    except TidegateError as error:
        return Check(name, "fail", error.problem, error.remedy)
    told = f"accepted ({', '.join(accept)}): position {opened.version} recorded anew as {after.version}"
    return Check(name, "ok", f"{told}, table version {after.table_version}; no row was touched")


def _restored(place: Place, opened: Opened, *, rebuild: bool) -> SourceState:
    """The recorded state; with ``rebuild`` what it refers to is made anew, without it everything must be there."""
    state = place.state_of(opened.state)
    if rebuild:
        made: SourceState = place.tracker.rebuilt(state, finished_files(place.positions.site, opened))
        return made
    place.tracker.check(state)
    return state
