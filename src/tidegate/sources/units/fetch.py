"""Fetches a work unit into files: every segment of it, or nothing.

The requests of all segments are made before anything is sent, so that a variable without a value costs nothing. Pages
of an API become one file of JSON lines per segment; at most one page is held, a large one on disk. A download becomes a
file as it is. Small results stay in memory, to share a file with others. Files of a store are read in place, as listed:
a change since then is an error.
"""

from __future__ import annotations

import io
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Self, cast
from urllib.parse import quote
from uuid import uuid4

import httpx2
import zstandard

from tidegate.core.files.paths import compile_glob
from tidegate.core.files.plan import FileSlice
from tidegate.errors import ObjectMissing, SourceError, SourceMissing
from tidegate.formats.port import compression_by_content
from tidegate.sources.file_discovery import refuse_left_out
from tidegate.sources.http.bounds import Part
from tidegate.sources.http.client import ConnectionPool, RequestPace, Sender, check_headers, public_url, request_of
from tidegate.sources.http.responses import Counts, LineBlock, Shapes, part_blocks
from tidegate.sources.units.work import (
    Fetched,
    FetchedFile,
    FetchTask,
    UnitFailure,
    UnitWork,
    Variables,
    failure_of,
    names_in,
    sent_params,
    variables_of,
)
from tidegate.specs.columns import HttpAuth, HttpRead
from tidegate.specs.files import Compression
from tidegate.specs.locations import Location, Options, Secret
from tidegate.specs.units import FileRead, PartitionKind, Replace, UnitSource
from tidegate.storage.local import reaches
from tidegate.storage.options import split_uri
from tidegate.storage.port import ObjectInfo, ObjectStore, Output, Scope, join_path
from tidegate.storage.stores import open_store

_LEVEL = 1
_CHUNK_BYTES = 1024 * 1024
_SMALL_BYTES = 256 * 1024
"""Results up to this many bytes stay in memory and share a file with others."""

_NO_CONTENT = 204
_ENDING = re.compile(r"(?:\.[A-Za-z0-9]{1,8}){1,3}$")
_HOUR = 3_600_000
_LENGTHS = {
    PartitionKind.HOURLY: _HOUR,
    PartitionKind.DAILY: 25 * _HOUR,
    PartitionKind.WEEKLY: (7 * 24 + 1) * _HOUR,
    PartitionKind.MONTHLY: (31 * 24 + 1) * _HOUR,
    PartitionKind.YEARLY: (366 * 24 + 1) * _HOUR,
}
"""Milliseconds from the start of a partition to a moment that surely lies in the next one."""


def fetch_unit(task: FetchTask, work: UnitWork, index: int, senders: Senders | None = None) -> Fetched | UnitFailure:
    """Fetch every segment of a work unit; after a failure nothing of the unit counts."""
    if senders is None:
        with closing(Senders(task.slots)) as own:
            return fetch_unit(task, work, index, own)
    mask = Variables(secrets=work.secrets).mask
    fetch = _UnitFetch(task, index, senders)
    try:
        for segment, request in enumerate(_build_requests(task.source, work)):
            fetch.take(request, segment)
    # A work unit fails alone, for whatever reason.
    except Exception as error:
        # A 404 after some content is a read that broke off, not a unit that the server does not know.
        return failure_of(error, mask, not_found=isinstance(error, SourceMissing) and fetch.is_empty)
    files = tuple(replace(file, where=mask(file.where)) for file in fetch.files)
    return Fetched(index, work.unit, work.segments, files, fetch.requests, tuple(fetch.samples))


