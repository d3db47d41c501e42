"""File sources, as the modules that work on files see them: their states, their trackers, discovery and plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeGuard

from tidegate.core.files import codec
from tidegate.core.files.discovery import PathListing
from tidegate.core.files.edit import Sorted
from tidegate.core.files.paths import SourceFile
from tidegate.core.files.plan import Plan
from tidegate.core.files.planner import Sizing
from tidegate.core.files.state import FileOutcome, PathState, Unfinished, WatermarkState
from tidegate.protocol.dead_letters import DeadLetterTable
from tidegate.protocol.identity import SourceKey
from tidegate.protocol.position import Position
from tidegate.runs.bound_source import AnySource, BoundSource
from tidegate.runs.tracker import Tracker
from tidegate.specs.project import PathSource
from tidegate.storage.port import ObjectStore

FILES_PER_PLAN = 100_000
UNIT_BYTES = 64 * 1024 * 1024


class SourceState(Protocol):
    """What every state of files has, whatever else it remembers."""

    @property
    def watermark(self) -> WatermarkState: ...
    @property
    def value(self) -> str | None: ...
    @property
    def last_committed_file(self) -> str | None: ...
    @property
    def last_update_ts(self) -> int: ...
    def unfinished(self) -> Iterator[tuple[str, Unfinished]]: ...


class Step(Protocol):
    """The state that follows from outcomes; without ``changed`` there is nothing to commit.

    ``advanced`` and ``sealed`` are for telling; with ``full`` it is better to plan again before reading on.
    """

    @property
    def state(self) -> SourceState: ...
    @property
    def advanced(self) -> tuple[tuple[str, str | None, str], ...]: ...
    @property
    def sealed(self) -> tuple[str, ...]: ...
    @property
    def changed(self) -> bool: ...
    @property
    def full(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class FileTracker(Tracker, Protocol):
    """One way to remember which files of a prefix were read. It is only ever given states and steps of its own kind."""

    key: SourceKey
    source: PathSource
    store: ObjectStore
    table_store: ObjectStore
    letters: DeadLetterTable = field()

    def discover(self, state: Any, now: datetime, *, limit: int, polls: int) -> PathListing:
        """What is there that the state does not know as read; reads only, and fails as a whole."""

    def plan(self, state: Any, version: int, listing: PathListing, now: datetime, sizing: Sizing) -> Plan:
        """What to read of it; decides without asking anyone."""

    def advance(self, state: Any, plan: Plan, outcomes: Sequence[FileOutcome]) -> Step:
        """What follows once the rows of ``outcomes`` are committed."""

    def sorted(self, state: Any, files: Sequence[SourceFile], now: datetime) -> Sorted:
        """Listed files by whether they are finished."""

    def idle(self, state: Any, any_files: bool) -> Any:
        """The state after a poll that found nothing to read."""

    def written(self, step: Any) -> Any:
        """The state of a step, once everything that it refers to is written; comes before the document."""
        return step.state

    def keeping_pending(self) -> FileTracker:
        """The same tracker for staged delivery: it remembers what pending units finished where its state cannot."""
        return self

    def forget_pending(self) -> None:
        """Nothing is pending: what was remembered of it is forgotten."""
        return


FileSource = BoundSource[PathSource, FileTracker]


def is_files(source: AnySource) -> TypeGuard[FileSource]:
    """Whether a source is one of files."""
    return isinstance(source.source, PathSource)


def discover_files(
    source: FileSource, state: SourceState, now: datetime, polls: int = 0, limit: int = FILES_PER_PLAN
) -> PathListing:
    """What is there that is not known as read; reads only, and fails as a whole."""
    return source.tracker.discover(state, now, limit=limit, polls=polls)


def plan_files(source: FileSource, state: SourceState, version: int, listing: PathListing, now: datetime) -> Plan:
    """What to read of it."""
    return source.tracker.plan(state, version, listing, now, sizing_of(source))


def watermarks_of(position: Position) -> PathState:
    """The recorded watermarks of a position, fresh ones on a first run; ``StateError`` for a set's state."""
    return PathState() if position.state is None else codec.decode(position.state)


def sizing_of(source: FileSource) -> Sizing:
    """How files are grouped for tasks."""
    return Sizing(UNIT_BYTES, source.source.interval_files, source.parallelism)
