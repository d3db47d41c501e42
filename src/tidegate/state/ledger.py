"""The ledger: which records of which files every commit of a source brought in, position by position.

It is the chain of winning documents. Attempts that lost are not in it; a position whose document is missing or
damaged is in it as a gap, never left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from tidegate.state.documents import Parent
from tidegate.state.identity import SourceKey
from tidegate.state.ledger_entry import LedgerEntry
from tidegate.state.winners import Told, entry_of, tell

if TYPE_CHECKING:
    from tidegate.storage.port import ObjectStore

__all__ = ["LedgerEntry", "entries"]


def entries(
    store: ObjectStore, key: SourceKey, *, start: int = 1, newest: Parent | None = None
) -> Iterator[LedgerEntry]:
    """The winners of ``key`` from position ``start`` on, ascending, one at a time.

    ``newest`` is the position that OPEN found (``Opened.parent``): its winner may have no note yet. Without it
    the ledger ends at the newest note.
    """
    yield from _read(store, key, tell(store, key, start, None if newest is None else newest.version, newest))


def _read(store: ObjectStore, key: SourceKey, winners: Iterator[Told]) -> Iterator[LedgerEntry]:
    """The entries of these winners in their order; a few are read ahead where a request takes time."""
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
