"""A column source whose destination is a folder of plain Parquet files: its position is that of the newest marker.

The marker's number stands where the version of a table would; a provider keeps the watermark beside it.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tidegate.column_specs import ColumnSource
from tidegate.errors import ConfigError, StateError, WatermarkError
from tidegate.observe.events import Emit, ignore
from tidegate.runs.column_place import COLUMN, ColumnPlace, encoded
from tidegate.specs import PipelineSpec, ProjectSpec
from tidegate.state.files import Change, State
from tidegate.state.identity import Identity, SourceKey
from tidegate.state.opened import Opened
from tidegate.state.opening import Accept
from tidegate.state.parquet_place import LandedPosition, ParquetDestination
from tidegate.state.providers.opening import provider_of
from tidegate.state.status import Recorded
from tidegate.state.store import PositionStore
from tidegate.storage.opening import open_store
from tidegate.storage.port import ObjectStore
from tidegate.watermarks.column_codec import decode
from tidegate.watermarks.column_state import ColumnState


class ParquetPositions(PositionStore):
    """The position of one dataflow in a folder, in the form of one in a table."""

    def __init__(
        self,
        key: SourceKey,
        identity: Identity,
        destination: ParquetDestination,
        store: ObjectStore,
        emit: Emit = ignore,
    ) -> None:
        super().__init__(key, identity, destination.location, store, emit=emit)
        self.destination = destination
        self._by_hand = False

    def open(self, accept: Collection[Accept] = (), *, read_only: bool = False) -> Opened:
        """The position, after what a killed run left is completed; ``StateError`` where the provider differs."""
        if self._by_hand or accept:
            return self.opened(self.destination.open_for_setting())
        return self.opened(self.destination.open(read_only=read_only))

    def by_hand(self) -> ParquetPositions:
        """The same for a person who moves the watermark: whatever the provider has is replaced."""
        other = copy.copy(self)
        other._by_hand = True
        return other

    def position(self) -> int:
        """The number of the newest marker of this dataflow."""
        return self.destination.open(read_only=True).number

    def commit(self, opened: Opened, change: Change) -> Opened:
        """Move the watermark alone."""
        text = decode(change.state).text()
        return self.opened(self.destination.set_watermark(landed(opened), text))

    def idle(self, opened: Opened, state: State) -> Opened:
        """There is no mirror to show it in."""
        return opened

    def opened(self, position: LandedPosition, rows: int = 0) -> Opened:
        """A position as runs, plans and status take it."""
        site = self.site
        number = -1 if position.first_run else position.number
        state = None if position.text is None else encoded(_state(site.key, position))
        return Opened(site.key, site.identity, position.number, state, number, None, None, rows=rows)


def landed(opened: Opened) -> LandedPosition:
    """The position as the destination takes it."""
    return LandedPosition(opened.version, None if opened.state is None else decode(opened.state).text())


def _state(key: SourceKey, position: LandedPosition) -> ColumnState:
    updated = datetime.fromisoformat(position.written_at) if position.written_at else None
    try:
        return ColumnState.of_text(position.text, updated)
    except WatermarkError as error:
        raise StateError(
            f"{key}: the watermark in marker {position.number} cannot be read ({error.problem}); nothing was written",
            "set it with `tidegate watermark set`",
        ) from error


@dataclass(frozen=True, slots=True)
class ParquetPlace(ColumnPlace):
    """A column source and its folder; the destination itself compares and saves the provider's copy."""

    positions: ParquetPositions

    def open(self, *, read_only: bool = False) -> Opened:
        return self.positions.open(read_only=read_only)

    def debts(self, before: ColumnState | None, after: ColumnState) -> tuple[Mapping[str, Any], ...]:
        return ()

    def moving_both(self) -> ParquetPlace:
        return replace(self, positions=self.positions.by_hand())

    def recorded(self) -> Recorded | None:
        opened = self.positions.open(read_only=True)
        if opened.state is None:
            return None
        return Recorded(opened.version, opened.state, opened.table_version, "", 0, "document")


def open_parquet_place(
    project: ProjectSpec, pipeline: PipelineSpec, source: ColumnSource, emit: Emit = ignore
) -> ParquetPlace:
    """Makes the clients; sends nothing yet."""
    key = SourceKey(pipeline.name, source.name)
    provider = provider_of(project.state)
    if provider is None:
        raise ConfigError((f"{key}: sink.format parquet needs a state provider: state: {{provider: file | sql}}",))
    store = open_store(pipeline.sink.table)
    destination = ParquetDestination(pipeline.sink.table, provider, key, store=store)
    positions = ParquetPositions(
        key, Identity(COLUMN, source.uri, None, source.notes, source.former_uri), destination, store, emit
    )
    return ParquetPlace(pipeline, source, store, positions, provider)
