"""The port of trackers: one kind of watermark each, and everything that commands ask about it.

A tracker knows what its state remembers, what to read next and what follows from what was read. Passes and commands go
through this port and know no kind. A new kind is a tracker and one line in ``runs.bind``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Literal, Protocol

from tidegate.core.files.paths import SourceFile
from tidegate.protocol.change import Coverage, State
from tidegate.protocol.dead_letters import DeadLetterTable
from tidegate.protocol.documents import Recorded
from tidegate.protocol.position import Payer, Position
from tidegate.protocol.store import PositionStore
from tidegate.reports.correction import WatermarkMove
from tidegate.reports.run import Check, ColumnSourcePlan, FailedFile, FailedUnit, SourcePlan, WorkProgress
from tidegate.reports.units import UnitSourcePlan
from tidegate.runs.bound_source import AnySource, BoundSource, StateKind
from tidegate.runs.pass_ import Pass, PassRetries, Walk
from tidegate.specs.project import PipelineSpec

TrackingWord = Literal["watermark", "set", "columns", "units"]


@dataclass(frozen=True, slots=True)
class Summary:
    """What a state says to people: status, reports, ``watermark show`` and metrics take theirs from here.

    ``state`` is None where only the work of a run tells whether a source is active or idle. ``watermark`` is one line,
    ``value`` the whole. ``files`` are those that are not finished; ``state_files`` is how many files the state names.
    """

    tracking: TrackingWord
    state: str | None = None
    watermark: str | None = None
    value: str | None = None
    updated: datetime | None = None
    partitions: Mapping[str, str] = field(default_factory=dict)
    open_partitions: int = 0
    sealed: Mapping[str, object] = field(default_factory=dict)
    sealed_directories: int = 0
    files: Mapping[str, object] = field(default_factory=dict)
    state_files: int = 0
    in_progress: int = 0
    failed: tuple[FailedFile, ...] = ()
    remembered: int = 0
    last_committed_file: str | None = None
    failed_units: tuple[FailedUnit, ...] = ()
    retired: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits above a state; ``behind`` is None where only a run can tell.

    Without ``complete`` there may be more. ``pending_units`` are staged and wait for their commit.
    """

    files: int = 0
    bytes: int = 0
    complete: bool = False
    behind: bool | None = None
    notes: tuple[str, ...] = ()
    work_units: WorkProgress | None = None
    pending_units: int = 0
    pending_files: int = 0
    pending_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class WatermarkEdit:
    """What a person wants of a watermark: to a file (``to``), to values of columns, or, with ``reset``, forgotten.

    With ``inclusive`` the next read takes rows at these values, too. ``partition`` is the only one that is forgotten.
    """

    to: str | None = None
    values: Mapping[str, str] | None = None
    inclusive: bool = False
    reset: bool = False
    partition: str | None = None


ConfirmMove = Callable[[WatermarkMove], bool]
AnyPlan = SourcePlan | ColumnSourcePlan | UnitSourcePlan


