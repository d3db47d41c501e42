"""File sources as other modules see them: their states, their trackers, discovery and plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from tidegate.core.files.advance import Advance
from tidegate.core.files.discovery import PathListing
from tidegate.core.files.edit import Sorted
from tidegate.core.files.paths import SourceFile
from tidegate.core.files.plan import Plan
from tidegate.core.files.planner import Sizing
from tidegate.core.files.state import FileOutcome, PathState, RecordsRead, SetState, decode_paths
from tidegate.protocol.change import SourceKey
from tidegate.protocol.dead_letters import DeadLetterTable
from tidegate.protocol.position import Position
from tidegate.runs.tracker import BoundSource, HasDeadLetters, Tracker
from tidegate.specs.files import PathSource
from tidegate.storage.port import ObjectStore

# Bounds the memory of a first listing; a plan that was cut is followed by another in the same pass.
FILES_PER_PLAN = 100_000
# Large enough that the 70 to 160 ms of CPU that a Spark job costs hardly count (decision 0030).
UNIT_BYTES = 64 * 1024 * 1024


SourceState = PathState | SetState
Step = Advance[PathState] | Advance[SetState]
Steps = Callable[[Any, Sequence[FileOutcome]], Step]


@runtime_checkable
@dataclass(frozen=True, slots=True)
class FileTracker(Tracker, HasDeadLetters, Protocol):
    """One way to remember which files of a prefix were read. It only gets states and steps of its own kind."""

    key: SourceKey
    source: PathSource
    store: ObjectStore
    table_store: ObjectStore
    letters: DeadLetterTable = field()

    def discover(self, state: Any, now: datetime, *, limit: int, polls: int) -> PathListing:
        """The files that the state does not know as read; reads only, and fails as a whole."""

    def plan_listing(self, state: Any, version: int, listing: PathListing, now: datetime, sizing: Sizing) -> Plan:
        """Decide what to read of a listing, without any request."""

    def steps(self, plan: Plan) -> Steps:
        """The steps of a plan: the state after the rows of some outcomes are committed.

        Cheap as long as each builds on the one before.
        """

    def advance(self, state: Any, plan: Plan, outcomes: Sequence[FileOutcome]) -> Step:
        """One step."""
        return self.steps(plan)(state, outcomes)

    def sort_files(self, state: Any, files: Sequence[SourceFile], now: datetime) -> Sorted:
        """Sort listed files by whether they are finished."""

    def reopen(self, state: Any, files: Iterable[SourceFile]) -> Any:
        """The state with ``files`` unfinished: the watermark stays below them, and the next plan reads them."""
        entries = {file.path: RecordsRead(0, file.size, file.etag, rounds=0) for file in files}
        return replace(state, files={**state.files, **entries})

    def remember_again(self, state: Any, files: Sequence[SourceFile]) -> Any:
        """The state after finished ``files`` were read once more, as they are now; comes before the document."""
        return state

    def watermarks(self, state: Any) -> PathState:
        """The part of the state that a comparison needs: watermarks, and unfinished files."""

    def recount(self, state: Any, polled: PathListing) -> Any | None:
        """The state that counts late directories as known, from ``polled``; None if nothing changes."""
        return None

    def idle(self, state: Any, any_files: bool) -> Any:
        """The state after a poll that found nothing to read."""

    def write_state(self, step: Any) -> Any:
        """The state of a step, once everything it refers to is written; comes before the document."""
        return step.state

    def keep_pending(self) -> FileTracker:
        """The same tracker for staged delivery: it remembers what pending units finished, if its state cannot."""
        return self

    def forget_pending(self) -> None:
        """Forget what was remembered of pending units."""
        return


FileSource = BoundSource[PathSource, FileTracker]


def discover_files(
    source: FileSource, state: SourceState, now: datetime, polls: int = 0, limit: int = FILES_PER_PLAN
) -> PathListing:
    """The files that are not known as read; reads only, and fails as a whole."""
    return source.tracker.discover(state, now, limit=limit, polls=polls)


def plan_files(source: FileSource, state: SourceState, version: int, now: datetime, **listing: int) -> Plan:
    """Discover, and decide what to read."""
    found = discover_files(source, state, now, **listing)
    return source.tracker.plan_listing(state, version, found, now, sizing_of(source))


def watermarks_of(position: Position) -> PathState:
    """The recorded watermarks of a position, fresh ones on a first run; ``StateError`` for a set's state."""
    return PathState() if position.state is None else decode_paths(position.state)


def sizing_of(source: FileSource) -> Sizing:
    """How files are grouped for tasks."""
    return Sizing(UNIT_BYTES, source.source.interval_files, source.parallelism)
