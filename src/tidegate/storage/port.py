"""The storage port: what every store can do, what callers may rely on, and how stores fail.

Paths are relative to the store's location, separated by ``/``, without a leading or trailing slash; they are plain
text, never percent-encoded. Names compare in UTF-8 byte order, which is the order of Python's ``str``.

Every failure is a :class:`~tidegate.errors.StorageError` that names the full URI. Errors of the operating system and of
the object store client are converted once, here. Their text is never copied (it can contain signed addresses and header
values), only status numbers and error codes.
"""

from __future__ import annotations

import errno
import io
import re
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, Self, TypeVar

from tidegate.core.files.discovery import Reason, ReasonCounts, Skipped
from tidegate.errors import AccessDenied, ObjectChanged, ObjectExists, ObjectMissing, StorageError, StorageUnavailable
from tidegate.reports.wording import visible
from tidegate.specs.locations import Location
from tidegate.specs.masking import Mask
from tidegate.storage.options import FAMILIES, scheme_of, split_uri

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


def check_path(uri: str, path: str) -> str:
    """``path`` if it can name an object below the store at ``uri``; else raises ``StorageError``."""
    if not path:
        raise unusable_path(uri, path, "it is empty")
    return check_prefix(uri, path)


def check_prefix(uri: str, path: str) -> str:
    """Like ``check_path``, for a directory: the empty path is the store's root."""
    if path and (reason := path_problem(path)):
        raise unusable_path(uri, path, reason)
    return path


def path_problem(path: str) -> str | None:
    """Why nothing can be named ``path``; None for a valid path."""
    segments = path.split("/")
    if "" in segments:
        return "it has an empty segment"
    if "." in segments or ".." in segments:
        return "it has a segment '.' or '..'"
    if "\0" in path or not is_text(path):
        return "it is not valid UTF-8 text"
    return None


@dataclass(frozen=True, slots=True)
class NameLimits:
    """How long the names of a store may be, in bytes of UTF-8; None for any length.

    ``segment`` is a part of a path between slashes, ``path`` all of it below the location.
    """

    segment: int | None = None
    path: int | None = None

    def allow(self, segments: Iterable[int], more: int = 0) -> bool:
        """Whether there can be a path of segments with these lengths, a slash behind each, and ``more`` bytes."""
        lengths = list(segments)
        is_short = self.segment is None or max(lengths, default=0) <= self.segment
        return is_short and (self.path is None or sum(lengths) + len(lengths) + more <= self.path)


_LOCAL_SEGMENT, _LOCAL_PATH = 255, 4095
"""NAME_MAX of the usual file systems; PATH_MAX of Linux without the zero byte at its end."""

_REMOTE_KEY = 1024
"""The longest key of S3, of Google Cloud Storage and, in characters, of Azure."""


def name_limits(location: Location) -> NameLimits:
    """How long the names below ``location`` may be."""
    scheme, _, root = split_uri(location.uri)
    above = len(root.encode("utf-8", "surrogateescape")) + 1 if root else 0
    match scheme:
        case "file":
            return NameLimits(_LOCAL_SEGMENT, _LOCAL_PATH - above - 1)
        case "memory":
            return NameLimits()
        case _:
            return NameLimits(None, _REMOTE_KEY - above)


def is_text(path: str) -> bool:
    """Whether ``path`` can be encoded as UTF-8; names from a disk may contain invalid bytes."""
    if path.isascii():
        return True
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def join_path(prefix: str, name: str) -> str:
    """``name`` inside directory ``prefix``."""
    return f"{prefix}/{name}" if prefix else name


def may_hold_after(directory: str, after: str | None) -> bool:
    """Whether a path inside ``directory`` can be greater than ``after``."""
    inside = f"{directory}/"
    return after is None or inside > after or after.startswith(inside)


Known = Callable[[str], bool]
"""Tells whether a path is known already and need not be listed."""

PAGE = 1000
"""Entries per page of a listing, on every object store."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object: ``etag`` changes whenever the content does, ``modified`` is in UTC."""

    path: str
    size: int
    etag: str | None
    modified: datetime


@dataclass(frozen=True, slots=True)
class Directory:
    """One level of a store: full paths below its root, ascending, directories without trailing slash."""

    directories: tuple[str, ...]
    objects: tuple[ObjectInfo, ...]


