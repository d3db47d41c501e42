"""The reader of a column source, by the type of the source."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from tidegate.sources.reader import Reader
from tidegate.specs.columns import ColumnSource, FunctionRead, HttpRead, JdbcRead, TableFormat, TableRead
from tidegate.specs.project import SchemaSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_reader(session: SparkSession, source: ColumnSource, schema: SchemaSpec, now: datetime) -> Reader:
    """The reader of ``source``; asks nothing of it yet."""
    match source.read:
        case JdbcRead() as read:
            from tidegate.spark.readers.jdbc import JdbcReader

            return JdbcReader(session, source, read, schema)
        case TableRead(format=TableFormat.DELTA | TableFormat.PARQUET) as read:
            from tidegate.spark.readers.tables import TableReader

            return TableReader(session, source, read, schema)
        case TableRead(format=TableFormat.ICEBERG) as read:
            from tidegate.spark.readers.iceberg import IcebergReader

            return IcebergReader(session, source, read, schema)
        case TableRead() as read:
            from tidegate.spark.readers.files import FilesReader

            return FilesReader(session, source, read, schema)
        case HttpRead():
            from tidegate.spark.readers.http import HttpReader

            return HttpReader(session, source, schema, now)
        case FunctionRead() as read:
            from tidegate.spark.readers.function import FunctionReader

            return FunctionReader(session, source, read, schema, now)
