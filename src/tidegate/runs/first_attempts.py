"""What is kept of passes over a source that has no position yet: a failure is noted, a success forgets it."""

from __future__ import annotations

from typing import Protocol

from tidegate.errors import TidegateError
from tidegate.observe.wording import count
from tidegate.reports import SourceReport
from tidegate.runs.place import Clock
from tidegate.state.attempts import Attempts, forget_attempts, note_attempt, read_attempts, shown_attempts
from tidegate.state.files import State
from tidegate.state.identity import SourceKey
from tidegate.state.opened import Opened
from tidegate.state.store import PositionStore
from tidegate.storage.port import ObjectStore


class AnyPlace(Protocol):
    """A source of any kind with its table."""

    @property
    def table_store(self) -> ObjectStore: ...
    @property
    def key(self) -> SourceKey: ...
    @property
    def positions(self) -> PositionStore: ...


def attempts_before(place: AnyPlace, opened: Opened) -> Attempts | None:
    """What earlier runs noted, for a source that was opened and has no position; None for any other."""
    if not opened.first_run:
        return None
    return read_attempts(place.table_store, place.key, place.positions.site.identity)


def settle_attempts(
    place: AnyPlace,
    is_first: bool,
    before: Attempts | None,
    report: SourceReport,
    clock: Clock,
    failures: State | None = None,
) -> None:
    """At the end of a pass: note that nothing was committed and why, or forget what was noted ``before``.

    ``is_first``: the pass found no position.
    """
    problem = _problem(report)
    if is_first and problem and not (report.commits or report.staged):
        note_attempt(place.table_store, place.key, place.positions.site.identity, clock(), problem, failures)
    elif before is not None:
        forget_attempts(place.table_store, place.key)


def _problem(report: SourceReport) -> str:
    if report.error:
        return report.error
    if report.failed_units:
        first = report.failed_units[0]
        name = f"{first.unit} from {first.start}" if first.unit else f"from {first.start}"
        return f"{count(len(report.failed_units), 'work unit')} failed, {name} among them: {first.reason}"
    if report.failed:
        return f"{count(len(report.failed), 'file')} cannot be read, {report.failed[0].path} among them"
    return ""


def attempts_note(place: AnyPlace) -> tuple[str, ...]:
    """That no run has succeeded yet, for plans and for status; nothing where a position is recorded."""
    try:
        found = shown_attempts(place.table_store, place.key, place.positions.site.identity)
    except TidegateError:
        return ()
    return () if found is None else (found.words(),)
