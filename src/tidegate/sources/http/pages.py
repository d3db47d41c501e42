"""One page of records: taken from an answer as a whole, and believed only if the answer is what it should be.

A page is kept on disk where it is large, until its end has come: half a page is never given on.
"""

from __future__ import annotations

import hashlib
import io
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

import httpx

from tidegate.column_specs import HttpRead
from tidegate.errors import SourceError
from tidegate.sources.http.requests import shown
from tidegate.sources.http.scanning import CutOff, NotAnswer, Scanner
from tidegate.sources.http.sending import TryAgain

_IN_MEMORY = 8 * 1024 * 1024
_BLOCK_BYTES = 1024 * 1024
_CHUNK_BYTES = 256 * 1024
_MEGABYTE = 1024 * 1024
_ERRORS = ("error", "errors")
_NO_CONTENT = 204


@dataclass(frozen=True, slots=True)
class Page:
    """The records of one answer, one per line, and what the answer tells besides them."""

    count: int
    rest: Any
    link: str | None
    digest: bytes
    size: int
    _lines: IO[bytes] = field(repr=False, compare=False)

    def blocks(self) -> Iterator[bytes]:
        """The records in blocks of whole lines; the page is gone afterwards."""
        with self._lines as lines:
            lines.seek(0)
            while block := lines.read(_BLOCK_BYTES):
                yield block + lines.readline() if not block.endswith(b"\n") else block

    def close(self) -> None:
        """Forget the records."""
        self._lines.close()

    def value(self, path: str) -> Any:
        """What lies at ``path``, None where nothing does."""
        return value_at(self.rest, path)


def page_of(response: httpx.Response, read: HttpRead, told: Callable[[object, int], str]) -> Page:
    """The page in an answer with a good status; ``told`` gives the beginning of what a server sent, for messages.

    Raises :class:`TryAgain` for an answer that ends in the middle, :class:`SourceError` for one that is none.
    """
    where = shown(str(response.url))
    if response.status_code == _NO_CONTENT:
        return Page(0, {}, _next_link(response), b"", 0, io.BytesIO())
    _check_type(response, where, told)
    lines = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115  # the page closes it
    digest = hashlib.sha256()

    def found(record: bytes) -> None:
        lines.write(record + b"\n")
        digest.update(record)

    scanner = Scanner(tuple(read.records.split(".")) if read.records else (), found)
    try:
        size = _scanned(response, scanner, read, where)
        rest = scanner.finish()
    except BaseException as error:
        lines.close()
        if isinstance(error, CutOff):
            raise TryAgain("the answer ends in the middle") from error
        if isinstance(error, NotAnswer):
            excerpt = f": {told(error.found, 60)!r}" if error.found else ""
            raise SourceError(f"{where}: {error.why}{excerpt}", "see what the server sends") from None
        raise
    page = Page(scanner.count, rest, _next_link(response), digest.digest(), size, lines)
    try:
        _check_content(page, scanner, read, where, told)
    except SourceError:
        page.close()
        raise
    return page


def value_at(data: Any, path: str) -> Any:
    """What lies at a path of names with dots, None where nothing does.

    >>> value_at({"paging": {"next": "abc"}}, "paging.next")
    'abc'
    """
    for name in path.split(".") if path else ():
        data = data.get(name) if isinstance(data, Mapping) else None
    return data


def _scanned(response: httpx.Response, scanner: Scanner, read: HttpRead, where: str) -> int:
    size = 0
    for chunk in response.iter_bytes(_CHUNK_BYTES):
        size += len(chunk)
        if size > read.max_response_mb * _MEGABYTE:
            raise SourceError(
                f"{where}: an answer of more than {read.max_response_mb} MB",
                "ask for smaller pages (pagination.size), or allow more with max_response_mb",
            )
        scanner.feed(chunk)
    return size


def _check_type(response: httpx.Response, where: str, told: Callable[[object, int], str]) -> None:
    kind = response.headers.get("content-type", "").split(";")[0].strip()
    if kind and not (kind.lower().endswith(("/json", "+json"))):
        raise SourceError(
            f"{where}: the answer is {told(kind, 100)}, not JSON",
            "check url and path; a page for people often tells of a login",
        )


def _check_content(
    page: Page, scanner: Scanner, read: HttpRead, where: str, told: Callable[[object, int], str]
) -> None:
    """An answer that tells an error, or has no list of records, is none, whatever its status."""
    for path in (read.error,) if read.error else _ERRORS:
        problem = value_at(page.rest, path)
        if problem:
            raise SourceError(
                f"{where}: the answer tells an error in {path!r}: {told(problem, 200)}", "see what it says"
            )
    if scanner.is_found:
        return
    name = f"at {read.records!r}" if read.records else "at the top"
    value = value_at(page.rest, read.records)
    if value is None and read.pagination.total and page.value(read.pagination.total) == 0:
        return
    keys = f"; its keys are {told(', '.join(map(str, page.rest)), 300)}" if isinstance(page.rest, Mapping) else ""
    found = "an object" if isinstance(value, Mapping) else f"the value {told(value, 200)}"
    raise SourceError(
        f"{where}: the answer has no list of records {name} but {'nothing' if value is None else found}{keys}",
        "name the path of the list in `records`",
    )


def _next_link(response: httpx.Response) -> str | None:
    """The next page by the ``Link`` header."""
    return response.links.get("next", {}).get("url")
