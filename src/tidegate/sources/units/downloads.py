"""Files that a server hands out, one address per segment, streamed into storage."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial

import httpx

from tidegate.column_specs import HttpRead
from tidegate.errors import SourceError
from tidegate.locations import Options
from tidegate.planning.plan import FileSlice
from tidegate.sources.http.requests import request_of, shown
from tidegate.sources.units.fetched import FetchedFile, FetchTask
from tidegate.sources.units.requests import Ask
from tidegate.sources.units.senders import Senders
from tidegate.specs import Compression
from tidegate.storage.opening import open_store
from tidegate.unit_specs import FileRead

_CHUNK_BYTES = 1024 * 1024
_NO_CONTENT = 204
_ENDING = re.compile(r"(?:\.[A-Za-z0-9]{1,8}){1,3}$")
_MAGIC = {Compression.GZIP: b"\x1f\x8b", Compression.ZSTD: b"\x28\xb5\x2f\xfd"}


def downloaded(
    task: FetchTask, read: FileRead, senders: Senders, ask: Ask, segment: int, name: str
) -> FetchedFile | None:
    """The file of one segment; None where the server has no content for it. Raises, and leaves nothing, otherwise.

    Without a declared compression the first bytes tell it: a server may compress, or not, whatever the name says.
    """
    request = request_of(ask.read, ask.part)
    ending = _ENDING.search(request.url.rpartition("/")[2].partition("?")[0])
    path = f"{name}{ending[0].lower() if ending else ''}"
    found = senders.of(ask.read).fetched(request, partial(_received, task=task, path=path))
    if found is None:
        return None
    size, first = found
    compression = Compression(read.compression)
    if compression is Compression.AUTO:
        compression = next((kind for kind, magic in _MAGIC.items() if first.startswith(magic)), Compression.NONE)
    return FetchedFile(segment, shown(request.url), task.scratch, FileSlice(path, size), compression)


def any_kind(read: HttpRead) -> HttpRead:
    """The same read, to which the server may answer with anything."""
    told = {name.lower() for name in read.headers}
    return read if "accept" in told else replace(read, headers=Options({**read.headers, "Accept": "*/*"}))


def _received(response: httpx.Response, task: FetchTask, path: str) -> tuple[int, bytes] | None:
    """Size and first bytes of what arrived; httpx raises where it does not arrive as a whole."""
    if response.status_code == _NO_CONTENT:
        return None
    kind = response.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind == "text/html":
        raise SourceError(
            f"{shown(str(response.url))}: the answer is a page for people ({kind}), no file",
            "check url and path; such a page often tells of a login",
        )
    size, first = 0, b""
    with open_store(task.scratch).open_output(path) as output:
        for chunk in response.iter_bytes(_CHUNK_BYTES):
            first = first or chunk[:4]
            size += output.write(chunk)
    return size, first
