"""OPEN: read the position of a source from the table, or stop and say why it cannot be trusted.

The five steps of the protocol in order: is this a table we may append to; where is the source; whose document
is that; is it still about this source and this table; what was left to do. Only "no table" or "no position
and no trace of one" is a first run; every doubt and every storage error stops.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from enum import StrEnum

from tidegate.errors import StateError
from tidegate.protocol import log_contents, notes
from tidegate.protocol.follow_ups import pay_others, refresh_mirror, write_won
from tidegate.protocol.position import Position, TableContext
from tidegate.protocol.staging import signals_of
from tidegate.protocol.table import Snapshot
from tidegate.protocol.table_checks import lane_reasons
from tidegate.protocol.winner import StateUnreadable, Winner, find_winner, way_out

_RECHECK_FROM = 50
_SAME_FILES = "the same files lie there under the same names"
_SAME = {"column": "the same rows are there", "replay": "the same rows are there"}
"""By the kind of a source, when its position is still right although its address is another."""


class Restored(StateError):
    """The table was restored since a position was committed."""


class Accept(StrEnum):
    """A stop that a person decided to pass."""

    IDENTITY = "identity"
    RESTORE = "restore"
    BLIZZARD = "blizzard"
    PENDING = "pending"


def open_position(
    site: TableContext, accept: Collection[Accept] = (), *, read_only: bool = False, snapshot: Snapshot | None = None
) -> Position:
    """The position of ``site``'s source, its debts paid; with ``read_only`` nothing is written.

    ``snapshot`` is the newest one, for whoever has it already.
    """
    pending = () if read_only or Accept.PENDING in accept else signals_of(site.store, site.key)
    snapshot = checked_snapshot(site, snapshot)
    version = position(site, snapshot)
    _check_nothing_pending(site, [signal.seq for signal in pending if signal.seq > version])
    if version == 0 and (trace := log_contents.forgotten(site.store, site.key, snapshot)):
        snapshot = checked_snapshot(site)
        version = position(site, snapshot)
        if version == 0:
            raise _forgotten(site, snapshot, trace)
    if snapshot is None or version == 0:
        return _first_run(site, snapshot, accept)
    winner = find_winner(site, version, snapshot.facts.version)
    opened = known(site, snapshot, winner, accept)
    if read_only:
        return replace(opened, unpaid=True)
    _settle(site, opened, winner, accept)
    return opened


def _check_nothing_pending(site: TableContext, pending: Sequence[int]) -> None:
    """Stop where staged units wait: a commit beside them would take their number, and they would count for nothing."""
    if pending:
        raise StateError(
            f"{site.key}: staged units wait for their commit to {site.uri}: {len(pending)}, the first for position "
            f"{pending[0]}",
            "let `tidegate commit CONFIG --once` commit them, then do this again",
        )


def position(site: TableContext, snapshot: Snapshot | None) -> int:
    """How often this source has committed, by that snapshot."""
    return 0 if snapshot is None else snapshot.transaction_version(site.key.app_id) or 0


def checked_snapshot(site: TableContext, newest: Snapshot | None = None) -> Snapshot | None:
    """OPEN 1: the newest snapshot, of a table that some lane may append to."""
    snapshot = newest or site.delta.snapshot()
    if snapshot is not None:
        lane_reasons(snapshot.facts, site.uri)
    return snapshot


def _forgotten(site: TableContext, snapshot: Snapshot | None, trace: str) -> StateError:
    found = "there is no table" if snapshot is None else f"table {snapshot.facts.table_id} knows no position of it"
    return StateError(
        f"{site.key}: position forgotten or table replaced: {found} at {site.uri}, but there is {trace}; "
        "a fresh start would read everything again",
        "put the table back, or write into a new table_uri; to really start over, remove "
        f"{site.uri}/{site.key.directory} and {site.key.mirror} together with the table",
    )


def _first_run(site: TableContext, snapshot: Snapshot | None, accept: Collection[Accept]) -> Position:
    if Accept.BLIZZARD not in accept and (trace := log_contents.blizzard(site.store, site.key, snapshot)):
        raise StateError(
            f"{site.key}: table {site.uri} was written by Blizzard (found {trace}); reading its source from "
            "the start would double every row",
            "stop Blizzard and take its position over with `tidegate adopt`, or write into a new table_uri",
        )
    state = notes.read_cold_start(site)
    facts = None if snapshot is None else snapshot.facts
    return Position(
        key=site.key,
        identity=site.identity,
        version=0,
        state=state,
        table_version=-1 if facts is None else facts.version,
        table_id=None if facts is None else facts.table_id,
        schema_json=None if facts is None else facts.schema_json,
        partition_columns=() if facts is None else facts.partition_columns,
        cold_start=state is not None,
        needs_frames=() if facts is None else lane_reasons(facts, site.uri),
    )


def known(site: TableContext, snapshot: Snapshot, winner: Winner, accept: Collection[Accept]) -> Position:
    """OPEN 4: the position that ``winner`` stands for, if it is still about this source and this table."""
    facts, document = snapshot.facts, winner.document
    _check_table_unchanged(site, snapshot, winner)
    if not winner.state:
        raise StateUnreadable(
            f"{site.key}: position {winner.parent.version} has an empty state, which no run of Tidegate writes",
            way_out(site.key),
        )
    if Accept.IDENTITY not in accept:
        _check_identity(site, winner)
    unseen = winner.unseen
    if Accept.RESTORE not in accept:
        unseen = _spanned(unseen, check_restore(site, winner.checked, facts.version))
    return Position(
        key=site.key,
        identity=site.identity,
        version=winner.parent.version,
        state=winner.state,
        table_version=facts.version,
        table_id=facts.table_id,
        schema_json=facts.schema_json,
        partition_columns=facts.partition_columns,
        committed_at=winner.committed_at,
        delta_version=winner.delta_version,
        parent=winner.parent,
        from_log=document is None,
        data_files=frozenset() if document is None else frozenset(file.path for file in document.data_files),
        debts=() if winner.paid else winner.debts,
        letters=winner.letters,
        unseen=unseen,
        warnings=(*winner.warnings, *unseen_warning(unseen), *_moved_warning(site, winner)),
        needs_frames=lane_reasons(facts, site.uri),
    )


def _settle(site: TableContext, opened: Position, winner: Winner, accept: Collection[Accept]) -> None:
    """Pay the debts; a note is renewed when that spares the next OPEN many log entries."""
    span = opened.table_version - winner.checked
    if Accept.RESTORE not in accept and (not winner.noted or span > _RECHECK_FROM):
        write_won(site, opened)
    pay_others(site, opened)
    refresh_mirror(site, opened)


def _check_table_unchanged(site: TableContext, snapshot: Snapshot, winner: Winner) -> None:
    facts = snapshot.facts
    if winner.table_id is not None and winner.table_id != facts.table_id:
        raise StateError(
            f"{site.key}: another table: position {winner.parent.version} was committed to table "
            f"{winner.table_id}, and {site.uri} is now table {facts.table_id}",
            "put the former table back, or write into a new table_uri",
        )
    newest = max(winner.committed_at, winner.delta_version)
    if newest > facts.version:
        raise StateError(
            f"{site.key}: the table went back: position {winner.parent.version} was committed at table "
            f"version {newest}, and {site.uri} is now at {facts.version}",
            "put the newer log back, or write into a new table_uri",
        )


def _check_identity(site: TableContext, winner: Winner) -> None:
    changes = () if winner.identity is None else site.identity.differences(winner.identity)
    if winner.identity is not None and winner.identity.kind != site.identity.kind:
        raise StateError(
            f"{site.key}: the source is tracked in another way than its position: {'; '.join(changes)} (path: "
            "watermarks, use_watermark: true; path-set: a set of paths, use_watermark: false)",
            "set use_watermark as it was; or give the source another name and another table, to read everything anew",
        )
    if changes:
        raise StateError(
            f"{site.key}: the source is not the one its position is about: {'; '.join(changes)}",
            f"put it back; or, if {_SAME.get(site.identity.kind, _SAME_FILES)}, go on with `tidegate recover --accept "
            "identity`; or give the source another name and another table, to read everything anew",
        )


def _moved_warning(site: TableContext, winner: Winner) -> tuple[str, ...]:
    """What to say about a source that is elsewhere than when its position was recorded, and the same all the same."""
    before = {} if winner.identity is None else winner.identity.notes
    return tuple(
        f"the {name} of the source were {before[name]} and are now {now}; its position holds on"
        for name, now in site.identity.notes.items()
        if before.get(name, now) != now
    )


def check_restore(site: TableContext, checked: int, table_version: int) -> tuple[int, int] | None:
    """Stop at a RESTORE after table version ``checked``; the span of entries that cannot be looked at any more."""
    seen = site.log.between(checked + 1, table_version + 1)
    for entry in seen:
        if entry.is_restore:
            raise Restored(
                f"{site.key}: the table was restored at version {entry.version}, after this source's last "
                "commit: rows are gone from the table, and the position still says that they are in",
                "if the rows are meant to be gone, go on with `tidegate recover --accept restore`; otherwise write "
                "into a new table_uri",
            )
    versions = {entry.version for entry in seen}
    missing = [number for number in range(checked + 1, table_version + 1) if number not in versions]
    return (missing[0], missing[-1]) if missing else None


def unseen_warning(unseen: tuple[int, int] | None) -> tuple[str, ...]:
    """What to say about log entries that were cleaned up before anyone looked for a RESTORE."""
    if unseen is None:
        return ()
    return (
        f"the log entries from version {unseen[0]} to {unseen[1]} were cleaned up: "
        "whether the table was restored in between cannot be seen",
    )


def _spanned(one: tuple[int, int] | None, two: tuple[int, int] | None) -> tuple[int, int] | None:
    """The span that holds both."""
    if one is None or two is None:
        return one or two
    return min(one[0], two[0]), max(one[1], two[1])
