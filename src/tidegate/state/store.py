"""The position store: what runs, plans and status use of the commit protocol."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from tidegate.errors import ObjectMissing
from tidegate.observe.events import Emit, ignore
from tidegate.specs import Evolution, Location
from tidegate.state import cold_start, committing, debts, opening
from tidegate.state.files import Change, State
from tidegate.state.identity import Identity, SourceKey
from tidegate.state.ladder import Ladder, Usable, climb, open_rebuilt
from tidegate.state.log import entry_path
from tidegate.state.opened import Opened
from tidegate.state.opening import Accept
from tidegate.state.pace import Pace, utc_now
from tidegate.state.site import Payer, Site
from tidegate.state.table import DeltaTablePort, Snapshot
from tidegate.state.winner import Winner

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.storage.port import ObjectStore


def open_delta(table: Location, store: ObjectStore) -> DeltaTablePort:
    """The table port for a location: the Delta library, or the twin for ``memory://``."""
    if table.uri.startswith("memory:"):
        from tidegate.state.memory import MemoryDelta

        return MemoryDelta(store)
    from tidegate.state.delta import DeltaLakeTable

    return DeltaLakeTable(table, store)


class PositionStore:
    """The position of one source in one table; ``store`` is rooted at the table.

    Not thread-safe; several processes may use the same position, and one of them wins each commit.
    """

    staged = False
    """Whether changes are left to a committer."""

    def __init__(
        self,
        key: SourceKey,
        identity: Identity,
        table: Location,
        store: ObjectStore,
        delta: DeltaTablePort | None = None,
        *,
        deadline_secs: float = 120.0,
        checkpoint_every: int = 10,
        search_commits: int = 100,
        evolution: Evolution = Evolution.MERGE,
        properties: Mapping[str, str] | None = None,
        mirror_legacy: bool = False,
        payers: Mapping[str, Payer] | None = None,
        now: Callable[[], datetime] = utc_now,
        pace: Pace | None = None,
        emit: Emit = ignore,
    ) -> None:
        self.site = Site(
            key=key,
            identity=identity,
            store=store,
            delta=delta if delta is not None else open_delta(table, store),
            pace=pace if pace is not None else Pace(deadline_secs=deadline_secs, now=now),
            evolution=evolution,
            properties=properties or {},
            checkpoint_every=checkpoint_every,
            search_commits=search_commits,
            mirror_legacy=mirror_legacy,
            payers=payers or {},
            emit=emit,
        )

    def open(self, accept: Collection[Accept] = (), *, read_only: bool = False) -> Opened:
        """OPEN: the position, or ``StateError``/``UnsupportedTable`` with the way out; ``read_only`` writes
        nothing.
        """
        return opening.open_position(self.site, accept, read_only=read_only)

    def open_at(self, snapshot: Snapshot | None, accept: Collection[Accept] = ()) -> Opened:
        """OPEN by a snapshot whose version ``is_newest``, for whoever opens several positions of one table."""
        return opening.open_position(self.site, accept, snapshot=snapshot)

    def ladder(self, usable: Usable) -> Ladder:
        """What is left of a position that ``open`` cannot read; reads only."""
        return climb(self.site, usable)

    def open_rebuilt(self, ladder: Ladder, winner: Winner, accept: Collection[Accept] = ()) -> Opened:
        """The newest position with an earlier or mirrored state under it, to be recorded anew by a commit."""
        return open_rebuilt(self.site, ladder, winner, accept)

    def position(self) -> int:
        """How often the source has committed, by a fresh snapshot."""
        return opening.position(self.site, self.site.delta.snapshot())

    def at_poll(self, polls: int) -> PositionStore:
        """The same store, whose mirror will say that the source was polled ``polls`` times."""
        other = copy.copy(self)
        other.site = replace(self.site, polls=polls)
        return other

    def paying(self, payers: Mapping[str, Payer]) -> PositionStore:
        """The same store with further payers of debts."""
        other = copy.copy(self)
        other.site = replace(self.site, payers={**self.site.payers, **payers})
        return other

    def is_current(self, opened: Opened) -> bool:
        """Whether nothing was committed to the table since ``opened``: one small request instead of an OPEN.

        Planning from a position that is not current costs work, never rows: COMMIT looks again.
        """
        return opened.table_version >= 0 and not opened.unpaid and self.is_newest(opened.table_version)

    def is_newest(self, table_version: int) -> bool:
        """Whether no version follows this one, which the table has."""
        try:
            self.site.store.head(entry_path(table_version + 1))
        except ObjectMissing:
            return True
        return False

    def commit(self, opened: Opened, change: Change) -> Opened:
        """COMMIT: the position after ``change``, to go on from. ``CommitLost`` means: open and plan again."""
        return committing.commit(self.site, opened, change)

    def idle(self, opened: Opened, state: State) -> Opened:
        """A poll found nothing: show it in the mirror. Commits nothing, and before the first commit writes
        nothing.
        """
        if opened.first_run:
            return opened
        debts.show(self.site, opened, state)
        return replace(opened, state=state)

    def cold_start(self) -> State | None:
        """The state fixed by the first filtered plan, None when there is none."""
        return cold_start.read_cold_start(self.site)

    def put_cold_start(self, state: State) -> State:
        """Fix the state of the first filtered plan unless one is fixed; returns the one that holds."""
        return cold_start.put_cold_start(self.site, state)

    def has_rows(self) -> bool:
        """Whether the table as it is now holds any file."""
        snapshot = self.site.delta.snapshot()
        return snapshot is not None and bool(snapshot.active_paths())

    def table_schema(self) -> pa.Schema | None:
        """The columns of the table as it is now, None without a table."""
        from tidegate.state.arrow import arrow_schema

        snapshot = self.site.delta.snapshot()
        return None if snapshot is None else arrow_schema(snapshot.facts.schema_json)
