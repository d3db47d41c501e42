"""Files that are scanned in full: decoded in tasks with the exactness of every file source, then filtered by Spark.

What such files hold is only known once they are read, so the batch itself tells its greatest values.
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
from tidegate.sink.task import FileScan, files_of, inferred, listed
from tidegate.sources.reader import GreatestValues
from tidegate.spark.filters import filtered, fitted, greatest_of, with_nulls
from tidegate.spark.rows import parallelism, unreadable, utc_session
from tidegate.specs.columns import ColumnSource, TableFormat, TableRead
from tidegate.specs.project import FieldSpec, SchemaSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_SLOTS_PER_TASK = 4

Slots = tuple[tuple[FileSlice, ...], ...]
Scan = Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]


class FilesReader:
    """Reads CSV, JSON and Excel files below one location."""

    fixed_first = False

    def __init__(self, session: SparkSession, source: ColumnSource, read: TableRead, schema: SchemaSpec) -> None:
        self._session = utc_session(session)
        self._source = source
        self._read = read
        self._is_excel = read.format is TableFormat.EXCEL
        self._files = (workbooks_of if self._is_excel else files_of)(source.name, read)
        self._schema = schema

    def greatest(self, rows: RowFilter) -> GreatestValues:
        """The greatest values, by a scan of every file."""
        wanted = self._fitted(rows)
        try:
            return greatest_of(filtered(self._frame, with_nulls(wanted)), rows.columns, rows.mode)
        except Exception as error:
            raise unreadable(self._source.name, error, "correct the file, or declare schema.fields") from error

    def read(self, rows: RowFilter) -> DataFrame:
        """The rows that match, after a scan of every file that is there."""
        return filtered(self._frame, self._fitted(rows))

    def _fitted(self, rows: RowFilter) -> RowFilter:
        return fitted(rows, self._frame.schema, self._source.source_timezone, self._source.name)

    @cached_property
    def _frame(self) -> DataFrame:
        slices = listed(self._files)
        fields = self._schema.fields or self._inferred(slices)
        slots = dealt(slices, _SLOTS_PER_TASK * parallelism(self._session))
        return scanned(self._session, self._scan(fields, slots), fields, len(slots))

    def _scan(self, fields: tuple[FieldSpec, ...], slots: Slots) -> Scan:
        if self._is_excel:
            zone = self._source.source_timezone
            return WorkbookScan(self._files, fields, self._schema, self._read.sheet, zone, slots)
        return FileScan(self._files, fields, self._schema, slots)

    def _inferred(self, slices: Sequence[FileSlice]) -> tuple[FieldSpec, ...]:
        if not self._is_excel:
            return inferred(self._files, slices, self._schema)
        sheet, zone = self._read.sheet, self._source.source_timezone
        samples = (first_rows(self._files, each, sheet, zone, SAMPLED_LINES) for each in spread(slices))
        found = infer_json(samples, coerce_conflicts_to_utf8=self._schema.coerce_conflicts_to_utf8)
        return check_agreement(found).fields


def dealt(slices: Sequence[FileSlice], at_most: int) -> Slots:
    """Files, the large ones first, dealt out to so many slots."""
    slots = max(1, min(len(slices), at_most))
    return tuple(tuple(slices[first::slots]) for first in range(slots))


def scanned(session: SparkSession, scan: Scan, fields: tuple[FieldSpec, ...], slots: int) -> DataFrame:
    """What ``scan`` makes of the numbers of so many slots, one task each."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return session.range(0, slots, 1, slots).mapInArrow(scan, from_arrow_schema(arrow_schema(fields)))