@dataclass(frozen=True, slots=True)
class Upload:
    """How large files are uploaded: from ``multipart_from`` bytes on in parts of ``part_size`` (the last has the rest).

    All uploads of a store together have at most ``concurrent_parts`` parts under way.
    """

    part_size: int = 32 * 1024 * 1024
    multipart_from: int = 5 * 1024 * 1024
    concurrent_parts: int = 8


@dataclass(slots=True)
class Requests:
    """The number of requests to a store; ``list`` counts pages (locally: directories read), ``keys`` entries."""

    list: int = 0
    keys: int = 0
    get: int = 0
    put: int = 0
    head: int = 0
    delete: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def count_listed(self, keys: int, pages: int = 0) -> None:
        """Count ``pages`` more pages with ``keys`` entries."""
        with self._lock:
            # Threads list and fetch at the same time, and `+=` is not atomic.
            self.list += pages
            self.keys += keys

    def count(self, verb: str) -> None:
        with self._lock:
            setattr(self, verb, getattr(self, verb) + 1)


@dataclass(frozen=True, slots=True)
class UploadCounts:
    """Files uploaded, those uploaded in parts, and the most files and parts at once.

    Parts are counted by reserved places, so ``most_parts`` is never too low.
    """

    files: int = 0
    multipart: int = 0
    most_files: int = 0
    most_parts: int = 0

    def __add__(self, other: UploadCounts) -> UploadCounts:
        """Add counts; of the maxima the greater is kept, since overlap in two places is unknown."""
        return UploadCounts(
            self.files + other.files,
            self.multipart + other.multipart,
            max(self.most_files, other.most_files),
            max(self.most_parts, other.most_parts),
        )


Uploading = Callable[[int, int], None]
"""Gets the number of files and parts being uploaded now; called from any thread."""


class Uploads:
    """The current uploads of a store; thread-safe. ``listen`` gets every change."""

    def __init__(self) -> None:
        self.active_files = 0
        self.active_parts = 0
        self.listen: Uploading = lambda files, parts: None
        self._counts = UploadCounts()
        self._changed = threading.Condition()

    @property
    def counts(self) -> UploadCounts:
        return self._counts

    @contextmanager
    def file(self) -> Iterator[None]:
        """Count one file as uploading while inside."""
        with self._changed:
            self.active_files += 1
            self._counts += UploadCounts(most_files=self.active_files)
            self.listen(self.active_files, self.active_parts)
        try:
            yield
            with self._changed:
                self._counts += UploadCounts(files=1)
        finally:
            with self._changed:
                self.active_files -= 1
                self.listen(self.active_files, self.active_parts)

    @contextmanager
    def parts(self, wanted: int, most: int) -> Iterator[int]:
        """Reserve parts of an upload while inside: at least one and at most ``wanted``.

        All uploads of the store stay within ``most`` parts; waits until one more fits.
        """
        with self._changed:
            self._changed.wait_for(lambda: self.active_parts < most)
            granted = min(wanted, most - self.active_parts)
            self.active_parts += granted
            self._counts += UploadCounts(most_parts=self.active_parts)
            self.listen(self.active_files, self.active_parts)
        try:
            yield granted
            with self._changed:
                self._counts += UploadCounts(multipart=1)
        finally:
            with self._changed:
                self.active_parts -= granted
                self.listen(self.active_files, self.active_parts)
                self._changed.notify_all()


T = TypeVar("T")

INTERNAL = ("_", ".")
"""Prefixes of names that no source reads."""

# A begun file below such a path was not removed, only not seen: it must not be given up.
_UNSEEN = (Reason.LINK, Reason.LINK_BROKEN, Reason.NAME)


class Scope:
    """One listing of a source, or several that belong together; thread-safe.

    ``apart`` are real local directories that no link may lead into, such as those of written tables.
    """

    def __init__(self, *, follow_links: bool = False, apart: tuple[str, ...] = ()) -> None:
        self.follow_links = follow_links
        self.apart = apart
        self._tally = ReasonCounts()
        self._unseen: dict[str, Reason] = {}
        self._lock = threading.Lock()
        self._found: dict[str, Any] = {}

    def leave_out(self, reason: Reason, path: str) -> None:
        """Count a path that is not listed; its name is escaped for terminals and JSON."""
        with self._lock:
            self._tally.add(reason, visible(path))
            if reason in _UNSEEN:
                self._unseen[path] = reason

    @property
    def left_out(self) -> tuple[Skipped, ...]:
        """What was left out so far."""
        with self._lock:
            return self._tally.result()

    @property
    def unseen(self) -> dict[str, Reason]:
        """Every path left out so far that may hide files without another name."""
        with self._lock:
            return dict(self._unseen)

    def ask_once(self, key: str, find: Callable[[], T]) -> T:
        """What ``find`` says, which is asked once per key in this scope."""
        with self._lock:
            if key not in self._found:
                self._found[key] = find()
            found: T = self._found[key]
            return found


