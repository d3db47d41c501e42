"""One source of one pipeline with its ports opened, and the port of trackers: one kind of watermark each.

A tracker knows what its state remembers, what to read next and what follows from what was read; it has whatever only
one kind of source needs, as a source store or a dead-letter table. Passes and commands work on bound sources, go
through this port and know no kind. A new kind is a tracker and one line in ``runs.bind``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeVar, Union

from tidegate.config.document import nearest, sentence
from tidegate.core.files.paths import SourceFile
from tidegate.core.json_shape import is_newer
from tidegate.errors import ColumnsChanged, CommitLost, ConfigError, StateError, StorageError, TidegateError
from tidegate.protocol.change import Coverage, Identity, SourceKey, State
from tidegate.protocol.dead_letters import DeadLetterTable
from tidegate.protocol.documents import Mirror, read_recorded
from tidegate.protocol.documents import read as read_document
from tidegate.protocol.follow_ups import WorkArea, new_work_area, remove_old_work, remove_work, work_areas
from tidegate.protocol.open import StateUnreadable, way_out
from tidegate.protocol.position import Attempts, Payer, Position, read_attempts
from tidegate.protocol.store import PositionStore
from tidegate.reports.run import Check, ColumnSourcePlan, FailedFile, FailedUnit, SourcePlan, WorkProgress
from tidegate.specs.columns import ColumnSource
from tidegate.specs.locations import Location
from tidegate.specs.project import PipelineSpec, SourceSpec
from tidegate.specs.units import UnitSource
from tidegate.storage.port import ObjectStore

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


@dataclass(frozen=True, slots=True)
class PassRetries:
    """How often a pass begins again, and after which errors.

    ``in_a_row``: a commit in between starts the count anew, and after each loss the source is left to the winner for a
    while.
    """

    tries: int
    errors: tuple[type[TidegateError], ...] = (CommitLost, ColumnsChanged)
    in_a_row: bool = False


class Walk(Protocol):
    """What one pass does with one kind of source; kept over all attempts of the pass."""

    def go(self, position: Position) -> Position:
        """Read and commit from ``position`` on until nothing is left; the position reached."""


class StateKind(Protocol):
    """The part of a tracker that is about recorded states; records of replays have a state and no tracker.

    What has a body here is what most kinds answer.
    """

    __slots__ = ()

    kind: ClassVar[str]
    """What the identity of a position calls it."""

    @property
    def identity(self) -> Identity:
        """Whose position it is: a state of another kind, or of another source, is never taken for its own."""

    @property
    def mirror_legacy(self) -> bool:
        """Whether the mirror is also written in Blizzard's form."""
        return False

    def payers(self, positions: PositionStore) -> Mapping[str, Payer]:
        """Who pays the follow-ups that only this kind has."""
        return {}

    def decode(self, recorded: State | None) -> Any:
        """The recorded state, a fresh one where nothing is; ``StateError`` when it is not one of this kind."""

    def fresh(self) -> Any:
        """The state of a source of which nothing was read, to be recorded where nothing else is."""

    def encode(self, state: Any) -> dict[str, object]:
        """The complete state as JSON."""

    def embedded(self, encoded: State) -> State:
        """The part of it that goes into the log, from which a lost document is replaced."""
        return encoded

    def copied(self, state: Any) -> Mapping[str, Any]:
        """What a state provider keeps of the state: a JSON object, small whatever was read."""
        return self.encode(state)


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

    def walk(self, run: Any) -> Walk:
        """What a pass, a :class:`~tidegate.runs.pass_.Pass`, does with the source."""

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


SourceT_co = TypeVar("SourceT_co", bound=SourceSpec, covariant=True)
TrackerT_co = TypeVar("TrackerT_co", bound=StateKind, covariant=True)


