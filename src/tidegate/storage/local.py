"""Directories of this machine as a store.

Listing reads names first, and size and time only of wanted names, so that a directory of many finished files stays
cheap. An etag consists of inode, modification time and size. Whole objects appear by renaming or linking a finished
temporary file; such temporary files are never listed.

A file is forced to disk before it gets its name, and the directory after that: a name without content would be worse
than neither. A new directory is forced into the one above it.

On local disks Spark replaces a log entry that appears between its check and its rename: it relies on the file system to
refuse, which it does not. So commits by Spark take a lock that every process of Tidegate respects. Other programs do
not know it.

By default a listing follows no links. If it does, each file counts once, under one name: its own if it lies below the
root and no part of that name is internal, else that of the first link by path; links with an internal name give none.
Only paths decide this, not what was read before or when a link was made, so making a link again does not rename its
files.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import heapq
import io
import os
import shutil
import stat
import uuid
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, BinaryIO, cast

from tidegate.core.files.discovery import Reason
from tidegate.specs.locations import Location
from tidegate.storage.options import split_uri
from tidegate.storage.port import (
    INTERNAL,
    Directory,
    Known,
    ObjectInfo,
    Output,
    Requests,
    Scope,
    Upload,
    Uploads,
    check_path,
    check_prefix,
    from_os,
    is_text,
    join_path,
    may_hold_after,
    object_changed,
    object_missing,
)

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


_BUFFER = 1024 * 1024
_CANNOT = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)
"""Errors of file systems that cannot force a directory and keep names by themselves."""


def etag_of(found: os.stat_result) -> str:
    """An etag that changes whenever a file is replaced, written or truncated."""
    # With the inode: a file may be replaced by one of the same size within one tick of the clock.
    return f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"


class LocalInput(io.RawIOBase):
    """The bytes of one version of a file; ``ObjectChanged`` as soon as the file is no longer that version.

    A file replaced by renaming keeps its old content for readers that have it open, so such a read stays whole.
    """

    def __init__(self, path: str, uri: str, etag: str | None, size: int | None) -> None:
        self._uri = uri
        try:
            self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed by close()
        except OSError:
            super().close()  # else Python 3.13 calls close() later and reports that it failed
            raise
        found = os.fstat(self._file.fileno())
        self._etag = etag if etag is not None else etag_of(found)
        try:
            if size is not None and size != found.st_size:
                raise object_changed(uri, f"it has {found.st_size} bytes instead of {size}")
            self._check()
        except BaseException:
            self._file.close()
            raise

    def _check(self) -> None:
        if etag_of(os.fstat(self._file.fileno())) != self._etag:
            raise object_changed(self._uri, "its size or modification time differs")

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: WriteableBuffer) -> int:
        try:
            count = self._file.readinto(buffer)
            # After the bytes were read, so that none of them can come from a later version.
            self._check()
        except OSError as error:
            raise from_os(error, self._uri, "read") from error
        return count or 0

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


class LocalOutput(Output):
    """A new file written in place and, with ``sync``, forced to disk when closed; ``abort`` removes it."""

    def __init__(self, path: str, uri: str, *, sync: bool) -> None:
        self._path = path
        self._uri = uri
        self._sync = sync
        self._file = io.BufferedWriter(io.FileIO(path, "wb"), _BUFFER)

    @property
    def closed(self) -> bool:
        return self._file.closed

    def write(self, data: bytes, /) -> int:
        try:
            return self._file.write(data)
        except OSError as error:
            raise from_os(error, self._uri, "write") from error

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        try:
            self._file.flush()
        except OSError as error:
            raise from_os(error, self._uri, "write") from error

    def close(self) -> None:
        try:
            if self._sync and not self.closed:
                self._file.flush()
                force(self._file.fileno())
                # The name lies in the directory: without this, a crash may keep the content and lose the file.
                force_path(os.path.dirname(self._path))
            self._file.close()
        except OSError as error:
            # The disk that refused the write may refuse the close, too; the first error is the one to report.
            with contextlib.suppress(OSError):
                self._file.raw.close()
            self._remove()
            raise from_os(error, self._uri, "write") from error

    def abort(self) -> None:
        if not self.closed:
            self._file.raw.close()
            self._remove()

    def _remove(self) -> None:
        try:
            os.unlink(self._path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise from_os(error, self._uri, "write") from error


_TEMPORARY = (".tidegate-", ".tmp")

Paths = list[str]


class LocalStore:
    """A directory. It need not exist: then it is empty, and the first write creates it."""

    concurrency = 1

    def __init__(self, location: Location, root: str) -> None:
        self.location = location
        self.requests = Requests()
        self.uploads = Uploads()
        self._root = root

    def exists(self) -> bool:
        return os.path.isdir(self._root)

    def list(
        self, prefix: str = "", after: str | None = None, *, known: Known | None = None, scope: Scope | None = None
    ) -> Iterator[ObjectInfo]:
        check_prefix(self.location.uri, prefix)
        if scope is None or reaches(scope, self._root, prefix):
            yield from self._list_below(prefix, after, known, scope)

    def _list_below(
        self, prefix: str, after: str | None, known: Known | None, scope: Scope | None
    ) -> Iterator[ObjectInfo]:
        directories, names = self._scan(prefix, after, scope)
        keys = [*names, *(f"{directory}/" for directory in directories if may_hold_after(directory, after))]
        # A directory sorts with its slash, as in an object store: `a-b` comes before everything in `a/`.
        for key in sorted(keys):
            if key.endswith("/"):
                yield from self._list_below(key[:-1], after, known, scope)
            elif not (known and known(key)) and (info := self._object_at(key, scope)):
                yield info

    def list_directory(
        self, prefix: str = "", after: str | None = None, *, known: Known | None = None, scope: Scope | None = None
    ) -> Directory:
        check_prefix(self.location.uri, prefix)
        if scope is not None and not reaches(scope, self._root, prefix):
            return Directory((), ())
        directories, names = self._scan(prefix, after, scope)
        wanted = (self._object_at(path, scope) for path in sorted(names) if not (known and known(path)))
        return Directory(tuple(sorted(directories)), tuple(info for info in wanted if info))

    def head(self, path: str) -> ObjectInfo:
        self.requests.count("head")
        with self._map_errors(path, "read"):
            found = os.stat(self._at(path))
        if not stat.S_ISREG(found.st_mode):
            raise object_missing(self._uri(path))
        return _info(path, found)

    def get(self, path: str) -> bytes:
        self.requests.count("get")
        with self._map_errors(path, "read"), open(self._at(path), "rb") as file:
            return file.read()

    def get_range(self, path: str, start: int, length: int, if_match: str | None = None) -> bytes:
        self.requests.count("get")
        with self._map_errors(path, "read"), open(self._at(path), "rb") as file:
            file.seek(start)
            data = file.read(length)
            if if_match is not None and etag_of(os.fstat(file.fileno())) != if_match:
                raise object_changed(self._uri(path), "its etag differs")
            return data

    def open_input(self, path: str, *, etag: str | None, size: int | None) -> BinaryIO:
        self.requests.count("get")
        with self._map_errors(path, "read"):
            raw = LocalInput(self._at(path), self._uri(path), etag, size)
        return cast(BinaryIO, io.BufferedReader(raw, _BUFFER))

    def put(self, path: str, data: bytes) -> None:
        self.requests.count("put")
        with self._map_errors(path, "write"), self._temporary(path, data) as temporary:
            os.replace(temporary, self._at(path))
            self._sync_name(path)

    def put_if_absent(self, path: str, data: bytes) -> None:
        self.requests.count("put")
        with self._map_errors(path, "write"), self._temporary(path, data) as temporary:
            # A link fails if the name exists, so that one of several writers wins; a rename would replace.
            os.link(temporary, self._at(path))
            self._sync_name(path)

    def open_output(self, path: str, upload: Upload | None = None) -> Output:
        self.requests.count("put")
        with self._map_errors(path, "write"):
            self._make_directory(path)
            return LocalOutput(self._at(path), self._uri(path), sync=self.location.sync)

    def put_file(self, path: str, local_path: str, upload: Upload | None = None) -> None:
        self.requests.count("put")
        with self._map_errors(path, "write"), self._temporary(path, b"") as temporary:
            shutil.copyfile(local_path, temporary)
            self._sync_content(temporary)
            os.replace(temporary, self._at(path))
            self._sync_name(path)

    def sync(self, paths: Iterable[str]) -> None:
        if not self.location.sync:
            return
        directories: dict[str, str] = {}
        for path in paths:
            # Others wrote these objects; one that is gone by now has nothing left to keep.
            with self._map_errors(path, "write"), contextlib.suppress(FileNotFoundError):
                self._sync_content(self._at(path))
                directories[os.path.dirname(self._at(path))] = path
        for path in directories.values():
            with self._map_errors(path, "write"):
                self._sync_name(path)

    def delete(self, path: str) -> None:
        self.requests.count("delete")
        with self._map_errors(path, "delete"), contextlib.suppress(FileNotFoundError):
            os.unlink(self._at(path))

    def _scan(self, prefix: str, after: str | None, scope: Scope | None) -> tuple[Paths, Paths]:
        """The directories and the possible objects greater than ``after`` in one directory, in no order."""
        bound = _lower_bound(prefix, after)
        links = None if scope is None else links_in(scope, self._root)
        directories: Paths = []
        names: Paths = []
        with self._map_errors(prefix, "list"), self._entries(prefix) as entries:
            for entry in entries:
                name, is_link = entry.name, entry.is_symlink()
                is_wanted = bound is not None and name > bound
                # A directory is wanted whatever its name is: what lies in it may be greater than the bound.
                if not is_wanted and not is_link and not entry.is_dir():
                    continue
                if name.startswith(_TEMPORARY[0]) and name.endswith(_TEMPORARY[1]):
                    continue
                path = join_path(prefix, name)
                reason = _reason_against(name, path, is_link, links)
                if reason is not None and scope is not None:
                    scope.leave_out(reason, path)
                if reason is not None:
                    continue
                if entry.is_dir():
                    directories.append(path)
                elif is_wanted:
                    names.append(path)
        self.requests.count_listed(len(directories) + len(names), pages=1)
        return directories, names

    def _entries(self, prefix: str) -> AbstractContextManager[Iterable[os.DirEntry[str]]]:
        try:
            return os.scandir(os.path.join(self._root, prefix))
        except FileNotFoundError:
            return contextlib.nullcontext(())

    def _object_at(self, path: str, scope: Scope | None) -> ObjectInfo | None:
        """The object at a listed name; None if it is gone or not a regular file."""
        with self._map_errors(path, "list"):
            try:
                found = os.stat(os.path.join(self._root, path))
            # Removed between the listing and this look.
            except FileNotFoundError:
                return None
        if stat.S_ISREG(found.st_mode):
            return _info(path, found)
        if scope is not None:
            scope.leave_out(Reason.SPECIAL, path)
        return None

    @contextlib.contextmanager
    def _temporary(self, path: str, data: bytes) -> Iterator[str]:
        """The name of a file beside ``path`` with ``data`` in it; removed at the end of the block."""
        self._make_directory(path)
        temporary = os.path.join(os.path.dirname(self._at(path)), uuid.uuid4().hex.join(_TEMPORARY))
        try:
            with open(temporary, "xb") as file:
                file.write(data)
                if self.location.sync:
                    file.flush()
                    force(file.fileno())
            yield temporary
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)

    def _sync_content(self, path: str) -> None:
        if self.location.sync:
            force_path(path)

    def _sync_name(self, path: str) -> None:
        """Force the name of ``path`` in its directory to disk."""
        if self.location.sync:
            force_path(os.path.dirname(self._at(path)))

    def _make_directory(self, path: str) -> None:
        """Create the directory for ``path``; a file in its place does not count as an existing object."""
        try:
            _make_directories(os.path.dirname(self._at(path)), sync=self.location.sync)
        except FileExistsError as error:
            # `FileExistsError` would be taken for an object that another writer has made.
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from error

    def _at(self, path: str) -> str:
        return os.path.join(self._root, check_path(self.location.uri, path))

    def _uri(self, path: str) -> str:
        return join_path(self.location.uri, path) if path else self.location.uri

    @contextlib.contextmanager
    def _map_errors(self, path: str, action: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise from_os(error, self._uri(path), action) from error


def _reason_against(name: str, path: str, is_link: bool, links: Links | None) -> Reason | None:
    """Why an entry of a directory is left out."""
    if not is_text(name):
        return Reason.NAME
    return None if links is None else links.refusal(path, is_link=is_link)


def _lower_bound(prefix: str, after: str | None) -> str | None:
    """The name after which to list objects directly in ``prefix``: ``""`` for all, None for none."""
    inside = f"{prefix}/" if prefix else ""
    if after is None:
        return ""
    if after.startswith(inside):
        return after[len(inside) :]
    return "" if inside > after else None


def _info(path: str, found: os.stat_result) -> ObjectInfo:
    modified = datetime.fromtimestamp(found.st_mtime, UTC)
    return ObjectInfo(path, found.st_size, etag_of(found), modified)


def force(descriptor: int) -> None:
    """Force everything written to an open file or directory to disk."""
    os.fsync(descriptor)


def force_path(path: str) -> None:
    """Force the file or directory at ``path`` to disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        force(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT or not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise
    finally:
        os.close(descriptor)


def _make_directories(path: str, *, sync: bool) -> None:
    """Create the directory and missing ones above it; ``FileExistsError`` for a file in its place."""
    made: list[str] = []
    above = path
    while sync and above and not os.path.lexists(above):
        made.append(above)
        above = os.path.dirname(above)
    # The missing ones were noted first: afterwards it is unknown which are new and must be forced to disk.
    os.makedirs(path, exist_ok=True)
    for each in reversed(made):
        force_path(os.path.dirname(each))


LOCK = "_tidegate/commit.lock"
"""The lock file, relative to the table; it stays there, and only its lock counts."""


def announce(location: Location) -> None:
    """Declare that Spark will write the table at ``location``: every commit takes the lock from now on."""
    descriptor = _open_lock(location, always=True)
    if descriptor is not None:
        os.close(descriptor)


@contextlib.contextmanager
def lock_log(location: Location, *, always: bool) -> Iterator[None]:
    """While inside, no other process of Tidegate writes the log of the table at ``location``.

    Waits for those that do. Without ``always`` it locks only if Spark has announced itself: elsewhere every writer
    creates entries so that one of two is refused. Object stores need no lock: there Spark does so, too.
    """
    descriptor = _open_lock(location, always=always)
    if descriptor is None:
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _open_lock(location: Location, *, always: bool) -> int | None:
    scheme, _, path = split_uri(location.uri)
    if scheme != "file":
        return None
    lock = f"/{path}/{LOCK}"
    if always:
        os.makedirs(os.path.dirname(lock), exist_ok=True)
    try:
        # A table that Spark has never written has no lock file, and its commits pay for no lock.
        return os.open(lock, os.O_RDWR | (os.O_CREAT if always else 0), 0o644)
    except FileNotFoundError:
        return None


def links_in(scope: Scope, root: str) -> Links:
    """The links below the local directory ``root``; read once per scope."""
    return scope.ask_once(root, lambda: follow_links(root, scope.apart) if scope.follow_links else Links())


def reaches(scope: Scope, root: str, path: str) -> bool:
    """Whether every link on the way from the local directory ``root`` is followed; counts one that is not."""
    parts = path.split("/") if path else []
    for depth in range(1, len(parts) + 1):
        part = "/".join(parts[:depth])
        if reason := links_in(scope, root).refusal(part, is_link=os.path.islink(os.path.join(root, part))):
            scope.leave_out(reason, part)
            return False
    return True


@dataclass(frozen=True, slots=True)
class Links:
    """The links below a directory that are followed, and why other paths are not listed."""

    followed: frozenset[str] = frozenset()
    refused: dict[str, Reason] = field(default_factory=dict)

    def refusal(self, path: str, *, is_link: bool) -> Reason | None:
        """Why nothing at ``path`` is listed; None to list it."""
        if path in self.refused:
            return self.refused[path]
        return Reason.LINK if is_link and path not in self.followed else None


def follow_links(root: str, apart: tuple[str, ...] = ()) -> Links:
    """Which links below ``root`` name their files: the first by path wins.

    Reads every directory, but only the names of files.
    """
    return _Walk(os.path.realpath(root), frozenset(apart)).result()


class _Walk:
    """Gives each real directory and each linked file one visible path, the root's own first."""

    def __init__(self, root: str, apart: frozenset[str]) -> None:
        self._root = root
        self._apart = apart
        self._named: dict[str, str] = {}
        self._files: dict[str, str] = {}
        self._waiting: list[tuple[str, str]] = []
        self._followed: set[str] = set()
        self._refused: dict[str, Reason] = {}

    def result(self) -> Links:
        self._enter(self._root, "")
        while self._waiting:
            # By path, not by the time of discovery: making a link again must not rename files that were read.
            path, real = heapq.heappop(self._waiting)
            self._follow(path, real)
        return Links(frozenset(self._followed), self._refused)

    def _enter(self, real: str, path: str) -> None:
        """Visit a directory without a name; its links come later."""
        left = [(real, path)]
        while left:
            real, path = left.pop()
            if real in self._named or real in self._apart:
                self._refused[path] = Reason.LINK_AGAIN if real in self._named else Reason.TABLE
                continue
            self._named[real] = path
            for entry in _entries(real):
                at = f"{path}/{entry.name}" if path else entry.name
                if entry.is_symlink():
                    self._put_off(entry, at)
                elif entry.is_dir(follow_symlinks=False):
                    if not entry.name.startswith(INTERNAL):
                        left.append((entry.path, at))
                elif entry.path in self._files:
                    self._refused[at] = Reason.LINK_AGAIN

    def _put_off(self, entry: os.DirEntry[str], path: str) -> None:
        if entry.name.startswith(INTERNAL):
            self._refused[path] = Reason.INTERNAL
            return
        try:
            heapq.heappush(self._waiting, (path, os.path.realpath(entry.path, strict=True)))
        except OSError:
            self._refused[path] = Reason.LINK_BROKEN

    def _follow(self, path: str, real: str) -> None:
        # A link into a table of the project would make a run read its own output.
        if any(part == real or real.startswith(f"{part}/") for part in self._apart):
            self._refused[path] = Reason.TABLE
        elif os.path.isdir(real):
            if real in self._named:
                self._refused[path] = Reason.LINK_AGAIN
            else:
                self._followed.add(path)
                self._enter(real, path)
        elif real in self._files or self._has_own_name(real):
            self._refused[path] = Reason.LINK_AGAIN
        else:
            self._followed.add(path)
            self._files[real] = path

    def _has_own_name(self, real: str) -> bool:
        directory, name = os.path.split(real)
        return directory in self._named and not name.startswith(INTERNAL)


def _entries(directory: str) -> Iterator[os.DirEntry[str]]:
    """The entries by name; none if the directory is gone or unreadable, which its listing reports."""
    try:
        with os.scandir(directory) as entries:
            yield from sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
