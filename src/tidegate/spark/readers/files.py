"""Files that are scanned in full: decoded in tasks with the exactness of every file source, then filtered by Spark.

What such files hold is only known once they are read, so the batch itself tells its greatest values. A record that is
none of the schema ends the read: what is followed by column values has no place for single lines that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import cached_property
from typing import TYPE_CHECKING

from tidegate.core.columns.predicates import RowFilter
from tidegate.core.files.discovery import accepts
from tidegate.core.files.plan import FileSlice
from tidegate.errors import SourceError
from tidegate.formats.excel import WorkbookScan, first_rows, workbooks_of
from tidegate.formats.files import Fetcher
from tidegate.formats.samples import SAMPLED_LINES, Sampler, spread
from tidegate.schema.inference import agreeing, look
from tidegate.schema.types import arrow_schema
from tidegate.sink.partitions import Partitioning
from tidegate.sink.read_task import ReadTask, open_format
from tidegate.sources.file_discovery import check_location, list_everything, refuse_left_out, scope_of
from tidegate.spark.readers.reader import FrameReader, task_count
from tidegate.spark.tasks import Packed, deal, slot_frame, slot_numbers
from tidegate.specs.columns import ColumnSource, TableFormat, TableRead
from tidegate.specs.project import FieldSpec, Format, PathSource, SchemaSpec
from tidegate.storage.stores import open_store

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_SLOTS_PER_TASK = 4

Slots = Sequence[Sequence[FileSlice]]
Scan = Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]


class FilesReader(FrameReader):
    """Reads CSV, JSON and Excel files below one location."""

    _remedy = "correct the file, or declare schema.fields"

    def __init__(self, session: SparkSession, source: ColumnSource, read: TableRead, schema: SchemaSpec) -> None:
        super().__init__(session, source, schema)
        self._read = read
        self._is_excel = read.format is TableFormat.EXCEL
        self._files = (workbooks_of if self._is_excel else files_of)(source.name, read)

    def _frame(self, rows: RowFilter) -> DataFrame:
        return self._whole

    @cached_property
    def _whole(self) -> DataFrame:
        """Every file that is there now."""
        from pyspark.sql.pandas.types import from_arrow_schema

        slices = list_files(self._files)
        fields = self._schema.fields or self._infer(slices)
        slots = deal(slices, _SLOTS_PER_TASK * task_count(self._session))
        columns = from_arrow_schema(arrow_schema(fields))
        return slot_frame(self._session, len(slots)).mapInArrow(self._scan(fields, slots), columns)

    def _scan(self, fields: tuple[FieldSpec, ...], slots: Slots) -> Scan:
        schema = self._schema
        if self._is_excel:
            zone = self._source.source_timezone
            return WorkbookScan(self._files, fields, schema, self._read.sheet, zone, slots)
        task = ReadTask(
            self._files.location,
            self._files.location,
            fields,
            b"",
            compression=self._files.compression,
            format=self._files.format,
            csv=self._files.csv,
            numbers=schema.numbers,
            coerce_conflicts_to_utf8=schema.coerce_conflicts_to_utf8,
        )
        return Packed(_scan_slots, task, slots)

    def _infer(self, slices: Sequence[FileSlice]) -> tuple[FieldSpec, ...]:
        """The columns that the first records of some files have."""
        coerce, chosen = self._schema.coerce_conflicts_to_utf8, spread(slices)
        if not self._is_excel:
            sampler = Sampler(open_store(self._files.location), self._files)
            return agreeing(sampler.infer(chosen, coerce_conflicts_to_utf8=coerce)).fields
        sheet, zone = self._read.sheet, self._source.source_timezone
        samples = (first_rows(self._files, each, sheet, zone, SAMPLED_LINES) for each in chosen)
        return agreeing(look(samples, coerce_conflicts_to_utf8=coerce)).fields


def files_of(name: str, read: TableRead) -> PathSource:
    """The files of a scan as a source of files."""
    lines = Format.NDJSON if read.lines else Format.JSON
    format_ = Format.CSV if read.format is TableFormat.CSV else lines
    return PathSource(
        name, read.location, pattern=read.pattern, format=format_, csv=read.csv, follow_links=read.follow_links
    )


def list_files(source: PathSource) -> list[FileSlice]:
    """The files that are there now, the large ones first."""
    store = open_store(source.location)
    check_location(store, source)
    scope = scope_of(source)
    found = [each for each in list_everything(store, scope) if accepts(source, each.path) is None]
    refuse_left_out(scope, source.location.uri, "set follow_links: true, or put the files themselves there")
    ordered = sorted(found, key=lambda each: (-each.size, each.path))
    return [FileSlice(each.path, each.size, each.etag) for each in ordered]


def _scan_slots(batches: Iterator[pa.RecordBatch], task: ReadTask, slots: Slots) -> Iterator[pa.RecordBatch]:
    """What runs in the task: the records of its files; :class:`SourceError` at the first that is none."""
    files = open_format(task, Partitioning(None, arrow_schema(task.fields)))
    with closing(Fetcher(open_store(task.source))) as fetcher:
        for each in (each for slot in slot_numbers(batches) for each in slots[slot]):
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
