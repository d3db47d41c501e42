"""Tasks over files: read a group into the table, read dead letters again.

No Spark in here: a task is the same in a Spark worker, in a test and in a benchmark.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby

import numpy as np

from tidegate.core.files.plan import FileGroup
from tidegate.core.files.state import NotReached, Refused
from tidegate.errors import StorageError
from tidegate.failpoints import failpoint
from tidegate.formats.json import BLOCK_BYTES
from tidegate.formats.port import FormatReader
from tidegate.schema.dead_letter import Letter
from tidegate.schema.literals import written
from tidegate.schema.types import arrow_schema
from tidegate.sink.file_walk import GroupWalk, TableWriter
from tidegate.sink.parquet_file import FinishedFile, keep_memory
from tidegate.sink.partitions import Partitioning
from tidegate.sink.read_task import GroupResult, ReadTask, open_format
from tidegate.storage.stores import open_store


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
    landing = TableWriter(replace(task, letters=None), partitioning, open_store(task.table))
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


def _take(format: FormatReader, landing: TableWriter, block: list[Letter], found: Reread) -> None:
    decoded = format.reread([letter.content for letter in block], block[0].file or "")
    kept = np.arange(len(block)) if decoded.offsets is None else decoded.offsets
    lines = np.array([(block[offset].line or 1) - 1 for offset in kept], np.int64)
    landing.write(decoded.batch, block[0].file or "", lines, 0)
    found.good.extend(block[offset] for offset in kept)
    found.bad.extend((block[each.offset], each.reason) for each in decoded.rejected)
    answered = {*kept.tolist(), *(each.offset for each in decoded.rejected)}
    found.bad.extend((letter, "blank line") for offset, letter in enumerate(block) if offset not in answered)


def read_units(task: ReadTask, units: Iterable[FileGroup]) -> Iterator[GroupResult]:
    """Read units one after the other; past the deadline only the first is begun, the others are not reached.

    A unit that its storage fails is given as a failure, so that the others count. Where memory runs out, the files of
    the unit are read one by one, and only those are refused for which it runs out again.
    """
    for position, unit in enumerate(units):
        if position and task.deadline is not None and time.time() >= task.deadline:
            yield GroupResult(unit.number, tuple(NotReached(each.path) for each in unit.slices))
        else:
            yield from _results(task, unit)


def _results(task: ReadTask, unit: FileGroup) -> Iterator[GroupResult]:
    problem = ""
    try:
        result = read_unit(task, unit)
    except StorageError as error:
        result = GroupResult.of_failure(unit, error)
    except BaseException as error:
        problem = _breakdown(error)
        if not problem or not unit.files:
            raise
    if not problem:
        yield result
    elif unit.files > 1:
        yield from read_units(task, [FileGroup(unit.number, (each,)) for each in unit.slices])
    else:
        (each,) = unit.slices
        yield GroupResult(unit.number, (Refused(each.path, each.size, each.etag, written(problem)),))


def _breakdown(error: BaseException) -> str:
    """What went wrong below Python, where an error says that; else nothing."""
    if isinstance(error, MemoryError):
        return f"memory ran out while it was read ({error or 'no more is said'})"
    if type(error).__name__ == "PanicException":
        return f"native code panicked while it was read ({error})"
    return ""


def read_unit(task: ReadTask, unit: FileGroup) -> GroupResult:
    """Read one unit. What it returns is complete and durable; an error means that nothing counts."""
    keep_memory()
    started = time.monotonic()
    table = open_store(task.table)
    walk = GroupWalk(task, open_store(task.source), table)
    with contextlib.closing(walk):
        outcomes = walk.outcomes(unit)
        files, letters = walk.finish()
    failpoint("sink.unit.after")
    return GroupResult(
        number=unit.number,
        outcomes=outcomes,
        data_files=files,
        rows=sum(file.record_count for file in files),
        letter_files=letters,
        unknown_fields=walk.unknown_fields(),
        seconds=time.monotonic() - started,
        uploads=table.uploads.counts,
        bad_kinds=walk.bad_kinds(),
    )
