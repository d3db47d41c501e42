"""OPEN: read the position of a source from the table, or stop and say why it cannot be trusted.

::

    1  is this a table that some lane may append to?            ``table_checks``
    2  where is the source: the version of its ``txn``
    3  whose document is that position: the winner              the log entry, else the ``.won`` note
    4  is it still about this source and this table?            identity, table id, RESTORE
    5  what was left to do                                      ``follow_ups``

Only "no table" or "no position and no trace of one" is a first run; every doubt and every storage error stops.

The log decides who won: the entry with ``txn(app, version)`` names the attempt and the hash of its document. A ``.won``
note says where that entry is and replaces it once the log was cleaned up. If a document is missing or, even at a second
look, not the hashed one, the state in the same entry replaces it, so that nothing is read twice. If neither is left,
``StateUnreadable`` stops: a fresh start would read everything again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from tidegate.errors import StateError
from tidegate.protocol import documents, follow_ups, log
from tidegate.protocol.change import Identity, SourceKey, State
from tidegate.protocol.documents import CommitTag, DamagedCommitTag, Document, Parent, Stored, Won
from tidegate.protocol.log import LogEntry
from tidegate.protocol.position import Position, TableContext, read_cold_start
from tidegate.protocol.staging import signals_of
from tidegate.protocol.table import Snapshot
from tidegate.protocol.table_checks import lane_reasons
from tidegate.reports.wording import count

# Without it, a quiet source at a busy table reads every entry since its last commit again at each start.
_RECHECK_FROM = 50
"""A note is renewed if that saves the next OPEN this many log entries."""


class StateUnreadable(StateError):
    """The position is known but its state is not: neither a document nor the log has it."""


class Restored(StateError):
    """The table was restored since a position was committed."""


class Accept(StrEnum):
    """A stop that a person decided to pass."""

    IDENTITY = "identity"
    RESTORE = "restore"
    FOREIGN = "foreign"
    PENDING = "pending"


def open_position(
    site: TableContext, accept: Collection[Accept] = (), *, read_only: bool = False, snapshot: Snapshot | None = None
) -> Position:
    """The position of ``site``'s source, with its debts paid; with ``read_only`` nothing is written.

    ``snapshot`` is the newest one, if the caller has it already.
    """
    # Before the snapshot: a committer that finishes in between then shows in the position, not as a unit that waits.
    pending = () if read_only or Accept.PENDING in accept else signals_of(site.store, site.key)
    snapshot = check_snapshot(site, snapshot)
    version = site.position_in(snapshot)
    _check_nothing_pending(site, [signal.seq for signal in pending if signal.seq > version])
    if version == 0 and (trace := log.find_trace(site.store, site.key, snapshot)):
        # The trace may belong to a first commit that became durable after our snapshot; a second look settles it.
        snapshot = check_snapshot(site)
        version = site.position_in(snapshot)
        if version == 0:
            raise _forgotten(site, snapshot, trace)
    if snapshot is None or version == 0:
        return _first_run(site, snapshot, accept)
    winner = find_winner(site, version, snapshot.facts.version)
    opened = open_winner(site, snapshot, winner, accept)
    if read_only:
        return replace(opened, unpaid=True)
    span = opened.table_version - winner.checked
    note = Accept.RESTORE not in accept and (not winner.noted or span > _RECHECK_FROM)
    follow_ups.pay(site, opened, note=note)
    return opened


def _check_nothing_pending(site: TableContext, pending: Sequence[int]) -> None:
    """Stop if staged units wait: a commit beside them would take their number, and they would count for nothing."""
    if pending:
        raise StateError(
            f"{site.key}: staged units wait for their commit to {site.uri}: {len(pending)}, the first for position "
            f"{pending[0]}",
            "commit them with `tidegate commit CONFIG --once`, then do this again",
        )


def check_snapshot(site: TableContext, newest: Snapshot | None = None) -> Snapshot | None:
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
    writer = None if Accept.FOREIGN in accept else site.foreign
    if writer is not None and (trace := log.find_foreign(site.store, writer, snapshot)):
        raise StateError(
            f"{site.key}: table {site.uri} was written by {writer.name} (found {trace}); reading its source from "
            "the start would double every row",
            writer.remedy,
        )
    state = read_cold_start(site)
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


@dataclass(frozen=True, slots=True)
class Winner:
    """The state of a position, and how it is known.

    ``committed_at``, ``table_id`` and ``checked`` (no RESTORE up to there) are None or -1 if neither the log nor a note
    has them.
    """

    parent: Parent
    state: State
    identity: Identity | None
    document: Document | None
    table_id: str | None
    delta_version: int
    committed_at: int
    checked: int
    noted: bool
    unseen: tuple[int, int] | None = None
    warnings: tuple[str, ...] = ()
    debts: tuple[Mapping[str, Any], ...] = ()
    letters: int = 0
    paid: bool = False


@dataclass(frozen=True, slots=True)
class WinnerEvidence:
    """The objects of one position: documents and notes by attempt; None is a damaged note."""

    stored: dict[str, Stored] = field(default_factory=dict)
    notes: dict[str, Won | None] = field(default_factory=dict)

    @property
    def noted(self) -> str | None:
        """The attempt that the notes name: that of the only readable one, else of the only one."""
        readable = [attempt for attempt, note in self.notes.items() if note is not None]
        named = readable or list(self.notes)
        return named[0] if len(named) == 1 else None


def find_winner(site: TableContext, version: int, table_version: int) -> Winner:
    """The winner of position ``version`` in a table at ``table_version``; raises if it cannot be known."""
    evidence = gather_evidence(site, version)
    winner = weigh(site, version, evidence, _winning_entry(site, version, table_version, evidence))
    if winner is None:
        raise _nothing_readable(site, version, table_version, evidence)
    return winner


def weigh(site: TableContext, version: int, evidence: WinnerEvidence, entry: LogEntry | None) -> Winner | None:
    """The winner by its log entry if known, else by its note; None without either."""
    tag = None if entry is None else entry.tag_of(site.key)
    if entry is not None and tag is not None:
        return _from_tag(site, entry, tag, evidence)
    return _from_note(site, version, evidence)


def gather_evidence(site: TableContext, version: int) -> WinnerEvidence:
    evidence = WinnerEvidence()
    for name in documents.names(site.store, site.key, version, version):
        if name.ending == "won":
            evidence.notes[name.attempt] = documents.read_won(site.store, site.key, version, name.attempt)
        elif (found := documents.read(site.store, site.key, version, name.attempt)) is not None:
            evidence.stored[name.attempt] = found
    return evidence


def _winning_entry(site: TableContext, version: int, table_version: int, evidence: WinnerEvidence) -> LogEntry | None:
    """The log entry that moved the source to ``version``; None if it cannot be found any more.

    With a good note and its document there is no need to search for an entry that was cleaned up.
    """
    for attempt, note in list(evidence.notes.items()):
        found = None if note is None else site.log.entry(note.table_version)
        if found is not None and holds(site, found, version):
            return found
        if found is not None:
            # The log is right: an entry that does not move the source to this version disproves its note.
            del evidence.notes[attempt]
    if any(note is not None for note in evidence.notes.values()) and _from_note(site, version, evidence):
        return None
    bases = [item.document.delta_version for item in evidence.stored.values() if item.document is not None]
    entries = site.log.between(min(bases) + 1, table_version + 1) if bases else ()
    forward = next((found for found in entries if holds(site, found, version)), None)
    if forward is not None:
        return forward
    # No document is left to say where to begin, so from the end, and bounded: a log may have millions of entries.
    backward = site.log.backwards(table_version, site.search_commits)
    return next((found for found in backward if holds(site, found, version)), None)


def holds(site: TableContext, entry: LogEntry, version: int) -> bool:
    """Whether that log entry moved the source to ``version``."""
    tag = entry.tag_of(site.key)
    moved = entry.transactions.get(site.key.app_id) == version
    return moved and tag is not None and tag.version == version


def _from_tag(site: TableContext, entry: LogEntry, tag: CommitTag, evidence: WinnerEvidence) -> Winner:
    stored = evidence.stored.get(tag.attempt)
    if stored is not None and stored.sha256 != tag.sha256:
        # A response may have been cut short; the log's hash decides, and only a second look calls a document damaged.
        stored = documents.read(site.store, site.key, tag.version, tag.attempt)
    document = stored.document if stored is not None and stored.sha256 == tag.sha256 else None
    note = evidence.notes.get(tag.attempt)
    table_ids = (each.table_id for each in (entry, document, note) if each is not None)
    warnings: tuple[str, ...] = ()
    if document is None:
        found = "is missing" if stored is None else "is damaged"
        warnings = (
            f"document {site.key.document(tag.version, tag.attempt)} {found}; the state comes from table "
            f"version {entry.version}, without the late window, which starts empty at the watermark",
        )
    return Winner(
        parent=Parent(tag.version, tag.attempt, tag.sha256),
        state=_read_embedded_state(site, entry, tag) if document is None else document.state,
        identity=tag.identity if document is None else document.identity,
        document=document,
        table_id=next((each for each in table_ids if each is not None), None),
        delta_version=entry.version - 1 if document is None else document.delta_version,
        committed_at=entry.version,
        checked=entry.version if note is None else max(entry.version, note.checked),
        noted=note is not None,
        unseen=None if note is None else note.unseen,
        warnings=warnings,
        debts=tag.debts if document is None else document.debts,
        letters=tag.letters if document is None else document.letters,
        paid=note is not None and note.paid,
    )


def _read_embedded_state(site: TableContext, entry: LogEntry, tag: CommitTag) -> State:
    """The state in the log entry; raises if it, the last resort, is unreadable."""
    try:
        return tag.state()
    except DamagedCommitTag as error:
        raise StateUnreadable(
            f"{site.key}: the table is at position {tag.version}, but its state cannot be read: document "
            f"{site.key.document(tag.version, tag.attempt)} is missing or damaged, and {error.problem} (table "
            f"version {entry.version}); nothing was written",
            way_out(site.key),
        ) from error


def _from_note(site: TableContext, version: int, evidence: WinnerEvidence) -> Winner | None:
    """The winner by its note alone, if the log entry was cleaned up; None if that is not enough."""
    attempt = evidence.noted
    if attempt is None:
        return None
    note, stored = evidence.notes[attempt], evidence.stored.get(attempt)
    if stored is None or stored.document is None or (note is not None and stored.sha256 != note.sha256):
        return None
    return winner_of_document(stored.document, stored.sha256, note)


def winner_of_document(document: Document, sha256: str, note: Won | None = None) -> Winner:
    """The winner with a known document and an unknown log entry."""
    return Winner(
        parent=Parent(document.version, document.attempt, sha256),
        state=document.state,
        identity=document.identity,
        document=document,
        table_id=document.table_id if note is None else note.table_id,
        delta_version=document.delta_version,
        committed_at=-1 if note is None else note.table_version,
        checked=document.delta_version if note is None else note.checked,
        noted=note is not None,
        unseen=None if note is None else note.unseen,
        debts=document.debts,
        letters=document.letters,
        paid=note is not None and note.paid,
    )


def _nothing_readable(
    site: TableContext, version: int, table_version: int, evidence: WinnerEvidence
) -> StateUnreadable:
    oldest = max(0, table_version - site.search_commits + 1)
    limited = oldest > 0 and site.log.entry(oldest) is not None and site.log.entry(oldest - 1) is not None
    searched = (
        f"from version {table_version} down to {oldest} (recovery.max_commits is {site.search_commits})"
        if limited
        else f"from version {table_version} down to where the log begins"
    )
    longer = (
        f"raise recovery.max_commits above {site.search_commits}: there are older log entries; or " if limited else ""
    )
    return StateUnreadable(
        f"{site.key}: the table is at position {version}, but its state cannot be read: "
        f"{count(len(evidence.stored), 'document')} and {count(len(evidence.notes), '.won note')} for it in "
        f"{site.uri}/{site.key.directory}, none of them usable, and no log entry {searched} names the winner; "
        "nothing was written",
        f"{longer}{way_out(site.key)}",
    )


def way_out(key: SourceKey) -> str:
    """What to do about an unreadable state."""
    return (
        f"put {key.directory} back from a backup; or see with `tidegate recover` what is left of it (pipeline "
        f"{key.pipeline}, source {key.source}), and continue from there"
    )


def open_winner(site: TableContext, snapshot: Snapshot, winner: Winner, accept: Collection[Accept]) -> Position:
    """OPEN 4: the position of ``winner``, if it still belongs to this source and this table."""
    facts, document = snapshot.facts, winner.document
    _check_table_unchanged(site, snapshot, winner)
    # Taken for a first run, an empty state would read everything again.
    if not winner.state:
        raise StateUnreadable(
            f"{site.key}: position {winner.parent.version} has an empty state, which no run of Tidegate writes",
            way_out(site.key),
        )
    # The watermark is a name or value in one place: applied to another, it passes over whatever sorts below it.
    if Accept.IDENTITY not in accept:
        _check_identity(site, winner)
    unseen = winner.unseen
    overwrites: tuple[str, ...] = ()
    if Accept.RESTORE not in accept:
        seen = site.log.between(winner.checked + 1, facts.version + 1)
        unseen = _join_spans(unseen, check_restore(site, winner.checked, facts.version, seen))
        overwrites = overwrite_warnings(seen)
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
        warnings=(*winner.warnings, *unseen_warning(unseen), *overwrites, *_warn_of_moves(site, winner)),
        needs_frames=lane_reasons(facts, site.uri),
    )


def _check_table_unchanged(site: TableContext, snapshot: Snapshot, winner: Winner) -> None:
    facts = snapshot.facts
    if winner.table_id is not None and winner.table_id != facts.table_id:
        raise StateError(
            f"{site.key}: another table: position {winner.parent.version} was committed to table "
            f"{winner.table_id}, and {site.uri} is now table {facts.table_id}",
            "put the former table back, or write into a new table_uri",
        )
    # A log whose newest entries are gone (a copy, a backup) would number the next commits as the lost ones.
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
            f"{site.key}: the source is now tracked in another way than when its position was recorded: "
            f"{'; '.join(changes)}",
            "set use_watermark back, or whatever else has changed its kind; or give the source another name and "
            "another table, to read everything again",
        )
    if changes:
        raise StateError(
            f"{site.key}: the source is not the one of its position: {'; '.join(changes)}",
            "put it back; or, if the same files or rows are there under the same names, continue with `tidegate "
            "recover --accept identity`; or give the source another name and another table, to read everything again",
        )


def _warn_of_moves(site: TableContext, winner: Winner) -> tuple[str, ...]:
    """A warning about a source that moved since its position was recorded, and is still the same."""
    before = {} if winner.identity is None else winner.identity.notes
    return tuple(
        f"the {name} of the source were {before[name]} and are now {now}; its position stays valid"
        for name, now in site.identity.notes.items()
        if before.get(name, now) != now
    )


def check_restore(
    site: TableContext, checked: int, table_version: int, seen: Sequence[LogEntry] | None = None
) -> tuple[int, int] | None:
    """Stop at a RESTORE after table version ``checked``; returns the span of entries that can no longer be checked.

    ``seen`` are the entries since then, if they were read already.
    """
    seen = site.log.between(checked + 1, table_version + 1) if seen is None else seen
    for entry in seen:
        if entry.is_restore:
            raise Restored(
                f"{site.key}: the table was restored at version {entry.version}, after this source's last "
                "commit: rows are gone from the table, but the position still counts them as read",
                "if the rows should be gone, continue with `tidegate recover --accept restore`; otherwise write "
                "into a new table_uri",
            )
    versions = {entry.version for entry in seen}
    missing = [number for number in range(checked + 1, table_version + 1) if number not in versions]
    return (missing[0], missing[-1]) if missing else None


def unseen_warning(unseen: tuple[int, int] | None) -> tuple[str, ...]:
    """A warning about log entries that were cleaned up before anyone looked for a RESTORE."""
    if unseen is None:
        return ()
    return (
        f"the log entries from version {unseen[0]} to {unseen[1]} were cleaned up: "
        "so Tidegate cannot see whether the table was restored in between",
    )


def overwrite_warnings(seen: Iterable[LogEntry]) -> tuple[str, ...]:
    """A warning about each entry by which somebody else replaced or removed all rows: the position stays."""
    return tuple(
        f"version {entry.version} of the table, an overwrite ({entry.operation}) that Tidegate did not make, replaced "
        "its rows; the position stays, so what was read before is not read again"
        for entry in seen
        if entry.overwrites and entry.is_foreign
    )


def _join_spans(one: tuple[int, int] | None, two: tuple[int, int] | None) -> tuple[int, int] | None:
    """The span that contains both."""
    if one is None or two is None:
        return one or two
    return min(one[0], two[0]), max(one[1], two[1])
