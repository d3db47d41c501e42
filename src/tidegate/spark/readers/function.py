"""A Python function as a source: it returns a DataFrame, and what does not match is left out of that."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from tidegate.core.columns.predicates import RowFilter, SqlDialect, predicate
from tidegate.errors import SourceError
from tidegate.sources.reader import FunctionRequest, GreatestValues
from tidegate.spark.filters import filtered, fitted, greatest_of, with_nulls
from tidegate.spark.rows import given, load_function, unreadable, utc_session
from tidegate.specs.columns import ColumnSource, FunctionRead
from tidegate.specs.masking import Mask
from tidegate.specs.project import SchemaSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_REMEDY = "correct the function and run again"


class FunctionReader:
    """Calls one function in the driver, with the session and a request."""

    fixed_first = False

    def __init__(
        self, session: SparkSession, source: ColumnSource, read: FunctionRead, schema: SchemaSpec, now: datetime
    ) -> None:
        self._session = utc_session(session)
        self._source = source
        self._read = read
        self._schema = schema
        self._now = now
        self._mask = Mask.around(read)

    def greatest(self, rows: RowFilter) -> GreatestValues:
        """The greatest values of what the function returns for these rows."""
        try:
            return greatest_of(self._matching(with_nulls(rows)), rows.columns, rows.mode)
        except Exception as error:
            raise unreadable(self._source.name, error, _REMEDY, self._mask) from self._mask.cause(error)

    def read(self, rows: RowFilter) -> DataFrame:
        """What the function returns, as far as it matches."""
        return given(self._matching(rows), self._schema, self._source.source_timezone, self._source.name)

    def _matching(self, rows: RowFilter) -> DataFrame:
        frame = self._returned(rows)
        return filtered(frame, fitted(rows, frame.schema, self._source.source_timezone, self._source.name))

    def _returned(self, rows: RowFilter) -> DataFrame:
        from pyspark.sql import DataFrame

        said = f"{self._source.name}: function {self._read.function}"
        function = load_function(self._read.function, said)
        text = predicate(rows, SqlDialect.SPARK)
        request = FunctionRequest(rows.columns, rows, text, self._now, dict(self._read.options))
        try:
            returned = function(self._session, request)
        except Exception as error:
            raise unreadable(f"{said} failed", error, _REMEDY, self._mask) from self._mask.cause(error)
        if not isinstance(returned, DataFrame):
            raise SourceError(f"{said} returned {self._mask(repr(returned)):.80}", "return a DataFrame")
        return returned
