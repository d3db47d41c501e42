"""Local files in use: a stream that notices when its file is rewritten, and an output that can be undone."""

from __future__ import annotations

import contextlib
import io
import os
from types import TracebackType
from typing import TYPE_CHECKING

from tidegate.storage import durability, failures
from tidegate.storage.outputs import UndoableOutput

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_BUFFER = 1024 * 1024


def etag_of(found: os.stat_result) -> str:
    """Differs whenever a file was replaced, written to or cut."""
    return f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"


class LocalInput(io.RawIOBase):
    """The bytes of one version of a file; ``ObjectChanged`` as soon as the file is no longer that version.

    A file replaced by renaming keeps its old content for whoever has it open, so such a read stays whole.
    """

    def __init__(self, path: str, uri: str, etag: str | None, size: int | None) -> None:
        self._uri = uri
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed by close()
        found = os.fstat(self._file.fileno())
        self._etag = etag if etag is not None else etag_of(found)
        try:
            if size is not None and size != found.st_size:
                raise failures.changed(uri, f"it has {found.st_size} bytes instead of {size}")
            self._check()
        except BaseException:
            self._file.close()
            raise

    def _check(self) -> None:
        if etag_of(os.fstat(self._file.fileno())) != self._etag:
            raise failures.changed(self._uri, "its size or modification time differs")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        try:
            count = self._file.readinto(buffer)
            self._check()
        except OSError as error:
            raise failures.from_os(error, self._uri, "read") from error
        return count or 0

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


class LocalOutput(UndoableOutput):
    """A new file written in place and, with ``sync``, forced to disk when it is closed; ``abort`` removes it."""

    def __init__(self, path: str, uri: str, *, sync: bool) -> None:
        self._path = path
        self._uri = uri
        self._sync = sync
        self._file = io.BufferedWriter(io.FileIO(path, "wb"), _BUFFER)

    @property
    def closed(self) -> bool:
        return self._file.closed

    def write(self, data: bytes, /) -> int:
        with self._mapped():
            return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        with self._mapped():
            self._file.flush()

    def close(self) -> None:
        try:
            if self._sync and not self.closed:
                self._file.flush()
                durability.force(self._file.fileno())
                durability.force_path(os.path.dirname(self._path))
            self._file.close()
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.raw.close()
            self._remove()
            raise failures.from_os(error, self._uri, "write") from error

    def abort(self) -> None:
        if not self.closed:
            self._file.raw.close()
            self._remove()

    def _remove(self) -> None:
        with self._mapped(), contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)

    def _mapped(self) -> _Mapped:
        return _Mapped(self._uri)


class _Mapped:
    """Operating system errors while writing to a URI, as Tidegate's; cheap enough for every ``write``."""

    __slots__ = ("_uri",)

    def __init__(self, uri: str) -> None:
        self._uri = uri

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError):
            raise failures.from_os(error, self._uri, "write") from error
