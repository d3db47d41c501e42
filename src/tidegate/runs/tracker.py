"""A bound source, and the port of trackers: one kind of watermark each.

A tracker knows what its state remembers, what to read next and what follows from what was read; it has everything that
only its kind needs, such as a source store or a dead-letter table. Passes and commands work on bound sources through
these ports and know no kind: what only some kinds can do is a small protocol that a command looks for once. A new
kind is a tracker and one line in ``runs.bind``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar, runtime_checkable

from tidegate.core.files.discovery import FutureSeal, LeftOut
from tidegate.core.json_shape import is_newer
from tidegate.errors import ColumnsChanged, CommitLost, ConfigError, StateError, StorageError, TidegateError
from tidegate.protocol.change import Change, Coverage, Identity, LetterFiles, NextState, SourceKey, State
from tidegate.protocol.dead_letters import DeadLetterTable
from tidegate.protocol.documents import Mirror, read_recorded
from tidegate.protocol.documents import read as read_document
from tidegate.protocol.follow_ups import remove_old_work, work_areas
from tidegate.protocol.ledger import Ledger
from tidegate.protocol.open import StateUnreadable, way_out
from tidegate.protocol.position import Attempts, Position, read_attempts
from tidegate.protocol.store import PositionStore
from tidegate.reports.checks import Check
from tidegate.reports.plan import PlanReport
from tidegate.reports.status import FailedFile, FailedUnit, WorkProgress
from tidegate.specs.columns import ColumnSource
from tidegate.specs.locations import Location
from tidegate.specs.project import PipelineSpec, SourceSpec
from tidegate.specs.units import UnitSource
from tidegate.storage.port import ObjectInfo, ObjectStore

if TYPE_CHECKING:
    from tidegate.reports.reconcile import SourceComparison
    from tidegate.reports.watermark import StateTable, WatermarkMove
    from tidegate.runs.checks import CheckSettings


@dataclass(frozen=True, slots=True)
class Summary:
    """A state for people: the basis of status, reports, ``watermark show`` and metrics.

    ``state`` is None if only a run's work shows whether a source is active or idle. ``watermark`` is one line,
    ``value`` the whole, ``brief`` what fits behind a position in a sentence. ``remembers`` says in words what the state
    is, ``watermark_label`` what its watermark is; ``facts`` and ``tables`` are for ``watermark show``, the latter made
    only there: a state may be large. ``files`` are unfinished; ``state_files`` is the number of files in the state.
    """

    tracking: str
    state: str | None = None
    watermark: str | None = None
    value: str | None = None
    brief: str = ""
    remembers: str = ""
    watermark_label: str = "watermark"
    facts: tuple[tuple[str, str | None], ...] = ()
    tables: Callable[[], tuple[StateTable, ...]] = tuple
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
    """What waits above a state; ``behind`` is None if only a run can tell, and so is everything unless ``known``.

    Without ``complete`` there may be more. ``sealed`` is the number of old folders or files that were skipped, None if
    unknown. ``notes`` need a person's attention, ``remarks`` say what is not searched. ``pending_units`` are staged and
    wait for their commit. ``empty``: the source has no file at all. ``future_seals`` is what a wrong clock has
    sealed: nobody knows what waits there. ``left_out`` is what a filtered first run will leave out. ``remembers``
    replaces that of the summary, if the listing knows more.
    """

    files: int = 0
    bytes: int = 0
    complete: bool = False
    known: bool = True
    behind: bool | None = None
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    work_units: WorkProgress | None = None
    pending_units: int = 0
    pending_files: int = 0
    pending_seconds: float | None = None
    empty: bool = False
    sealed: int | None = None
    remembers: str = ""
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


@dataclass(frozen=True, slots=True)
class PassRules:
    """How often a pass starts over, and after which errors.

    ``in_a_row``: a commit in between resets the count, and after each loss the source is left to the winner for a
    while. ``keeps_position``: a poll may continue from the position of the last one, if nothing was committed since.
    """

    tries: int = 5
    errors: tuple[type[TidegateError], ...] = (CommitLost, ColumnsChanged)
    in_a_row: bool = False
    keeps_position: bool = False


class Walk(Protocol):
    """The work of one pass on one kind of source; kept over all attempts of the pass."""

    def go(self, position: Position) -> Position:
        """Read and commit from ``position`` on until nothing is left; returns the position reached."""


class StateKind(Protocol):
    """The part of a tracker for recorded states; records of replays have a state and no tracker."""

    __slots__ = ()

    @property
    def identity(self) -> Identity:
        """The owner of the position: a state of another kind or source never counts as its own."""

    def decode(self, recorded: State | None) -> Any:
        """Decode the recorded state, a fresh one without any; ``StateError`` if it is not of this kind."""

    def fresh(self) -> Any:
        """The state of a source that was never read, recorded if nothing else is."""

    def encode(self, state: Any) -> dict[str, object]:
        """The complete state as JSON."""


class Tracker(StateKind, Protocol):
    """One kind of watermark of one source: all that a run, ``plan``, ``status`` and ``watermark show`` need.

    It only gets states of its own kind. What only some kinds can do is in the protocols below.
    """

    __slots__ = ()

    source: Any
    """The configured source."""

    def walk(self, run: Any) -> Walk:
        """The walk of a :class:`~tidegate.runs.pass_.Pass` over the source."""

    def plan(self, source: Any, now: datetime, *, accept_new_partitions: bool = False) -> PlanReport:
        """Plan the next pass by the steps that it would take, without writing anything."""

    def summary(self, state: Any) -> Summary:
        """The state for people."""

    def backlog(self, source: Any, state: Any, version: int, now: datetime) -> Backlog:
        """What waits above ``state``, as far as known without a run."""


# A tracker that lacks one of these gets the answer of most kinds: the state refers to nothing, a pass starts over a
# few times, and commands that need more refuse the source.


@runtime_checkable
class Described(Protocol):
    """Explains itself where a command refuses the source."""

    reads: ClassVar[str]
    """What a pipeline with such a source does: ``follows columns``."""
    instead: ClassVar[Mapping[str, str]]
    """By command that does not work with this kind: what to use instead, or why there is nothing."""


@runtime_checkable
class HasPassRules(Protocol):
    """Has rules of its own for passes that another run overtook."""

    pass_rules: ClassVar[PassRules]


@runtime_checkable
class KnowsAttempts(Protocol):
    """Keeps failures of runs that committed nothing."""

    def state_after_attempts(self, attempts: Attempts | None) -> Any:
        """The state of a source without a position, from failed attempts; nothing of it counts as read."""


@runtime_checkable
class Abridged(Protocol):
    """Has states that are too large for the log of the table."""

    def abridge(self, encoded: State) -> State:
        """The part for the log, which replaces a lost document."""


@runtime_checkable
class Copied(Protocol):
    """Gives state providers less than the whole state."""

    copy_in_debt: ClassVar[bool]
    """Whether the copy is always so small that the debt of a commit has its text."""

    def make_copy(self, state: Any) -> Mapping[str, Any]:
        """The part of the state for a state provider: a JSON object."""


@runtime_checkable
class Editable(Protocol):
    """Has a watermark that a person may move."""

    def edit(self, source: Any, edit: WatermarkEdit, now: datetime, confirm: ConfirmMove) -> WatermarkMove:
        """Move the watermark if ``confirm`` agrees to the consequences; no row changes."""


@runtime_checkable
class Replayable(Protocol):
    """Can be replayed by ranges of its watermark."""

    def replays(self, source: Any, pipeline: PipelineSpec) -> AnySource:
        """The record of replays of the source in the table of ``pipeline``."""


@runtime_checkable
class Recoverable(Protocol):
    """Knows what follows an earlier state, so that less is read again after a loss."""

    def carry_forward(
        self, source: Any, state: Any, commits: Sequence[tuple[Coverage, ...]], now: datetime
    ) -> Any | None:
        """An earlier state after ``commits`` that are known to follow it; None if that is impossible."""

    def read_next(self, source: Any, state: Any, version: int, now: datetime) -> str | None:
        """What a run from ``state`` would read, in words; None if only a run can tell."""


@runtime_checkable
class InParts(Protocol):
    """Keeps parts of its state in files beside the documents."""

    def parts(self) -> Iterator[ObjectInfo]:
        """The existing files, whether or not a state refers to them."""

    def parts_of(self, recorded: State) -> Iterator[str]:
        """The paths of the files that a recorded state refers to."""

    def check_parts(self, state: Any) -> None:
        """``StateError`` if a part that the state refers to is missing or damaged."""

    def rebuild(self, source: Any, position: Position, state: Any) -> Any:
        """The state of ``position`` with all its parts written anew, from the documents of all commits."""


@runtime_checkable
class HasDeadLetters(Protocol):
    """Reads records that may be bad."""

    letters: DeadLetterTable


@runtime_checkable
class Comparable(Protocol):
    """Can be compared with what was committed."""

    def compare(self, source: Any, run: Any) -> SourceComparison:
        """List the source completely, and read what is late if ``run``, a ``ComparisonRun``, has an engine."""


@runtime_checkable
class Examinable(Protocol):
    """Has checks of its own for ``doctor``."""

    def source_checks(self, source: Any, by: CheckSettings) -> list[Check]:
        """Checks at the source; they may take as long as a server takes to answer."""

    def table_checks(self, source: Any, name: str, position: Position, state: Any) -> Iterator[Check]:
        """Checks of a position and its table."""


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
    def ledger(self) -> Ledger:
        """What each commit of the source brought in."""
        return self.positions.site.ledger

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
        return replace(self, positions=self.positions.with_copy_overwritten())

    def read_recorded(self) -> Mirror | None:
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
        # Old areas cost only space; a run must not fail over them.
        with suppress(StorageError):
            remove_old_work(self.table_store, self.key, now)

    @property
    def work(self) -> Location:
        """The folder of its work areas."""
        return work_areas(self.key, self.pipeline.sink.table)

    def state_of(self, position: Position) -> Any:
        """The state of an opened position; raises if it has another form."""
        with name_position(position):
            return self.tracker.decode(position.state)

    def decode_recorded(self, recorded: Mirror | None) -> Any:
        """The state to show: the recorded one, or what is known without one."""
        if recorded is not None or not isinstance(self.tracker, KnowsAttempts):
            return self.tracker.decode(None if recorded is None else recorded.state)
        return self.tracker.state_after_attempts(read_attempts(self.table_store, self.key, self.tracker.identity))

    def state_after_attempts(self, attempts: Attempts | None) -> Any:
        """The state of a source without a position; some kinds know what failed before there was one."""
        if isinstance(self.tracker, KnowsAttempts):
            return self.tracker.state_after_attempts(attempts)
        return self.tracker.decode(None)

    def abridge(self, encoded: State) -> State:
        """The part of an encoded state for the log, which replaces a lost document."""
        return self.tracker.abridge(encoded) if isinstance(self.tracker, Abridged) else encoded

    def record_edit(
        self,
        opened: Position,
        state: State,
        action: str,
        letters: LetterFiles | None = None,
        debts: tuple[Mapping[str, Any], ...] = (),
    ) -> Position:
        """Commit a state that a person decided on, without any rows; ``CommitLost`` if the source moved meanwhile.

        Never retried: they agreed to what follows from the position that they were shown.
        """
        following = NextState(state, self.abridge(state))
        change = Change(following, letters=letters or LetterFiles(), debts=debts, action=action)
        return self.positions.commit(opened, change)

    @property
    def pass_rules(self) -> PassRules:
        """How often a pass over this source starts over."""
        return self.tracker.pass_rules if isinstance(self.tracker, HasPassRules) else PassRules()

    @property
    def doubles(self) -> bool:
        """Whether rows that are read again are then in the table twice."""
        return not self.pipeline.sink.load.type.is_idempotent


AnySource = BoundSource[Any, Any]
"""A source of any kind."""


TrackedSource = BoundSource[Any, Tracker]
"""A source of any kind, for commands."""

ColumnBound = BoundSource[ColumnSource, StateKind]
UnitBound = BoundSource[UnitSource, StateKind]
"""Sources of one kind, for modules of that kind; :data:`FileSource` is in ``runs.file_source``."""


Clock = Callable[[], datetime]


def instead_of(tracker: StateKind, command: str, otherwise: str = "") -> str:
    """What a kind advises instead of a command that does not work with it."""
    return tracker.instead.get(command, otherwise) if isinstance(tracker, Described) else otherwise


def refuse(source: TrackedSource, command: str, otherwise: str) -> ConfigError:
    """The refusal of a command that does not work with this kind of source, in the words of its tracker."""
    reads = source.tracker.reads if isinstance(source.tracker, Described) else "has another kind of source"
    advice = instead_of(source.tracker, command, otherwise)
    return ConfigError((f"pipeline {source.pipeline.name!r} {reads}; {advice}",))


@contextmanager
def name_position(position: Position) -> Iterator[None]:
    """Name the position in errors about a damaged state; errors about a newer version stay as they are."""
    try:
        yield
    except StateError as error:
        # "Damaged" would send people to a backup when all they need is a newer program.
        if position.state is None or is_newer(position.state):
            raise
        raise StateUnreadable(
            f"{position.key}: the state of position {position.version} is damaged ({error.problem}); nothing was"
            " written",
            way_out(position.key),
        ) from error
