"""The ledger: which records of which files every commit of a source brought in; old documents become blocks.

It is the chain of winning documents; of old positions, the blocks that their documents were gathered into
(``compacting``). Attempts that lost are not in it; a position whose document is missing or damaged is in it as a
gap, never left out.

Every document says what its commit covered and names the one before it by hash, so the chain that leads to a
position holds each finished file once. A link that is missing or damaged stops: half a set would read files again.

A block is due when all of it lies at least 256 positions below the newest: OPEN, recovery and every run that is
not asleep for 256 commits need only what is above. First the block is written, by put-if-absent, then it is read
back, and only what it holds is removed. A kill in between leaves both, and the next look goes on; of two processes
the first to write a block decides, and both remove the same objects.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from tidegate.core.files.paths import SourceFile
from tidegate.errors import ObjectExists, StateError
from tidegate.failpoints import failpoint
from tidegate.protocol import documents
from tidegate.protocol.documents import Parent
from tidegate.protocol.identity import SourceKey
from tidegate.protocol.ledger_blocks import (
    SIZE,
    LedgerBlock,
    LedgerEntry,
    batches,
    block_path,
    blocks,
    encode,
    entries_in,
    find_block,
    first_of,
    gap,
    read_batches,
    read_block,
)
from tidegate.protocol.position import Position, TableContext
from tidegate.protocol.winner import ChainLink, entry_of, tell

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.storage.port import ObjectStore

_FIRST_WINDOW = 32

Segment = LedgerBlock | range
"""A stretch of positions: those of a block, or those whose documents are still there."""


def entries(
    store: ObjectStore, key: SourceKey, *, start: int = 1, newest: Parent | None = None
) -> Iterator[LedgerEntry]:
    """The winners of ``key`` from position ``start`` on, ascending, one at a time.

    ``newest`` is the position that OPEN found (``Opened.parent``): its winner may have no note yet. Without it
    the ledger ends at the newest note.
    """
    for segment in _segments(store, key, start, newest):
        for entry in _of_segment(store, key, segment, newest):
            if entry.version >= start and (newest is None or entry.version <= newest.version):
                yield entry


def newest_first(store: ObjectStore, key: SourceKey, newest: Parent | None = None) -> Iterator[LedgerEntry]:
    """The same from the newest position down; reads no more than a block, or a few documents, ahead."""
    for segment in reversed(_segments(store, key, 1, newest)):
        for part in [segment] if isinstance(segment, LedgerBlock) else _windows(segment):
            found = list(_of_segment(store, key, part, newest))
            yield from (each for each in reversed(found) if newest is None or each.version <= newest.version)


def record_batches(store: ObjectStore, key: SourceKey, newest: Parent | None = None) -> Iterator[pa.RecordBatch]:
    """The whole ledger as rows of blocks, ascending; the rows of a block are handed on as they are."""
    for segment in _segments(store, key, 1, newest):
        if not isinstance(segment, LedgerBlock):
            yield from batches(_still_there(store, key, segment, newest))
            continue
        at = segment.first
        try:
            for batch in read_batches(store, segment):
                untouched = batch.column("gap").null_count == batch.num_rows
                again = (_again(store, key, entry) for entry in entries_in(batch))
                yield from [batch] if untouched else batches(again)
                at = batch.column("position")[-1].as_py() + 1
        except StateError as error:
            yield from batches(gap(version, error.problem) for version in range(at, segment.last + 1))


def _windows(positions: range) -> Iterator[range]:
    """Short stretches of a long one from its end, the first ones shortest: often a few entries are enough."""
    stop, width = positions.stop, _FIRST_WINDOW
    while stop > positions.start:
        yield range(max(positions.start, stop - width), stop)
        stop, width = stop - width, min(2 * width, SIZE)


def _segments(store: ObjectStore, key: SourceKey, start: int = 1, newest: Parent | None = None) -> list[Segment]:
    """Where the positions from ``start`` to the newest are kept, ascending."""
    found: list[Segment] = []
    at = start
    for block in blocks(store, key, start):
        if block.first > at:
            found.append(range(at, block.first))
        found.append(block)
        at = block.last + 1
    top = _newest_note(store, key, at) if newest is None else newest.version
    return [*found, range(at, top + 1)] if top >= at else found


def _newest_note(store: ObjectStore, key: SourceKey, start: int) -> int:
    noted = (name.version for name in documents.names(store, key, start) if name.ending == "won")
    return max(noted, default=0)


def _of_segment(store: ObjectStore, key: SourceKey, segment: Segment, newest: Parent | None) -> Iterator[LedgerEntry]:
    if isinstance(segment, LedgerBlock):
        return _from_block(store, key, segment)
    return _still_there(store, key, segment, newest)


def _from_block(store: ObjectStore, key: SourceKey, block: LedgerBlock) -> Iterator[LedgerEntry]:
    """The entries of a block. One that was a gap is looked for again: its document may have been put back."""
    at = block.first
    try:
        for entry in read_block(store, block):
            yield _again(store, key, entry)
            at = entry.version + 1
    except StateError as error:
        yield from (gap(version, error.problem) for version in range(at, block.last + 1))


def _again(store: ObjectStore, key: SourceKey, entry: LedgerEntry) -> LedgerEntry:
    if entry.gap is None or not entry.attempt:
        return entry
    found = entry_of(store, key, ChainLink(entry.version, entry.attempt, entry.sha256, noted=True))
    return entry if found.gap is not None else found


def _still_there(store: ObjectStore, key: SourceKey, positions: range, newest: Parent | None) -> Iterator[LedgerEntry]:
    """The entries of documents; of a block where another process has gathered them in the meantime.

    That is looked for after each run of gaps, so that a document that was removed is never told as missing.
    """
    at = positions.start
    while at < positions.stop:
        for first, run in groupby(from_documents(store, key, range(at, positions.stop), newest), _block_if_gap):
            if first is None:
                yield from run
                continue
            gaps = list(run)
            block = find_block(store, key, first)
            if block is not None:
                at = gaps[0].version
                break
            yield from gaps
        else:
            return
        gathered = _from_block(store, key, block)
        yield from (entry for entry in gathered if at <= entry.version < positions.stop)
        at = block.last + 1


def _block_if_gap(entry: LedgerEntry) -> int | None:
    """Where the block of a gap begins, None for any other entry."""
    return None if entry.gap is None else first_of(entry.version)


def from_documents(
    store: ObjectStore, key: SourceKey, positions: range, newest: Parent | None
) -> Iterator[LedgerEntry]:
    """The entries of these positions by their documents alone; a few are read ahead where a request takes time."""
    winners = tell(store, key, positions.start, positions.stop - 1, newest)
    if store.concurrency <= 1:
        yield from (entry_of(store, key, told) for told in winners)
        return
    with ThreadPoolExecutor(store.concurrency, "ledger") as pool:
        ahead: deque[Future[LedgerEntry]] = deque()
        for told in winners:
            ahead.append(pool.submit(entry_of, store, key, told))
            if len(ahead) > store.concurrency:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def finished_files(site: TableContext, opened: Position) -> Iterator[SourceFile]:
    """Every file that some commit up to this position read to its end, newest commit first."""
    link = opened.parent
    while link is not None:
        stored = documents.read(site.store, site.key, link.version, link.attempt)
        if stored is None or stored.document is None or stored.sha256 != link.sha256:
            how = "missing" if stored is None else "damaged"
            raise StateError(
                f"{site.key}: what was read cannot be told from the documents: "
                f"{site.uri}/{site.key.document(link.version, link.attempt)} is {how}; nothing was written",
                "put it back from a backup, or write into a new table_uri to read everything anew",
            )
        for each in stored.document.coverage:
            if each.eof:
                yield SourceFile(each.file, each.size, each.etag)
        link = stored.document.parent


KEPT = 256
"""So many of the newest positions keep their documents, whatever is due."""

LOOK_EVERY = 32
"""A run looks for a block that is due after so many commits."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction did: blocks written, and objects removed since a block holds what they said."""

    blocks: int = 0
    removed: int = 0


