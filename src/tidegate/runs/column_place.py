"""One column source with its ports opened: what a pass, a plan and a status of it work on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tidegate.column_specs import ColumnSource, WatermarkMode
from tidegate.errors import StateError
from tidegate.observe.events import Emit, ignore
from tidegate.runs.log_positions import log_positions
from tidegate.runs.place import told_where
from tidegate.specs import PipelineSpec, ProjectSpec
from tidegate.state.files import State
from tidegate.state.identity import Identity, SourceKey
from tidegate.state.opened import Opened
from tidegate.state.pace import Pace
from tidegate.state.providers.copying import KIND as COPY
from tidegate.state.providers.copying import ProviderCopy, check_copy, debt, is_same
from tidegate.state.providers.opening import provider_of
from tidegate.state.status import Recorded, read_recorded
from tidegate.state.store import PositionStore
from tidegate.storage.opening import open_store
from tidegate.storage.port import ObjectStore
from tidegate.watermarks.column_codec import decode, encode
from tidegate.watermarks.column_state import ColumnState

if TYPE_CHECKING:
    from tidegate.state.providers.base import BaseMetadataProvider

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

    def open(self, *, read_only: bool = False) -> Opened:
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

    def state_of(self, opened: Opened) -> ColumnState | None:
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
    return None if recorded is None else decode(recorded)


def encoded(state: ColumnState) -> dict[str, object]:
    """A state as a document has it."""
    return encode(state)


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
