"""One source of work units with its ports opened: what a pass, a plan and a status of it work on."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.errors import TidegateError
from tidegate.observe.events import Emit, ignore
from tidegate.runs.log_positions import log_positions
from tidegate.runs.place import told_where
from tidegate.specs import PipelineSpec, ProjectSpec
from tidegate.state.attempts import Attempts
from tidegate.state.files import State
from tidegate.state.identity import Identity, SourceKey
from tidegate.state.opened import Opened
from tidegate.state.pace import Pace
from tidegate.state.status import Recorded, read_recorded
from tidegate.state.store import PositionStore
from tidegate.storage.opening import open_store
from tidegate.storage.port import ObjectStore
from tidegate.unit_specs import UnitSource
from tidegate.watermarks.unit_codec import decode, encode
from tidegate.watermarks.unit_state import UnitState

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

    def open(self, *, read_only: bool = False) -> Opened:
        """The position."""
        return self.positions.open(read_only=read_only)

    def recorded(self) -> Recorded | None:
        """The newest position that is shown without opening the table."""
        return read_recorded(self.table_store, self.key)

    def state_of(self, opened: Opened) -> UnitState | None:
        """The recorded coverage, None on a first run; stops at a state that has no such form."""
        with told_where(opened):
            return decoded(opened.state)

    def attempted(self, attempts: Attempts | None) -> UnitState | None:
        """What earlier runs know of failures, for a source without a position; nothing of it counts as read."""
        if attempts is None or attempts.failures is None:
            return None
        try:
            found = decode(attempts.failures)
        except (TidegateError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return UnitState(zone=self.source.timezone, runs=found.runs, failures=found.failures)


def decoded(recorded: State | None) -> UnitState | None:
    """A recorded state; None where nothing is recorded."""
    return None if recorded is None else decode(recorded)


def encoded(state: UnitState) -> dict[str, object]:
    """A state as a document has it."""
    return encode(state)


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
