"""Who won each position, told without the log: by the ``.won`` note, or by the ``parent`` of a newer winner.

Every commit leaves a note, and each document names the winner that it builds on; either is enough. Documents of
attempts that lost are never taken, and a position that nothing tells about is told as that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.state import documents
from tidegate.state.documents import Document, Parent, Won
from tidegate.state.identity import SourceKey
from tidegate.state.ledger_entry import LedgerEntry, from_document, gap

if TYPE_CHECKING:
    from tidegate.storage.port import ObjectStore


@dataclass(frozen=True, slots=True)
class Told:
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
) -> Iterator[Told]:
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


def _known(found: _Found, newest: Parent | None) -> Told | None:
    if newest is not None and found.version == newest.version:
        return Told(found.version, newest.attempt, newest.sha256, newest.attempt in found.notes)
    if len(found.notes) == 1:
        return Told(found.version, next(iter(found.notes)), noted=True)
    return None


def _by_parents(store: ObjectStore, key: SourceKey, waiting: Sequence[_Found], winner: Told) -> list[Told]:
    """The winners of positions without a note, from ``winner`` above them downwards; given back ascending."""
    told: list[Told] = []
    above = _document(store, key, winner) if waiting else None
    for found in reversed(waiting):
        if above is None:
            told.append(Told(found.version, None, reason=_nothing_tells(found)))
        elif above.parent is not None and above.parent.version == found.version:
            parent = above.parent
            told.append(Told(found.version, parent.attempt, parent.sha256, parent.attempt in found.notes))
            above = _document(store, key, told[-1])
    return told[::-1]


def _nothing_tells(found: _Found) -> str:
    if not found.attempts and not found.notes:
        return "its document is missing"
    if len(found.notes) > 1:
        return f"{len(found.notes)} attempts are noted as its winner"
    attempts = len(found.attempts)
    return f"{attempts} {'attempt is' if attempts == 1 else 'attempts are'} there, and nothing tells which one won"


def _document(store: ObjectStore, key: SourceKey, told: Told) -> Document | None:
    """The winner's document, None when it is missing or not the one that was committed."""
    stored = None if told.attempt is None else documents.read(store, key, told.version, told.attempt)
    if stored is None:
        return None
    sha256 = _expected(told, _note(store, key, told))
    return stored.document if sha256 in (None, stored.sha256) else None


def _note(store: ObjectStore, key: SourceKey, told: Told) -> Won | None:
    if told.attempt is None or not told.noted:
        return None
    return documents.read_won(store, key, told.version, told.attempt)


def _expected(told: Told, note: Won | None) -> str | None:
    """The hash that the winner's document must have, None when only the name of a damaged note tells it."""
    return told.sha256 or (None if note is None else note.sha256)


def entry_of(store: ObjectStore, key: SourceKey, told: Told) -> LedgerEntry:
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
