"""Delta tables and folders of Parquet files: the condition is in the scan, which passes over files without such rows.

A Delta table is pinned to its newest version, a folder to the files that are there, when the reader is first asked: the
greatest values and the rows are those of one state.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from tidegate.core.columns.predicates import RowFilter, SqlDialect, quote
from tidegate.core.files.discovery import Reason
from tidegate.errors import SourceError
from tidegate.sources.file_discovery import refuse_left_out
from tidegate.sources.reader import GreatestValues
from tidegate.spark.filters import filtered, fitted, greatest_of, kinds_of_times, with_nulls
from tidegate.spark.rows import given, unreadable, utc_session
from tidegate.spark.s3a import spark_path
from tidegate.specs.columns import ColumnSource, TableFormat, TableRead
from tidegate.specs.project import SchemaSpec
from tidegate.storage.listing_scope import Scope
from tidegate.storage.options import split_uri
from tidegate.storage.stores import open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_REMEDY = "check source_uri, and that the files are what 'type' says"


class TableReader:
    """Reads one table by a scan of Spark's own."""

    fixed_first = True

    def __init__(self, session: SparkSession, source: ColumnSource, read: TableRead, schema: SchemaSpec) -> None:
        self._session = utc_session(session)
        self._source = source
        self._read = read
        self._schema = schema

    def greatest(self, rows: RowFilter) -> GreatestValues:
        """The greatest values of the pinned state; rows with null in every column are counted besides."""
        wanted = with_nulls(self._fitted(rows))
        try:
            seen = greatest_of(filtered(self._holding(wanted), wanted), wanted.columns, wanted.mode)
        except Exception as error:
            raise unreadable(self._source.name, error, _REMEDY) from error
        return GreatestValues(dict(zip(rows.columns, seen.values.values(), strict=True)), seen.nulls)

    def kinds(self, columns: Sequence[str]) -> dict[str, str]:
        """Which columns hold times."""
        return kinds_of_times(columns, self._frame.schema, self._source.name)

    def read(self, rows: RowFilter) -> DataFrame:
        """The rows of the pinned state that match."""
        wanted = self._fitted(rows)
        frame = filtered(self._holding(wanted), wanted)
        return given(frame, self._schema, self._source.source_timezone, self._source.name)

    def _holding(self, rows: RowFilter) -> DataFrame:
        """What is scanned for ``rows``, which holds all of them."""
        return self._frame

    def _fitted(self, rows: RowFilter) -> RowFilter:
        return fitted(rows, self._frame.schema, self._source.source_timezone, self._source.name)

    @cached_property
    def _frame(self) -> DataFrame:
        path = spark_path(self._session, self._read.location, self._source.name)
        try:
            if self._read.format is TableFormat.DELTA:
                return self._delta(path)
            self._check_links()
            reader = self._session.read.option("mergeSchema", "true")
            if self._read.pattern:
                reader = reader.option("pathGlobFilter", self._read.pattern).option("recursiveFileLookup", "true")
            return reader.parquet(path)
        except Exception as error:
            raise unreadable(self._source.name, error, _REMEDY) from error

    def _check_links(self) -> None:
        """Spark follows every link and would read a file under each of its names: refuse what it must not follow."""
        location, scope = self._read.location, Scope(follow_links=self._read.follow_links)
        store = open_store(location)
        if split_uri(location.uri)[0] != "file" or not store.exists():
            return
        for _ in store.list(scope=scope):
            pass
        refuse_left_out(scope, location.uri, "set follow_links: true, or put the files themselves there")
        again = [each for each in scope.left_out if each.reason is Reason.LINK_AGAIN]
        if again:
            raise SourceError(f"{location.uri}: {again[0]}", "remove the link: Spark would read these files twice")

    def _delta(self, path: str) -> DataFrame:
        history = self._session.sql(f"DESCRIBE HISTORY delta.{quote(path, SqlDialect.SPARK)} LIMIT 1")
        version = history.select("version").collect()[0][0]
        return self._session.read.format("delta").option("versionAsOf", version).load(path)
