"""Dead letters read again: the records they keep go by the same rules into the same table as on the first day."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby

import numpy as np

from tidegate.schema.letter import Letter
from tidegate.schema.types import arrow_schema
from tidegate.sink.formats.opening import open_format
from tidegate.sink.formats.port import FileFormat
from tidegate.sink.landing import Landing
from tidegate.sink.lines import BLOCK_BYTES
from tidegate.sink.parquet import FinishedFile
from tidegate.sink.partitions import Partitioning
from tidegate.sink.read_task import ReadTask
from tidegate.storage.opening import open_store


@dataclass(slots=True)
class Reread:
    """What became of letters: files that hold the rows of those that are good now, and why the others still are not."""

    files: tuple[FinishedFile, ...] = ()
    good: list[Letter] = field(default_factory=list)
    bad: list[tuple[Letter, str]] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """How many rows the files hold."""
        return sum(file.record_count for file in self.files)


def reread(task: ReadTask, letters: Iterable[Letter]) -> Reread:
    """Decode the records of ``letters``, which come file by file."""
    found = Reread()
    partitioning = Partitioning(task.partition_by, arrow_schema(task.fields))
    format = open_format(task, partitioning)
    landing = Landing(replace(task, letters=None), partitioning, open_store(task.table))
    with contextlib.closing(landing):
        for block in _blocks(letters):
            _take(format, landing, block, found)
        found.files, _ = landing.finish()
    return found


def _blocks(letters: Iterable[Letter]) -> Iterator[list[Letter]]:
    """Letters of one file at a time, of about a block's size."""
    for _, group in groupby(letters, key=lambda letter: letter.file):
        block: list[Letter] = []
        size = 0
        for letter in group:
            block.append(letter)
            size += len(letter.content)
            if size >= BLOCK_BYTES:
                yield block
                block, size = [], 0
        if block:
            yield block


def _take(format: FileFormat, landing: Landing, block: list[Letter], found: Reread) -> None:
    decoded = format.reread([letter.content for letter in block], block[0].file or "")
    kept = np.arange(len(block)) if decoded.offsets is None else decoded.offsets
    lines = np.array([(block[offset].line or 1) - 1 for offset in kept], np.int64)
    landing.write(decoded.batch, block[0].file or "", lines, 0)
    found.good.extend(block[offset] for offset in kept)
    found.bad.extend((block[each.offset], each.reason) for each in decoded.rejected)
    answered = {*kept.tolist(), *(each.offset for each in decoded.rejected)}
    found.bad.extend((letter, "blank line") for offset, letter in enumerate(block) if offset not in answered)
