"""A store in the memory of this process, with the same guarantees as the others.

``memory://NAME/…`` is one space per ``NAME``, shared by every store of the process that opens it.
"""

from __future__ import annotations

import contextlib
import io
import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import BinaryIO

from tidegate.errors import ObjectMissing
from tidegate.specs.locations import Location
from tidegate.storage.port import (
    PAGE,
    BufferedOutput,
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
    join_path,
    object_changed,
    object_exists,
    object_missing,
)


@dataclass(frozen=True, slots=True)
class _Entry:
    data: bytes
    etag: str
    modified: datetime


@dataclass(slots=True)
class Space:
    """The objects of one ``memory://NAME``."""

    objects: dict[str, _Entry] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    _ordered: list[str] | None = None

    def put(self, key: str, entry: _Entry) -> None:
        """Add or replace an object; the caller has the lock."""
        if key not in self.objects:
            self._ordered = None
        self.objects[key] = entry

    def remove(self, key: str) -> None:
        """Remove an object if it exists; the caller has the lock."""
        if self.objects.pop(key, None) is not None:
            self._ordered = None

    def keys_in(self, inside: str) -> list[str]:
        """The keys that begin with ``inside``, which is empty or ends with a slash, ascending; needs the lock."""
        if self._ordered is None:
            self._ordered = sorted(self.objects)
        if not inside:
            return list(self._ordered)
        # `0` follows the slash in ASCII, so this is the first key behind everything in the directory.
        return self._ordered[bisect_left(self._ordered, inside) : bisect_left(self._ordered, f"{inside[:-1]}0")]


_spaces: dict[str, Space] = {}
_etags = count(1)
Paths = list[str]


def space(name: str) -> Space:
    """The space with that name, created on first use."""
    return _spaces.setdefault(name, Space())


def forget(name: str) -> None:
    """Drop the space of that name and all its objects."""
    _spaces.pop(name, None)


class MemoryStore:
    """Objects of a space below a path."""

    concurrency = 1

    def __init__(self, location: Location, within: Space, root: str = "") -> None:
        self.location = location
        self.requests = Requests()
        self.uploads = Uploads()
        self._space = within
        self._inside = f"{root}/" if root else ""

    def exists(self) -> bool:
        return True

    def list(
        self, prefix: str = "", after: str | None = None, *, known: Known | None = None, scope: Scope | None = None
    ) -> Iterator[ObjectInfo]:
        found = [path for path in self._paths(prefix) if after is None or path > after]
        self.requests.count_listed(len(found), pages=max(1, -(-len(found) // PAGE)))
        for path in found:
            if not (known and known(path)):
                # Another thread may have removed it since the names were read, as on every other store.
                with contextlib.suppress(ObjectMissing):
                    yield self._info(path)

    def list_directory(
        self, prefix: str = "", after: str | None = None, *, known: Known | None = None, scope: Scope | None = None
    ) -> Directory:
        depth = prefix.count("/") + 1 if prefix else 0
        paths = [(path, path.split("/")) for path in self._paths(prefix)]
        own = [path for path, parts in paths if len(parts) == depth + 1]
        directories = sorted({"/".join(parts[: depth + 1]) for _, parts in paths if len(parts) > depth + 1})
        entries = len(own) + len(directories)
        self.requests.count_listed(entries, pages=max(1, -(-entries // PAGE)))
        wanted = (path for path in own if (after is None or path > after) and not (known and known(path)))
        return Directory(tuple(directories), tuple(self._info(path) for path in wanted))

    def head(self, path: str) -> ObjectInfo:
        self.requests.count("head")
        return self._info(path)

    def get(self, path: str) -> bytes:
        self.requests.count("get")
        return self._entry(path).data

    def get_range(self, path: str, start: int, length: int, if_match: str | None = None) -> bytes:
        self.requests.count("get")
        entry = self._entry(path)
        if if_match is not None and entry.etag != if_match:
            raise object_changed(self._uri(path), "its etag differs")
        return entry.data[start : start + length]

    def open_input(self, path: str, *, etag: str | None, size: int | None) -> BinaryIO:
        self.requests.count("get")
        entry = self._entry(path)
        if etag is not None and entry.etag != etag:
            raise object_changed(self._uri(path), "its etag differs")
        if size is not None and len(entry.data) != size:
            raise object_changed(self._uri(path), f"it has {len(entry.data)} bytes instead of {size}")
        return io.BytesIO(entry.data)

    def put(self, path: str, data: bytes) -> None:
        self.requests.count("put")
        key = self._key(path)
        with self._space.lock:
            self._space.put(key, _entry(data))

    def put_if_absent(self, path: str, data: bytes) -> None:
        self.requests.count("put")
        key = self._key(path)
        with self._space.lock:
            if key in self._space.objects:
                raise object_exists(self._uri(path))
            self._space.put(key, _entry(data))

    def open_output(self, path: str, upload: Upload | None = None) -> Output:
        check_path(self.location.uri, path)
        return BufferedOutput(io.BytesIO(), lambda content, size: self.put(path, content.read()))

    def put_file(self, path: str, local_path: str, upload: Upload | None = None) -> None:
        try:
            data = Path(local_path).read_bytes()
        except OSError as error:
            raise from_os(error, local_path, "read") from error
        self.put(path, data)

    def sync(self, paths: Iterable[str]) -> None:
        """Do nothing: nothing here outlives the process."""

    def delete(self, path: str) -> None:
        self.requests.count("delete")
        with self._space.lock:
            self._space.remove(self._key(path))

    def _paths(self, prefix: str) -> Paths:
        inside = self._inside + (f"{check_prefix(self.location.uri, prefix)}/" if prefix else "")
        with self._space.lock:
            return [key[len(self._inside) :] for key in self._space.keys_in(inside)]

    def _entry(self, path: str) -> _Entry:
        try:
            return self._space.objects[self._key(path)]
        except KeyError:
            raise object_missing(self._uri(path)) from None

    def _info(self, path: str) -> ObjectInfo:
        entry = self._entry(path)
        return ObjectInfo(path, len(entry.data), entry.etag, entry.modified)

    def _key(self, path: str) -> str:
        return self._inside + check_path(self.location.uri, path)

    def _uri(self, path: str) -> str:
        return join_path(self.location.uri, path)


def _entry(data: bytes) -> _Entry:
    return _Entry(bytes(data), f'"{next(_etags)}"', datetime.now(UTC))
