"""One source of one pipeline with its ports opened: what a pass, a plan and a status work on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from tidegate.config.problems import nearest, sentence
from tidegate.core.columns.state import ColumnState, decode_columns, encode_columns
from tidegate.core.files.codec import decode
from tidegate.core.files.discovery import PathListing
from tidegate.core.files.plan import Plan
from tidegate.core.files.planner import Sizing
from tidegate.core.files.state import PathState
from tidegate.core.json_shape import is_newer
from tidegate.core.units.state import UnitState, decode_units, encode_units
from tidegate.errors import ConfigError, StateError, TidegateError
from tidegate.observe.events import Emit, ignore
from tidegate.protocol.change import State
from tidegate.protocol.dead_letters import KIND, DeadLetterTable
from tidegate.protocol.documents import KIND as WORK
from tidegate.protocol.identity import Identity, SourceKey
from tidegate.protocol.mirror import Recorded, read_mirror, read_recorded
from tidegate.protocol.notes import KIND as SCHEMA
from tidegate.protocol.notes import Attempts, InferredSchema
from tidegate.protocol.path_segments import RememberedPaths
from tidegate.protocol.position import Pace, Position
from tidegate.protocol.providers.copy import KIND as COPY
from tidegate.protocol.providers.copy import ProviderCopy, check_copy, debt, is_same
from tidegate.protocol.providers.registry import provider_of
from tidegate.protocol.store import PositionStore, open_delta
from tidegate.protocol.winner import StateUnreadable, way_out
from tidegate.protocol.work_areas import WorkRemover
from tidegate.runs.file_trackers import PathTracker, SetTracker
from tidegate.runs.tracker import SourceState, Tracker
from tidegate.specs.columns import ColumnSource, WatermarkMode
from tidegate.specs.project import PathSource, PipelineSpec, ProjectSpec, Tracking
from tidegate.specs.units import UnitSource
from tidegate.storage.port import ObjectStore
from tidegate.storage.stores import kept_apart, open_store, tables_of

if TYPE_CHECKING:
    from tidegate.protocol.providers.base import BaseMetadataProvider


@dataclass(slots=True)
class Polls:
    """The polls of the sources of one run."""

    _counted: dict[SourceKey, int] = field(default_factory=dict)

    def next(self, store: ObjectStore, key: SourceKey) -> int:
        """The number of the poll that begins now; ``store`` is that of the table."""
        if key not in self._counted:
            shown = read_mirror(store, key)
            self._counted[key] = 0 if shown is None else shown.polls
        self._counted[key] += 1
        return self._counted[key]


def log_positions(
    project: ProjectSpec,
    pipeline: PipelineSpec,
    source: str,
    identity: Identity,
    table_store: ObjectStore,
    emit: Emit,
    pace: Pace | None,
) -> PositionStore:
    """For a source whose rows go through work areas; sends nothing yet."""
    return PositionStore(
        SourceKey(pipeline.name, source),
        identity,
        pipeline.sink.table,
        table_store,
        checkpoint_every=pipeline.sink.delta_checkpoint_interval,
        search_commits=project.recovery_max_commits,
        evolution=pipeline.schema.evolution,
        properties=pipeline.sink.table_properties,
        payers={WORK: WorkRemover(table_store).pay},
        pace=pace or Pace(deadline_secs=project.commit_deadline_secs),
        emit=emit,
    )


COLUMN = "column"
"""What the identity of a position calls it."""


@dataclass(frozen=True, slots=True)
class ColumnPlace:
    """A column source, its table, and where its watermark is kept; ``provider`` has a copy of it, if there is one."""

    pipeline: PipelineSpec
    source: ColumnSource
    table_store: ObjectStore
    positions: PositionStore
    provider: BaseMetadataProvider | None

    @property
    def key(self) -> SourceKey:
        """Whose position this is; as text, what providers call the dataflow."""
        return self.positions.site.key

    def at_poll(self, polls: int) -> ColumnPlace:
        """The same place when it is polled for the ``polls``-th time."""
        return replace(self, positions=self.positions.at_poll(polls))

    def open(self, *, read_only: bool = False) -> Position:
        """The position; stops where the provider's copy is not the log's."""
        opened = self.positions.open(read_only=read_only)
        state = self.state_of(opened)
        text = None if state is None else state.text()
        has_moved = lambda: self.positions.position() > opened.version  # noqa: E731
        check_copy(self.provider, str(self.key), text, moved=has_moved, read_only=read_only)
        return opened

    def recorded(self) -> Recorded | None:
        """The newest position that is shown without opening the table."""
        return read_recorded(self.table_store, self.key)

    def state_of(self, opened: Position) -> ColumnState | None:
        """The recorded watermark, None on a first run; stops at a state that has no such form."""
        with told_where(opened):
            return decoded(opened.state)

    def debts(self, before: ColumnState | None, after: ColumnState) -> tuple[Mapping[str, Any], ...]:
        """What a commit owes that moves the watermark."""
        if self.provider is None:
            return ()
        return (debt(str(self.key), after.text(), None if before is None else before.text()),)

    def has_same_copy(self, state: ColumnState | None) -> bool:
        """Whether the provider, if there is one, has this watermark; what it has may be no watermark at all."""
        if self.provider is None:
            return True
        found = self.provider.get_watermark(str(self.key))
        try:
            return is_same(found, None if state is None else state.text())
        except StateError:
            return False

    def moving_both(self) -> ColumnPlace:
        """The same place for a person who moves the watermark: whatever the provider has is replaced."""
        pay = ProviderCopy(self.provider, self.positions.position, overwrite=True).pay
        return replace(self, positions=self.positions.paying({COPY: pay}))


def decoded(recorded: State | None) -> ColumnState | None:
    """A recorded state; None where nothing is recorded."""
    return None if recorded is None else decode_columns(recorded)


def encoded(state: ColumnState) -> dict[str, object]:
    """A state as a document has it."""
    return encode_columns(state)


def open_column_place(
    project: ProjectSpec,
    pipeline: PipelineSpec,
    source: ColumnSource,
    emit: Emit = ignore,
    pace: Pace | None = None,
) -> ColumnPlace:
    """Makes the clients; sends nothing yet."""
    table_store = open_store(pipeline.sink.table)
    provider = provider_of(project.state)
    identity = Identity(COLUMN, source.uri, _cursor(source), source.notes, source.former_uri)
    positions = log_positions(project, pipeline, source.name, identity, table_store, emit, pace)
    positions = positions.paying({COPY: ProviderCopy(provider, positions.position).pay})
    return ColumnPlace(pipeline, source, table_store, positions, provider)


def _cursor(source: ColumnSource) -> str | None:
    """The columns of a lexicographic cursor, in order: in another order, or each by itself, its values mean nothing."""
    return f"tuple: {', '.join(source.watermark_columns)}" if source.mode is WatermarkMode.TUPLE else None


UNIT = "unit"
"""What the identity of a position calls it."""


@dataclass(frozen=True, slots=True)
class UnitPlace:
    """A source of work units, its table, and where its coverage is kept."""

    pipeline: PipelineSpec
    source: UnitSource
    table_store: ObjectStore
    positions: PositionStore

    @property
    def key(self) -> SourceKey:
        """Whose position this is."""
        return self.positions.site.key

    def at_poll(self, polls: int) -> UnitPlace:
        """The same place when it is polled for the ``polls``-th time."""
        return replace(self, positions=self.positions.at_poll(polls))

    def open(self, *, read_only: bool = False) -> Position:
        """The position."""
        return self.positions.open(read_only=read_only)

    def recorded(self) -> Recorded | None:
        """The newest position that is shown without opening the table."""
        return read_recorded(self.table_store, self.key)

    def state_of(self, opened: Position) -> UnitState | None:
        """The recorded coverage, None on a first run; stops at a state that has no such form."""
        with told_where(opened):
            return decoded_units(opened.state)

    def attempted(self, attempts: Attempts | None) -> UnitState | None:
        """What earlier runs know of failures, for a source without a position; nothing of it counts as read."""
        if attempts is None or attempts.failures is None:
            return None
        try:
            found = decode_units(attempts.failures)
        except (TidegateError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return UnitState(zone=self.source.timezone, runs=found.runs, failures=found.failures)


def decoded_units(recorded: State | None) -> UnitState | None:
    """A recorded state; None where nothing is recorded."""
    return None if recorded is None else decode_units(recorded)


def encoded_units(state: UnitState) -> dict[str, object]:
    """A state as a document has it."""
    return encode_units(state)


def open_unit_place(
    project: ProjectSpec,
    pipeline: PipelineSpec,
    source: UnitSource,
    emit: Emit = ignore,
    pace: Pace | None = None,
) -> UnitPlace:
    """Makes the clients; sends nothing yet."""
    table_store = open_store(pipeline.sink.table)
    identity = Identity(UNIT, source.uri, None, source.rows.notes, source.rows.former_uri)
    positions = log_positions(project, pipeline, source.name, identity, table_store, emit, pace)
    return UnitPlace(pipeline, source, table_store, positions)


FILES_PER_PLAN = 100_000
UNIT_BYTES = 64 * 1024 * 1024

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The time of day, aware."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Place:
    """A source, its table, and the stores of both."""

    pipeline: PipelineSpec
    source: PathSource
    source_store: ObjectStore
    table_store: ObjectStore
    positions: PositionStore
    parallelism: int
    letters: DeadLetterTable
    tracker: Tracker

    @property
    def key(self) -> SourceKey:
        """Whose position this is."""
        return self.positions.site.key

    def at_poll(self, polls: int) -> Place:
        """The same place when it is polled for the ``polls``-th time."""
        return replace(self, positions=self.positions.at_poll(polls))

    def state_of(self, recorded: State | None) -> SourceState:
        """The recorded state of the source; a fresh one on a first run."""
        state: SourceState = self.tracker.decode(recorded)
        return state

    def opened_state(self, opened: Position) -> SourceState:
        """The same of an opened position; stops at one that has no such form."""
        with told_where(opened):
            return self.state_of(opened.state)

    def discover(self, state: SourceState, now: datetime, polls: int, limit: int = FILES_PER_PLAN) -> PathListing:
        """What is there that is not known as read; reads only, and fails as a whole."""
        return self.tracker.discover(state, now, limit=limit, polls=polls)

    def plan(self, state: SourceState, version: int, listing: PathListing, now: datetime) -> Plan:
        """What to read of it."""
        sizing = Sizing(UNIT_BYTES, self.source.interval_files, self.parallelism)
        return self.tracker.plan(state, version, listing, now, sizing)


@contextmanager
def told_where(opened: Position) -> Iterator[None]:
    """A state that has no such form is told with its position; one of a newer program is told as it is."""
    try:
        yield
    except StateError as error:
        if opened.state is None or is_newer(opened.state):
            raise
        raise StateUnreadable(
            f"{opened.key}: the state of position {opened.version} is damaged ({error.problem}); nothing was written",
            way_out(opened.key),
        ) from error


def open_place(
    project: ProjectSpec,
    pipeline: PipelineSpec,
    source: PathSource,
    parallelism: int,
    emit: Emit = ignore,
    pace: Pace | None = None,
) -> Place:
    """Makes the clients; sends nothing yet. ``pace`` is how commits spend time, if not as the project says."""
    key = SourceKey(pipeline.name, source.name)
    source = kept_apart(source, tables_of(project))
    source_store, table_store = open_store(source.location), open_store(pipeline.sink.table)
    tracker = _tracker(key, source, source_store, table_store)
    letter_store = open_store(pipeline.dead_letters)
    pace = pace or Pace(deadline_secs=project.commit_deadline_secs)
    letters = DeadLetterTable(
        letter_store,
        open_delta(pipeline.dead_letters, letter_store),
        pace,
        checkpoint_every=pipeline.sink.delta_checkpoint_interval,
        emit=emit,
    )
    positions = PositionStore(
        key,
        Identity(tracker.kind, source.location.uri, source.pattern),
        pipeline.sink.table,
        table_store,
        checkpoint_every=pipeline.sink.delta_checkpoint_interval,
        search_commits=project.recovery_max_commits,
        evolution=pipeline.schema.evolution,
        properties=pipeline.sink.table_properties,
        mirror_legacy=source.mirror_legacy,
        payers={
            KIND: letters.pay,
            WORK: WorkRemover(table_store).pay,
            SCHEMA: InferredSchema(table_store, pipeline.name).pay,
        },
        pace=pace,
        emit=emit,
    )
    return Place(pipeline, source, source_store, table_store, positions, parallelism, letters, tracker)


def _tracker(key: SourceKey, source: PathSource, source_store: ObjectStore, table_store: ObjectStore) -> Tracker:
    match source.tracking:
        case Tracking.WATERMARK:
            return PathTracker(key.pipeline, source, source_store)
        case Tracking.SET:
            return SetTracker(key.pipeline, source, source_store, RememberedPaths(table_store, key))


def watermarks_of(opened: Position) -> PathState:
    """The recorded watermarks of an opened position, fresh ones on a first run; ``StateError`` for a set's state."""
    return PathState() if opened.state is None else decode(opened.state)


AnyPlace = TypeVar("AnyPlace", bound=Place | ColumnPlace | UnitPlace)


def place_named(places: Sequence[Place], source: str | None) -> Place:
    """The one place of that source name; without a name, the only one there is."""
    chosen = places_named(places, source)
    if len(chosen) > 1:
        known = ", ".join(place.source.name for place in chosen)
        raise ConfigError((f"pipeline {chosen[0].pipeline.name!r} has several sources; name one of them: {known}",))
    return chosen[0]


def places_named(places: Sequence[AnyPlace], source: str | None) -> tuple[AnyPlace, ...]:
    """Those of one source name, or all; an unknown name is an error that lists the known ones."""
    chosen = tuple(place for place in places if source in (None, place.source.name))
    if not chosen:
        known = list(dict.fromkeys(place.source.name for place in places))
        within = ", ".join(dict.fromkeys(repr(place.pipeline.name) for place in places))
        told = sentence(
            f"no source {source!r} in {within}", f"allowed: {', '.join(known)}", nearest(source or "", known)
        )
        raise ConfigError((told,))
    return chosen
