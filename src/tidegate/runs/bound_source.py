"""One source of one pipeline with its ports opened: what a pass, a plan and a status work on.

What only one kind of source needs is in its tracker: a source store, a state provider, a dead-letter table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from tidegate.config.problems import nearest, sentence
from tidegate.core.json_shape import is_newer
from tidegate.errors import ConfigError, StateError, StorageError
from tidegate.protocol.change import State
from tidegate.protocol.documents import Mirror, read_recorded
from tidegate.protocol.documents import read as read_document
from tidegate.protocol.follow_ups import WorkArea, new_work_area, remove_old_work, remove_work, work_areas
from tidegate.protocol.identity import Identity, SourceKey
from tidegate.protocol.notes import Attempts, read_attempts
from tidegate.protocol.open import StateUnreadable, way_out
from tidegate.protocol.position import Payer, Position
from tidegate.protocol.store import PositionStore
from tidegate.specs.columns import ColumnSource
from tidegate.specs.locations import Location
from tidegate.specs.project import PipelineSpec, SourceSpec
from tidegate.specs.units import UnitSource
from tidegate.storage.port import ObjectStore

Clock = Callable[[], datetime]


class StateKind(Protocol):
    """The part of a tracker that is about recorded states; the port as a whole is in ``runs.tracker``.

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

ColumnBound = BoundSource[ColumnSource, StateKind]
UnitBound = BoundSource[UnitSource, StateKind]
"""Sources of one kind, for modules that work on that kind; :data:`FileSource` is in ``runs.file_source``."""

BoundT = TypeVar("BoundT", bound=AnySource)


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
