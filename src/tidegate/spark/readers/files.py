"""Files that are scanned in full: tasks decode them as strictly as file sources, then Spark filters the rows.

Only the rows tell the greatest watermark values, so the batch itself gives the new watermark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from tidegate.core.columns.predicates import RowFilter
from tidegate.core.files.plan import FileSlice
from tidegate.formats.excel import WorkbookScan, first_rows, workbooks_of
from tidegate.formats.samples import SAMPLED_LINES, spread
from tidegate.schema.inference import check_agreement, infer_json
from tidegate.schema.types import arrow_schema
from tidegate.sink.read_task import files_of, infer_files, list_files, scan_files
from tidegate.spark.readers.reader import FrameReader, task_count
from tidegate.spark.tasks import Packed, deal, slot_frame, slot_numbers
from tidegate.specs.columns import ColumnSource, TableFormat, TableRead
from tidegate.specs.project import FieldSpec, PathSource, SchemaSpec

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
        """All files that exist now."""
        from pyspark.sql.pandas.types import from_arrow_schema

        slices = list_files(self._files)
        fields = self._schema.fields or self._infer(slices)
        slots = deal(slices, _SLOTS_PER_TASK * task_count(self._session))
        columns = from_arrow_schema(arrow_schema(fields))
        return slot_frame(self._session, len(slots)).mapInArrow(self._scan(fields, slots), columns)

    def _scan(self, fields: tuple[FieldSpec, ...], slots: Slots) -> Scan:
        if self._is_excel:
            zone = self._source.source_timezone
            return WorkbookScan(self._files, fields, self._schema, self._read.sheet, zone, slots)
        return Packed(_scan_slots, self._files, fields, self._schema, slots)

    def _infer(self, slices: Sequence[FileSlice]) -> tuple[FieldSpec, ...]:
        """Columns inferred from the first records of some files."""
        if not self._is_excel:
            return infer_files(self._files, slices, self._schema)
        sheet, zone = self._read.sheet, self._source.source_timezone
        samples = (first_rows(self._files, each, sheet, zone, SAMPLED_LINES) for each in spread(slices))
        return check_agreement(
            infer_json(samples, coerce_conflicts_to_utf8=self._schema.coerce_conflicts_to_utf8)
        ).fields


def _scan_slots(
    batches: Iterator[pa.RecordBatch],
    files: PathSource,
    fields: tuple[FieldSpec, ...],
    schema: SchemaSpec,
    slots: Slots,
) -> Iterator[pa.RecordBatch]:
    """The function that runs in a task."""
    for slot in slot_numbers(batches):
        yield from scan_files(files, fields, schema, slots[slot])
