"""What is left of a position whose state is unreadable, rung by rung: for ``tidegate recover``, never for OPEN.

From the newest position down: its documents, its ``.won`` notes, its log entry, and then those of the position before,
until one has a usable state. Also the mirror, which shows the newest position, but which no hash protects. Here the
whole log is searched, and a document also counts as the winner's if its data files are in the table: only its own
commit makes them visible.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from tidegate.errors import StateError
from tidegate.protocol import documents
from tidegate.protocol.change import Coverage, State
from tidegate.protocol.documents import Document, Mirror, Parent, read_mirror
from tidegate.protocol.log import LogEntry
from tidegate.protocol.open import (
    Accept,
    StateUnreadable,
    Winner,
    WinnerEvidence,
    check_snapshot,
    gather_evidence,
    holds,
    open_winner,
    weigh,
    winner_of_document,
)
from tidegate.protocol.position import Position, TableContext
from tidegate.protocol.table import Snapshot
from tidegate.reports.wording import count

Usable = Callable[[State], bool]
"""Whether a run can continue from a state; raises for one of a newer version."""


@dataclass(frozen=True, slots=True)
class Rung:
    """One position: its winner if certain, whether its state is usable, and what was found."""

    version: int
    winner: Winner | None
    usable: bool
    found: str

    @property
    def coverage(self) -> tuple[Coverage, ...] | None:
        """What the position is known to have read; None if unknown.

        Only for runs: other commands change the state in ways that coverage does not show.
        """
        document = None if self.winner is None else self.winner.document
        return document.coverage if document is not None and document.action == "run" else None

    @property
    def follows(self) -> int:
        """The position before it, according to its document; -1 without a readable document."""
        document = None if self.winner is None else self.winner.document
        if document is None:
            return -1
        return 0 if document.parent is None else document.parent.version


@dataclass(frozen=True, slots=True)
class Ladder:
    """The position ``version`` of a source and what is left of it; ``rungs`` from the newest down."""

    version: int
    snapshot: Snapshot
    rungs: tuple[Rung, ...]
    mirror: Winner | None
    mirror_found: str

    @property
    def base(self) -> Rung | None:
        """The newest position with a usable state."""
        return next((rung for rung in self.rungs if rung.usable), None)


def climb(site: TableContext, usable: Usable) -> Ladder:
    """Look at every rung from the newest position down to the first usable state; reads only."""
    snapshot = check_snapshot(site)
    version = site.position_in(snapshot)
    if snapshot is None or version == 0:
        raise StateError(f"{site.key}: {site.uri} knows no position of it", "see the message of `tidegate run`")
    search = _Search(site, snapshot, usable)
    rungs: list[Rung] = []
    for number in search.versions(version):
        rungs.append(search.at(number))
        if rungs[-1].usable:
            break
    mirror, found = search.mirror(version)
    return Ladder(version, snapshot, tuple(rungs), mirror, found)


def open_rebuilt(site: TableContext, ladder: Ladder, winner: Winner, accept: Collection[Accept]) -> Position:
    """The newest position with the state of ``winner``, after the checks of OPEN 4.

    The commit pays what the newest position owes, if its document is known; debts of those in between were paid before
    the next one was committed.
    """
    opened = open_winner(site, ladder.snapshot, winner, accept)
    newest = ladder.rungs[0].winner if ladder.rungs and ladder.rungs[0].version == ladder.version else None
    debts = () if newest is None or newest.paid else newest.debts
    return replace(opened, version=ladder.version, debts=debts, from_log=True, unpaid=bool(debts))


class _Search:
    """The whole log, read once, and the objects of each position."""

    def __init__(self, site: TableContext, snapshot: Snapshot, usable: Usable) -> None:
        self._site, self._snapshot, self._usable = site, snapshot, usable
        self._entries: dict[int, LogEntry] = {}
        self._active: frozenset[str] | None = None
        # All of it, unlike OPEN: a person asked for this, and everything else has failed.
        for entry in site.log.between(0, snapshot.facts.version + 1):
            tag = entry.tag_of(site.key)
            if tag is not None and holds(site, entry, tag.version):
                self._entries[tag.version] = entry

    def versions(self, newest: int) -> list[int]:
        """The positions with anything left, and the newest, downwards."""
        named = {name.version for name in documents.names(self._site.store, self._site.key)}
        return sorted((each for each in {newest, *named, *self._entries} if 0 < each <= newest), reverse=True)

    def at(self, version: int) -> Rung:
        """What is left of one position."""
        evidence = gather_evidence(self._site, version)
        entry = self._entries.get(version)
        found = _words(self._site, version, evidence, entry)
        try:
            winner = weigh(self._site, version, evidence, entry) or self._by_its_files(version, evidence)
        except StateUnreadable:
            return Rung(version, None, False, f"{found}; the state in the log is damaged too")
        if winner is None:
            readable = any(stored.document is not None for stored in evidence.stored.values())
            reason = "what is there does not prove who won" if readable else "no state is left"
            return Rung(version, None, False, f"{found}; {reason}")
        if not (winner.state and self._usable(winner.state)):
            return Rung(version, winner, False, f"{found}; its state cannot be understood")
        return Rung(version, winner, True, f"{found}; {_source(winner, entry)}")

    def _by_its_files(self, version: int, evidence: WinnerEvidence) -> Winner | None:
        """The winner whose data files are in the table."""
        for attempt, stored in evidence.stored.items():
            document = stored.document
            # With a readable note ``weigh`` would have taken it, unless the hash differs or several are noted: then it
            # proves nothing.
            contradicted = evidence.notes.get(attempt) is not None
            if document is not None and not contradicted and self._is_visible(document):
                return winner_of_document(document, stored.sha256)
        return None

    def _is_visible(self, document: Document) -> bool:
        if document.data_files and self._active is None:
            self._active = self._snapshot.active_paths()
        return any(file.path in (self._active or ()) for file in document.data_files)

    def mirror(self, version: int) -> tuple[Winner | None, str]:
        """The state that the mirror has of ``version``, and a description."""
        shown = read_mirror(self._site.store, self._site.key)
        if shown is None:
            return None, "missing or damaged"
        if shown.version != version:
            return None, f"shows position {shown.version}, not {version}"
        evidence = gather_evidence(self._site, version)
        if evidence.noted not in (None, shown.attempt):
            return None, f"shows attempt {shown.attempt}, and the note names {evidence.noted}"
        if not (shown.state and self._usable(shown.state)):
            return None, f"shows position {version}; its state cannot be understood"
        return self._from_mirror(shown, evidence), f"shows position {version}: its whole state, which no hash protects"

    def _from_mirror(self, shown: Mirror, evidence: WinnerEvidence) -> Winner:
        note = evidence.notes.get(shown.attempt)
        return Winner(
            parent=Parent(shown.version, shown.attempt, "" if note is None else note.sha256),
            state=shown.state,
            # The mirror does not say where the source was, so a person's word has to do.
            identity=None,
            document=None,
            table_id=None if note is None else note.table_id,
            delta_version=shown.delta_version,
            committed_at=-1 if note is None else note.table_version,
            checked=shown.table_version,
            noted=note is not None,
            letters=shown.letters,
        )


def _words(site: TableContext, version: int, evidence: WinnerEvidence, entry: LogEntry | None) -> str:
    """The documents, notes and log entry of a position, in words."""
    if not evidence.stored:
        papers = "no document"
    else:
        good = sum(stored.document is not None for stored in evidence.stored.values())
        papers = f"{count(len(evidence.stored), 'document')}, {good} of them readable"
    if not evidence.notes:
        notes = "no .won note"
    else:
        notes = f".won note of attempt {evidence.noted}" if evidence.noted else "several .won notes"
        notes += " (damaged)" if not any(evidence.notes.values()) else ""
    tag = None if entry is None else entry.tag_of(site.key)
    if entry is None or tag is None:
        return f"{papers}; {notes}; no log entry"
    return f"{papers}; {notes}; log entry {entry.version} names attempt {tag.attempt}"


def _source(winner: Winner, entry: LogEntry | None) -> str:
    """The origin of a winner's state."""
    if winner.document is None:
        return "state readable from the log, without its late window"
    if entry is not None or winner.noted:
        return "state readable from its document"
    return "state readable from its document, whose data files are in the table or which the only note names"
