"""The ledger: which records of which files every commit of a source brought in; old documents become blocks.

It is the chain of winning documents; for old positions, the blocks that their documents were gathered into
(``ledger_blocks``). Lost attempts are not in it. Every commit leaves a note, and each document names the winner that it
builds on by hash; either is enough. A position with a missing or damaged document, or with an unknown winner, is a gap
in it, never left out.

A block is due when all of it lies at least 256 positions below the newest: OPEN, recovery and every run that does not
sleep for 256 commits need only what is above. First the block is written, by put-if-absent, then it is read back, and
only what it has is removed. A kill in between leaves both, and the next look continues; of two processes the first to
write a block decides, and both remove the same objects.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from tidegate.errors import ObjectExists, StateError
from tidegate.failpoints import failpoint
from tidegate.protocol import documents
from tidegate.protocol.change import SourceKey
from tidegate.protocol.documents import Document, Parent, Stored, Won
from tidegate.protocol.ledger_blocks import (
    SIZE,
    Describe,
    LedgerBlock,
    LedgerEntry,
    batches,
    block_path,
    blocks,
    describe_state,
    encode,
    entries_in,
    find_block,
    first_of,
    from_document,
    gap,
    read_batches,
    read_block,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.storage.port import ObjectStore

# `tidegate files` mostly wants the last few commits; windows double up to a block for those who want more.
_FIRST_WINDOW = 32

Segment = LedgerBlock | range
"""A range of positions: those of a block, or those whose documents still exist."""


KEPT = 256
"""The number of newest positions that keep their documents, whatever is due."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """The result of a compaction: blocks written, and objects removed that a block now has."""

    blocks: int = 0
    removed: int = 0


@dataclass(frozen=True, slots=True)
class Ledger:
    """The ledger of one source.

    ``describe`` gives the name and the watermark of a recorded state: only its tracker knows what it means.
    """

    store: ObjectStore
    key: SourceKey
    describe: Describe = describe_state

    def entries(self, *, start: int = 1, newest: Parent | None = None) -> Iterator[LedgerEntry]:
        """The winners from position ``start`` on, ascending, one at a time.

        ``newest`` is the position that OPEN found (``Position.parent``): its winner may have no note yet. Without it
        the ledger ends at the newest note.
        """
        for segment in self._segments(start, newest):
            for entry in self._of_segment(segment, newest):
                if entry.version >= start and (newest is None or entry.version <= newest.version):
                    yield entry

    def newest_first(self, newest: Parent | None = None) -> Iterator[LedgerEntry]:
        """The same from the newest position down; reads at most a block, or a few documents, ahead."""
        for segment in reversed(self._segments(1, newest)):
            for part in [segment] if isinstance(segment, LedgerBlock) else _windows(segment):
                found = list(self._of_segment(part, newest))
                yield from (each for each in reversed(found) if newest is None or each.version <= newest.version)

    def record_batches(self, newest: Parent | None = None) -> Iterator[pa.RecordBatch]:
        """The whole ledger as rows of blocks, ascending; rows of blocks pass unchanged."""
        for segment in self._segments(1, newest):
            if not isinstance(segment, LedgerBlock):
                yield from batches(self._still_there(segment, newest))
                continue
            at = segment.first
            try:
                for batch in read_batches(self.store, segment):
                    untouched = batch.column("gap").null_count == batch.num_rows
                    again = (self._look_again(entry) for entry in entries_in(batch))
                    yield from [batch] if untouched else batches(again)
                    at = batch.column("position")[-1].as_py() + 1
            except StateError as error:
                yield from batches(gap(version, error.problem) for version in range(at, segment.last + 1))

    def _segments(self, start: int = 1, newest: Parent | None = None) -> list[Segment]:
        """Where the positions from ``start`` to the newest are kept, ascending."""
        found: list[Segment] = []
        at = start
        for block in blocks(self.store, self.key, start):
            if block.first > at:
                found.append(range(at, block.first))
            found.append(block)
            at = block.last + 1
        if newest is None:
            top = max(
                (name.version for name in documents.names(self.store, self.key, at) if name.ending == "won"), default=0
            )
        else:
            top = newest.version
        return [*found, range(at, top + 1)] if top >= at else found

    def _of_segment(self, segment: Segment, newest: Parent | None) -> Iterator[LedgerEntry]:
        if isinstance(segment, LedgerBlock):
            return self._from_block(segment)
        return self._still_there(segment, newest)

    def _from_block(self, block: LedgerBlock) -> Iterator[LedgerEntry]:
        """The entries of a block. Gaps are looked up again: their document may have been restored."""
        at = block.first
        try:
            for entry in read_block(self.store, block):
                yield self._look_again(entry)
                at = entry.version + 1
        except StateError as error:
            yield from (gap(version, error.problem) for version in range(at, block.last + 1))

    def _look_again(self, entry: LedgerEntry) -> LedgerEntry:
        # A document that was put back from a backup closes its gap, as long as the block knows which one it was.
        if entry.gap is None or not entry.attempt:
            return entry
        found = self._entry(ChainLink(entry.version, entry.attempt, entry.sha256, noted=True))
        return entry if found.gap is not None else found

    def _still_there(self, positions: range, newest: Parent | None) -> Iterator[LedgerEntry]:
        """The entries of documents; of a block if another process has gathered them meanwhile.

        That is checked after each series of gaps, so that a removed document never counts as missing.
        """
        at = positions.start
        while at < positions.stop:
            for first, run in groupby(self._from_documents(range(at, positions.stop), newest), _block_if_gap):
                if first is None:
                    yield from run
                    continue
                gaps = list(run)
                block = find_block(self.store, self.key, first)
                if block is not None:
                    at = gaps[0].version
                    break
                yield from gaps
            else:
                return
            gathered = self._from_block(block)
            yield from (entry for entry in gathered if at <= entry.version < positions.stop)
            at = block.last + 1

    def _from_documents(self, positions: range, newest: Parent | None) -> Iterator[LedgerEntry]:
        """The entries of these positions from their documents alone; reads a few ahead if requests take time."""
        links = chain_links(self.store, self.key, positions.start, positions.stop - 1, newest)
        if self.store.concurrency <= 1:
            yield from (self._entry(link) for link in links)
            return
        # In order and only a few ahead: a ledger has as many documents as the source had commits.
        with ThreadPoolExecutor(self.store.concurrency, "ledger") as pool:
            ahead: deque[Future[LedgerEntry]] = deque()
            for link in links:
                ahead.append(pool.submit(self._entry, link))
                if len(ahead) > self.store.concurrency:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()

    def _entry(self, link: ChainLink) -> LedgerEntry:
        """The entry of a winner, from its document; a gap if that is missing or damaged."""
        if link.attempt is None:
            return gap(link.version, link.reason)
        path = self.key.document(link.version, link.attempt)
        stored, note, sha256 = _read_winner(self.store, self.key, link)
        if stored is None:
            return gap(link.version, f"document {path} is missing", link.attempt, sha256)
        if stored.document is None or sha256 not in (None, stored.sha256):
            return gap(link.version, f"document {path} is damaged", link.attempt, sha256)
        try:
            return from_document(stored.document, stored.sha256, note, self.describe)
        except ValueError:
            return gap(link.version, f"document {path} holds no readable time", link.attempt, sha256)

    def chain(self, newest: Parent | None) -> Iterator[Document]:
        """The documents of all winners, from ``newest`` down to the first.

        Raises at a missing or damaged one: what it covered would be unknown.
        """
        link = newest
        while link is not None:
            stored = documents.read(self.store, self.key, link.version, link.attempt)
            if stored is None or stored.document is None or stored.sha256 != link.sha256:
                how = "missing" if stored is None else "damaged"
                path = self.key.document(link.version, link.attempt)
                raise StateError(
                    f"{self.key}: the documents do not show what was read: {self.store.location.uri}/{path} is {how}; "
                    "nothing was written",
                    "put it back from a backup, or write into a new table_uri to read everything again",
                )
            yield stored.document
            link = stored.document.parent

    def compact(self, newest: Parent, most: int | None = None) -> Compacted:
        """Gather every block that is due, oldest first, and remove leftover documents that a block has.

        ``most`` limits the blocks written, and leftovers are then searched only in the newest block that existed: the
        work of a run after a commit is bounded. ``newest`` is the position that OPEN found or COMMIT made. Idempotent;
        may be interrupted anywhere.
        """
        last = max(0, newest.version - KEPT) // SIZE * SIZE
        there = {block.first: block for block in blocks(self.store, self.key)}
        for block in there.values():
            # An older copy of the table was put in place of this one: its blocks tell of commits that it never had.
            if block.last > newest.version:
                raise _another_history(self.store, block, f"the newest position is {newest.version}")
        due = [first for first in range(1, last + 1, SIZE) if first not in there][:most]
        removed = 0
        for first in due:
            removed += self._remove_gathered(self._write_block(first, newest))
        old = sorted(first for first in there if first <= last)
        for first in self._with_leftovers(last) if most is None else old[-1:]:
            if first in there:
                removed += self._remove_gathered(there[first])
        return Compacted(len(due), removed)

    def _with_leftovers(self, last: int) -> Iterator[int]:
        """The starts of blocks with leftover objects; one listing request each."""
        at = 1
        while at <= last and (name := next(documents.names(self.store, self.key, at, last), None)) is not None:
            at = first_of(name.version) + SIZE
            yield first_of(name.version)

    def _write_block(self, first: int, newest: Parent) -> LedgerBlock:
        content = encode(self.key, self._from_documents(range(first, first + SIZE), newest))
        path = block_path(self.key, first)
        failpoint("state.block.before")
        # Decision 0006: a plain PUT by a process that sees holes, while another removes, would replace a good block by
        # one with holes.
        with contextlib.suppress(ObjectExists):
            self.store.put_if_absent(path, content)
        failpoint("state.block.after")
        return LedgerBlock(first, first + SIZE - 1, path, self.store.head(path).size)

    def _remove_gathered(self, block: LedgerBlock) -> int:
        """Remove every object of the positions in the block; gaps, and moves of the position, keep theirs.

        If a commit moved the source by several positions, those in between were only tried: their leftovers go too.
        """
        names = list(documents.names(self.store, self.key, block.first, block.last))
        if not names:
            return 0
        everything = list(read_block(self.store, block))
        known = [entry for entry in everything if entry.gap is None]
        kept = {entry.version for entry in everything if entry.gap is not None or entry.moves}
        held = {entry.version: entry.attempt for entry in known}
        for name in names:
            # The last check before anything is removed: two winners of one position mean two histories of this table.
            if name.ending == "won" and held.get(name.version, name.attempt) != name.attempt:
                raise _another_history(
                    self.store, block, f"{name.attempt} won position {name.version}, but the block names another"
                )
        paths = [
            self.key.won(name.version, name.attempt)
            if name.ending == "won"
            else self.key.document(name.version, name.attempt)
            for name in names
            if name.version not in kept
        ]
        failpoint("state.gathered.before")
        _remove(self.store, paths)
        return len(paths)


def _windows(positions: range) -> Iterator[range]:
    """Short parts of a long range from its end, the first ones shortest: often a few entries are enough."""
    stop, width = positions.stop, _FIRST_WINDOW
    while stop > positions.start:
        yield range(max(positions.start, stop - width), stop)
        stop, width = stop - width, min(2 * width, SIZE)


def _block_if_gap(entry: LedgerEntry) -> int | None:
    """Where the block of a gap begins; None for any other entry."""
    return None if entry.gap is None else first_of(entry.version)


@dataclass(frozen=True, slots=True)
class ChainLink:
    """The winner of a position; ``attempt`` is None if it is unknown, for the given ``reason``.

    ``sha256`` is None if only a note names the attempt.
    """

    version: int
    attempt: str | None
    sha256: str | None = None
    noted: bool = False
    reason: str = ""


@dataclass(slots=True)
class _PositionAttempts:
    """The objects of one position: attempts with a document, and attempts with a note."""

    version: int
    attempts: set[str] = field(default_factory=set)
    notes: set[str] = field(default_factory=set)


def chain_links(
    store: ObjectStore, key: SourceKey, first: int, last: int, newest: Parent | None
) -> Iterator[ChainLink]:
    """The winners of the positions from ``first`` to ``last``, ascending.

    ``newest`` is the position that OPEN found. Without it, everything above the newest note is left out, since it may
    not be committed. Keeps in memory only the names of consecutive positions without a note.
    """
    waiting: list[_PositionAttempts] = []
    for found in _positions(store, key, first, None if newest is None else newest.version):
        winner = _find_winner(found, newest)
        if winner is None:
            waiting.append(found)
            continue
        for link in (*_by_parents(store, key, waiting, winner), winner):
            if link.version <= last:
                yield link
        if winner.version >= last:
            return
        waiting = []


def _positions(store: ObjectStore, key: SourceKey, first: int, last: int | None) -> Iterator[_PositionAttempts]:
    """Every position from ``first`` to ``last``, or to the newest with an object, in order."""
    found = _PositionAttempts(first)
    for name in documents.names(store, key, first, last):
        while found.version < name.version:
            yield found
            found = _PositionAttempts(found.version + 1)
        (found.notes if name.ending == "won" else found.attempts).add(name.attempt)
    while last is not None and found.version < last:
        yield found
        found = _PositionAttempts(found.version + 1)
    if last is None or found.version == last:
        yield found


def _find_winner(found: _PositionAttempts, newest: Parent | None) -> ChainLink | None:
    if newest is not None and found.version == newest.version:
        return ChainLink(found.version, newest.attempt, newest.sha256, newest.attempt in found.notes)
    if len(found.notes) == 1:
        return ChainLink(found.version, next(iter(found.notes)), noted=True)
    return None


def _by_parents(
    store: ObjectStore, key: SourceKey, waiting: Sequence[_PositionAttempts], winner: ChainLink
) -> list[ChainLink]:
    """The winners of positions without a note, found from ``winner`` above them downwards; returned ascending."""
    links: list[ChainLink] = []
    above = _document(store, key, winner) if waiting else None
    for found in reversed(waiting):
        if above is None:
            links.append(ChainLink(found.version, None, reason=_why_unknown(found)))
        elif above.parent is not None and above.parent.version == found.version:
            parent = above.parent
            links.append(ChainLink(found.version, parent.attempt, parent.sha256, parent.attempt in found.notes))
            above = _document(store, key, links[-1])
    return links[::-1]


def _why_unknown(found: _PositionAttempts) -> str:
    if not found.attempts and not found.notes:
        return "its document is missing"
    if len(found.notes) > 1:
        return f"{len(found.notes)} attempts are noted as its winner"
    attempts = len(found.attempts)
    return f"{attempts} {'attempt is' if attempts == 1 else 'attempts are'} there, and nothing shows which one won"


def _document(store: ObjectStore, key: SourceKey, link: ChainLink) -> Document | None:
    """The winner's document; None if it is missing or not the committed one."""
    stored, _, sha256 = _read_winner(store, key, link)
    return stored.document if stored is not None and sha256 in (None, stored.sha256) else None


def _read_winner(store: ObjectStore, key: SourceKey, link: ChainLink) -> tuple[Stored | None, Won | None, str | None]:
    """The winner's document as found, its note, and the hash that the document must have.

    The hash is None if only the name of a damaged note shows the winner.
    """
    if link.attempt is None:
        return None, None, None
    note = documents.read_won(store, key, link.version, link.attempt) if link.noted else None
    stored = documents.read(store, key, link.version, link.attempt)
    return stored, note, link.sha256 or (None if note is None else note.sha256)


def _another_history(store: ObjectStore, block: LedgerBlock, why: str) -> StateError:
    return StateError(
        f"block {store.location.uri}/{block.path} of the ledger does not match the table: {why}; nothing was removed",
        "somebody put an older copy of the table in its place: move this block and all after it to another folder",
    )


def _remove(store: ObjectStore, paths: Sequence[str]) -> None:
    # In parts, so that a kill in between leaves few objects for the next look.
    width = 4 * store.concurrency
    with ThreadPoolExecutor(store.concurrency, "remove") as pool:
        for begin in range(0, len(paths), width):
            list(pool.map(store.delete, paths[begin : begin + width]))
            failpoint("state.gathered.after")
