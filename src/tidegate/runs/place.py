"""One source of one pipeline with its ports opened: what a pass, a plan and a status work on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TypeVar

from tidegate.config.problems import nearest, sentence
from tidegate.errors import ConfigError, StateError
from tidegate.observe.events import Emit, ignore
from tidegate.planning.discovery import PathListing
from tidegate.planning.grouping import Sizing
from tidegate.planning.plan import Plan
from tidegate.runs.column_place import ColumnPlace
from tidegate.runs.path_tracking import PathTracker
from tidegate.runs.set_tracking import SetTracker
from tidegate.runs.tracking import SourceState, Tracker
from tidegate.runs.unit_place import UnitPlace
from tidegate.specs import PathSource, PipelineSpec, ProjectSpec, Tracking
from tidegate.state.dead_letters import KIND, DeadLetterTable
from tidegate.state.files import State
from tidegate.state.identity import Identity, SourceKey
from tidegate.state.inferred_schema import KIND as SCHEMA
from tidegate.state.inferred_schema import InferredSchema
from tidegate.state.opened import Opened
from tidegate.state.pace import Pace
from tidegate.state.remembered import RememberedPaths
from tidegate.state.store import PositionStore, open_delta
from tidegate.state.winner import StateUnreadable, way_out
from tidegate.state.work_areas import WorkRemover
from tidegate.state.written_files import KIND as WORK
from tidegate.storage.opening import open_store
from tidegate.storage.overlaps import kept_apart, tables_of
from tidegate.storage.port import ObjectStore
from tidegate.watermarks.codec import decode
from tidegate.watermarks.json_shape import is_newer
from tidegate.watermarks.path_state import PathState

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

    def opened_state(self, opened: Opened) -> SourceState:
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
def told_where(opened: Opened) -> Iterator[None]:
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


def watermarks_of(opened: Opened) -> PathState:
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
