"""The port between the walk and the ways to remember what was read.

A tracker knows one kind of state: what to look for with it, what to read next, what follows once that is
committed, and how it is written down. A pass, a plan and a status go through this and through nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from tidegate.core.files.discovery import PathListing
from tidegate.core.files.edit import Sorted
from tidegate.core.files.paths import SourceFile
from tidegate.core.files.plan import Plan
from tidegate.core.files.planner import Sizing
from tidegate.core.files.state import FileOutcome, Unfinished, WatermarkState
from tidegate.protocol.change import State


class SourceState(Protocol):
    """What every state has, whatever else it remembers."""

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
class Summary:
    """What a state says to people beyond what every state has."""

    tracking: Literal["watermark", "set"]
    partitions: Mapping[str, str] = field(default_factory=dict)
    sealed: Mapping[str, object] = field(default_factory=dict)
    sealed_directories: int = 0
    remembered: int = 0
    files: int = 0


class Tracker(Protocol):
    """One way to remember what was read of one source. It is only ever given states and steps of its own kind."""

    @property
    def kind(self) -> str:
        """What the identity of a position calls it: a state of another kind is never taken for its own."""

    def decode(self, recorded: State | None) -> Any:
        """The recorded state, a fresh one where nothing is; ``StateError`` when it is not one of this kind."""

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

    def encode(self, state: Any) -> dict[str, object]:
        """The complete state as JSON."""

    def embedded(self, encoded: State) -> State:
        """The part of it that goes into the log, from which a lost document is replaced."""

    def check(self, state: Any) -> None:
        """``StateError`` when something that the state refers to is missing or damaged."""

    def rebuilt(self, state: Any, read: Iterable[SourceFile]) -> Any:
        """The state without what is missing or damaged, made anew from the files that were ``read``."""

    def told(self, state: Any) -> Summary:
        """What to show of it."""