@dataclass(frozen=True, slots=True)
class BoundSource(Generic[SourceT_co, TrackerT_co]):
    """A source, its table, and the tracker that knows its state.

    ``parallelism`` is how many tasks run at once, ``slots`` how many are handed to the engine at once, so that it never
    waits for the next.
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
        """Whose position this is."""
        return self.positions.site.key

    @property
    def names(self) -> tuple[str, str]:
        """The pipeline and the source, as events and reports name them."""
        return self.pipeline.name, self.source.name

    @property
    def table_uri(self) -> str:
        """Where the table is."""
        return self.pipeline.sink.table.uri

    def at_poll(self, polls: int) -> BoundSource[SourceT_co, TrackerT_co]:
        """The same source when it is polled for the ``polls``-th time."""
        return replace(self, positions=self.positions.at_poll(polls))

    def open(self, *, read_only: bool = False) -> Position:
        """The position, or an error with the way out."""
        position = self.positions.open(read_only=read_only)
        kept = self.positions.copy
        if kept is not None and kept.watermarks is not None:
            self.state_of(position)
            self.positions.check_copy(position, read_only=read_only)
        return position

    def for_edit(self) -> BoundSource[SourceT_co, TrackerT_co]:
        """The source for a person who moves its state: copies that are kept elsewhere are replaced."""
        return replace(self, positions=self.positions.overwriting_copy())

    def recorded(self) -> Mirror | None:
        """The newest position that is shown without opening the table."""
        return read_recorded(self.table_store, self.key)

    def last_commit_at(self, recorded: Mirror | None) -> datetime | None:
        """When that position was committed; None where nothing says it, as before the first commit."""
        if recorded is None or not recorded.version:
            return None
        if recorded.shown_by == "document":
            return datetime.fromisoformat(recorded.written_at)
        found = read_document(self.table_store, self.key, recorded.version, recorded.attempt)
        return None if found is None or found.document is None else datetime.fromisoformat(found.document.written_at)

    def attempts(self, position: Position) -> Attempts | None:
        """What earlier runs noted, for a source that was opened and has no position; None for any other."""
        return read_attempts(self.table_store, self.key, self.positions.site.identity) if position.first_run else None

    def clean_work(self, now: datetime) -> None:
        """Remove old work areas of this source, if that is possible now."""
        with suppress(StorageError):
            remove_old_work(self.table_store, self.key, now)

    def new_work(self) -> WorkArea:
        """A work area for rows that no commit refers to yet."""
        return new_work_area(self.key, self.pipeline.sink.table)

    @property
    def work(self) -> Location:
        """Where its work areas are."""
        return work_areas(self.key, self.pipeline.sink.table)

    def drop_work(self, area: WorkArea) -> None:
        """Remove a work area that no commit refers to, if that is possible now."""
        with suppress(StorageError):
            remove_work(self.table_store, area.directory)

    def state_of(self, position: Position) -> Any:
        """The state of an opened position; stops at one that has no such form."""
        with named_position(position):
            return self.tracker.decode(position.state)


AnySource = BoundSource[Any, Any]
"""A source of any kind."""


TrackedSource = BoundSource[Any, Tracker]
"""A source of any kind, as commands work on it."""

ColumnBound = BoundSource[ColumnSource, StateKind]
UnitBound = BoundSource[UnitSource, StateKind]
"""Sources of one kind, for modules that work on that kind; :data:`FileSource` is in ``runs.file_source``."""

BoundT = TypeVar("BoundT", bound=AnySource)


Clock = Callable[[], datetime]


@contextmanager
def named_position(position: Position) -> Iterator[None]:
    """A damaged state is told with its position; one of a newer program is told as it is."""
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


def source_named(sources: Sequence[BoundT], source: str | None) -> BoundT:
    """The one of that source name; without a name, the only one there is."""
    chosen = sources_named(sources, source)
    if len(chosen) > 1:
        known = ", ".join(each.source.name for each in chosen)
        raise ConfigError((f"pipeline {chosen[0].pipeline.name!r} has several sources; name one of them: {known}",))
    return chosen[0]


def sources_named(sources: Sequence[BoundT], source: str | None) -> tuple[BoundT, ...]:
    """Those of one source name, or all; an unknown name is an error that lists the known ones."""
    chosen = tuple(each for each in sources if source in (None, each.source.name))
    if not chosen:
        known = list(dict.fromkeys(each.source.name for each in sources))
        within = ", ".join(dict.fromkeys(repr(each.pipeline.name) for each in sources))
        told = sentence(
            f"no source {source!r} in {within}", f"allowed: {', '.join(known)}", nearest(source or "", known)
        )
        raise ConfigError((told,))
    return chosen