class Output(ABC):
    """A file being written: it may be visible while it grows, and is complete and visible after ``close``.

    As a context manager it closes at the end of the block and aborts if the block raises. Without ``close`` it never
    becomes a complete object on a remote store.
    """

    @property
    @abstractmethod
    def closed(self) -> bool: ...

    @abstractmethod
    def write(self, data: bytes, /) -> int: ...

    @abstractmethod
    def tell(self) -> int: ...

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def abort(self) -> None:
        """Give up and leave nothing of this file behind. Does nothing after ``close``."""

    def writable(self) -> bool:
        return True

    def flush(self) -> None:  # noqa: B027 - most stores have nothing to do: the object appears as a whole
        """Make what was written so far visible, if the file grows in place."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


class ObjectStore(Protocol):
    """A place for objects. Created and used in one process; thread-safe."""

    @property
    def location(self) -> Location: ...
    @property
    def requests(self) -> Requests: ...
    @property
    def uploads(self) -> Uploads: ...
    @property
    def concurrency(self) -> int:
        """How many concurrent requests pay off: 1 if there is no latency to hide."""

    def exists(self) -> bool:
        """Whether the place itself exists: false for a missing local directory only."""

    def list(
        self, prefix: str = "", after: str | None = None, *, known: Known | None = None, scope: Scope | None = None
    ) -> Iterator[ObjectInfo]:
        """Every object below directory ``prefix``, at any depth, whose full path is greater than ``after``.

        The objects of one directory come in ascending order, and before those of a greater directory beside them; apart
        from that the store decides how directories interleave. Paths for which ``known`` is true are left out, without
        any request about them. A missing ``prefix`` yields nothing. Directory markers are left out, and so are names
        that no path can have; ``scope`` counts these, and decides which links are followed. Without a scope all links
        are: a directory of Tidegate's own leads where its owner wants.
        """

    def list_directory(
        self, prefix: str = "", after: str | None = None, *, known: Known | None = None, scope: Scope | None = None
    ) -> Directory:
        """One level: all directories directly in ``prefix``, and its own objects greater than ``after``."""

    def head(self, path: str) -> ObjectInfo:
        """The object at ``path``; raises ``ObjectMissing``."""

    def get(self, path: str) -> bytes:
        """The whole content; raises ``ObjectMissing``."""

    def get_range(self, path: str, start: int, length: int, if_match: str | None = None) -> bytes:
        """``length`` bytes from ``start``, fewer at the end; raises ``ObjectChanged`` if the etag differs."""

    def open_input(self, path: str, *, etag: str | None, size: int | None) -> BinaryIO:
        """The content as a stream in bounded memory.

        Returns only bytes of the object with that etag and size, or else raises ``ObjectChanged``, at once or at any
        later read; with ``None``, of the object found when opening.
        """

    def put(self, path: str, data: bytes) -> None:
        """Write the whole object; readers see the old content or the new one, never a part."""

    def put_if_absent(self, path: str, data: bytes) -> None:
        """Write the object unless one exists: then ``ObjectExists``; of many writers one wins.

        A lost response can give ``ObjectExists`` for one's own write: read it back to know.
        """

    def open_output(self, path: str, upload: Upload | None = None) -> Output:
        """A file to write piece by piece, for a path that nobody else writes."""

    def put_file(self, path: str, local_path: str, upload: Upload | None = None) -> None:
        """Upload a local file."""

    def sync(self, paths: Iterable[str]) -> None:
        """Force objects that other programs wrote here to disk, with their names; missing objects are fine.

        Everything that the store writes itself is on disk when the call returns, unless the location says otherwise.
        Remote stores acknowledge a write only then anyway.
        """

    def delete(self, path: str) -> None:
        """Remove the object if it exists."""


class BufferedOutput(Output):
    """Collects bytes in ``file``; ``close`` passes them to ``upload``, with their number."""

    def __init__(self, file: BinaryIO, upload: Callable[[BinaryIO, int], None]) -> None:
        self._file = file
        self._upload = upload

    @property
    def closed(self) -> bool:
        return self._file.closed

    def write(self, data: bytes, /) -> int:
        try:
            return self._file.write(data)
        except OSError as error:
            raise from_os(error, tempfile.gettempdir(), "write a temporary file in") from error

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        if self.closed:
            return
        try:
            size = self._file.tell()
            self._file.seek(0)
            self._upload(self._file, size)
        except OSError as error:
            raise from_os(error, tempfile.gettempdir(), "write a temporary file in") from error
        finally:
            self.abort()

    def abort(self) -> None:
        with suppress(OSError):  # what could not be written is no longer wanted
            self._file.close()

    def __del__(self) -> None:
        self.abort()


class SeekableInput(io.RawIOBase):
    """One version of an object; ``ObjectChanged`` at once or at any later read if the object has changed.

    If ``etag`` or ``size`` is None, the version is the one found when opening.
    """

    def __init__(self, store: ObjectStore, path: str, *, etag: str | None = None, size: int | None = None) -> None:
        self._store = store
        self._path = path
        self._place = 0
        if etag is None or size is None:
            found = store.head(path)
            if size not in (None, found.size) or etag not in (None, found.etag):
                raise object_changed(join_path(store.location.uri, path), "its size or etag differs")
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
        # Without an etag to compare, missing bytes are the only sign of a change.
        if not content:
            raise object_changed(join_path(self._store.location.uri, self._path), "it is shorter by now")
        target[: len(content)] = content
        self._place += len(content)
        return len(content)


_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
_PASSING = {errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EAGAIN, errno.EINTR, errno.EBUSY}
_RETRY_CODES = {
    "SlowDown",
    "RequestTimeout",
    "InternalError",
    "ServiceUnavailable",
    "ServerBusy",
    "Throttling",
}
# The client repeats a request whose response was lost, and then meets its own write.
_CONTRADICTIONS = ("AlreadyExistsError", "PreconditionError")
"""Refusals of a condition that nobody set."""

_WRITING = "write"
"""Prefix of actions that need no existing object, so that nothing can be missing."""

_STATUS = re.compile(r"status code: (\d{3})|status: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z0-9.]+)</Code>")
_BAD_KEY = re.compile(r'Error parsing Path "(.*?)": |Path "(.*?)" contained', re.DOTALL)


def object_missing(uri: str) -> ObjectMissing:
    return ObjectMissing(f"{uri} does not exist", "check the path, and whether something deletes files there")


def object_changed(uri: str, detail: str) -> ObjectChanged:
    """What is at ``uri`` is not what was requested."""
    return ObjectChanged(
        f"{uri} is not the object that was listed: {detail}", "list again; source files must not be rewritten"
    )


def response_truncated(uri: str, found: int, announced: int) -> StorageUnavailable:
    """A response was truncated, although the client took it for complete."""
    return StorageUnavailable(
        f"cannot read {uri}: received {found} of {announced} bytes",
        "retry; something between here and the store truncates responses",
    )


def object_exists(uri: str) -> ObjectExists:
    """Put-if-absent found something at ``uri``."""
    return ObjectExists(f"{uri} exists already", "read it to see who wrote it")


def unusable_path(uri: str, path: str, reason: str) -> StorageError:
    """A path that no store can have, or that this one cannot represent."""
    return StorageError(
        f"{uri}: the path {path!r} cannot be used: {reason}",
        "rename the object; paths are segments of printable characters separated by single slashes",
    )


def from_os(error: OSError, uri: str, action: str) -> StorageError:
    """The error for an ``action`` (read, write, list …) on ``uri`` that the operating system refused."""
    said = f"{errno.errorcode.get(error.errno or 0, 'error')}: {error.strerror or type(error).__name__}"
    problem = f"cannot {action} {uri} ({said})"
    match error.errno:
        case errno.ENOENT if not action.startswith(_WRITING):
            return object_missing(uri)
        case errno.EEXIST:
            return object_exists(uri)
        case number if number in _FULL:
            return StorageError(problem, "free space on that disk, or use another one; then run again")
        case errno.EROFS:
            return AccessDenied(problem, "the file system is mounted read-only: mount it for writing")
        case number if number in _DENIED:
            return AccessDenied(problem, "give the user who runs this the permission, or use another location")
        case errno.ENOTDIR | errno.EISDIR:
            return StorageError(problem, "a file is where a directory must be, or the other way round")
        case errno.EMFILE | errno.ENFILE:
            return StorageError(problem, "raise the limit of open files (ulimit -n)")
        case number if number in _PASSING:
            return StorageUnavailable(problem, "retry; if it persists, check the disk or the mount")
        case _:
            return StorageError(problem, "check the location and its file system")


def from_client(error: Exception, uri: str, action: str) -> StorageError:
    """The error for an ``action`` on ``uri`` that the object store, or the network, refused."""
    text, kind = str(error), type(error).__name__
    bad_key = _BAD_KEY.search(text)
    if bad_key and (kind == "InvalidPathError" or isinstance(error, ValueError)):
        return unusable_path(uri, bad_key[1] or bad_key[2], "the store's client cannot represent it")
    if kind == "AlreadyExistsError" and action == "create":
        return object_exists(uri)
    if isinstance(error, OSError) and error.errno is not None:
        return from_os(error, uri, action)
    code = found[1] if (found := _CODE.search(text)) else ""
    # The status is 404, but no object is missing: something removed the unfinished upload.
    if action.startswith(_WRITING) and code == "NoSuchUpload":
        return StorageUnavailable(
            f"cannot {action} {uri} (the store returned {code})", "retry; something removed the unfinished upload"
        )
    if action == "read" and (kind == "PreconditionError" or status_of(error) == 412):
        return object_changed(uri, "its etag differs")
    return _error_by_status(error, uri, f"cannot {action} {uri}", status_of(error), code)


def status_of(error: Exception) -> int:
    """The HTTP status in an error of the client; 0 if there was no response."""
    found = _STATUS.search(str(error))
    return int(found[1] or found[2]) if found else 0


def is_past_the_end(error: Exception) -> bool:
    """Whether a range begins after the last byte, as the store or its client reports."""
    return status_of(error) == 416 or "StartTooLarge" in str(error)


def _error_by_status(error: Exception, uri: str, problem: str, status: int, code: str) -> StorageError:
    kind, text = type(error).__name__, str(error)
    refused = f"{problem} (the store returned {' '.join(filter(None, (str(status or ''), code)))})"
    if code in ("NoSuchBucket", "ContainerNotFound"):
        return StorageError(refused, f"{_bucket(uri)} does not exist: create it, or correct the URI")
    if isinstance(error, FileNotFoundError) or status == 404:
        return object_missing(uri)
    if "BadScheme" in text:
        prefix = FAMILIES[scheme_of(uri)][0].upper()
        return StorageError(f"{problem}: the endpoint is plain http", f"set {prefix}ALLOW_HTTP: 'true', or use https")
    # Without credentials the client asks the metadata service of the machine, and fails there.
    if "169.254." in text or "metadata" in text.lower():
        return AccessDenied(f"{problem}: no credentials", "set the storage options or the environment variables")
    if status in (401, 403) or kind in ("PermissionDeniedError", "UnauthenticatedError"):
        return AccessDenied(refused, "check the credentials in the storage options and what they may do there")
    if status >= 500 or status in (408, 409, 412, 429) or code in _RETRY_CODES or kind in _CONTRADICTIONS:
        return StorageUnavailable(refused, "retry later; the store is overloaded or down")
    if "invalid list response" in text:
        return StorageUnavailable(f"{problem}: the response was truncated", "retry; none of it was used")
    if "HTTP error" in text or "error sending request" in text or isinstance(error, TimeoutError):
        return StorageUnavailable(f"{problem}: no response", "check the endpoint and the network, then retry")
    if kind == "NotSupportedError":
        return StorageError(f"{problem}: the store does not support it", "use a store with conditional writes")
    return StorageError(refused if status else f"{problem} ({kind})", "check the location and storage options")


def _bucket(uri: str) -> str:
    scheme, _, rest = uri.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def safe_cause(error: Exception, secrets: Iterable[str]) -> Exception | None:
    """``error`` as a cause to show, unless its text contains one of ``secrets``."""
    return None if Mask.of(*secrets).hides(str(error)) else error
