"""A bound source, and the port of trackers: one kind of watermark each.

A tracker knows what its state remembers, what to read next and what follows from what was read; it has everything that
only its kind needs, such as a source store or a dead-letter table. Passes and commands work on bound sources through
this port and know no kind. A new kind is a tracker and one line in ``runs.bind``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeVar, Union

from tidegate.core.files.discovery import FutureSeal, LeftOut
from tidegate.core.files.paths import SourceFile
from tidegate.core.json_shape import is_newer
from tidegate.errors import ColumnsChanged, CommitLost, StateError, StorageError, TidegateError
from tidegate.protocol.change import Coverage, Identity, SourceKey, State
from tidegate.protocol.dead_letters import DeadLetterTable
from tidegate.protocol.documents import Mirror, read_recorded
from tidegate.protocol.documents import read as read_document
from tidegate.protocol.follow_ups import WorkArea, new_work_area, remove_old_work, remove_work, work_areas
from tidegate.protocol.open import StateUnreadable, way_out
from tidegate.protocol.position import Attempts, Payer, Position, read_attempts
from tidegate.protocol.store import PositionStore
from tidegate.reports.checks import Check
from tidegate.reports.plan import ColumnSourcePlan, SourcePlan
from tidegate.reports.status import FailedFile, FailedUnit, WorkProgress
from tidegate.specs.columns import ColumnSource
from tidegate.specs.locations import Location
from tidegate.specs.project import PipelineSpec, SourceSpec
from tidegate.specs.units import UnitSource
from tidegate.storage.port import ObjectStore

if TYPE_CHECKING:
    from tidegate.reports.plan import UnitSourcePlan
    from tidegate.reports.watermark import WatermarkMove


TrackingWord = Literal["watermark", "set", "columns", "units"]
Offer = Literal["files", "units", "replay", "replay_range"]
"""What commands do with some kinds only: list and read files, list units, replay files, replay a range."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A state for people: the basis of status, reports, ``watermark show`` and metrics.

    ``state`` is None if only a run's work shows whether a source is active or idle. ``watermark`` is one line,
    ``value`` the whole. ``files`` are unfinished; ``state_files`` is the number of files in the state.
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
    """What waits above a state; ``behind`` is None if only a run can tell.

    Without ``complete`` there may be more. ``sealed`` is the number of old folders or files that were skipped, None if
    unknown. ``notes`` need a person's attention, ``remarks`` say what is not searched. ``pending_units`` are staged and
    wait for their commit. ``empty``: the source has no file at all. ``future_seals`` is what a wrong clock has
    sealed: nobody knows what waits there. ``left_out`` is what a filtered first run will leave out.
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
    future_seals: tuple[FutureSeal, ...] = ()
    left_out: LeftOut | None = None


@dataclass(frozen=True, slots=True)
class WatermarkEdit:
    """A person's edit of a watermark: to a file (``to``), to values of columns, or, with ``reset``, forgotten.

    With ``inclusive`` the next read includes rows at these values. ``partition`` limits the reset.
    """

    to: str | None = None
    values: Mapping[str, str] | None = None
    inclusive: bool = False
    reset: bool = False
    partition: str | None = None


ConfirmMove = Callable[["WatermarkMove"], bool]
AnyPlan = Union[SourcePlan, ColumnSourcePlan, "UnitSourcePlan"]


@dataclass(frozen=True, slots=True)
class PassRetries:
    """How often a pass starts over, and after which errors.

    ``in_a_row``: a commit in between resets the count, and after each loss the source is left to the winner for a
    while.
    """

    tries: int
    errors: tuple[type[TidegateError], ...] = (CommitLost, ColumnsChanged)
    in_a_row: bool = False


class Walk(Protocol):
    """The work of one pass on one kind of source; kept over all attempts of the pass."""

    def go(self, position: Position) -> Position:
        """Read and commit from ``position`` on until nothing is left; returns the position reached."""


class StateKind(Protocol):
    """The part of a tracker for recorded states; records of replays have a state and no tracker.

    Methods with a body have the answer of most kinds.
    """

    __slots__ = ()

    kind: ClassVar[str]
    """The kind in the identity of a position."""

    @property
    def identity(self) -> Identity:
        """The owner of the position: a state of another kind or source never counts as its own."""

    @property
    def mirror_legacy(self) -> bool:
        """Whether the mirror is also written in Blizzard's form."""
        return False

    def payers(self, positions: PositionStore) -> Mapping[str, Payer]:
        """The payers of follow-ups that only this kind has."""
        return {}

    def decode(self, recorded: State | None) -> Any:
        """Decode the recorded state, a fresh one without any; ``StateError`` if it is not of this kind."""

    def fresh(self) -> Any:
        """The state of a source that was never read, recorded if nothing else is."""

    def encode(self, state: Any) -> dict[str, object]:
        """The complete state as JSON."""

    def embedded(self, encoded: State) -> State:
        """The part for the log, which replaces a lost document."""
        return encoded

    def copied(self, state: Any) -> Mapping[str, Any]:
        """The part of the state for a state provider: a JSON object, always small."""
        return self.encode(state)


