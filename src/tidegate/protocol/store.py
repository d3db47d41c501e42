"""The position store: the commit protocol as runs, plans and status use it."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.errors import ConfigError, EnvironmentProblem, ObjectMissing
from tidegate.protocol import commit as commit_module
from tidegate.protocol import follow_ups
from tidegate.protocol import open as open_module
from tidegate.protocol.change import Change, State
from tidegate.protocol.delta import DeltaLakeTable
from tidegate.protocol.log import entry_path
from tidegate.protocol.memory import MemoryDelta
from tidegate.protocol.open import Accept, Winner
from tidegate.protocol.position import Payer, Position, TableContext, put_cold_start, read_cold_start
from tidegate.protocol.provider_copy import KIND, StateCopy
from tidegate.protocol.providers import (
    BaseMetadataProvider,
    CustomMetadataProvider,
    FileMetadataProvider,
    WatermarkManager,
    make_provider,
)
from tidegate.protocol.recovery import Ladder, Usable, climb, open_rebuilt
from tidegate.protocol.table import DeltaTablePort, Snapshot, arrow_schema
from tidegate.specs.columns import ProviderKind, StateSpec
from tidegate.specs.locations import Location, Options, Secret
from tidegate.storage.options import ALIASES, SCHEMES, absolute

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.storage.port import ObjectStore


def open_delta(table: Location, store: ObjectStore) -> DeltaTablePort:
    """The table port for a location: the Delta library, or the twin for ``memory://``."""
    if table.uri.startswith("memory:"):
        return MemoryDelta(store)

    return DeltaLakeTable(table, store)


class PositionStore:
    """The position of one source in one table.

    Not thread-safe; several processes may use the same position, and one of them wins each commit.
    """

    staged = False
    """Whether changes are left to a committer."""
    copy: StateCopy | None = None
    """A provider's copy of the state."""

    def __init__(self, site: TableContext) -> None:
        self.site = site

    def open(self, accept: Collection[Accept] = (), *, read_only: bool = False) -> Position:
        """OPEN: the position, or ``StateError``/``UnsupportedTable`` with a remedy; ``read_only`` writes nothing."""
        return open_module.open_position(self.site, accept, read_only=read_only)

    def open_at(self, snapshot: Snapshot | None, accept: Collection[Accept] = ()) -> Position:
        """OPEN by a snapshot whose version ``is_newest``, for callers that open several positions of one table."""
        return open_module.open_position(self.site, accept, snapshot=snapshot)

    def ladder(self, usable: Usable) -> Ladder:
        """What is left of a position that ``open`` cannot read; reads only."""
        return climb(self.site, usable)

    def open_rebuilt(self, ladder: Ladder, winner: Winner, accept: Collection[Accept] = ()) -> Position:
        """The newest position with an earlier or mirrored state, to be recorded anew by a commit."""
        return open_rebuilt(self.site, ladder, winner, accept)

    def position(self) -> int:
        """The number of commits of the source, by a fresh snapshot."""
        return self.site.position_in(self.site.delta.snapshot())

    def at_poll(self, polls: int) -> PositionStore:
        """The same store with ``polls`` as the number of polls in its mirror."""
        other = copy.copy(self)
        other.site = replace(self.site, polls=polls)
        return other

    def paying(self, payers: Mapping[str, Payer]) -> PositionStore:
        """The same store with more payers of debts."""
        other = copy.copy(self)
        other.site = replace(self.site, payers={**self.site.payers, **payers})
        return other

    def copying(self, kept: StateCopy) -> PositionStore:
        """The same store, whose commits owe a copy of the state."""
        other = self.paying({KIND: kept.payer(self.position)})
        other.site = replace(other.site, owed=kept.owed)
        other.copy = kept
        return other

    def overwriting_copy(self) -> PositionStore:
        """The same store for a person who decides: whatever the provider has is replaced."""
        return self if self.copy is None else self.copying(replace(self.copy, overwrite=True))

    def check_copy(self, opened: Position, *, read_only: bool) -> None:
        """Stop if the copy contradicts the position; a staged copy is ahead of it until the committer is done."""
        if self.copy is not None and not self.staged:
            self.copy.check(opened, self.position, read_only=read_only)

    def is_current(self, opened: Position) -> bool:
        """Whether nothing was committed to the table since ``opened``: one small request instead of an OPEN.

        Planning from an outdated position costs work, never rows: COMMIT looks again.
        """
        return opened.table_version >= 0 and not opened.unpaid and self.is_newest(opened.table_version)

    def is_newest(self, table_version: int) -> bool:
        """Whether the table has no version after this one."""
        try:
            self.site.store.head(entry_path(table_version + 1))
        except ObjectMissing:
            return True
        return False

    def commit(self, opened: Position, change: Change) -> Position:
        """COMMIT: the position after ``change``, to continue from. After ``CommitLost``, open and plan again."""
        return commit_module.commit(self.site, opened, change)

    def idle(self, opened: Position, state: State) -> Position:
        """Show in the mirror that a poll found nothing. Commits nothing, and before the first commit writes nothing."""
        if opened.first_run:
            return opened
        follow_ups.show(self.site, opened, state)
        return replace(opened, state=state)

    def cold_start(self) -> State | None:
        """The state fixed by the first filtered plan; None without one."""
        return read_cold_start(self.site)

    def put_cold_start(self, state: State) -> State:
        """Fix the state of the first filtered plan unless one is fixed; returns the fixed one."""
        return put_cold_start(self.site, state)

    def has_rows(self) -> bool:
        """Whether the table has any file now."""
        snapshot = self.site.delta.snapshot()
        return snapshot is not None and bool(snapshot.active_paths())

    def table_schema(self) -> pa.Schema | None:
        """The current columns of the table; None without a table."""
        snapshot = self.site.delta.snapshot()
        return None if snapshot is None else arrow_schema(snapshot.facts.schema_json)


