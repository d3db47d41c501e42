"""An object as a file that can be read from anywhere, by ranged requests that all name the same version of it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from tidegate.storage import failures
from tidegate.storage.paths import below
from tidegate.storage.port import ObjectStore

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class SeekableInput(io.RawIOBase):
    """One version of an object; ``ObjectChanged`` at once or at any later read when it is another by now.

    Where ``etag`` or ``size`` is None, the version is the one found when opening.
    """

    def __init__(self, store: ObjectStore, path: str, *, etag: str | None = None, size: int | None = None) -> None:
        self._store = store
        self._path = path
        self._place = 0
        if etag is None or size is None:
            found = store.head(path)
            if size not in (None, found.size) or etag not in (None, found.etag):
                raise failures.changed(below(store.location.uri, path), "its size or etag differs")
            etag, size = found.etag, found.size
        self._etag = etag
        self._size = size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = max(start + offset, 0)
        return self._place

    def readinto(self, buffer: WriteableBuffer) -> int:
        target = memoryview(buffer).cast("B")
        wanted = min(len(target), max(self._size - self._place, 0))
        if not wanted:
            return 0
        content = self._store.get_range(self._path, self._place, wanted, self._etag)
        if not content:
            raise failures.changed(below(self._store.location.uri, self._path), "it is shorter by now")
        target[: len(content)] = content
        self._place += len(content)
        return len(content)
