"""Fences: an empty commit for everybody who writes into a table, so that nobody who slept can commit afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tidegate.errors import CommitLost, TidegateError
from tidegate.failpoints import failpoint
from tidegate.runs.column_place import ColumnPlace, encoded
from tidegate.runs.place import Place
from tidegate.runs.replay_record import replay_positions
from tidegate.runs.unit_place import UnitPlace
from tidegate.runs.unit_place import encoded as encoded_units
from tidegate.state.files import Change
from tidegate.state.identity import SourceKey
from tidegate.state.opened import Opened
from tidegate.state.pending import COMMITTER
from tidegate.state.references import sources_of
from tidegate.state.store import PositionStore
from tidegate.storage.port import ObjectStore
from tidegate.watermarks.column_state import ColumnState
from tidegate.watermarks.replay_state import ReplayState, encode
from tidegate.watermarks.unit_state import UnitState

TRIES_AGAINST_OTHERS = 20

NO_REPLAY = ReplayState("", 0, 1, finished=frozenset({0}))
"""A record that is finished, of nothing: whatever is replayed next begins anew."""


@dataclass(frozen=True, slots=True)
class ReplayPlace:
    """Replays of a column source, which have a position of their own in the table that they write."""

    positions: PositionStore
    table_store: ObjectStore

    @property
    def key(self) -> SourceKey:
        """Whose position this is."""
        return self.positions.site.key


OtherPlace = ColumnPlace | UnitPlace
"""A source that is no folder of files."""

Writer = Place | OtherPlace | ReplayPlace


def replays_in(table: Writer, columns: Sequence[ColumnPlace]) -> list[ReplayPlace]:
    """The replays of ``columns`` that have, or tried to make, a position in this table."""
    written = sources_of(table.table_store)
    assert not isinstance(table, ReplayPlace)
    found = (replay_positions(each, table.pipeline) for each in columns)
    return [ReplayPlace(each, table.table_store) for each in found if each.site.key in written]


def fence(writers: Sequence[Writer]) -> datetime:
    """An empty commit for every writer; the store's time of the first of them.

    Whoever read the position of a source before that can commit nothing any more, neither now nor when it wakes up.
    """
    return min(_fence(writer) for writer in writers)


def _fence(writer: Writer) -> datetime:
    for attempt in range(TRIES_AGAINST_OTHERS):
        opened = writer.positions.open()
        try:
            after = writer.positions.commit(opened, _nothing(writer, opened))
        except CommitLost:
            if attempt + 1 == TRIES_AGAINST_OTHERS:
                raise
            continue
        assert after.parent is not None
        failpoint("runs.fence.after")
        return writer.table_store.head(writer.key.document(after.version, after.parent.attempt)).modified
    raise AssertionError("unreachable")


def _nothing(writer: Writer, opened: Opened) -> Change:
    """A change that leaves everything as it is."""
    match writer:
        case Place():
            state = dict(opened.state or writer.tracker.encode(writer.opened_state(opened)))
            return Change(state=state, embedded=writer.tracker.embedded(state), action="reconcile")
        case ColumnPlace():
            before = writer.state_of(opened)
            after = before or ColumnState()
            debts = writer.debts(None, after) if before is None else ()
            return Change(state=encoded(after), embedded=encoded(after), debts=debts, action="reconcile")
        case UnitPlace():
            known = encoded_units(writer.state_of(opened) or UnitState(zone=writer.source.timezone))
            return Change(state=known, embedded=known, action="reconcile")
        case ReplayPlace():
            record = opened.state or encode(NO_REPLAY)
            return Change(state=record, embedded=record, action="reconcile")


def check_all_known(writers: Sequence[Writer], uri: str) -> None:
    """Stop if the table has positions of sources that are not among ``writers``: they cannot be fenced from here."""
    strangers = sources_of(writers[0].table_store) - {COMMITTER, *(each.key for each in writers)}
    if strangers:
        named = ", ".join(sorted(map(str, strangers)))
        raise TidegateError(
            f"{uri} is also written by {named}, which this configuration does not have: "
            "they cannot be fenced, so their unfinished work could be taken for orphans; nothing was removed",
            "clean with a configuration that has all sources of the table; for a source that is gone for good, add it "
            "again for this once",
        )