def compact(store: ObjectStore, key: SourceKey, newest: Parent, most: int | None = None) -> Compacted:
    """Gather every block that is due, oldest first, and remove what is left of documents that a block holds.

    With ``most`` only so many blocks are written, and leftovers looked for only in the newest that was there: what
    a run does after a commit has a bound. ``newest`` is the position that OPEN found or COMMIT made. Idempotent; may
    be interrupted anywhere.
    """
    last = max(0, newest.version - KEPT) // SIZE * SIZE
    there = {block.first: block for block in blocks(store, key)}
    for block in there.values():
        if block.last > newest.version:
            raise _another_history(store, block, f"the newest position is {newest.version}")
    due = [first for first in range(1, last + 1, SIZE) if first not in there][:most]
    removed = 0
    for first in due:
        removed += _remove_gathered(store, key, _written(store, key, first, newest))
    old = sorted(first for first in there if first <= last)
    for first in _with_leftovers(store, key, last) if most is None else old[-1:]:
        if first in there:
            removed += _remove_gathered(store, key, there[first])
    return Compacted(len(due), removed)


def _with_leftovers(store: ObjectStore, key: SourceKey, last: int) -> Iterator[int]:
    """Where the blocks begin of whose positions objects are left; one listing request each."""
    at = 1
    while at <= last and (name := next(documents.names(store, key, at, last), None)) is not None:
        at = first_of(name.version) + SIZE
        yield first_of(name.version)


