"""One source of one pipeline with its ports opened: what a pass, a plan and a status work on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from tidegate.observe.events import Emit, ignore
from tidegate.planning.discovery import PathListing
from tidegate.planning.grouping import Sizing
from tidegate.planning.path_planner import plan_paths
from tidegate.planning.plan import Plan
from tidegate.sources.files.discovery import discover
from tidegate.specs import PathSource, PipelineSpec, ProjectSpec
from tidegate.state.identity import Identity, SourceKey
from tidegate.state.opened import Opened
from tidegate.state.pace import Pace
from tidegate.state.store import PositionStore
from tidegate.storage.opening import open_store
from tidegate.storage.port import ObjectStore
from tidegate.watermarks.codec import decode
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

    @property
    def key(self) -> SourceKey:
        """Whose position this is."""
        return self.positions.site.key

    def at_poll(self, polls: int) -> Place:
        """The same place when it is polled for the ``polls``-th time."""
        return replace(self, positions=self.positions.at_poll(polls))

    def discover(self, state: PathState, now: datetime, polls: int, limit: int = FILES_PER_PLAN) -> PathListing:
        """What is there above the watermark; reads only, and fails as a whole."""
        return discover(self.source_store, self.source, state, now, limit=limit, poll_count=polls)

    def plan(self, state: PathState, version: int, listing: PathListing, now: datetime) -> Plan:
        """What to read of it."""
        sizing = Sizing(UNIT_BYTES, self.source.interval_files, self.parallelism)
        return plan_paths(self.pipeline.name, self.source, state, version, listing, now, sizing=sizing)


def open_place(
    project: ProjectSpec,
    pipeline: PipelineSpec,
    source: PathSource,
    parallelism: int,
    emit: Emit = ignore,
    pace: Pace | None = None,
) -> Place:
    """Makes the clients; sends nothing yet. ``pace`` is how commits spend time, if not as the project says."""
    table_store = open_store(pipeline.sink.table)
    positions = PositionStore(
        SourceKey(pipeline.name, source.name),
        Identity("path", source.location.uri, source.pattern),
        pipeline.sink.table,
        table_store,
        deadline_secs=project.commit_deadline_secs,
        checkpoint_every=pipeline.sink.delta_checkpoint_interval,
        search_commits=project.recovery_max_commits,
        evolution=pipeline.schema.evolution,
        mirror_legacy=source.mirror_legacy,
        pace=pace,
        emit=emit,
    )
    return Place(pipeline, source, open_store(source.location), table_store, positions, parallelism)


def state_of(opened: Opened) -> PathState:
    """The recorded state of an opened position; a fresh one on a first run."""
    return PathState() if opened.state is None else decode(opened.state)