class _UnitFetch:
    """One work unit on its way into files; ``samples`` are records that show its columns."""

    def __init__(self, task: FetchTask, index: int, senders: Senders) -> None:
        self.files: list[FetchedFile] = []
        self.samples: list[bytes] = []
        self.requests = 0
        self._task = task
        self._index = index
        self._senders = senders
        self._counts = Counts()
        self._shapes = Shapes()

    @property
    def is_empty(self) -> bool:
        """True if the work unit has no content so far."""
        return not self.files and not self._counts.pages

    def take(self, request: SegmentRequest | FileAddress, segment: int) -> None:
        """Fetch one segment; raises, and leaves no file of it, if that fails."""
        read = self._task.source.read
        # A task that Spark repeats must not write into a file of its first attempt.
        name = f"{self._index:06d}-{segment:03d}-{uuid4()}"
        match request, read:
            case FileAddress(), FileRead():
                self.files += list_files(request, segment, read.compression, follow_links=read.follow_links)
            case SegmentRequest(), FileRead():
                self._download(request, Compression(read.compression), segment, name)
            case SegmentRequest(), _:
                self._take_pages(request, segment, f"{name}.ndjson.zst")

    def _download(self, asked: SegmentRequest, compression: Compression, segment: int, name: str) -> None:
        """Fetch one file, or none if the server has no content for it.

        Without a declared compression the first bytes decide: a server may compress, or not, whatever the name says.
        """
        request = request_of(asked.read, asked.part)
        ending = _ENDING.search(request.url.rpartition("/")[2].partition("?")[0])
        path = f"{name}{ending[0].lower() if ending else ''}"
        with self._sender(asked.read) as sender:
            received = sender.fetch(request, partial(self._receive, path=path))
        if received is None:
            return
        if compression is Compression.AUTO:
            compression = compression_by_content(received.first)
        self.files.append(received.describe(segment, public_url(request.url), compression))

    def _receive(self, response: httpx2.Response, path: str) -> _ScratchFile | None:
        """Receive the bytes; httpx2 raises if some are missing."""
        if response.status_code == _NO_CONTENT:
            return None
        kind = response.headers.get("content-type", "").split(";")[0].strip().lower()
        if kind == "text/html":
            raise SourceError(
                f"{public_url(str(response.url))}: the response is a web page ({kind}), not a file",
                "check url and path; a web page often means that a login is needed",
            )
        with _ScratchFile(self._task.scratch, path) as output:
            for chunk in response.iter_bytes(_CHUNK_BYTES):
                output.write(chunk)
        return output

    def _take_pages(self, asked: SegmentRequest, segment: int, path: str) -> None:
        """Write all pages of one segment into one file; none if they have no record."""
        with self._sender(asked.read) as sender, _ScratchFile(self._task.scratch, path) as output:
            size, pages = self._write(part_blocks(asked.read, asked.part, sender, self._counts), output)
        if not pages:
            output.delete()
            return
        file = output.describe(segment, public_url(request_of(asked.read, asked.part).url), Compression.ZSTD)
        self.files.append(replace(file, pages=pages, line_bytes=size))

    @contextmanager
    def _sender(self, read: HttpRead) -> Iterator[Sender]:
        """The sender for one segment, whose requests are counted."""
        with self._senders.lend(read) as sender:
            try:
                yield sender
            finally:
                self.requests += sender.requests

    def _write(self, blocks: Iterator[LineBlock], output: _ScratchFile) -> tuple[int, tuple[int, ...]]:
        """Write the blocks; returns their bytes, and the number of records up to the end of each page."""
        squeezed = zstandard.ZstdCompressor(level=_LEVEL).compressobj()
        ends: list[int] = []
        size = records = 0
        for block in blocks:
            ends += [records] * (block.page - 1 - len(ends))
            records += block.lines.count(b"\n")
            ends[block.page - 1 :] = [records]
            size += len(block.lines)
            output.write(squeezed.compress(block.lines))
            if self._task.infers:
                samples = map(self._shapes.sample, block.lines.splitlines())
                self.samples += [record for record in samples if record is not None]
        output.write(squeezed.flush())
        return size, tuple(ends)


