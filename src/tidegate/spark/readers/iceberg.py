"""Iceberg tables: Spark's own Parquet reader reads those files of one snapshot that can hold wanted rows.

Columns are found by Iceberg's field ids, whatever a file calls them. Spark's vectorised reader and its pushed filters
also go by names: where a name once meant another column, rows are read one by one and no row group is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tidegate.core.columns.predicates import RowFilter
from tidegate.errors import EnvironmentProblem, SourceError
from tidegate.spark.filters import named
from tidegate.spark.readers.tables import TableReader
from tidegate.spark.s3a import spark_path
from tidegate.spark.session import put

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructField, StructType

    from tidegate.sources.iceberg import IcebergTable

NUMBER = "parquet.field.id"
"""Where Spark looks for the number of a column."""

_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")
_HYPHENS = "^(.{8})(.{4})(.{4})(.{4})(.{12})$"


def spark_columns(fields: Sequence[Mapping[str, Any]], source: str) -> StructType:
    """Spark columns for ``fields``, a struct in the JSON of the Iceberg specification; raises for types Spark lacks."""
    from pyspark.sql.types import StructType

    return StructType([_field(each, each["name"], source) for each in fields])


def as_written(frame: DataFrame, fields: Sequence[Mapping[str, Any]]) -> DataFrame:
    """``frame`` without Iceberg's field ids, and with UUIDs as text."""
    uuids = {each["name"] for each in fields if each["type"] == "uuid"}
    return frame.select(*(_plain(each, is_uuid=each.name in uuids) for each in frame.schema))


def _plain(field: StructField, *, is_uuid: bool) -> Column:
    from pyspark.sql import functions as f

    column = named(field.name)
    if is_uuid:
        return f.regexp_replace(f.lower(f.hex(column)), _HYPHENS, "$1-$2-$3-$4-$5").alias(field.name)
    bare = _bare(field.dataType)
    column = column if bare == field.dataType else column.cast(bare)
    return column.alias(field.name, metadata={})


def _bare(kind: DataType) -> DataType:
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    match kind:
        case StructType():
            return StructType([StructField(each.name, _bare(each.dataType), each.nullable) for each in kind])
        case ArrayType():
            return ArrayType(_bare(kind.elementType), kind.containsNull)
        case MapType():
            return MapType(_bare(kind.keyType), _bare(kind.valueType), kind.valueContainsNull)
        case _:
            return kind


def _field(described: Mapping[str, Any], path: str, source: str) -> StructField:
    from pyspark.sql.types import StructField

    if described.get("initial-default") is not None:
        raise SourceError(
            f"{source}: column {path!r} has a default for rows that were written before it, which is not read",
            "rewrite the data files of the table, or read it by a function of yours ('type: python')",
        )
    kind = _type(described["type"], path, source)
    return StructField(described["name"], kind, metadata={NUMBER: described["id"]})


def _type(described: Any, path: str, source: str) -> DataType:
    from pyspark.sql.types import ArrayType, MapType, StructType

    match described:
        case {"type": "struct", "fields": fields}:
            return StructType([_field(each, f"{path}.{each['name']}", source) for each in fields])
        case {"type": "list", "element": element}:
            return ArrayType(_type(element, f"{path}.element", source))
        case {"type": "map", "key": key, "value": value}:
            return MapType(_type(key, f"{path}.key", source), _type(value, f"{path}.value", source))
        case str():
            return _simple(described, path, source)
    raise AssertionError(described)


def _simple(described: str, path: str, source: str) -> DataType:
    from pyspark.sql import types as t

    kinds: dict[str, DataType] = {
        "boolean": t.BooleanType(),
        "int": t.IntegerType(),
        "long": t.LongType(),
        "float": t.FloatType(),
        "double": t.DoubleType(),
        "date": t.DateType(),
        "timestamp": t.TimestampNTZType(),
        "timestamptz": t.TimestampType(),
        "string": t.StringType(),
        **dict.fromkeys(("uuid", "fixed", "binary"), t.BinaryType()),
    }
    if number := _DECIMAL.fullmatch(described):
        return t.DecimalType(int(number[1]), int(number[2]))
    if kind := kinds.get(described.partition("[")[0]):
        return kind
    raise SourceError(
        f"{source}: column {path!r} is of type {described}, which Spark does not read",
        "read the table by a function of yours ('type: python')",
    )


_BY_NUMBER = "spark.sql.parquet.fieldId.read.enabled"
_BY_NAME = ("spark.sql.parquet.enableVectorizedReader", "spark.sql.parquet.filterPushdown")
_GLOB = re.compile(r"([\\\[\]{}*?])")
"""What Spark would take for a pattern in a path."""


class IcebergReader(TableReader):
    """Reads one Iceberg table, pinned to the newest snapshot at the first question."""

    def _frame(self, rows: RowFilter) -> DataFrame:
        planned = self._table.plan_files(self._fitted(rows, self._whole.schema))
        roots = {each.root: spark_path(self._session, each.root, self._source.name) for each in planned}
        return self._scan([roots[each.root] + _GLOB.sub(r"\\\1", each.path) for each in planned])

    @cached_property
    def _whole(self) -> DataFrame:
        """An empty frame with all columns."""
        return self._scan([])

    @cached_property
    def _table(self) -> IcebergTable:
        spark_path(self._session, self._read.location, self._source.name)
        try:
            from tidegate.sources.iceberg import IcebergTable
        except ImportError as error:
            raise EnvironmentProblem(
                f"{self._source.name}: Iceberg tables are read by pyiceberg, which is missing ({error.name})",
                "pip install 'tidegate[iceberg]'",
            ) from error
        return IcebergTable(self._read.location, self._source.name)

    def _scan(self, paths: list[str]) -> DataFrame:
        fields = self._table.fields
        columns = spark_columns(fields, self._source.name)
        put(self._session, {_BY_NUMBER: "true"})
        if not self._table.keeps_names:
            put(self._session, dict.fromkeys(_BY_NAME, "false"))
        if not paths:
            return as_written(self._session.createDataFrame([], columns), fields)
        return as_written(self._session.read.schema(columns).parquet(*paths), fields)
