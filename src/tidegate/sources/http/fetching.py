"""A whole read of an API in one process: the parts of one slot, page after page, as blocks of JSON lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from tidegate.column_specs import HttpRead
from tidegate.sources.http.bounds import Part
from tidegate.sources.http.pacing import Pace, slot_count
from tidegate.sources.http.pages import Page, page_of
from tidegate.sources.http.paginating import pages
from tidegate.sources.http.requests import Request, request_of
from tidegate.sources.http.sending import Sender


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
class Block:
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


def blocks(fetch: Fetch, slot: int, counts: Counts, *, sleep: Callable[[float], None] = time.sleep) -> Iterator[Block]:
    """All records of one slot; ``counts`` is complete at the end. Raises :class:`~tidegate.errors.SourceError`."""
    sender = Sender(fetch.read, Pace(fetch.read.rate_limit, fetch.slots, sleep=sleep), sleep=sleep)
    try:
        for number in range(slot, len(fetch.parts), fetch.slots):
            yield from part_blocks(fetch.read, fetch.parts[number], sender, counts, number)
    finally:
        counts.requests, counts.repeated = sender.requests, sender.repeated
        sender.close()


def part_blocks(read: HttpRead, part: Part, sender: Sender, counts: Counts, number: int = 0) -> Iterator[Block]:
    """All records of one part, page after page; counts pages and records."""
    for place, page in enumerate(_pages(read, part, sender), 1):
        counts.pages += 1
        counts.records += page.count
        counts.largest = max(counts.largest, page.size)
        first = 1
        for lines in page.blocks():
            yield Block(number, place, first, lines)
            first += lines.count(b"\n")


def _pages(read: HttpRead, part: Part, sender: Sender) -> Iterator[Page]:
    def page(request: Request) -> Page:
        return sender.fetched(request, partial(page_of, read=read, told=sender.told))

    with sender.masked():
        yield from pages(request_of(read, part), read.pagination, read.watermark.location, page, sender.told)