class _ScratchFile:
    """The content of one segment: bytes in memory while they are few, then a file of the scratch area."""

    def __init__(self, scratch: Location, path: str) -> None:
        self.first = b""
        self._scratch = scratch
        self._path = path
        self._size = 0
        self._buffer = io.BytesIO()
        self._output: Output | None = None

    def describe(self, segment: int, where: str, compression: Compression) -> FetchedFile:
        """The result as a file of a segment, with its content if that is small."""
        content = self._buffer.getvalue() if self._output is None else None
        there = FileSlice(self._path, self._size)
        return FetchedFile(segment, where, self._scratch, there, compression, content=content)

    def write(self, data: bytes) -> None:
        self.first = self.first or data[:4]
        self._size += len(data)
        if self._output is None and self._size > _SMALL_BYTES:
            self._output = open_store(self._scratch).open_output(self._path)
            self._output.write(self._buffer.getvalue())
            self._buffer.close()
        (self._output or self._buffer).write(data)

    def delete(self) -> None:
        """Discard what was written."""
        if self._output is not None:
            open_store(self._scratch).delete(self._path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._output is not None:
            self._output.__exit__(kind, error, trace)


def _build_requests(source: UnitSource, work: UnitWork) -> Sequence[SegmentRequest | FileAddress]:
    """Build the request of each segment; raises if two segments or partitions would get the same rows."""
    requests = [_build_request(source, variables_of(source, work, segment)) for segment in work.segments]
    if source.time_column is not None or source.replace in (Replace.MERGE_KEYS, Replace.NONE):
        return requests
    if any(request in requests[:place] for place, request in enumerate(requests)):
        raise SourceError(
            f"source {source.name!r}: the {len(requests)} segments of a work unit would all get the same rows",
            "use the range in the request or the address (params), or set replace: unit, or time_column",
        )
    # The rows of the earlier read stay in the table: the same request would double them (decision 0034).
    if work.follows is not None and _asks_again(source, work, work.follows, requests[0]):
        raise SourceError(
            f"source {source.name!r}: the time in the request is coarser than what is read: it is the request of the "
            "read before, whose rows are in the table and would be appended once more",
            "set `replace: unit` (the whole work unit is read and replaced), or time_column, or `replace: none` (every "
            "read is kept, as history)",
        )
    length = _LENGTHS.get(source.work.partition)
    if source.params and length is not None and not source.work.sub_ranges:
        first, second = work.start, work.start + length
        around = [(first, second), (second, second + length)]
        one, other = (_build_request(source, variables_of(source, work, span)) for span in around)
        if one == other:
            raise SourceError(
                f"source {source.name!r}: two {source.work.partition} partitions in a row would get the same rows",
                "write the range in a finer format (params), or set larger partitions, or time_column",
            )
    return requests


def first_request(source: UnitSource, work: UnitWork) -> SegmentRequest | FileAddress:
    """The request of the first segment of a work unit."""
    return _build_request(source, variables_of(source, work, work.segments[0]))


def _asks_again(source: UnitSource, work: UnitWork, before: tuple[int, int], now: SegmentRequest | FileAddress) -> bool:
    """True if the request of a segment is that of the one before it, whose rows stay.

    Bounds are rounded down to their formats: of a server that gets both, two equal requests ask for an empty range. An
    address of files is always the same files.
    """
    may_be_empty = isinstance(now, SegmentRequest) and len({param.bound for param in source.params}) > 1
    return (
        bool(source.params) and not may_be_empty and _build_request(source, variables_of(source, work, before)) == now
    )


def _build_request(source: UnitSource, variables: Variables) -> SegmentRequest | FileAddress:
    match source.read:
        case HttpRead() as read:
            return _fill_read(source, read, variables)
        case FileRead(http=HttpRead() as read):
            # The client asks for JSON by default, and a server may refuse to send a file as that.
            if "accept" not in map(str.lower, read.headers):
                read = replace(read, headers=Options({**read.headers, "Accept": "*/*"}))
            return _fill_read(source, read, variables)
        case FileRead(location=Location() as template):
            return address_of(template, variables)
        case _:
            raise SourceError(f"source {source.name!r} is neither an HTTP API nor files", "correct its type")


_OF_AUTH = ("token", "user", "password", "client_id", "client_secret", "scope")
"""The credentials that a unit may have; it does not decide where they are sent."""


@dataclass(frozen=True, slots=True)
class SegmentRequest:
    """The read of one segment without variables, and the parameters of its range."""

    read: HttpRead
    part: Part


def _fill_read(source: UnitSource, read: HttpRead, variables: Variables) -> SegmentRequest:
    """The request of one segment; raises before anything is sent."""
    if any(names_in(read.url)):
        raise SourceError(
            f"source {source.name!r}: the address of the server has a variable",
            "use variables only in path, params, headers and body; credentials go to one server only",
        )
    filled = replace(
        read,
        path=variables.fill(read.path, _quote_path, kept=read.auth.path_variable),
        params={name: variables.fill(str(value)) for name, value in read.params.items()},
        headers=Options({name: variables.fill(value) for name, value in read.headers.items()}),
        body=None if read.body is None else cast(Mapping[str, object], variables.fill_deep(read.body)),
        auth=_fill_auth(read.auth, variables),
    )
    check_headers(filled.headers)
    texts = [read.path, dict(read.params), dict(read.headers), read.body, _auth_texts(read.auth)]
    return SegmentRequest(filled, Part(sent_params(source, variables, names_in(texts))))


def _quote_path(value: str) -> str:
    """A value as a part of an address: never a separator or a step upwards."""
    if value in ("", ".", ".."):
        raise SourceError(f"the value {value!r} cannot be part of an address", "leave such units out with a filter")
    return quote(value, safe="")


def _auth_texts(auth: HttpAuth) -> dict[str, str]:
    values = {name: getattr(auth, name) for name in _OF_AUTH}
    return {name: getattr(value, "value", value) for name, value in values.items() if value is not None}


def _fill_auth(auth: HttpAuth, variables: Variables) -> HttpAuth:
    """Credentials of the unit itself."""
    changed: dict[str, str | Secret] = {}
    for name, text in _auth_texts(auth).items():
        if any(names_in(text)):
            filled = variables.fill(text)
            changed[name] = Secret(filled) if isinstance(getattr(auth, name), Secret) else filled
    return replace(auth, **changed)  # type: ignore[arg-type]  # each has the type it had


# Each unit may have its own credentials, and with them its own connections; most are used only once.
_MOST_IDLE = 4


class Senders:
    """One of ``slots`` tasks that share the rate limit of one source; its threads share pace and connections.

    The last few connections stay open.
    """

    def __init__(self, slots: int = 1, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._slots = slots
        self._sleep = sleep
        self._pace: RequestPace | None = None
        self._idle: dict[_Key, ConnectionPool] = {}
        self._used: dict[_Key, tuple[ConnectionPool, int]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def lend(self, read: HttpRead) -> Iterator[Sender]:
        """Lend a sender for a read to one thread."""
        # Cookies and tokens belong to a pool, so only reads with equal credentials may share one.
        key = (read.url, read.headers, read.auth)
        with self._lock:
            self._pace = self._pace or RequestPace(read.rate_limit, self._slots, sleep=self._sleep)
            if key not in self._used:
                self._used[key] = self._idle.pop(key) if key in self._idle else ConnectionPool(read), 0
            connection, users = self._used[key]
            self._used[key] = connection, users + 1
        try:
            yield Sender(read, self._pace, connection, sleep=self._sleep)
        finally:
            self._give_back(key)

    def close(self) -> None:
        """Close all connections."""
        for connection in self._idle.values():
            connection.close()
        self._idle.clear()

    def _give_back(self, key: _Key) -> None:
        with self._lock:
            connection, users = self._used.pop(key)
            if users > 1:
                self._used[key] = connection, users - 1
                return
            self._idle[key] = connection
            while len(self._idle) > _MOST_IDLE:
                self._idle.pop(next(iter(self._idle))).close()


_Key = tuple[str, Options, HttpAuth]


_WILD = re.compile(r"[*?]")
_SPECIAL = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class FileAddress:
    """A folder without wildcards, and below it one pattern per level, the last for files.

    ``root`` is the part of the address that all work units share.
    """

    root: Location
    folder: Location
    levels: tuple[str, ...]
    display: str

    @property
    def is_literal(self) -> bool:
        """Whether it names exactly one file."""
        return len(self.levels) == 1 and not _WILD.search(_drop_classes(self.levels[0]))


def address_of(template: Location, variables: Variables) -> FileAddress:
    """Build the address of one segment. Only the template has wildcards: in a value they are literal."""
    # A `?` is a wildcard in this address, and would begin a query in a URI.
    scheme, authority, path = split_uri(template.uri.replace("?", "%3F").replace("#", "%23"))
    if any(names_in(authority)):
        raise SourceError(
            f"{template.uri}: the bucket has a variable; use variables only after it",
            "give each bucket a source of its own",
        )
    display = variables.fill(path)
    pattern = variables.fill(re.sub(r"\[", "[[]", path), lambda value: _SPECIAL.sub(r"[\g<0>]", value))
    levels = pattern.split("/")
    if {"", ".", ".."} & set(levels):
        raise SourceError(
            f"{scheme}://{authority}/{display}: a value makes an empty part, '.' or '..' of the address",
            "leave such units out with a filter",
        )
    first = next((place for place, level in enumerate(levels) if _WILD.search(_drop_classes(level))), len(levels) - 1)
    fixed = re.split(r"\{\{|[*?]", path)[0].rpartition("/")[0]
    folder = "/".join(_drop_classes(level, plain=True) for level in levels[:first])
    root, place = (
        Location(f"{scheme}://{authority}/{quote(path)}".rstrip("/"), template.options) for path in (fixed, folder)
    )
    return FileAddress(root, place, tuple(levels[first:]), f"{scheme}://{authority}/{display}")


def list_files(
    address: FileAddress, segment: int, compression: str, *, follow_links: bool = False
) -> tuple[FetchedFile, ...]:
    """List the files at an address, by name; raises :class:`SourceMissing` if there are none.

    A missing folder of all work units, such as an unmounted disk, says nothing about any of them. A work unit is read
    as a whole: a link that is not followed, or an unusable name, is an error.
    """
    scope = Scope()
    store = open_store(address.folder)
    if follow_links:
        infos = _drop_links(address, sorted(_match_files(store, address, None), key=lambda info: info.path))
    else:
        infos = (
            sorted(_match_files(store, address, scope), key=lambda info: info.path)
            if _is_reached(address, scope)
            else []
        )
    refuse_left_out(scope, address.display, "set follow_links: true, or put the files themselves there")
    if not infos and not open_store(address.root).exists():
        raise SourceError(f"{address.root.uri} does not exist", "check source_uri, and whether the folder is mounted")
    if not infos:
        raise SourceMissing(
            f"{address.display}: there is no such file", "check the address; the file may not have arrived yet"
        )
    return tuple(
        FetchedFile(
            segment,
            f"{address.folder.uri}/{info.path}",
            address.folder,
            FileSlice(info.path, info.size, info.etag),
            Compression(compression),
            is_scratch=False,
        )
        for info in infos
    )


def _is_reached(address: FileAddress, scope: Scope) -> bool:
    """True if no link leads from the shared part of the address to the folder or file."""
    (scheme, _, root), (_, _, folder) = split_uri(address.root.uri), split_uri(address.folder.uri)
    path = folder[len(root) :].strip("/")
    if address.is_literal:
        path = join_path(path, _drop_classes(address.levels[-1], plain=True))
    return scheme != "file" or reaches(scope, f"/{root}", path)


def _drop_links(address: FileAddress, infos: list[ObjectInfo]) -> list[ObjectInfo]:
    """Keep each real file of a work unit under one name: its own, if listed."""
    scheme, _, folder = split_uri(address.folder.uri)
    if scheme != "file":
        return infos
    names: dict[str, ObjectInfo] = {}
    for info in infos:
        path = f"/{folder}/{info.path}"
        real = os.path.realpath(path)
        if real == path or real not in names:
            names[real] = info
    return sorted(names.values(), key=lambda name: name.path)


def _match_files(store: ObjectStore, address: FileAddress, scope: Scope | None) -> Iterator[ObjectInfo]:
    *folders, last = address.levels
    if address.is_literal:
        try:
            yield store.head(_drop_classes(last, plain=True))
        except ObjectMissing:
            return
        return
    prefixes = [""]
    for level in folders:
        prefixes = [
            below_it
            for prefix in prefixes
            for below_it in store.list_directory(prefix, scope=scope).directories
            if _fits(level, below_it)
        ]
    for prefix in prefixes:
        yield from (info for info in store.list_directory(prefix, scope=scope).objects if _fits(last, info.path))


def _fits(pattern: str, path: str) -> bool:
    return compile_glob(pattern).fullmatch(path.rpartition("/")[2]) is not None


def _drop_classes(pattern: str, *, plain: bool = False) -> str:
    """Drop escapes from a pattern or, ``plain``, replace them by the literal characters."""
    return re.sub(r"\[(.)\]", r"\1" if plain else "", pattern)
