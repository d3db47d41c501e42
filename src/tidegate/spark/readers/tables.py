"""Delta tables and folders of Parquet files: the condition is in the scan, which skips files by their statistics.

The first question pins a Delta table to its newest version and a folder to its present files, so that greatest values
and rows come from one state.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from tidegate.core.columns.predicates import RowFilter
from tidegate.core.files.discovery import Reason
from tidegate.errors import SourceError
from tidegate.sources.file_discovery import refuse_left_out
from tidegate.spark.filters import kinds_of_times
from tidegate.spark.readers.reader import FrameReader, reading
from tidegate.spark.s3a import spark_path
from tidegate.spark.session import quote
from tidegate.specs.columns import ColumnSource, TableFormat, TableRead
from tidegate.specs.project import SchemaSpec
from tidegate.storage.listing_scope import Scope
from tidegate.storage.options import split_uri
from tidegate.storage.stores import open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class TableReader(FrameReader):
    """Reads one table with Spark's own scan."""

    fixed_first = True
    _remedy = "check source_uri, and that the files are what 'type' says"

    def __init__(self, session: SparkSession, source: ColumnSource, read: TableRead, schema: SchemaSpec) -> None:
        super().__init__(session, source, schema)
        self._read = read

    def kinds(self, columns: Sequence[str]) -> dict[str, str]:
        """Which columns hold times."""
        return kinds_of_times(columns, self._whole.schema, self._source.name)

    def _frame(self, rows: RowFilter) -> DataFrame:
        return self._whole

    @cached_property
    def _whole(self) -> DataFrame:
        """The pinned state."""
        path = spark_path(self._session, self._read.location, self._source.name)
        with reading(self._source.name, self._remedy):
            if self._read.format is TableFormat.DELTA:
                return self._delta(path)
            self._check_links()
            reader = self._session.read.option("mergeSchema", "true")
            if self._read.pattern:
                reader = reader.option("pathGlobFilter", self._read.pattern).option("recursiveFileLookup", "true")
            return reader.parquet(path)

    def _check_links(self) -> None:
        """Refuse symbolic links: Spark follows them all and would read a file under each of its names."""
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
        history = self._session.sql(f"DESCRIBE HISTORY delta.{quote(path)} LIMIT 1")
        version = history.select("version").collect()[0][0]
        return self._session.read.format("delta").option("versionAsOf", version).load(path)