class Tracker(StateKind, Protocol):
    """One kind of watermark of one source. It is only ever given states of its own kind."""

    @property
    def reads(self) -> str:
        """What a pipeline with such a source does, for messages: ``is followed by columns``."""

    @property
    def replay_hint(self) -> str:
        """What to do instead where a source is replayed in a way that does not fit it."""

    @property
    def source(self) -> Any:
        """The source, as it was configured."""

    @property
    def retries(self) -> PassRetries:
        """How often a pass begins again where another run was first."""

    @property
    def keeps_position(self) -> bool:
        """Whether the next poll may go on from the position that the last one reached, if nothing was committed."""

    @property
    def letters(self) -> DeadLetterTable | None:
        """The dead-letter table; None where a source has no bad records."""

    @property
    def not_compared(self) -> str | None:
        """Why the rows of the table are not compared with the source; None where they are."""

    def replays(self, source: Any, pipeline: PipelineSpec) -> AnySource | None:
        """The record of replays of the source in the table of ``pipeline``; None where replays keep none."""

    def for_run(self, source: Any) -> Any:
        """The bound source as runs use it."""

    def walk(self, run: Pass) -> Walk:
        """What a pass does with the source."""

    def summary(self, state: Any) -> Summary:
        """What a state says to people."""

    def plan_of(self, source: Any, now: datetime, *, accept_new_partitions: bool = False) -> AnyPlan:
        """What the next pass would do, by the same steps, with nothing written."""

    def known_state(self, source: Any, recorded: Recorded | None) -> Any:
        """The state to show: the recorded one, or what is known without one."""

    def backlog(self, source: Any, state: Any, version: int, now: datetime) -> Backlog:
        """What waits above ``state``, as far as that is told without a run."""

    def edit(self, source: Any, edit: WatermarkEdit, now: datetime, confirm: ConfirmMove) -> WatermarkMove:
        """Move the watermark if ``confirm`` agrees to what that means; no row is touched."""

    def for_edit(self, source: Any) -> Any:
        """The bound source for a person who moves its state: copies that are kept elsewhere are replaced."""

    def check(self, state: Any) -> None:
        """``StateError`` when something that the state refers to is missing or damaged."""

    @property
    def rebuilds(self) -> bool:
        """Whether a lost part of the state can be made anew from what the documents say was read."""

    def rebuilt(self, state: Any, read: Iterable[SourceFile]) -> Any:
        """The state without what is missing or damaged, made anew from the files that were ``read``."""

    def carried_forward(
        self, source: Any, state: Any, commits: Sequence[tuple[Coverage, ...]], now: datetime
    ) -> Any | None:
        """An earlier state after ``commits`` that are known to follow it; None where that cannot be told."""

    def read_next(self, source: Any, state: Any, version: int, now: datetime) -> str | None:
        """What a run from ``state`` would read, in words; None where only a run can tell."""

    def doubles(self, source: Any) -> bool:
        """Whether rows that are read again are in the table twice then."""

    def stored(self, state: Any) -> str:
        """What ``doctor`` adds to a position: the watermark in brackets, where it fits into a line."""

    def source_checks(self, source: Any) -> list[Check]:
        """What ``doctor`` finds at the source."""

    def table_checks(self, source: Any, name: str, position: Position, state: Any) -> Iterator[Check]:
        """What it finds wrong, or worth knowing, about a position and its table."""

    def further_checks(self, source: Any) -> list[Check]:
        """What it finds at others who keep a copy of the state."""


TrackedSource = BoundSource[Any, Tracker]
"""A source of any kind, as commands work on it."""


class TrackerDefaults:
    """What most kinds answer: nothing is kept elsewhere, nothing is referred to, and runs commit by themselves."""

    __slots__ = ()

    keeps_position: ClassVar[bool] = False
    rebuilds: ClassVar[bool] = False

    @property
    def mirror_legacy(self) -> bool:
        return False

    def payers(self, positions: PositionStore) -> Mapping[str, Payer]:
        return {}

    def embedded(self, encoded: State) -> State:
        return encoded

    def follow_ups(self, before: Any, after: Any) -> tuple[Mapping[str, Any], ...]:
        return ()

    def check_position(self, positions: PositionStore, position: Position, *, read_only: bool) -> None:
        """No copy of the state is kept elsewhere."""

    def replays(self, source: Any, pipeline: PipelineSpec) -> AnySource | None:
        return None

    def for_run(self, source: Any) -> Any:
        return source

    def for_edit(self, source: Any) -> Any:
        return source

    def known_state(self, source: Any, recorded: Recorded | None) -> Any:
        return source.tracker.decode(None if recorded is None else recorded.state)

    def check(self, state: Any) -> None:
        """The state refers to nothing."""

    def rebuilt(self, state: Any, read: Iterable[SourceFile]) -> Any:
        return state

    def carried_forward(
        self, source: Any, state: Any, commits: Sequence[tuple[Coverage, ...]], now: datetime
    ) -> Any | None:
        return None

    def read_next(self, source: Any, state: Any, version: int, now: datetime) -> str | None:
        return None

    def doubles(self, source: Any) -> bool:
        return True

    def stored(self, state: Any) -> str:
        return ""

    def source_checks(self, source: Any) -> list[Check]:
        return []

    def table_checks(self, source: Any, name: str, position: Position, state: Any) -> Iterator[Check]:
        return iter(())

    def further_checks(self, source: Any) -> list[Check]:
        return []
