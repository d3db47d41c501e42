"""Reads an HTTP API in Spark tasks: the range is divided among them, each record is asked for once.

What was fetched is kept on the executors before anything else is done with it, so that nothing is asked for twice and
the rows of one batch never differ; nothing of it goes through the driver. Credentials travel inside the tasks' code and
appear in no plan.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tidegate import errors
from tidegate.core.columns.predicates import Bound, RowFilter
from tidegate.errors import SourceError, TidegateError
from tidegate.sink.unit_columns import RecordBlocks
from tidegate.sources.http.bounds import Part, http_read, parts, upper
from tidegate.sources.http.read import Counts, Fetch, LineBlock, blocks
from tidegate.sources.reader import GreatestValues
from tidegate.spark.filters import filtered, fitted, greatest_of, with_nulls
from tidegate.spark.rows import utc_session
from tidegate.spark.tasks import Packed, cause
from tidegate.specs.columns import ColumnSource, Value
from tidegate.specs.masking import Mask
from tidegate.specs.project import FieldSpec, SchemaSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_BLOCKS = "told string, part int, page int, first int, lines binary"


@dataclass(slots=True)
class HttpReadReport:
    """What a read did: requests, pages and records of all tasks, and fields that no column takes."""

    requests: int = 0
    repeated: int = 0
    pages: int = 0
    records: int = 0
    largest: int = 0
    unknown: Counter[str] = field(default_factory=Counter)
    inferred: tuple[str, ...] = ()


class HttpReader:
    """One API source; ``told`` tells of the last read."""

    fixed_first = False

    def __init__(self, session: SparkSession, source: ColumnSource, schema: SchemaSpec, now: datetime) -> None:
        self._session = utc_session(session)
        self._source = source
        self._schema = schema
        self._now = now
        self._batch: tuple[tuple[Part, ...], DataFrame] | None = None
        self.told = HttpReadReport()

    def upper(self, now: datetime) -> Mapping[str, Value]:
        """The greatest values that a read at ``now`` gives; none for columns that are not declared as times."""
        return upper(self._source, self._schema, now)

    def greatest(self, rows: RowFilter) -> GreatestValues:
        """The greatest values of the batch that :meth:`read` gives for the same rows, fetched once for both."""
        batch = self._records(rows)
        return greatest_of(filtered(batch, with_nulls(self._fitted(rows, batch))), rows.columns, rows.mode)

    def read(self, rows: RowFilter) -> DataFrame:
        """The records that match, with the declared or inferred columns; fetched when this returns."""
        batch = self._records(rows)
        return filtered(batch, self._fitted(rows, batch))

    def _fitted(self, rows: RowFilter, batch: DataFrame) -> RowFilter:
        return fitted(rows, batch.schema, self._source.source_timezone, self._source.name)

    def _records(self, rows: RowFilter) -> DataFrame:
        """Every record that the server gave; the same request is not made twice."""
        asked = parts(self._source, rows, self._now)
        if self._batch is None or self._batch[0] != asked:
            self._batch = (asked, self._fetched(asked, rows))
        return self._batch[1]

    def _fetched(self, asked: tuple[Part, ...], rows: RowFilter) -> DataFrame:
        fetch = Fetch(http_read(self._source), asked)
        slots = self._session.range(0, fetch.slots, 1, fetch.slots)
        self.told = HttpReadReport()
        if self._schema.fields:
            return self._typed(slots, _Fetching(fetch), fetch, self._schema.fields)
        kept = self._kept(slots.mapInArrow(Packed(_keep, _Fetching(fetch)), _BLOCKS))
        fields = self._inferred(kept, rows)
        return self._typed(kept, _KeptBlocks(), fetch, fields)

    def _typed(
        self, frame: DataFrame, origin: _Fetching | _KeptBlocks, fetch: Fetch, fields: tuple[FieldSpec, ...]
    ) -> DataFrame:
        """The records as rows with columns; raises for one that does not fit."""
        import pyarrow as pa
        from pyspark.sql.pandas.types import from_arrow_schema

        from tidegate.schema.types import arrow_schema

        if self._schema.rescued is not None:
            fields = (*fields, FieldSpec(self._schema.rescued, "string"))
        decoder = (fields, self._schema, fetch.parts, self._source.uri)
        row = pa.struct(list(arrow_schema(fields)))
        wanted = from_arrow_schema(pa.schema([("told", pa.string()), ("row", row)]))
        kept = self._kept(frame.mapInArrow(Packed(_decode, origin, *decoder), wanted))
        return kept.where("told is null").select("row.*")

    def _kept(self, frame: DataFrame) -> DataFrame:
        """``frame``, carried out once; raises the error that a task told."""
        from pyspark import StorageLevel

        try:
            kept = frame.localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY)
            told = [row["told"] for row in kept.where("told is not null").select("told").collect()]
        except Exception as error:
            mask = Mask.around(self._source)
            raise SourceError(
                f"{self._source.uri}: Spark gave up on a task: {cause(error, mask)}", "nothing of this read is kept"
            ) from mask.cause(error)
        for text in told:
            self._note(json.loads(text))
        return kept

    def _note(self, data: Mapping[str, Any]) -> None:
        if "error" in data:
            raise errors.from_json(data)
        told = self.told
        for name in ("requests", "repeated", "pages", "records"):
            setattr(told, name, getattr(told, name) + data.get(name, 0))
        told.largest = max(told.largest, data.get("largest", 0))
        told.unknown.update(data.get("unknown", {}))

    def _inferred(self, kept: DataFrame, rows: RowFilter) -> tuple[FieldSpec, ...]:
        """Columns that hold every record; each watermark column is there, also where it has no value."""
        from tidegate.schema.inference import agreeing, look

        try:
            telling = kept.where("lines is not null").mapInArrow(_tell_shapes, "line binary").collect()
        except Exception as error:
            raise SourceError(
                f"{self._source.uri}: Spark gave up on a task: {cause(error)}", "nothing of this read is kept"
            ) from error
        fields: tuple[FieldSpec, ...] = ()
        if telling:
            found = look(
                [[bytes(row["line"]) for row in telling]],
                coerce_conflicts_to_utf8=self._schema.coerce_conflicts_to_utf8,
                rescued=self._schema.rescued is not None,
            )
            fields = agreeing(found).fields
            self.told.inferred = tuple(f"{each.path}: {each.type}" for each in found.report)
        known = {each.name for each in fields}
        missing = [FieldSpec(each.column, _type_of(each.lower)) for each in rows.ranges if each.column not in known]
        return (*fields, *missing)


@dataclass(frozen=True, slots=True)
class _Fetching:
    """Blocks by requests; what comes in are numbers of slots."""

    fetch: Fetch

    def __call__(self, batches: Iterator[pa.RecordBatch], counts: Counts) -> Iterator[LineBlock]:
        for batch in batches:
            for slot in batch.column(0).to_pylist():
                yield from blocks(self.fetch, slot, counts)


@dataclass(frozen=True, slots=True)
class _KeptBlocks:
    """Blocks that were kept before."""

    def __call__(self, batches: Iterator[pa.RecordBatch], counts: Counts) -> Iterator[LineBlock]:
        for batch in batches:
            for told, part, page, first, lines in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if told is None:
                    yield LineBlock(part, page, first, lines)


def _keep(batches: Iterator[pa.RecordBatch], origin: _Fetching | _KeptBlocks) -> Iterator[pa.RecordBatch]:
    """Blocks as they are, one per row; the last row tells what was done, or the error."""
    import pyarrow as pa

    kinds = {"told": pa.string(), "part": pa.int32(), "page": pa.int32(), "first": pa.int32(), "lines": pa.binary()}
    schema = pa.schema(list(kinds.items()))
    counts = Counts()
    try:
        for block in origin(batches, counts):
            row = {"part": block.part, "page": block.page, "first": block.first, "lines": block.lines}
            yield pa.RecordBatch.from_pylist([row], schema)
        told: Mapping[str, object] = asdict(counts)
    except TidegateError as error:
        told = errors.to_json(error)
    yield pa.RecordBatch.from_pylist([{"told": json.dumps(told)}], schema)


def _decode(
    batches: Iterator[pa.RecordBatch], origin: _Fetching | _KeptBlocks, *columns: Any
) -> Iterator[pa.RecordBatch]:
    """Records as rows; the last row tells what was done, or the error."""
    import pyarrow as pa

    decoder, counts = RecordBlocks(*columns), Counts()
    schema = pa.schema([("told", pa.string()), ("row", pa.struct(list(decoder.schema)))])
    try:
        for block in origin(batches, counts):
            rows = decoder.rows(block)
            if len(rows):
                yield pa.record_batch([pa.nulls(len(rows), pa.string()), rows.to_struct_array()], schema=schema)
        told: Mapping[str, object] = asdict(counts) | {"unknown": dict(decoder.unknown)}
    except TidegateError as error:
        told = errors.to_json(error)
    yield pa.RecordBatch.from_pylist([{"told": json.dumps(told)}], schema)


def _tell_shapes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The records that tell something about the columns which no other of the task does."""
    import pyarrow as pa

    from tidegate.sources.http.answers import Shapes

    shapes = Shapes()
    for block in _KeptBlocks()(batches, Counts()):
        telling = [found for line in block.lines.splitlines() if (found := shapes.telling(line)) is not None]
        yield pa.record_batch([pa.array(telling, pa.binary())], names=["line"])


def _type_of(bound: Bound | None) -> str:
    """The type of a column that has no value yet, by its watermark."""
    match None if bound is None else bound.value:
        case bool():
            return "boolean"
        case int():
            return "int64"
        case float() | Decimal():
            return "float64"
        case _:
            return "string"
