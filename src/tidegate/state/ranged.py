"""An object of the store as a file that Arrow can read from, without fetching all of it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.storage.port import ObjectStore


class Ranged(io.RawIOBase):
    """An object as a seekable file that fetches only what is read."""

    def __init__(self, store: ObjectStore, path: str) -> None:
        self._store, self._path = store, path
        self._info = store.head(path)
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._info.size}[whence]
        self._at = start + offset
        return self._at

    def read(self, size: int = -1, /) -> bytes:
        left = max(0, self._info.size - self._at)
        length = left if size is None or size < 0 else min(size, left)
        if length == 0:
            return b""
        data = self._store.get_range(self._path, self._at, length, self._info.etag)
        self._at += len(data)
        return data
