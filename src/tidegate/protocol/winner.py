"""OPEN, step 3: which document the position stands for.

Every commit leaves a note, and each document names the winner that it builds on; either is enough. Documents of
attempts that lost are never taken, and a position that nothing tells about is told as that.

The log decides: the entry that holds ``txn(app, version)`` names the attempt and the hash of its document. A
``.won`` note says where that entry is and stands in for it once the log was cleaned up. A document that is
missing or, also at a second look, not the one that was hashed is replaced by the state in the same entry, so that
nothing is read twice. Where neither is left, ``StateUnreadable`` stops: a fresh start would read everything again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidegate.errors import StateError
from tidegate.observe.wording import count
from tidegate.protocol import documents
from tidegate.protocol.change import State
from tidegate.protocol.documents import CommitTag, DamagedCommitTag, Document, Parent, Stored, Won
from tidegate.protocol.identity import Identity, SourceKey
from tidegate.protocol.ledger_blocks import LedgerEntry, from_document, gap
from tidegate.protocol.log import LogEntry
from tidegate.protocol.position import TableContext

if TYPE_CHECKING:
    from tidegate.storage.port import ObjectStore


@dataclass(frozen=True, slots=True)
class ChainLink:
    """The winner of a position; ``attempt`` is None when nothing tells it, and ``reason`` then says why.

    ``sha256`` is None where only a note names the attempt.
    """

    version: int
    attempt: str | None
    sha256: str | None = None
    noted: bool = False
    reason: str = ""


@dataclass(slots=True)
class _Found:
    """What lies there for one position: attempts with a document, and attempts with a note."""

    version: int
    attempts: set[str] = field(default_factory=set)
    notes: set[str] = field(default_factory=set)


def tell(
    store: ObjectStore, key: SourceKey, first: int, last: int | None = None, newest: Parent | None = None
) -> Iterator[ChainLink]:
    """The winners of the positions from ``first`` to ``last``, ascending.

    ``newest`` is the position that OPEN found. Without it, what lies above the newest note is left out, since
    nothing tells whether it was committed. Keeps in memory only the names of consecutive positions without a note.
    """
    waiting: list[_Found] = []
    for found in _positions(store, key, first, None if newest is None else newest.version):
        winner = _known(found, newest)
        if winner is None:
            waiting.append(found)
            continue
        for told in (*_by_parents(store, key, waiting, winner), winner):
            if last is None or told.version <= last:
                yield told
        if last is not None and winner.version >= last:
            return
        waiting = []


def _positions(store: ObjectStore, key: SourceKey, first: int, last: int | None) -> Iterator[_Found]:
    """Every position from ``first`` to ``last``, without ``last`` to the newest with an object, in order."""
    found = _Found(first)
    for name in documents.names(store, key, first, last):
        while found.version < name.version:
            yield found
            found = _Found(found.version + 1)
        (found.notes if name.ending == "won" else found.attempts).add(name.attempt)
    while last is not None and found.version < last:
        yield found
        found = _Found(found.version + 1)
    if last is None or found.version == last:
        yield found


def _known(found: _Found, newest: Parent | None) -> ChainLink | None:
    if newest is not None and found.version == newest.version:
        return ChainLink(found.version, newest.attempt, newest.sha256, newest.attempt in found.notes)
    if len(found.notes) == 1:
        return ChainLink(found.version, next(iter(found.notes)), noted=True)
    return None


def _by_parents(store: ObjectStore, key: SourceKey, waiting: Sequence[_Found], winner: ChainLink) -> list[ChainLink]:
    """The winners of positions without a note, from ``winner`` above them downwards; given back ascending."""
    told: list[ChainLink] = []
    above = _document(store, key, winner) if waiting else None
    for found in reversed(waiting):
        if above is None:
            told.append(ChainLink(found.version, None, reason=_nothing_tells(found)))
        elif above.parent is not None and above.parent.version == found.version:
            parent = above.parent
            told.append(ChainLink(found.version, parent.attempt, parent.sha256, parent.attempt in found.notes))
            above = _document(store, key, told[-1])
    return told[::-1]


def _nothing_tells(found: _Found) -> str:
    if not found.attempts and not found.notes:
        return "its document is missing"
    if len(found.notes) > 1:
        return f"{len(found.notes)} attempts are noted as its winner"
    attempts = len(found.attempts)
    return f"{attempts} {'attempt is' if attempts == 1 else 'attempts are'} there, and nothing tells which one won"


def _document(store: ObjectStore, key: SourceKey, told: ChainLink) -> Document | None:
    """The winner's document, None when it is missing or not the one that was committed."""
    stored = None if told.attempt is None else documents.read(store, key, told.version, told.attempt)
    if stored is None:
        return None
    sha256 = _expected(told, _note(store, key, told))
    return stored.document if sha256 in (None, stored.sha256) else None