class Tracker(StateKind, Protocol):
    """One kind of watermark of one source. It only gets states of its own kind.

    Methods with a body have the answer of most kinds: the state refers to nothing, and runs commit themselves.
    """

    __slots__ = ()

    source: Any
    """The configured source."""
    reads: ClassVar[str]
    """What a pipeline with such a source does, for messages: ``follows columns``."""
    offers: ClassVar[frozenset[Offer]] = frozenset()
    """What commands can do with this kind that they cannot do with every kind."""
    replay_hint: ClassVar[str]
    """The advice if a source is replayed in a way that does not fit it."""
    retries: ClassVar[PassRetries]
    """How often a pass starts over if another run was first."""
    not_compared: ClassVar[str | None]
    """Why the rows of the table are not compared with the source; None if they are."""
    keeps_position: ClassVar[bool] = False
    """Whether the next poll may continue from the position of the last one, if nothing was committed."""
    rebuilds: ClassVar[bool] = False
    """Whether a lost part of the state can be rebuilt from the documents."""

    @property
    def letters(self) -> DeadLetterTable | None:
        """The dead-letter table; None if a source has no bad records."""
        return None

    def replays(self, source: Any, pipeline: PipelineSpec) -> AnySource | None:
        """The record of replays of the source in the table of ``pipeline``; None if replays keep none."""
        return None

    def for_run(self, source: Any) -> Any:
        """The bound source as runs use it."""
        return source

    def walk(self, run: Any) -> Walk:
        """The walk of a :class:`~tidegate.runs.pass_.Pass` over the source."""

    def summary(self, state: Any) -> Summary:
        """The state for people."""

    def plan_of(self, source: Any, now: datetime, *, accept_new_partitions: bool = False) -> AnyPlan:
        """What the next pass would do, by the same steps, without writing anything."""

    def known_state(self, source: Any, recorded: Mirror | None) -> Any:
        """The state to show: the recorded one, or what is known without one."""
        return self.decode(None if recorded is None else recorded.state)

    def state_after_attempts(self, attempts: Attempts | None) -> Any:
        """The state of a source without a position, from failed attempts."""
        return self.decode(None)

    def backlog(self, source: Any, state: Any, version: int, now: datetime) -> Backlog:
        """What waits above ``state``, as far as known without a run."""

    def edit(self, source: Any, edit: WatermarkEdit, now: datetime, confirm: ConfirmMove) -> WatermarkMove:
        """Move the watermark if ``confirm`` agrees to the consequences; no row changes."""

    def check(self, state: Any) -> None:
        """``StateError`` if something that the state refers to is missing or damaged."""
        return

    def rebuild(self, state: Any, read: Iterable[SourceFile]) -> Any:
        """The state without missing or damaged parts, rebuilt from the files that were ``read``."""
        return state

    def carry_forward(
        self, source: Any, state: Any, commits: Sequence[tuple[Coverage, ...]], now: datetime
    ) -> Any | None:
        """An earlier state after ``commits`` that are known to follow it; None if that is impossible."""
        return None

    def read_next(self, source: Any, state: Any, version: int, now: datetime) -> str | None:
        """What a run from ``state`` would read, in words; None if only a run can tell."""
        return None

    def doubles(self, source: Any) -> bool:
        """Whether rows that are read again are then in the table twice."""
        return True

    def stored(self, state: Any) -> str:
        """The watermark in brackets for ``doctor``, if it fits into a line."""
        return ""

    def source_checks(self, source: Any) -> list[Check]:
        """The checks of ``doctor`` at the source."""
        return []

    def table_checks(self, source: Any, name: str, position: Position, state: Any) -> Iterator[Check]:
        """Its checks of a position and its table."""
        return iter(())


