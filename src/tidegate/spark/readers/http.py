"""Reads an HTTP API in Spark tasks: they share the range, and each record is requested once.

Executors keep what they fetched before anything else happens, so that no request is repeated and a batch never changes;
nothing of it passes through the driver. Credentials travel inside the tasks' code and appear in no Spark plan.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tidegate import errors
from tidegate.core.columns.predicates import Bound, RowFilter
from tidegate.errors import SourceError, TidegateError
from tidegate.schema.inference import check_agreement, infer_json
from tidegate.schema.types import arrow_schema
from tidegate.sources.http.bounds import Part, http_read, parts, upper
from tidegate.sources.http.responses import Counts, Fetch, LineBlock, Shapes, blocks
from tidegate.spark.arrow_types import to_spark_columns
from tidegate.spark.readers.reader import FrameReader
from tidegate.spark.tasks import Packed, cause, machine_problem, slot_frame, slot_numbers
from tidegate.specs.columns import ColumnSource, Value
from tidegate.specs.masking import Mask
from tidegate.specs.table import FieldSpec, SchemaSpec
from tidegate.tasks.unit_columns import RecordBlocks

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_BLOCKS = "error string, part int, page int, first int, lines binary"


class HttpReader(FrameReader):
    """One API source."""

    _remedy = "this read was discarded"

    def __init__(self, session: SparkSession, source: ColumnSource, schema: SchemaSpec, now: datetime) -> None:
        super().__init__(session, source, schema)
        self._mask = Mask.around(source)
        self._now = now
        self._batch: tuple[tuple[Part, ...], DataFrame] | None = None

    def upper(self, now: datetime) -> Mapping[str, Value]:
        """The upper bounds of a read at ``now``; only for columns that are declared as times."""
        return upper(self._source, self._schema, now)

    def read(self, rows: RowFilter) -> DataFrame:
        """The matching records with declared or inferred columns; they are fetched when this returns."""
        return self._match(rows)

    def _frame_with_nulls(self, rows: RowFilter) -> DataFrame:
        """The same rows as :meth:`read` before the filter; both share one fetch."""
        return self._frame(rows)

    def _frame(self, rows: RowFilter) -> DataFrame:
        """Every record that the server returned; no request is repeated."""
        asked = parts(self._source, rows, self._now)
        if self._batch is None or self._batch[0] != asked:
            self._batch = (asked, self._fetch(asked, rows))
        return self._batch[1]

    def _fetch(self, asked: tuple[Part, ...], rows: RowFilter) -> DataFrame:
        fetch = Fetch(http_read(self._source), asked)
        slots = slot_frame(self._session, fetch.slots)
        if self._schema.fields:
            return self._decode_rows(slots, fetch, asked, self._schema.fields)
        kept = self._evaluate_once(slots.mapInArrow(Packed(_keep, fetch), _BLOCKS))
        return self._decode_rows(kept, None, asked, self._infer_columns(kept, rows))

    def _decode_rows(
        self, frame: DataFrame, fetch: Fetch | None, asked: tuple[Part, ...], fields: tuple[FieldSpec, ...]
    ) -> DataFrame:
        """The records as typed rows; raises for a record that does not fit."""
        import pyarrow as pa

        if self._schema.rescued is not None:
            fields = (*fields, FieldSpec(self._schema.rescued, "string"))
        row = pa.struct(list(arrow_schema(fields)))
        wanted = to_spark_columns(pa.schema([("error", pa.string()), ("row", row)]))
        decoded = Packed(_decode, fetch, fields, self._schema, asked, self._source.uri)
        return self._evaluate_once(frame.mapInArrow(decoded, wanted)).where("error is null").select("row.*")

    def _evaluate_once(self, frame: DataFrame) -> DataFrame:
        """``frame``, evaluated once; raises the error of a failed task."""
        from pyspark import StorageLevel

        try:
            # Cut off from its plan, the frame is never computed a second time, which would repeat its requests; on
            # disk, it need not fit into memory.
            kept = frame.localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY)
            met = kept.where("error is not null").select("error").head()
        except Exception as error:
            raise self._failure(error) from self._mask.cause(error)
        if met is not None:
            raise errors.from_json(json.loads(met["error"]))
        return kept

    def _failure(self, error: Exception) -> TidegateError:
        problem = f"{self._source.uri}: Spark gave up on a task: {cause(error, self._mask)}"
        return machine_problem(error, self._mask) or SourceError(problem, self._remedy)

    def _infer_columns(self, kept: DataFrame, rows: RowFilter) -> tuple[FieldSpec, ...]:
        """Columns that hold every record; each watermark column is among them, even without a value."""
        try:
            telling = kept.where("lines is not null").mapInArrow(_tell_shapes, "line binary").collect()
        except Exception as error:
            raise self._failure(error) from self._mask.cause(error)
        fields: tuple[FieldSpec, ...] = ()
        if telling:
            found = infer_json(
                [[bytes(row["line"]) for row in telling]],
                coerce_conflicts_to_utf8=self._schema.coerce_conflicts_to_utf8,
                rescued=self._schema.rescued is not None,
            )
            fields = check_agreement(found).fields
        known = {field.name for field in fields}
        missing = [
            FieldSpec(interval.column, _type_of(interval.lower))
            for interval in rows.ranges
            if interval.column not in known
        ]
        return (*fields, *missing)


def _blocks(batches: Iterator[pa.RecordBatch], fetch: Fetch | None) -> Iterator[LineBlock]:
    """Fetched blocks of the requests whose slot numbers come in; without ``fetch``, the blocks that were kept."""
    if fetch is not None:
        for slot in slot_numbers(batches):
            yield from blocks(fetch, slot, Counts())
        return
    for batch in batches:
        for _, part, page, first, lines in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield LineBlock(part, page, first, lines)


def _keep(batches: Iterator[pa.RecordBatch], fetch: Fetch) -> Iterator[pa.RecordBatch]:
    """Blocks unchanged, one per row; an error is the last row."""
    import pyarrow as pa

    kinds = {"error": pa.string(), "part": pa.int32(), "page": pa.int32(), "first": pa.int32(), "lines": pa.binary()}
    schema = pa.schema(list(kinds.items()))
    try:
        for block in _blocks(batches, fetch):
            row = {"part": block.part, "page": block.page, "first": block.first, "lines": block.lines}
            yield pa.RecordBatch.from_pylist([row], schema)
    # As a row: an exception would make Spark repeat the task and all its requests.
    except TidegateError as error:
        yield _error(error, schema)


def _decode(batches: Iterator[pa.RecordBatch], fetch: Fetch | None, *columns: Any) -> Iterator[pa.RecordBatch]:
    """Records as rows with the ``columns`` of :class:`RecordBlocks`; an error is the last row."""
    import pyarrow as pa

    decoder = RecordBlocks(*columns)
    schema = pa.schema([("error", pa.string()), ("row", pa.struct(list(decoder.schema)))])
    try:
        for block in _blocks(batches, fetch):
            rows = decoder.rows(block)
            if len(rows):
                yield pa.record_batch([pa.nulls(len(rows), pa.string()), rows.to_struct_array()], schema=schema)
    except TidegateError as error:
        yield _error(error, schema)


def _error(error: TidegateError, schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_pylist([{"error": json.dumps(errors.to_json(error))}], schema)


def _tell_shapes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Records that add something to what the task knows about the columns."""
    import pyarrow as pa

    shapes = Shapes()
    for block in _blocks(batches, None):
        telling = [found for line in block.lines.splitlines() if (found := shapes.sample(line)) is not None]
        yield pa.record_batch([pa.array(telling, pa.binary())], names=["line"])


def _type_of(bound: Bound | None) -> str:
    """The type of a column without values, by its watermark."""
    match None if bound is None else bound.value:
        case bool():
            return "boolean"
        case int():
            return "int64"
        case float() | Decimal():
            return "float64"
        case _:
            return "string"
