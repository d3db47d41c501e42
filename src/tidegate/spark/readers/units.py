"""Work units as DataFrames: of a database, by one statement per segment, and of a Python function, by one call."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from tidegate.column_specs import FunctionRead, JdbcRead
from tidegate.errors import SourceError, TidegateError
from tidegate.masking import Mask
from tidegate.sources.jdbc_statements import JdbcStatements
from tidegate.sources.unit_request import UnitRequest
from tidegate.sources.units.sql import filled, values_of
from tidegate.sources.units.variables import moment_of
from tidegate.sources.units.work import UnitWave, UnitWork
from tidegate.spark.bounds import fitted
from tidegate.spark.filters import filtered
from tidegate.spark.functions import load_function
from tidegate.spark.readers.jdbc_columns import JdbcColumns
from tidegate.spark.readers.jdbc_connection import JdbcConnection
from tidegate.spark.readers.rows import declared, given, unreadable, utc_session, with_instants
from tidegate.spark.unit_frames import Segment
from tidegate.unit_specs import UnitSource
from tidegate.watermarks.dialects import Dialect
from tidegate.watermarks.predicate_text import predicate
from tidegate.watermarks.row_filter import Bound, ColumnRange, RowFilter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DAY = timedelta(days=1)


class JdbcUnits:
    """A table or query of a database; the range goes into the statement where there is a time column."""

    together = True

    def __init__(self, session: SparkSession, wave: UnitWave, read: JdbcRead) -> None:
        self._connection = JdbcConnection(utc_session(session), read, wave.source.name)
        self._wave = wave
        self._read = read
        self._columns: JdbcColumns | None = None

    def segments(self, work: UnitWork) -> list[Segment]:
        """One statement per segment, each for a connection of its own."""
        return [Segment(low, self._rows(work, low, high)) for low, high in work.segments]

    def problem(self, error: Exception) -> TidegateError:
        """What the database told."""
        return self._connection.problem(error)

    def _rows(self, work: UnitWork, low: int, high: int) -> DataFrame:
        source = self._wave.source
        asked = JdbcStatements(self._asked(work, low, high))
        if self._columns is None:
            found = self._connection.frame(asked.rows(RowFilter())).schema
            self._columns = JdbcColumns(found, self._connection.dialect)
        pushed = fitted(_widened(source, low, high), self._columns.schema, source.timezone, source.name)
        statement = replace(asked, columns=self._columns.selected()).rows(pushed)
        fetched = self._connection.frame(statement, self._columns.fetched())
        frame = self._columns.restored(fetched, declared(self._wave.pipeline.schema))
        timed = with_instants(frame, source.timezone)
        inside = fitted(_range(source, moment_of(low), moment_of(high)), timed.schema, source.timezone, source.name)
        return given(filtered(timed, inside), self._wave.pipeline.schema, source.timezone, source.name)

    def _asked(self, work: UnitWork, low: int, high: int) -> JdbcRead:
        """What is read, its variables filled."""
        if self._read.query is None:
            return self._read
        values = values_of(self._wave.source, work, (low, high))
        return replace(self._read, query=filled(self._read.query, values, self._connection.dialect))


class FunctionUnits:
    """Calls one function in the driver per segment, with the session and a request."""

    together = False

    def __init__(self, session: SparkSession, wave: UnitWave, read: FunctionRead) -> None:
        self._session = utc_session(session)
        self._wave = wave
        self._read = read
        self._said = f"{wave.source.name}: function {read.function}"
        self._mask = Mask.around(read, [dict(work.secrets) for work in wave.works])

    def segments(self, work: UnitWork) -> list[Segment]:
        """What the function returns; rows outside the range are left out where there is a time column."""
        source = self._wave.source
        found = []
        for low, high in work.segments:
            rows = given(self._returned(work, low, high), self._wave.pipeline.schema, source.timezone, source.name)
            inside = fitted(_range(source, moment_of(low), moment_of(high)), rows.schema, source.timezone, source.name)
            found.append(Segment(low, rows, predicate(inside, Dialect.SPARK)))
        return found

    def problem(self, error: Exception) -> TidegateError:
        """What went wrong while the rows were computed."""
        return unreadable(self._said, error, "correct the function and run again", self._mask)

    def _returned(self, work: UnitWork, low: int, high: int) -> DataFrame:
        from pyspark.sql import DataFrame

        function = load_function(self._read.function, self._said)
        options = dict(self._read.options)
        request = UnitRequest(
            work.unit,
            dict(work.variables),
            moment_of(low),
            moment_of(high),
            self._wave.now,
            options,
            dict(work.secrets),
        )
        try:
            returned = function(self._session, request)
        except Exception as error:
            raise self.problem(error) from self._mask.cause(error)
        if not isinstance(returned, DataFrame):
            told = f"{self._mask(repr(returned)):.80}"
            raise SourceError(f"{self._said} returned {told} for {work.unit!r}", "return a DataFrame")
        return returned


def _range(source: UnitSource, low: datetime, high: datetime) -> RowFilter:
    """The rows from ``low`` up to ``high``; all of them where no column tells."""
    if source.time_column is None:
        return RowFilter()
    return RowFilter((ColumnRange(source.time_column, Bound(low, inclusive=True), Bound(high)),))


def _widened(source: UnitSource, low: int, high: int) -> RowFilter:
    """The same, wider near a change of clocks, where local times have no order; what is too much is left out."""
    return _range(
        source, moment_of(low) - _slack(low, source.timezone), moment_of(high) + _slack(high, source.timezone)
    )


def _slack(milliseconds: int, zone: str) -> timedelta:
    near = moment_of(milliseconds)
    offsets = {(near + step).astimezone(ZoneInfo(zone)).utcoffset() for step in (-_DAY, timedelta(0), _DAY)}
    return _DAY if len(offsets) > 1 else timedelta(0)
