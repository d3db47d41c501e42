"""The ledger: which records of which files every commit of a source brought in, position by position.

It is the chain of winning documents; of old positions, the blocks that their documents were gathered into
(``compacting``). Attempts that lost are not in it; a position whose document is missing or damaged is in it as a
gap, never left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby
from typing import TYPE_CHECKING

from tidegate.errors import StateError
from tidegate.state import documents
from tidegate.state.blocks import (
    SIZE,
    Block,
    batches,
    blocks,
    entries_in,
    find_block,
    first_of,
    read_batches,
    read_block,
)
from tidegate.state.chain import Told, entry_of, tell
from tidegate.state.documents import Parent
from tidegate.state.identity import SourceKey
from tidegate.state.ledger_entry import LedgerEntry, gap

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.storage.port import ObjectStore

__all__ = ["LedgerEntry", "entries", "from_documents", "newest_first", "record_batches"]

_FIRST_WINDOW = 32

Segment = Block | range
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
        for part in [segment] if isinstance(segment, Block) else _windows(segment):
            found = list(_of_segment(store, key, part, newest))
            yield from (each for each in reversed(found) if newest is None or each.version <= newest.version)


def record_batches(store: ObjectStore, key: SourceKey, newest: Parent | None = None) -> Iterator[pa.RecordBatch]:
    """The whole ledger as rows of blocks, ascending; the rows of a block are handed on as they are."""
    for segment in _segments(store, key, 1, newest):
        if not isinstance(segment, Block):
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
    if isinstance(segment, Block):
        return _from_block(store, key, segment)
    return _still_there(store, key, segment, newest)


def _from_block(store: ObjectStore, key: SourceKey, block: Block) -> Iterator[LedgerEntry]:
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
    found = entry_of(store, key, Told(entry.version, entry.attempt, entry.sha256, noted=True))
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