def provider_of(spec: StateSpec) -> BaseMetadataProvider | None:
    """The provider that gets a copy of every state; None if only the Delta log keeps them. Sends nothing yet."""
    match spec.provider:
        case ProviderKind.DELTA:
            return None
        case ProviderKind.FILE:
            return FileMetadataProvider(Location(absolute(_address(spec).value, Path.cwd()), spec.options))
        case ProviderKind.SQL:
            return _sql(_address(spec))
        case str(name):
            return make_provider(name, spec.arguments)
        case own:
            is_ours = isinstance(own, BaseMetadataProvider) and type(own).__module__.startswith("tidegate.")
            return own if is_ours else CustomMetadataProvider(own)  # type: ignore[return-value]  # checked just before


def manager_of(spec: StateSpec) -> WatermarkManager | None:
    """The manager for the copies of runs; None if nobody keeps any."""
    if isinstance(spec.provider, WatermarkManager):
        return spec.provider
    provider = provider_of(spec)
    return None if provider is None else WatermarkManager(provider)


def metadata_provider(url: str, options: Mapping[str, str] | None = None) -> BaseMetadataProvider:
    """The provider at an address: a database for SQLAlchemy, anything else is a folder or a bucket.

    ``options`` are the storage options of a bucket. Sends nothing yet.
    """
    scheme = url.partition("://")[0].lower() if "://" in url else "file"
    kind = ProviderKind.FILE if scheme in (*SCHEMES, *ALIASES) else ProviderKind.SQL
    provider = provider_of(StateSpec(kind, Secret(url), Options(options)))
    assert provider is not None
    return provider


def _address(spec: StateSpec) -> Secret:
    if spec.url is None:
        raise ConfigError((f"state.url is missing: provider {str(spec.provider)!r} needs it",))
    return spec.url


def _sql(url: Secret) -> BaseMetadataProvider:
    try:
        from tidegate.protocol.sql_provider import SqlMetadataProvider
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("sqlalchemy"):
            raise
        raise EnvironmentProblem(
            "the state provider 'sql' needs SQLAlchemy, which is not installed", "pip install 'SQLAlchemy>=2.1'"
        ) from None
    return SqlMetadataProvider(url)
