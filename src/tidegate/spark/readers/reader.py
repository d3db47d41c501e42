"""What the readers of column sources share, and the reader of a Python function.

Each reader has a Spark session of its own. A source is a DataFrame from which Spark takes the matching rows, cast to
the declared columns. Databases evaluate conditions themselves and have another reader.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tidegate.core.columns.predicates import RowFilter, predicate
from tidegate.core.dialects.dialect import SPARK
from tidegate.errors import SourceError, TidegateError
from tidegate.schema.types import arrow_schema
from tidegate.sources.reader import FunctionRequest, GreatestValues, UnitRequest, choose_rows, column_named
from tidegate.spark.arrow_types import to_spark_columns
from tidegate.spark.filters import apply_watermark_filter, exact_column, fit_to_schema, greatest_of, include_nulls
from tidegate.spark.session import derive_session
from tidegate.spark.tasks import machine_problem, telling_line
from tidegate.specs.columns import ColumnSource, FunctionRead
from tidegate.specs.masking import Mask
from tidegate.specs.table import SchemaSpec
from tidegate.specs.user_code import contain_errors, load_function, show

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

DEFAULT_PARALLELISM = 4
FUNCTION_REMEDY = "correct the function and run again"


class FrameReader(ABC):
    """Reads a column source that is a DataFrame."""

    fixed_first = False
    _remedy: str

    def __init__(self, session: SparkSession, source: ColumnSource, schema: SchemaSpec) -> None:
        self._session = utc_session(session)
        self._source = source
        self._schema = schema
        self._mask = Mask()

    @abstractmethod
    def _frame(self, rows: RowFilter) -> DataFrame:
        """The frame to scan for ``rows``; it holds all of them."""

    def greatest(self, rows: RowFilter) -> GreatestValues:
        """The greatest values of the matching rows, and how many rows have null in every watermark column."""
        with name_source_in_errors(self._source.name, self._remedy, self._mask):
            frame = self._chosen(include_nulls(rows), self._frame_with_nulls)
            wanted = self._fit(rows, frame.schema)
            seen = greatest_of(frame, wanted.columns, wanted.mode)
        return GreatestValues(dict(zip(rows.columns, seen.values.values(), strict=True)), seen.nulls)

    def read(self, rows: RowFilter) -> DataFrame:
        """The matching rows with the declared columns."""
        return check_given(self._match(rows), self._schema, self._source.source_timezone, self._source.name)

    def _frame_with_nulls(self, rows: RowFilter) -> DataFrame:
        """The same rows, and those with a null watermark."""
        return self._frame(include_nulls(rows))

    def _match(self, rows: RowFilter) -> DataFrame:
        return self._chosen(rows, self._frame)

    def _chosen(self, rows: RowFilter, frame_of: Callable[[RowFilter], DataFrame]) -> DataFrame:
        """The rows that match, by our filter or by the user's own."""
        if self._source.watermark_filter is not None:
            return choose_rows(self._source, rows, frame_of, self._filter)
        return self._filter(frame_of(rows), rows)

    def _filter(self, frame: DataFrame, rows: RowFilter) -> DataFrame:
        wanted = self._fit(rows, frame.schema)
        return apply_watermark_filter(frame, wanted.watermark, wanted.operator, rows=wanted)

    def _fit(self, rows: RowFilter, schema: StructType) -> RowFilter:
        return fit_to_schema(rows, schema, self._source.source_timezone, self._source.name)


class FunctionReader(FrameReader):
    """Calls a function in the driver with the session and a request; it must return a DataFrame."""

    _remedy = FUNCTION_REMEDY

    def __init__(
        self, session: SparkSession, source: ColumnSource, read: FunctionRead, schema: SchemaSpec, now: datetime
    ) -> None:
        super().__init__(session, source, schema)
        self._read = read
        self._now = now
        self._mask = Mask.around(read)

    def _frame(self, rows: RowFilter) -> DataFrame:
        text = predicate(rows, SPARK)
        request = FunctionRequest(rows.columns, rows, text, self._now, dict(self._read.options))
        said = f"{self._source.name}: function {self._read.function}"
        return call_function(self._session, self._read, request, said, self._mask, failed=f"{said} failed")


def call_function(
    session: SparkSession,
    read: FunctionRead,
    request: FunctionRequest | UnitRequest,
    said: str,
    mask: Mask,
    *,
    failed: str = "",
) -> DataFrame:
    """The DataFrame that the function returns.

    Messages call the function ``said``, and ``failed`` when it raises.
    """
    from pyspark.sql import DataFrame

    function = load_function(read.function, said)
    # `sys.exit` in such a function ends its source, not the run.
    with name_source_in_errors(failed or said, FUNCTION_REMEDY, mask), contain_errors():
        returned = function(session, request)
    if not isinstance(returned, DataFrame):
        asked = f" for {request.unit!r}" if isinstance(request, UnitRequest) else ""
        raise SourceError(f"{said} returned {show(returned, mask)}{asked}", "return a DataFrame")
    return returned


def utc_session(session: SparkSession) -> SparkSession:
    """A session with settings of its own: UTC, and an error for a value that does not fit."""
    # Without ANSI rules, a cast that overflows gives null or another number.
    return derive_session(session, {"spark.sql.ansi.enabled": "true"})


def task_count(session: Any) -> int:
    """How many tasks run at once; a default if a Spark Connect server does not say."""
    return int(session.sparkContext.defaultParallelism) if hasattr(session, "newSession") else DEFAULT_PARALLELISM


def declare_columns(schema: SchemaSpec) -> StructType | None:
    """The declared columns as a Spark schema; None to use the source's own."""

    return to_spark_columns(arrow_schema(schema.fields)) if schema.fields else None


def check_given(frame: DataFrame, schema: SchemaSpec, timezone: str, source: str) -> DataFrame:
    """``frame`` with the declared columns and types, or its own; times without a zone become instants."""
    timed = with_instants(frame, timezone)
    wanted = declare_columns(schema)
    if wanted is None:
        return timed
    columns = []
    for field in wanted:
        name = column_named(field.name, timed.columns, source)
        columns.append(exact_column(name).cast(field.dataType).alias(field.name))
    return timed.select(*columns)


def with_instants(frame: DataFrame, timezone: str) -> DataFrame:
    """``frame`` with times without a zone as instants in ``timezone``."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import TimestampNTZType

    local = [field.name for field in frame.schema if isinstance(field.dataType, TimestampNTZType)]
    instants = {
        # The cast itself goes by the zone of the session, which is UTC here.
        name: f.convert_timezone(f.lit(timezone), f.lit("UTC"), exact_column(name)).cast("timestamp").alias(name)
        for name in local
    }
    return frame.select(*(instants.get(name, exact_column(name)) for name in frame.columns)) if local else frame


def unreadable(source: str, error: Exception, remedy: str, mask: Mask | None = None) -> TidegateError:
    """A failure of Spark or of a function as an error of ours, masked by ``mask``."""
    mask = mask or Mask()
    if isinstance(error, TidegateError):
        masked: TidegateError = mask.error(error)
        return masked
    return machine_problem(error, mask) or SourceError(f"{source}: {telling_line(error, mask)}", remedy)


@contextmanager
def name_source_in_errors(source: str, remedy: str, mask: Mask | None = None) -> Iterator[None]:
    """Map errors inside the block by :func:`unreadable`."""
    try:
        yield
    except Exception as error:
        problem = unreadable(source, error, remedy, mask)
        if problem is error:
            raise
        raise problem from (mask or Mask()).cause(error)
