"""Fetches a work unit of an API: all pages of each segment, or nothing.

Pages go to storage while they arrive, compressed, one file per segment; no more than a page is held, and a large one
on disk.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from uuid import uuid4

import zstandard

from tidegate.column_specs import HttpAuth, HttpRead
from tidegate.errors import SourceMissing
from tidegate.locations import Options
from tidegate.planning.plan import FileSlice
from tidegate.sources.http.bounds import http_read
from tidegate.sources.http.fetching import Block, Counts, part_blocks
from tidegate.sources.http.pacing import Pace
from tidegate.sources.http.requests import request_of, shown
from tidegate.sources.http.sending import Sender
from tidegate.sources.http.shapes import Shapes
from tidegate.sources.units.fetched import Fetched, FetchedFile, FetchTask, failure_of
from tidegate.sources.units.requests import asked
from tidegate.sources.units.variables import Variables, variables_of
from tidegate.sources.units.work import UnitFailure, UnitWork
from tidegate.specs import Compression
from tidegate.storage.opening import open_store
from tidegate.storage.port import Output

_LEVEL = 1


class Senders:
    """Connections of one task, kept for all its work units that ask with the same credentials and headers."""

    def __init__(self, slots: int = 1, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._slots = slots
        self._sleep = sleep
        self._open: dict[tuple[str, Options, HttpAuth], Sender] = {}

    @property
    def requests(self) -> int:
        """How many requests were sent."""
        return sum(each.requests for each in self._open.values())

    def of(self, read: HttpRead) -> Sender:
        """The sender for a read."""
        key = (read.url, read.headers, read.auth)
        if key not in self._open:
            pace = Pace(read.rate_limit, self._slots, sleep=self._sleep)
            self._open[key] = Sender(read, pace, sleep=self._sleep)
        return self._open[key]

    def close(self) -> None:
        """Close the connections."""
        for each in self._open.values():
            each.close()


def fetch_unit(task: FetchTask, work: UnitWork, index: int, senders: Senders | None = None) -> Fetched | UnitFailure:
    """Fetch every segment of a work unit of an API; what fails tells why, and nothing of it counts."""
    if senders is None:
        with closing(Senders(task.slots)) as own:
            return fetch_unit(task, work, index, own)
    walk = _Walk(task, work, index, senders)
    before = senders.requests
    try:
        files = tuple(file for number in range(len(work.segments)) if (file := walk.file(number)) is not None)
    except Exception as error:
        is_unknown = isinstance(error, SourceMissing) and not walk.counts.pages
        return failure_of(error, walk.hidden, not_found=is_unknown)
    return Fetched(index, work.unit, work.segments, files, senders.requests - before, tuple(walk.telling))


class _Walk:
    """One work unit on its way into files."""

    def __init__(self, task: FetchTask, work: UnitWork, index: int, senders: Senders) -> None:
        self.counts = Counts()
        self.telling: list[bytes] = []
        self.hidden = Variables(secrets=work.secrets).hidden
        self._task = task
        self._work = work
        self._index = index
        self._senders = senders
        self._shapes = Shapes()

    def file(self, segment: int) -> FetchedFile | None:
        """All pages of one segment; None where they have no record."""
        source, store = self._task.source, open_store(self._task.scratch)
        read, part = asked(
            source, http_read(source.rows), variables_of(source, self._work, self._work.segments[segment])
        )
        name = f"{self._index:06d}-{segment:03d}-{uuid4()}.ndjson.zst"
        with store.open_output(name) as output:
            size, pages = self._taken(part_blocks(read, part, self._senders.of(read), self.counts), output)
        if not pages:
            store.delete(name)
            return None
        where = self.hidden(shown(request_of(read, part).url))
        return FetchedFile(segment, where, self._task.scratch, FileSlice(name, size), Compression.ZSTD, pages)

    def _taken(self, blocks: Iterator[Block], output: Output) -> tuple[int, tuple[int, ...]]:
        """Write blocks; how many bytes they became, and how many records there were up to the end of each page."""
        squeezed = zstandard.ZstdCompressor(level=_LEVEL).compressobj()
        ends: list[int] = []
        size = records = 0
        for block in blocks:
            ends += [records] * (block.page - 1 - len(ends))
            records += block.lines.count(b"\n")
            ends[block.page - 1 :] = [records]
            size += output.write(squeezed.compress(block.lines))
            if self._task.infers:
                told = map(self._shapes.telling, block.lines.splitlines())
                self.telling += [record for record in told if record is not None]
        return size + output.write(squeezed.flush()), tuple(ends)
