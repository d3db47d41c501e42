"""A whole read of an API in one process: page after page, and never a silent end before the end.

The end is an empty page, a total that is reached, or an answer without a next cursor or link. A short page is not: a
server may give fewer records than it was asked for. What looks like going in circles, or like a source that changes
under the read, is an error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidegate.errors import ConfigError, SourceError, TidegateError
from tidegate.sources.http.answers import Page, page_of
from tidegate.sources.http.bounds import Part
from tidegate.sources.http.client import Request, RequestPace, Sender, in_flight, public_url, request_of, slot_count
from tidegate.specs.columns import HttpRead, PaginationKind

_STARTS = {PaginationKind.OFFSET: 0, PaginationKind.PAGE: 1}
_PARAMS = {PaginationKind.OFFSET: "offset", PaginationKind.PAGE: "page", PaginationKind.CURSOR: "cursor"}


@dataclass(frozen=True, slots=True)
class Fetch:
    """Everything that the tasks of one read need; picklable. Part ``n`` belongs to slot ``n`` modulo ``slots``."""

    read: HttpRead
    parts: tuple[Part, ...]

    @property
    def slots(self) -> int:
        """How many tasks work beside each other."""
        return slot_count(self.read.rate_limit, in_flight(self.read, len(self.parts)))


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
    with sender.mask_errors():
        for place, page in enumerate(_PageWalk(read, part, sender).pages(), 1):
            counts.pages += 1
            counts.records += page.count
            counts.largest = max(counts.largest, page.size)
            first = 1
            for lines in page.blocks():
                yield LineBlock(number, place, first, lines)
                first += lines.count(b"\n")


class _PageWalk:
    """The pages of one part, one after the other; remembers what it has seen.

    Raises :class:`SourceError` for a repeated page or cursor, a changed or missed total, and more pages than allowed.
    """

    def __init__(self, read: HttpRead, part: Part, sender: Sender) -> None:
        self._read = read
        self._paging = read.pagination
        self._sender = sender
        self._first = request_of(read, part)
        self._pages = 0
        self._records = 0
        self._total: int | None = None
        self._cursors: set[str] = set()
        self._digests: set[bytes] = set()

    def pages(self) -> Iterator[Page]:
        request: Request | None = self._with_page(self._first)
        while request is not None:
            if self._pages == self._paging.max_pages:
                raise SourceError(
                    f"{public_url(self._first.url)}: there are more than {self._paging.max_pages} pages",
                    "this read was discarded; ask for less or for larger pages, or raise pagination.max_pages",
                )
            page = self._sender.fetch(request, partial(page_of, read=self._read, excerpt=self._sender.excerpt))
            try:
                self._note(page)
                request = self._next(request, page)
            except TidegateError:
                page.close()
                raise
            yield page
        if self._total is not None and self._records != self._total:
            raise self._problem(f"{self._records} records came, but the server announced {self._total}")

    def _problem(self, what: str) -> SourceError:
        return SourceError(
            f"{public_url(self._first.url)}, page {self._pages}: {what}",
            "this read was discarded; check what the server does",
        )

    def _note(self, page: Page) -> None:
        """Count a page in; raises where it does not go with the ones before."""
        self._pages += 1
        self._records += page.count
        if self._paging.total is not None:
            self._check_total(page.value(self._paging.total))
        if page.count and page.digest in self._digests:
            raise self._problem("its records are those of an earlier page")
        self._digests.add(page.digest)

    def _check_total(self, total: Any) -> None:
        if isinstance(total, bool) or not isinstance(total, int):
            found = self._sender.excerpt(total, 80)
            raise self._problem(f"the answer has {found!r} at {self._paging.total!r}, not the total number of records")
        if self._total is not None and total != self._total:
            raise self._problem(f"the total number of records changed from {self._total} to {total} during the read")
        self._total = total

    def _with_page(self, request: Request) -> Request:
        """The request with the parameters of its page; a cursor and a link have none before the first answer."""
        paging = self._paging
        values: dict[str, str | int] = {}
        if paging.size_param is not None and paging.size is not None:
            values[paging.size_param] = paging.size
        if paging.kind in _STARTS:
            start = _STARTS[paging.kind] if paging.start is None else paging.start
            done = self._records if paging.kind is PaginationKind.OFFSET else self._pages
            values[paging.param or _PARAMS[paging.kind]] = start + done
        return request.with_values(values, self._read.watermark.location)

    def _next(self, request: Request, page: Page) -> Request | None:
        paging = self._paging
        match paging.kind:
            case PaginationKind.NONE:
                return None
            case PaginationKind.OFFSET | PaginationKind.PAGE:
                at_end = page.count == 0 or (self._total is not None and self._records >= self._total)
                return None if at_end else self._with_page(request)
            case PaginationKind.CURSOR:
                if paging.next is None:
                    raise ConfigError(("pagination: cursor needs `next`, the path of the cursor in the answer",))
                cursor = self._once(page.value(paging.next), "cursor")
                given = {paging.param or _PARAMS[paging.kind]: cursor or ""}
                return None if cursor is None else request.with_values(given, self._read.watermark.location)
            case PaginationKind.NEXT_LINK:
                target = self._once(page.link if paging.next is None else page.value(paging.next), "next link")
                return None if target is None else request.following(target)

    def _once(self, value: Any, what: str) -> str | None:
        """The cursor or link to go on with, None at the end; one that was there before is an error."""
        if value is None or value is False or value == "":
            return None
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise self._problem(f"the {what} is not text but {self._sender.excerpt(value, 80)!r}")
        text = str(value)
        if text in self._cursors:
            seen = self._sender.excerpt(public_url(text) if what == "next link" else text, 80)
            raise self._problem(f"the {what} {seen!r} came before")
        self._cursors.add(text)
        return text
