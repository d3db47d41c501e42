"""The port of trackers: one kind of watermark each, and everything that commands ask about it.

A tracker knows what its state remembers, what to read next and what follows from what was read. Passes and commands go
through this port and know no kind. A new kind is a tracker and one line in ``runs.bind``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Union

from tidegate.core.files.paths import SourceFile
from tidegate.protocol.change import Coverage
from tidegate.protocol.dead_letters import DeadLetterTable
from tidegate.protocol.documents import Mirror
from tidegate.protocol.notes import Attempts
from tidegate.protocol.position import Position
from tidegate.reports.run import Check, ColumnSourcePlan, FailedFile, FailedUnit, SourcePlan, WorkProgress
from tidegate.runs.bound_source import AnySource, BoundSource, StateKind
from tidegate.runs.pass_ import Pass, PassRetries, Walk
from tidegate.specs.project import PipelineSpec

if TYPE_CHECKING:
    from tidegate.reports.correction import WatermarkMove
    from tidegate.reports.units import UnitSourcePlan

TrackingWord = Literal["watermark", "set", "columns", "units"]
Offer = Literal["files", "units", "replay", "replay_range"]
"""What commands do with some kinds only: list and read files, list units, replay files, replay a range."""


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

    Without ``complete`` there may be more. ``sealed`` is how many old folders or files were passed over, None where
    that was not seen. ``notes`` are for a person to look at, ``remarks`` say what is not looked for.
    ``pending_units`` are staged and wait for their commit. ``empty`` says that the source holds no file at all.
    """

    files: int = 0
    bytes: int = 0
    complete: bool = False
    behind: bool | None = None
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    work_units: WorkProgress | None = None
    pending_units: int = 0
    pending_files: int = 0
    pending_seconds: float | None = None
    empty: bool = False
    sealed: int | None = None


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


ConfirmMove = Callable[["WatermarkMove"], bool]
AnyPlan = Union[SourcePlan, ColumnSourcePlan, "UnitSourcePlan"]


class Tracker(StateKind, Protocol):
    """One kind of watermark of one source. It is only ever given states of its own kind.

    What has a body here is what most kinds answer: the state refers to nothing, and runs commit by themselves.
    """

    __slots__ = ()

    source: Any
    """The source, as it was configured."""
    reads: ClassVar[str]
    """What a pipeline with such a source does, for messages: ``follows columns``."""
    offers: ClassVar[frozenset[Offer]] = frozenset()
    """What commands can do with such a source that they cannot do with every kind."""
    replay_hint: ClassVar[str]
    """What to do instead where a source is replayed in a way that does not fit it."""
    retries: ClassVar[PassRetries]
    """How often a pass begins again where another run was first."""
    not_compared: ClassVar[str | None]
    """Why the rows of the table are not compared with the source; None where they are."""
    keeps_position: ClassVar[bool] = False
    """Whether the next poll may go on from the position that the last one reached, if nothing was committed."""
    rebuilds: ClassVar[bool] = False
    """Whether a lost part of the state can be made anew from what the documents say was read."""

    @property
    def letters(self) -> DeadLetterTable | None:
        """The dead-letter table; None where a source has no bad records."""
        return None

    def replays(self, source: Any, pipeline: PipelineSpec) -> AnySource | None:
        """The record of replays of the source in the table of ``pipeline``; None where replays keep none."""
        return None

    def for_run(self, source: Any) -> Any:
        """The bound source as runs use it."""
        return source

    def walk(self, run: Pass) -> Walk:
        """What a pass does with the source."""

    def summary(self, state: Any) -> Summary:
        """What a state says to people."""

    def plan_of(self, source: Any, now: datetime, *, accept_new_partitions: bool = False) -> AnyPlan:
        """What the next pass would do, by the same steps, with nothing written."""

    def known_state(self, source: Any, recorded: Mirror | None) -> Any:
        """The state to show: the recorded one, or what is known without one."""
        return self.decode(None if recorded is None else recorded.state)

    def state_after_attempts(self, attempts: Attempts | None) -> Any:
        """The state of a source without a position: what is known of it from attempts that failed."""
        return self.decode(None)

    def backlog(self, source: Any, state: Any, version: int, now: datetime) -> Backlog:
        """What waits above ``state``, as far as it is known without a run."""

    def edit(self, source: Any, edit: WatermarkEdit, now: datetime, confirm: ConfirmMove) -> WatermarkMove:
        """Move the watermark if ``confirm`` agrees to what that means; no row is touched."""

    def check(self, state: Any) -> None:
        """``StateError`` when something that the state refers to is missing or damaged."""
        return

    def rebuild(self, state: Any, read: Iterable[SourceFile]) -> Any:
        """The state without what is missing or damaged, made anew from the files that were ``read``."""
        return state

    def carry_forward(
        self, source: Any, state: Any, commits: Sequence[tuple[Coverage, ...]], now: datetime
    ) -> Any | None:
        """An earlier state after ``commits`` that are known to follow it; None where that cannot be told."""
        return None

    def read_next(self, source: Any, state: Any, version: int, now: datetime) -> str | None:
        """What a run from ``state`` would read, in words; None where only a run can tell."""
        return None

    def doubles(self, source: Any) -> bool:
        """Whether rows that are read again are in the table twice then."""
        return True

    def stored(self, state: Any) -> str:
        """What ``doctor`` adds to a position: the watermark in brackets, where it fits into a line."""
        return ""

    def source_checks(self, source: Any) -> list[Check]:
        """What ``doctor`` finds at the source."""
        return []

    def table_checks(self, source: Any, name: str, position: Position, state: Any) -> Iterator[Check]:
        """What it finds wrong, or worth knowing, about a position and its table."""
        return iter(())


TrackedSource = BoundSource[Any, Tracker]
"""A source of any kind, as commands work on it."""
