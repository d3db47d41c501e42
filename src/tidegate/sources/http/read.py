"""A whole read of an API in one process: page after page, and never a silent end before the end.

The end is an empty page, a total that is reached, or an answer without a next cursor or link. A short page is not: a
server may give fewer records than it was asked for. What looks like going in circles, or like a source that changes
under the read, is an error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tidegate.errors import ConfigError, SourceError, TidegateError
from tidegate.sources.http.answers import Page, page_of
from tidegate.sources.http.bounds import Part
from tidegate.sources.http.client import Request, RequestPace, Sender, request_of, shown, slot_count
from tidegate.specs.columns import HttpRead, Pagination, PaginationKind

_STARTS = {PaginationKind.OFFSET: 0, PaginationKind.PAGE: 1}
_PARAMS = {PaginationKind.OFFSET: "offset", PaginationKind.PAGE: "page", PaginationKind.CURSOR: "cursor"}


@dataclass(slots=True)
class _Walk:
    """What was seen so far."""

    where: str
    told: Callable[[object, int], str]
    records: int = 0
    pages: int = 0
    total: int | None = None
    cursors: set[str] = field(default_factory=set)
    digests: set[bytes] = field(default_factory=set)

    def problem(self, what: str) -> SourceError:
        return SourceError(
            f"{self.where}, page {self.pages}: {what}", "nothing of this read is kept; see what the server does"
        )


def pages(
    first: Request,
    paging: Pagination,
    location: str,
    fetch: Callable[[Request], Page],
    told: Callable[[object, int], str],
) -> Iterator[Page]:
    """Every page of a read; ``fetch`` gives the page of one request, ``told`` the beginning of what a server sent.

    Raises :class:`SourceError` for a repeated page or cursor, a changed or missed total, and more pages than allowed.
    """
    walk = _Walk(shown(first.url), told)
    request: Request | None = _paged(first, paging, location, walk)
    while request is not None:
        if walk.pages == paging.max_pages:
            raise SourceError(
                f"{walk.where}: there are more than {paging.max_pages} pages",
                "nothing of this read is kept; ask for less, for larger pages, or raise pagination.max_pages",
            )
        page = fetch(request)
        try:
            _note(page, paging, walk)
            request = _next(request, page, paging, location, walk)
        except TidegateError:
            page.close()
            raise
        yield page
    if walk.total is not None and walk.records != walk.total:
        raise walk.problem(f"{walk.records} records came of the {walk.total} that the server tells")


def _note(page: Page, paging: Pagination, walk: _Walk) -> None:
    """Count a page in; raises where it does not go with the ones before."""
    walk.pages += 1
    walk.records += page.count
    _check_total(page, paging, walk)
    if page.count and page.digest in walk.digests:
        raise walk.problem("its records are those of an earlier page")
    walk.digests.add(page.digest)


def _paged(request: Request, paging: Pagination, location: str, walk: _Walk) -> Request:
    """The request with the parameters of its page; a cursor and a link have none before the first answer."""
    values: dict[str, str | int] = {}
    if paging.size_param is not None and paging.size is not None:
        values[paging.size_param] = paging.size
    if paging.kind is PaginationKind.OFFSET:
        values[_param(paging)] = _start(paging) + walk.records
    elif paging.kind is PaginationKind.PAGE:
        values[_param(paging)] = _start(paging) + walk.pages
    return request.with_values(values, location)


def _param(paging: Pagination) -> str:
    return paging.param or _PARAMS[paging.kind]


def _start(paging: Pagination) -> int:
    return _STARTS[paging.kind] if paging.start is None else paging.start


def _next(request: Request, page: Page, paging: Pagination, location: str, walk: _Walk) -> Request | None:
    match paging.kind:
        case PaginationKind.NONE:
            return None
        case PaginationKind.OFFSET | PaginationKind.PAGE:
            at_end = page.count == 0 or (walk.total is not None and walk.records >= walk.total)
            return None if at_end else _paged(request, paging, location, walk)
        case PaginationKind.CURSOR:
            if paging.next is None:
                raise ConfigError(("pagination: cursor needs `next`, the path of the cursor in the answer",))
            cursor = _once(page.value(paging.next), walk, "cursor")
            return None if cursor is None else request.with_values({_param(paging): cursor}, location)
        case PaginationKind.NEXT_LINK:
            link = page.link if paging.next is None else page.value(paging.next)
            target = _once(link, walk, "next link")
            return None if target is None else request.following(target)


def _once(value: Any, walk: _Walk, what: str) -> str | None:
    """The cursor or link to go on with, None at the end; one that was there before is an error."""
    if value is None or value is False or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise walk.problem(f"the {what} is no text but {walk.told(value, 80)!r}")
    text = str(value)
    if text in walk.cursors:
        seen = walk.told(shown(text) if what == "next link" else text, 80)
        raise walk.problem(f"the {what} {seen!r} came before")
    walk.cursors.add(text)
    return text


def _check_total(page: Page, paging: Pagination, walk: _Walk) -> None:
    if paging.total is None:
        return
    total = page.value(paging.total)
    if isinstance(total, bool) or not isinstance(total, int):
        raise walk.problem(f"no number of all records at {paging.total!r} but {walk.told(total, 80)!r}")
    if walk.total is not None and total != walk.total:
        raise walk.problem(f"the number of all records changed from {walk.total} to {total} during the read")
    walk.total = total


@dataclass(frozen=True, slots=True)
class Fetch:
    """Everything that the tasks of one read need; picklable. Part ``n`` belongs to slot ``n`` modulo ``slots``."""

    read: HttpRead
    parts: tuple[Part, ...]

    @property
    def slots(self) -> int:
        """How many tasks work beside each other."""
        return slot_count(self.read.rate_limit, len(self.parts), self.read.parallelism)


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Records of one part, one JSON object per line; ``first`` is the number of the first on its page, from 1."""

    part: int
    page: int
    first: int
    lines: bytes


@dataclass(slots=True)
class Counts:
    """What a slot did; ``largest`` is the longest answer in bytes."""

    requests: int = 0
    repeated: int = 0
    pages: int = 0
    records: int = 0
    largest: int = 0


def blocks(
    fetch: Fetch, slot: int, counts: Counts, *, sleep: Callable[[float], None] = time.sleep
) -> Iterator[LineBlock]:
    """All records of one slot; ``counts`` is complete at the end. Raises :class:`~tidegate.errors.SourceError`."""
    sender = Sender(fetch.read, RequestPace(fetch.read.rate_limit, fetch.slots, sleep=sleep), sleep=sleep)
    try:
        for number in range(slot, len(fetch.parts), fetch.slots):
            yield from part_blocks(fetch.read, fetch.parts[number], sender, counts, number)
    finally:
        counts.requests, counts.repeated = sender.requests, sender.repeated
        sender.close()


def part_blocks(read: HttpRead, part: Part, sender: Sender, counts: Counts, number: int = 0) -> Iterator[LineBlock]:
    """All records of one part, page after page; counts pages and records."""
    for place, page in enumerate(_pages(read, part, sender), 1):
        counts.pages += 1
        counts.records += page.count
        counts.largest = max(counts.largest, page.size)
        first = 1
        for lines in page.blocks():
            yield LineBlock(number, place, first, lines)
            first += lines.count(b"\n")


def _pages(read: HttpRead, part: Part, sender: Sender) -> Iterator[Page]:
    def page(request: Request) -> Page:
        return sender.fetched(request, partial(page_of, read=read, told=sender.told))

    with sender.masked():
        yield from pages(request_of(read, part), read.pagination, read.watermark.location, page, sender.told)