def _note(store: ObjectStore, key: SourceKey, told: ChainLink) -> Won | None:
    if told.attempt is None or not told.noted:
        return None
    return documents.read_won(store, key, told.version, told.attempt)


def _expected(told: ChainLink, note: Won | None) -> str | None:
    """The hash that the winner's document must have, None when only the name of a damaged note tells it."""
    return told.sha256 or (None if note is None else note.sha256)


def entry_of(store: ObjectStore, key: SourceKey, told: ChainLink) -> LedgerEntry:
    """What a winner brought, from its document; a gap when that is missing or damaged."""
    if told.attempt is None:
        return gap(told.version, told.reason)
    path = key.document(told.version, told.attempt)
    note = _note(store, key, told)
    sha256 = _expected(told, note)
    stored = documents.read(store, key, told.version, told.attempt)
    if stored is None:
        return gap(told.version, f"document {path} is missing", told.attempt, sha256)
    if stored.document is None or sha256 not in (None, stored.sha256):
        return gap(told.version, f"document {path} is damaged", told.attempt, sha256)
    try:
        return from_document(stored.document, stored.sha256, note)
    except ValueError:
        return gap(told.version, f"document {path} holds no readable time", told.attempt, sha256)


class StateUnreadable(StateError):
    """The position is known and its state is not: neither a document nor the log gives it."""


