"""The pages of an API, into one compressed file of JSON lines per segment, while they arrive.

No more than a page is held, and a large one on disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import zstandard

from tidegate.planning.plan import FileSlice
from tidegate.sources.http.fetching import Block, Counts, part_blocks
from tidegate.sources.http.requests import request_of, shown
from tidegate.sources.http.shapes import Shapes
from tidegate.sources.units.fetched import FetchedFile, FetchTask
from tidegate.sources.units.requests import Ask
from tidegate.sources.units.senders import Senders
from tidegate.specs import Compression
from tidegate.storage.opening import open_store
from tidegate.storage.port import Output

_LEVEL = 1


@dataclass(slots=True)
class Pages:
    """Takes the segments of one work unit; ``telling`` are the records that tell what its columns are."""

    task: FetchTask
    senders: Senders
    counts: Counts = field(default_factory=Counts)
    telling: list[bytes] = field(default_factory=list)
    _shapes: Shapes = field(default_factory=Shapes)

    def taken(self, ask: Ask, segment: int, name: str) -> FetchedFile | None:
        """All pages of one segment; None where they have no record. Raises, and leaves no file, where one fails."""
        store = open_store(self.task.scratch)
        path = f"{name}.ndjson.zst"
        with store.open_output(path) as output:
            sender = self.senders.of(ask.read)
            size, pages = self._written(part_blocks(ask.read, ask.part, sender, self.counts), output)
        if not pages:
            store.delete(path)
            return None
        where = shown(request_of(ask.read, ask.part).url)
        return FetchedFile(segment, where, self.task.scratch, FileSlice(path, size), Compression.ZSTD, pages)

    def _written(self, blocks: Iterator[Block], output: Output) -> tuple[int, tuple[int, ...]]:
        """How many bytes the blocks became, and how many records there were up to the end of each page."""
        squeezed = zstandard.ZstdCompressor(level=_LEVEL).compressobj()
        ends: list[int] = []
        size = records = 0
        for block in blocks:
            ends += [records] * (block.page - 1 - len(ends))
            records += block.lines.count(b"\n")
            ends[block.page - 1 :] = [records]
            size += output.write(squeezed.compress(block.lines))
            if self.task.infers:
                told = map(self._shapes.telling, block.lines.splitlines())
                self.telling += [record for record in told if record is not None]
        return size + output.write(squeezed.flush()), tuple(ends)
