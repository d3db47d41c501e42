"""Source files as streams; small ones of a remote store are fetched ahead, several at a time.

A unit of thousands of small objects would otherwise spend its time waiting for one answer after the other. What
lies ahead is bounded: a few files, each small.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import BinaryIO, cast

from tidegate.planning.plan import FileSlice
from tidegate.storage.port import ObjectStore
from tidegate.storage.seekable import SeekableInput

AHEAD = 16
_THREADS = 8


class Fetcher:
    """Opens files of one store. Files announced by :meth:`expect` are asked for in that order."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._is_local = store.location.uri.startswith(("file:", "memory:"))
        self._pool: ThreadPoolExecutor | None = None
        self._waiting: deque[FileSlice] = deque()
        self._fetched: dict[str, Future[bytes]] = {}

    def expect(self, slices: Sequence[FileSlice]) -> None:
        """Say which small files will be asked for, in order."""
        if not self._is_local and len(slices) > 1:
            self._waiting = deque(slices)
            self._pool = self._pool or ThreadPoolExecutor(_THREADS, thread_name_prefix="fetch")

    def __call__(self, each: FileSlice) -> BinaryIO:
        """The file as a stream of exactly the object that was listed; raises as the store does."""
        self._fetch_ahead()
        fetched = self._fetched.pop(each.path, None)
        if fetched is None:
            return self._store.open_input(each.path, etag=each.etag, size=each.size)
        return io.BytesIO(fetched.result())

    def seekable(self, each: FileSlice) -> BinaryIO:
        """The same, to be read from anywhere."""
        self._fetch_ahead()
        fetched = self._fetched.pop(each.path, None)
        if fetched is not None:
            return io.BytesIO(fetched.result())
        return cast(BinaryIO, SeekableInput(self._store, each.path, etag=each.etag, size=each.size))

    def close(self) -> None:
        """Stop fetching."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def _fetch_ahead(self) -> None:
        while self._pool is not None and self._waiting and len(self._fetched) < AHEAD:
            each = self._waiting.popleft()
            self._fetched[each.path] = self._pool.submit(self._read, each)

    def _read(self, each: FileSlice) -> bytes:
        with self._store.open_input(each.path, etag=each.etag, size=each.size) as raw:
            return raw.read()