SourceT_co = TypeVar("SourceT_co", bound=SourceSpec, covariant=True)
TrackerT_co = TypeVar("TrackerT_co", bound=StateKind, covariant=True)


@dataclass(frozen=True, slots=True)
class BoundSource(Generic[SourceT_co, TrackerT_co]):
    """A source, its table, and the tracker that knows its state.

    ``parallelism`` is the number of tasks that run at once, ``slots`` the number handed to the engine at once, so that
    it never waits for the next.
    """

    pipeline: PipelineSpec
    source: SourceT_co
    table_store: ObjectStore
    positions: PositionStore
    tracker: TrackerT_co
    parallelism: int
    slots: int

    @property
    def key(self) -> SourceKey:
        """The owner of the position."""
        return self.positions.site.key

    @property
    def names(self) -> tuple[str, str]:
        """The names of pipeline and source in events and reports."""
        return self.pipeline.name, self.source.name

    @property
    def table_uri(self) -> str:
        """Where the table is."""
        return self.pipeline.sink.table.uri

    def at_poll(self, polls: int) -> BoundSource[SourceT_co, TrackerT_co]:
        """The same source at its ``polls``-th poll."""
        return replace(self, positions=self.positions.at_poll(polls))

    def open(self, *, read_only: bool = False) -> Position:
        """The position, or an error with a remedy."""
        position = self.positions.open(read_only=read_only)
        kept = self.positions.copy
        if kept is not None and kept.watermarks is not None:
            self.state_of(position)
            self.positions.check_copy(position, read_only=read_only)
        return position

    def for_edit(self) -> BoundSource[SourceT_co, TrackerT_co]:
        """The source for a person's edit: copies elsewhere are replaced."""
        return replace(self, positions=self.positions.overwriting_copy())

    def recorded(self) -> Mirror | None:
        """The newest position known without opening the table."""
        return read_recorded(self.table_store, self.key)

    def last_commit_at(self, recorded: Mirror | None) -> datetime | None:
        """When that position was committed; None if unknown, as before the first commit."""
        if recorded is None or not recorded.version:
            return None
        if recorded.shown_by == "document":
            return datetime.fromisoformat(recorded.written_at)
        found = read_document(self.table_store, self.key, recorded.version, recorded.attempt)
        return None if found is None or found.document is None else datetime.fromisoformat(found.document.written_at)

    def attempts(self, position: Position) -> Attempts | None:
        """The failures that earlier runs noted, for an opened source without a position; None for any other."""
        return read_attempts(self.table_store, self.key, self.positions.site.identity) if position.first_run else None

    def clean_work(self, now: datetime) -> None:
        """Remove old work areas of this source, if possible now."""
        with suppress(StorageError):
            remove_old_work(self.table_store, self.key, now)

    def new_work(self) -> WorkArea:
        """A work area for rows that no commit refers to yet."""
        return new_work_area(self.key, self.pipeline.sink.table)

    @property
    def work(self) -> Location:
        """The folder of its work areas."""
        return work_areas(self.key, self.pipeline.sink.table)

    def drop_work(self, area: WorkArea) -> None:
        """Remove a work area that no commit refers to, if possible now."""
        with suppress(StorageError):
            remove_work(self.table_store, area.directory)

    def state_of(self, position: Position) -> Any:
        """The state of an opened position; raises if it has another form."""
        with named_position(position):
            return self.tracker.decode(position.state)


AnySource = BoundSource[Any, Any]
"""A source of any kind."""


TrackedSource = BoundSource[Any, Tracker]
"""A source of any kind, for commands."""

ColumnBound = BoundSource[ColumnSource, StateKind]
UnitBound = BoundSource[UnitSource, StateKind]
"""Sources of one kind, for modules of that kind; :data:`FileSource` is in ``runs.file_source``."""


Clock = Callable[[], datetime]


@contextmanager
def named_position(position: Position) -> Iterator[None]:
    """Name the position in errors about a damaged state; errors about a newer version stay as they are."""
    try:
        yield
    except StateError as error:
        if position.state is None or is_newer(position.state):
            raise
        raise StateUnreadable(
            f"{position.key}: the state of position {position.version} is damaged ({error.problem}); nothing was"
            " written",
            way_out(position.key),
        ) from error
