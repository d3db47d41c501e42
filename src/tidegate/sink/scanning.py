"""Whole files as record batches, for sources that are scanned in full: no positions, no table, nothing left out.

A record that is none of the schema ends the read: what is followed by column values has no place for single lines that
failed.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import closing

import pyarrow as pa

from tidegate.column_specs import TableFormat, TableRead
from tidegate.errors import SourceError
from tidegate.planning.discovery import accepts
from tidegate.planning.plan import FileSlice
from tidegate.schema.infer import agreeing
from tidegate.schema.types import arrow_schema
from tidegate.sink.fetching import Fetcher
from tidegate.sink.formats.opening import open_format
from tidegate.sink.partitions import Partitioning
from tidegate.sink.read_task import ReadTask
from tidegate.sink.sampling import Sampler, spread
from tidegate.sources.files.discovery import check_location, scope_of
from tidegate.sources.files.everything import list_everything, refuse_left_out
from tidegate.specs import FieldSpec, Format, PathSource, SchemaSpec
from tidegate.storage.opening import open_store


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
    return agreeing(found).fields


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
                for decoded in files.decoded(raw, each):
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
