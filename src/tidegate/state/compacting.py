"""Compaction: old documents are gathered into blocks, so that a million commits do not leave millions of objects.

A block is due when all of it lies at least 256 positions below the newest: OPEN, recovery and every run that is
not asleep for 256 commits need only what is above. First the block is written, by put-if-absent, then it is read
back, and only what it holds is removed. A kill in between leaves both, and the next look goes on; of two processes
the first to write a block decides, and both remove the same objects.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.errors import ObjectExists, StateError
from tidegate.failpoints import failpoint
from tidegate.state import documents
from tidegate.state.blocks import SIZE, Block, block_path, blocks, encode, first_of, read_block
from tidegate.state.documents import Parent
from tidegate.state.identity import SourceKey
from tidegate.state.ledger import from_documents

if TYPE_CHECKING:
    from tidegate.storage.port import ObjectStore

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


def _written(store: ObjectStore, key: SourceKey, first: int, newest: Parent) -> Block:
    content = encode(key, from_documents(store, key, range(first, first + SIZE), newest))
    path = block_path(key, first)
    failpoint("state.block.before")
    with contextlib.suppress(ObjectExists):
        store.put_if_absent(path, content)
    failpoint("state.block.after")
    return Block(first, first + SIZE - 1, path, store.head(path).size)


def _remove_gathered(store: ObjectStore, key: SourceKey, block: Block) -> int:
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


def _another_history(store: ObjectStore, block: Block, why: str) -> StateError:
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