@dataclass(frozen=True, slots=True)
class Winner:
    """The state of a position, and how it is known.

    ``committed_at``, ``table_id`` and ``checked`` (no RESTORE up to there) are None or -1 where neither the
    log nor a note says them.
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
    """What is there for one position: documents, and notes, by attempt; None is a note that is damaged."""

    stored: dict[str, Stored] = field(default_factory=dict)
    notes: dict[str, Won | None] = field(default_factory=dict)

    @property
    def noted(self) -> str | None:
        """The attempt that the notes name: that of the only readable one, else of the only one."""
        readable = [attempt for attempt, note in self.notes.items() if note is not None]
        named = readable or list(self.notes)
        return named[0] if len(named) == 1 else None


def find_winner(site: TableContext, version: int, table_version: int) -> Winner:
    """The winner of position ``version`` in a table at ``table_version``; stops when nothing tells."""
    evidence = gather(site, version)
    winner = weighed(site, version, evidence, _entry(site, version, table_version, evidence))
    if winner is None:
        raise _nothing_readable(site, version, table_version, evidence)
    return winner


def weighed(site: TableContext, version: int, evidence: WinnerEvidence, entry: LogEntry | None) -> Winner | None:
    """The winner by its log entry where that is known, else by its note; None when neither tells."""
    mark = None if entry is None else entry.mark_of(site.key)
    if entry is not None and mark is not None:
        return _from_mark(site, entry, mark, evidence)
    return _from_note(site, version, evidence)


def gather(site: TableContext, version: int) -> WinnerEvidence:
    """The documents and notes of one position."""
    evidence = WinnerEvidence()
    for name in documents.names(site.store, site.key, version, version):
        if name.ending == "won":
            evidence.notes[name.attempt] = documents.read_won(site.store, site.key, version, name.attempt)
        elif (found := documents.read(site.store, site.key, version, name.attempt)) is not None:
            evidence.stored[name.attempt] = found
    return evidence


def _entry(site: TableContext, version: int, table_version: int, evidence: WinnerEvidence) -> LogEntry | None:
    """The log entry that moved the source to ``version``, None when it cannot be found any more.

    With a good note and its document there is no need to search for an entry that was cleaned up.
    """
    for attempt, note in list(evidence.notes.items()):
        found = None if note is None else site.log.entry(note.table_version)
        if found is not None and holds(site, found, version):
            return found
        if found is not None:
            del evidence.notes[attempt]
    if any(note is not None for note in evidence.notes.values()) and _from_note(site, version, evidence):
        return None
    bases = [item.document.delta_version for item in evidence.stored.values() if item.document is not None]
    entries = site.log.between(min(bases) + 1, table_version + 1) if bases else ()
    forward = next((found for found in entries if holds(site, found, version)), None)
    if forward is not None:
        return forward
    backward = site.log.backwards(table_version, site.search_commits)
    return next((found for found in backward if holds(site, found, version)), None)


def holds(site: TableContext, entry: LogEntry, version: int) -> bool:
    """Whether that log entry moved the source to ``version``."""
    mark = entry.mark_of(site.key)
    moved = entry.transactions.get(site.key.app_id) == version
    return moved and mark is not None and mark.version == version


def _from_mark(site: TableContext, entry: LogEntry, mark: CommitTag, evidence: WinnerEvidence) -> Winner:
    stored = evidence.stored.get(mark.attempt)
    if stored is not None and stored.sha256 != mark.sha256:
        stored = documents.read(site.store, site.key, mark.version, mark.attempt)
    document = stored.document if stored is not None and stored.sha256 == mark.sha256 else None
    note = evidence.notes.get(mark.attempt)
    warnings: tuple[str, ...] = ()
    if document is None:
        found = "is missing" if stored is None else "is damaged"
        warnings = (
            f"document {site.key.document(mark.version, mark.attempt)} {found}; the state comes from table "
            f"version {entry.version}, without the late window, which starts empty at the watermark",
        )
    return Winner(
        parent=Parent(mark.version, mark.attempt, mark.sha256),
        state=_embedded(site, entry, mark) if document is None else document.state,
        identity=mark.identity if document is None else document.identity,
        document=document,
        table_id=_table_id(entry, document, note),
        delta_version=entry.version - 1 if document is None else document.delta_version,
        committed_at=entry.version,
        checked=entry.version if note is None else max(entry.version, note.checked),
        noted=note is not None,
        unseen=None if note is None else note.unseen,
        warnings=warnings,
        debts=mark.debts if document is None else document.debts,
        letters=mark.letters if document is None else document.letters,
        paid=note is not None and note.paid,
    )


def _table_id(entry: LogEntry, document: Document | None, note: Won | None) -> str | None:
    if entry.table_id is not None:
        return entry.table_id
    if document is not None and document.table_id is not None:
        return document.table_id
    return None if note is None else note.table_id


def _embedded(site: TableContext, entry: LogEntry, mark: CommitTag) -> State:
    """The state in the log entry; unreadable, it is the last rung that broke."""
    try:
        return mark.state()
    except DamagedCommitTag as error:
        raise StateUnreadable(
            f"{site.key}: the table is at position {mark.version}, but its state cannot be read: document "
            f"{site.key.document(mark.version, mark.attempt)} is missing or damaged, and {error.problem} (table "
            f"version {entry.version}); nothing was written",
            way_out(site.key),
        ) from error


def _from_note(site: TableContext, version: int, evidence: WinnerEvidence) -> Winner | None:
    """The winner by its note alone, when the log entry was cleaned up; None when that does not tell."""
    attempt = evidence.noted
    if attempt is None:
        return None
    note, stored = evidence.notes[attempt], evidence.stored.get(attempt)
    if stored is None or stored.document is None or (note is not None and stored.sha256 != note.sha256):
        return None
    return Winner(
        parent=Parent(version, attempt, stored.sha256),
        state=stored.document.state,
        identity=stored.document.identity,
        document=stored.document,
        table_id=stored.document.table_id if note is None else note.table_id,
        delta_version=stored.document.delta_version,
        committed_at=-1 if note is None else note.table_version,
        checked=stored.document.delta_version if note is None else note.checked,
        noted=note is not None,
        unseen=None if note is None else note.unseen,
        debts=stored.document.debts,
        letters=stored.document.letters,
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
    """What to do about a state that cannot be read."""
    return (
        f"put {key.directory} back from a backup; or see with `tidegate recover` what is left of it (pipeline "
        f"{key.pipeline}, source {key.source}), and go on from there"
    )
