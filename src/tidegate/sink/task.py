"""Tasks over files: read a group into the table, read dead letters again, scan whole files.

A record that is none of the schema ends the read: what is followed by column values has no place for single lines that
failed.

No Spark in here: a task is the same in a Spark worker, in a test and in a benchmark.
"""

from __future__ import annotations

import contextlib
import pickle
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import groupby

import numpy as np
import pyarrow as pa

from tidegate.core.files.discovery import accepts
from tidegate.core.files.plan import FileGroup, FileSlice
from tidegate.core.files.state import NotReached, Refused
from tidegate.errors import SourceError, StorageError
from tidegate.failpoints import failpoint
from tidegate.formats.files import Fetcher
from tidegate.formats.json import BLOCK_BYTES
from tidegate.formats.port import FormatReader
from tidegate.formats.samples import Sampler, spread
from tidegate.schema.dead_letter import Letter
from tidegate.schema.inference import check_agreement
from tidegate.schema.literals import escape_halves
from tidegate.schema.types import arrow_schema
from tidegate.sink.file_walk import GroupWalk, TableWriter
from tidegate.sink.parquet_file import FinishedFile, keep_memory
from tidegate.sink.partitions import Partitioning
from tidegate.sink.read_task import GroupResult, ReadTask, open_format
from tidegate.sources.file_discovery import check_location, list_everything, refuse_left_out, scope_of
from tidegate.specs.columns import TableFormat, TableRead
from tidegate.specs.project import FieldSpec, Format, PathSource, SchemaSpec
from tidegate.storage.stores import open_store


def files_of(name: str, read: TableRead) -> PathSource:
    """The files of a scan as a source of files."""
    lines = Format.NDJSON if read.lines else Format.JSON
    format_ = Format.CSV if read.format is TableFormat.CSV else lines
    return PathSource(
        name, read.location, pattern=read.pattern, format=format_, csv=read.csv, follow_links=read.follow_links
    )


def listed(source: PathSource) -> tuple[FileSlice, ...]:
    """The files that are there now, the large ones first."""
    store = open_store(source.location)
    check_location(store, source)
    scope = scope_of(source)
    found = [each for each in list_everything(store, scope) if accepts(source, each.path) is None]
    refuse_left_out(scope, source.location.uri, "set follow_links: true, or put the files themselves there")
    ordered = sorted(found, key=lambda each: (-each.size, each.path))
    return tuple(FileSlice(each.path, each.size, each.etag) for each in ordered)


def inferred(source: PathSource, slices: Sequence[FileSlice], schema: SchemaSpec) -> tuple[FieldSpec, ...]:
    """The columns that the first records of some files have."""
    sampler = Sampler(open_store(source.location), source)
    found = sampler.infer(spread(slices), coerce_conflicts_to_utf8=schema.coerce_conflicts_to_utf8)
    return check_agreement(found).fields


class FileScan:
    """The function that runs in a task: numbers of slots in, the records of their files out."""

    def __init__(
        self,
        source: PathSource,
        fields: tuple[FieldSpec, ...],
        schema: SchemaSpec,
        slots: Sequence[Sequence[FileSlice]],
    ) -> None:
        task = ReadTask(
            source.location,
            source.location,
            fields,
            arrow_schema(fields).serialize().to_pybytes(),
            compression=source.compression,
            format=source.format,
            csv=source.csv,
            numbers=schema.numbers,
            coerce_conflicts_to_utf8=schema.coerce_conflicts_to_utf8,
        )
        self._payload = pickle.dumps((task, [tuple(slot) for slot in slots]))
        """As bytes: no plan of Spark's shows what the location's options hold."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task, slots = pickle.loads(self._payload)
        for batch in batches:
            for slot in batch.column(0).to_pylist():
                yield from records(task, slots[slot])


def records(task: ReadTask, slices: Sequence[FileSlice]) -> Iterator[pa.RecordBatch]:
    """The records of these files; raises :class:`SourceError` at the first that is none."""
    files = open_format(task, Partitioning(None, arrow_schema(task.fields)))
    fetcher = Fetcher(open_store(task.source))
    try:
        for each in slices:
            before = 0
            with closing(fetcher.seekable(each) if files.seeks else fetcher(each)) as raw:
                for decoded in files.read(raw, each):
                    if decoded.rejected:
                        first = decoded.rejected[0]
                        raise SourceError(
                            f"{each.path}, {files.noun} {before + first.offset + 1}: {first.reason}",
                            "correct the file, or declare schema.fields that it fits",
                        )
                    before += decoded.lines
                    yield decoded.batch
    finally:
        fetcher.close()


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
        yield GroupResult(unit.number, (Refused(each.path, each.size, each.etag, escape_halves(problem)),))


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