def _written(store: ObjectStore, key: SourceKey, first: int, newest: Parent) -> LedgerBlock:
    content = encode(key, from_documents(store, key, range(first, first + SIZE), newest))
    path = block_path(key, first)
    failpoint("state.block.before")
    with contextlib.suppress(ObjectExists):
        store.put_if_absent(path, content)
    failpoint("state.block.after")
    return LedgerBlock(first, first + SIZE - 1, path, store.head(path).size)


def _remove_gathered(store: ObjectStore, key: SourceKey, block: LedgerBlock) -> int:
    """Remove every object of the positions that the block holds; gaps, and moves of the position, keep theirs.

    Where a commit moved the source by several positions, those in between were only ever tried: what is left of them
    goes too.
    """
    names = list(documents.names(store, key, block.first, block.last))
    if not names:
        return 0
    everything = list(read_block(store, block))
    known = [entry for entry in everything if entry.gap is None]
    kept = {entry.version for entry in everything if entry.gap is not None or entry.moves}
    held = {entry.version: entry.attempt for entry in known}
    for name in names:
        if name.ending == "won" and held.get(name.version, name.attempt) != name.attempt:
            raise _another_history(
                store, block, f"{name.attempt} won position {name.version}, and the block names another"
            )
    paths = [
        key.won(name.version, name.attempt) if name.ending == "won" else key.document(name.version, name.attempt)
        for name in names
        if name.version not in kept
    ]
    failpoint("state.gathered.before")
    _remove(store, paths)
    return len(paths)


def _another_history(store: ObjectStore, block: LedgerBlock, why: str) -> StateError:
    return StateError(
        f"block {store.location.uri}/{block.path} of the ledger does not fit the table: {why}; nothing was removed",
        "an older copy of the table was put in its place: move this block and all after it to another folder",
    )


def _remove(store: ObjectStore, paths: Sequence[str]) -> None:
    width = 4 * store.concurrency
    with ThreadPoolExecutor(store.concurrency, "remove") as pool:
        for begin in range(0, len(paths), width):
            list(pool.map(store.delete, paths[begin : begin + width]))
            failpoint("state.gathered.after")
