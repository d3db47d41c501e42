"""Buckets as a store: S3, Google Cloud Storage and Azure, through one client.

A key with a line break or another control character, an empty part, ``.`` or ``..`` makes obstore fail the whole page.
On S3 such a listing is repeated with pyarrow's client, and these keys are left out.

Reads are ranged requests that name the etag (If-Match), so a stream never mixes two versions, and no request times out
because the reader is slow. Large files are written to a local temporary file first and uploaded in parts when closed.

Azure lists etags without the quotes of its headers: an etag here has none, and is sent with quotes.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import obstore
from obstore.exceptions import BaseError, InvalidPathError, PreconditionError

from tidegate.core.files.discovery import Reason
from tidegate.errors import ObjectMissing, StorageError
from tidegate.specs.locations import Location
from tidegate.specs.masking import Mask
from tidegate.storage.options import of_scheme, pick_option, scheme_of, secrets, split_uri
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
    from_client,
    from_os,
    is_past_the_end,
    join_path,
    object_changed,
    path_problem,
    response_truncated,
    safe_cause,
)

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from obstore import GetOptions, GetResult, ObjectMeta
    from obstore.store import ObjectStore as Client
    from pyarrow.fs import S3FileSystem


def keys_below(location: Location, prefix: str, *, deep: bool) -> tuple[list[str], list[str]]:
    """The directories and the objects in ``prefix``, or everything below it, with unchanged keys, ascending.

    ``OSError`` if this client gets no response.
    """
    from pyarrow.fs import FileSelector, FileType

    _, bucket, path = split_uri(location.uri)
    root = "/".join(filter(None, (bucket, path)))
    base = "/".join(filter(None, (root, prefix)))
    found = _client(location).get_file_info(FileSelector(base, allow_not_found=True, recursive=deep))
    names = [(info.path[len(root) + 1 :], info.type is FileType.Directory) for info in found]
    return _unique(name for name, is_directory in names if is_directory), _unique(
        name for name, is_directory in names if not is_directory
    )


def _unique(names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name})


def is_odd(key: str) -> bool:
    """Whether the object store client refuses ``key``."""
    return path_problem(key) is not None or any(ord(char) < 0x20 or ord(char) == 0x7F for char in key)


def _client(location: Location) -> S3FileSystem:
    from pyarrow.fs import S3FileSystem

    places = (of_scheme(location.options, "s3"), os.environ)

    def pick(*names: str) -> str | None:
        return pick_option(names, *places)

    scheme, _, host = (pick("aws_endpoint_url_s3", "aws_endpoint_url", "aws_endpoint") or "").rpartition("://")
    return S3FileSystem(
        access_key=pick("aws_access_key_id"),
        secret_key=pick("aws_secret_access_key"),
        session_token=pick("aws_session_token", "aws_token"),
        anonymous=(pick("aws_skip_signature") or "").lower() in ("true", "1"),
        region=pick("aws_region", "aws_default_region"),
        scheme=scheme or None,
        endpoint_override=host.rstrip("/") or None,
    )


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

    def tell(self) -> int:
        return self._offset - len(self._block)

    def readinto(self, buffer: WriteableBuffer) -> int:
        if not self._block and self._offset < self._size:
            self._next_block()
        target = memoryview(buffer).cast("B")
        count = min(len(target), len(self._block))
        target[:count] = self._block[:count]
        self._block = self._block[count:]
        return count


BLOCK = 8 * 1024 * 1024
"""Bytes per ranged read of a stream."""

_MOST_PARTS = 10_000
Paths = list[str]


class RemoteStore:
    """A prefix of a bucket. The client belongs to the process that created it."""

    concurrency = 8

    def __init__(self, location: Location, client: Client) -> None:
        self.location = location
        self.requests = Requests()
        self.uploads = Uploads()
        self._client = client
        self._secrets = secrets(location.options)
        # Once: it compiles what it looks for.
        self._mask = Mask.of(*self._secrets)
        self._is_azure = scheme_of(location.uri) == "az"

    def exists(self) -> bool:
        return True

    def list(
        self, prefix: str = "", after: str | None = None, *, known: Known | None = None, scope: Scope | None = None
    ) -> Iterator[ObjectInfo]:
        check_prefix(self.location.uri, prefix)
        page_open = False
        for chunk in self._chunks(prefix, after, known, scope):
            self.requests.count_listed(len(chunk), pages=1)
            page_open = True
            yield from self._select(chunk, prefix, after, known)
        if not page_open:
            self.requests.count_listed(0, pages=1)

    def _chunks(
        self, prefix: str, after: str | None, known: Known | None, scope: Scope | None
    ) -> Iterator[Sequence[ObjectMeta]]:
        with self._map_errors(prefix, "list"):
            try:
                yield from self._pages(prefix, after)
            except InvalidPathError as error:
                _, keys = self._list_others(error, prefix, scope, deep=True)
                # The pages before the failure have been handed out and must not come twice.
                listed = self._keys_before_failure(prefix, after)
                left = (key for key in keys if key not in listed and (after is None or key > after))
                yield from self._heads(left, known)

    def _pages(self, prefix: str, after: str | None) -> Iterator[Sequence[ObjectMeta]]:
        yield from obstore.list(self._client, prefix or None, offset=after, chunk_size=PAGE)

    def _keys_before_failure(self, prefix: str, after: str | None) -> set[str]:
        """The keys that the client lists before it fails at one that it cannot represent."""
        listed: set[str] = set()
        with contextlib.suppress(InvalidPathError):
            for page in self._pages(prefix, after):
                listed.update(meta["path"] for meta in page)
        return listed

    def _list_others(
        self, error: InvalidPathError, prefix: str, scope: Scope | None, *, deep: bool
    ) -> tuple[Paths, Paths]:
        """The directories and keys of a listing without those that the client cannot represent."""
        # pyarrow's client is made from the options of S3; on other stores the error stays.
        if not self.location.uri.startswith("s3"):
            raise error
        try:
            directories, keys = keys_below(self.location, prefix, deep=deep)
        except (OSError, ValueError):
            raise error from None
        for directory in filter(is_odd, (*directories, *keys)):
            if scope is not None and (not deep or directory in keys):
                scope.leave_out(Reason.NAME, directory)
        return [directory for directory in directories if not is_odd(directory)], [
            key for key in keys if not is_odd(key)
        ]

    def _heads(self, keys: Iterable[str], known: Known | None) -> Iterator[Sequence[ObjectMeta]]:
        """The objects at ``keys``, requested one by one, page by page; missing ones are left out."""
        wanted = (key for key in keys if not (known and known(key)))
        # pyarrow lists no etags, so each object needs a HEAD request.
        with ThreadPoolExecutor(self.concurrency, "head") as pool:
            while page := list(islice(wanted, PAGE)):
                yield [meta for meta in pool.map(self._meta, page) if meta is not None]

    def _meta(self, key: str) -> ObjectMeta | None:
        self.requests.count("head")
        try:
            return obstore.head(self._client, key)
        except FileNotFoundError:
            return None

    def list_directory(
        self, prefix: str = "", after: str | None = None, *, known: Known | None = None, scope: Scope | None = None
    ) -> Directory:
        check_prefix(self.location.uri, prefix)
        with self._map_errors(prefix, "list"):
            try:
                found = obstore.list_with_delimiter(self._client, prefix or None)
                directories, objects = found["common_prefixes"], found["objects"]
            except InvalidPathError as error:
                directories, keys = self._list_others(error, prefix, scope, deep=False)
                keys = [key for key in keys if after is None or key > after]
                objects = [meta for page in self._heads(keys, known) for meta in page]
        entries = len(objects) + len(directories)
        self.requests.count_listed(entries, pages=max(1, -(-entries // PAGE)))
        # SeaweedFS lists `x-28/` before `x-28-y/`: the order of a store is not relied on.
        wanted = sorted(self._select(objects, prefix, after, known), key=lambda info: info.path)
        return Directory(tuple(sorted(directories)), tuple(wanted))

    def _select(
        self, chunk: Sequence[ObjectMeta], prefix: str, after: str | None, known: Known | None
    ) -> Iterator[ObjectInfo]:
        for meta in chunk:
            path = meta["path"]
            # S3 lists strictly after the offset; Google Cloud Storage and Azure include it in places.
            if path == prefix or (after is not None and path <= after) or (known and known(path)):
                continue
            if not (meta["size"] == 0 and self._is_marker(path)):
                yield self._info(meta)

    def _info(self, meta: ObjectMeta) -> ObjectInfo:
        etag = meta["e_tag"]
        if etag and self._is_azure:
            etag = etag.strip('"')
        return ObjectInfo(meta["path"], meta["size"], etag, meta["last_modified"])

    def _is_marker(self, path: str) -> bool:
        """Whether an empty object is a directory marker; its key ends in a slash, which the client drops."""
        # Only an empty object without a dot in its name costs this request: markers are named like folders.
        if "." in path.rpartition("/")[2]:
            return False
        try:
            self.head(path)
        except ObjectMissing:
            return True
        return False

    def head(self, path: str) -> ObjectInfo:
        self.requests.count("head")
        with self._map_errors(path, "read"):
            return self._info(obstore.head(self._client, check_path(self.location.uri, path)))

    def get(self, path: str) -> bytes:
        with self._map_errors(path, "read"):
            return self._read_response(path, self._get(path, {}))

    def get_range(self, path: str, start: int, length: int, if_match: str | None = None) -> bytes:
        if length <= 0:
            return b""
        with self._map_errors(path, "read"):
            try:
                return self._read_response(path, self._get_part(path, start, start + length, if_match))
            except BaseError as error:
                if is_past_the_end(error):
                    return b""
                raise

    def open_input(self, path: str, *, etag: str | None, size: int | None) -> BinaryIO:
        # An empty object has no range to read, hence no request that would compare its etag.
        if etag is None or not size:
            etag, size = self._pin(path, etag, size)
        raw = RangedInput(self._read_block, path, etag, size, BLOCK)
        return cast(BinaryIO, io.BufferedReader(raw, BLOCK))

    def _pin(self, path: str, etag: str | None, size: int | None) -> tuple[str | None, int]:
        """Etag and size of the current object, which must match the known ones."""
        found = self.head(path)
        if etag is not None and found.etag != etag:
            raise object_changed(self._uri(path), "its etag differs")
        if size is not None and found.size != size:
            raise object_changed(self._uri(path), f"it has {found.size} bytes instead of {size}")
        return found.etag, found.size

    def _read_block(self, path: str, start: int, end: int, etag: str | None, size: int) -> bytes:
        with self._map_errors(path, "read"):
            response = self._get_part(path, start, end, etag)
            if response.meta["size"] != size:
                raise object_changed(self._uri(path), f"it has {response.meta['size']} bytes instead of {size}")
            return self._read_response(path, response)

    def _read_response(self, path: str, response: GetResult) -> bytes:
        """Read the announced number of bytes; fewer would silently lose records."""
        start, end = response.range
        content = bytes(response.bytes())
        if len(content) != end - start:
            raise response_truncated(self._uri(path), len(content), end - start)
        return content

    def _get_part(self, path: str, start: int, end: int, etag: str | None) -> GetResult:
        options: GetOptions = {"range": (start, end)}
        if etag is not None:
            options["if_match"] = f'"{etag.strip(chr(34))}"' if self._is_azure else etag
        try:
            return self._get(path, options)
        except PreconditionError:
            if self._is_azure:
                self.head(path)  # Azure refuses the etag of a missing object too: this tells the two apart
            raise

    def _get(self, path: str, options: GetOptions) -> GetResult:
        self.requests.count("get")
        return obstore.get(self._client, check_path(self.location.uri, path), options=options)

    def put(self, path: str, data: bytes) -> None:
        self.requests.count("put")
        with self._map_errors(path, "write"):
            obstore.put(self._client, check_path(self.location.uri, path), data, use_multipart=False)

    def put_if_absent(self, path: str, data: bytes) -> None:
        self.requests.count("put")
        with self._map_errors(path, "create"):
            obstore.put(self._client, check_path(self.location.uri, path), data, mode="create")

    def open_output(self, path: str, upload: Upload | None = None) -> Output:
        check_path(self.location.uri, path)
        try:
            # The temporary file has no name, so nothing of it outlives this process.
            file = tempfile.TemporaryFile(buffering=_BUFFER)  # noqa: SIM115 - closed by the output
        except OSError as error:
            raise from_os(error, tempfile.gettempdir(), "write a temporary file in") from error
        return BufferedOutput(
            cast(BinaryIO, file), lambda content, size: self._put_content(path, content, size, upload or Upload())
        )

    def put_file(self, path: str, local_path: str, upload: Upload | None = None) -> None:
        with self._map_errors(path, "write"):
            size = os.stat(local_path).st_size
        self._put_content(path, Path(local_path), size, upload or Upload())

    def _put_content(self, path: str, content: Path | BinaryIO, size: int, way: Upload) -> None:
        """Upload in one request, or in parts within the limit of all uploads."""
        self.requests.count("put")
        key = check_path(self.location.uri, path)
        with self._map_errors(path, "write"):
            if size < way.multipart_from:
                obstore.put(self._client, key, content, use_multipart=False)
                return
            # S3 takes no more parts than that.
            part = max(way.part_size, -(-size // _MOST_PARTS))
            with self.uploads.parts(-(-size // part), way.concurrent_parts) as at_once:
                obstore.put(self._client, key, content, use_multipart=True, chunk_size=part, max_concurrency=at_once)

    def sync(self, paths: Iterable[str]) -> None:
        """Do nothing: a bucket keeps what it has acknowledged."""

    def delete(self, path: str) -> None:
        self.requests.count("delete")
        with self._map_errors(path, "delete"), contextlib.suppress(FileNotFoundError):
            obstore.delete(self._client, check_path(self.location.uri, path))

    def _uri(self, path: str) -> str:
        return join_path(self.location.uri, path) if path else self.location.uri

    @contextlib.contextmanager
    def _map_errors(self, path: str, action: str) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError, ValueError) as error:
            found = self._mask.error(from_client(error, self._uri(path), action))
            # Most of these are looks for what need not be there, many in each poll: the client's text has nothing to
            # add, and to search it for secrets would take longer than the request.
            raise found from None if isinstance(found, ObjectMissing) else safe_cause(error, self._secrets)
        except BaseException as error:
            # How the native client reports its own bugs, and an endpoint in the environment that is not an address.
            if type(error).__name__ != "PanicException":
                raise
            problem = f"cannot {action} {self._uri(path)}: the store's client crashed ({type(error).__name__})"
            raise StorageError(problem, "check the endpoint in the storage options and the environment") from None
