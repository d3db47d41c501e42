"""Remote objects while they are read and written: blocks asked for one by one, and an upload on close."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO, cast

from tidegate.storage import failures
from tidegate.storage.outputs import UndoableOutput

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

ReadBlock = Callable[[str, int, int, str | None, int], bytes]
"""``(path, start, end, etag, size)`` to the bytes of that range of exactly that version of the object."""

_BUFFER = 1024 * 1024


class RangedInput(io.RawIOBase):
    """One version of an object, read block by block; holds one block at a time."""

    def __init__(self, read_block: ReadBlock, path: str, etag: str | None, size: int, block: int) -> None:
        self._read_block = read_block
        self._path = path
        self._etag = etag
        self._size = size
        self._block_size = block
        self._offset = 0
        self._block = memoryview(b"")
        if size:
            self._next_block()

    def _next_block(self) -> None:
        end = min(self._offset + self._block_size, self._size)
        self._block = memoryview(self._read_block(self._path, self._offset, end, self._etag, self._size))
        self._offset = end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        if not self._block and self._offset < self._size:
            self._next_block()
        target = memoryview(buffer).cast("B")
        count = min(len(target), len(self._block))
        target[:count] = self._block[:count]
        self._block = self._block[count:]
        return count


class RemoteOutput(UndoableOutput):
    """A temporary local file that ``close`` uploads. It has no name, so nothing of it outlives this process."""

    def __init__(self, upload: Callable[[BinaryIO, int], None]) -> None:
        self._upload = upload
        self._file = tempfile.TemporaryFile(buffering=_BUFFER)  # noqa: SIM115 - closed by close() and abort()

    @property
    def closed(self) -> bool:
        return self._file.closed

    def write(self, data: bytes, /) -> int:
        try:
            return self._file.write(data)
        except OSError as error:
            raise failures.from_os(error, tempfile.gettempdir(), "write a temporary file in") from error

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        """Does nothing: the object appears as a whole."""

    def close(self) -> None:
        if self.closed:
            return
        try:
            size = self._file.tell()
            self._file.seek(0)
            self._upload(cast(BinaryIO, self._file), size)
        except OSError as error:
            raise failures.from_os(error, tempfile.gettempdir(), "write a temporary file in") from error
        finally:
            self.abort()

    def abort(self) -> None:
        with contextlib.suppress(OSError):  # what could not be written is not wanted any more
            self._file.close()

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self.abort()
