"""The columns of an Iceberg table as Spark's, each with the number by which Iceberg knows it in every data file.

Names may change and columns may come; the number stays. Spark finds a column of a Parquet file by it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidegate.errors import SourceError
from tidegate.spark.filters import named

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructField, StructType

NUMBER = "parquet.field.id"
"""Where Spark looks for the number of a column."""

_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")
_HYPHENS = "^(.{8})(.{4})(.{4})(.{4})(.{12})$"


def spark_columns(fields: Sequence[Mapping[str, Any]], source: str) -> StructType:
    """The columns of ``fields``, a struct in the JSON of the Iceberg specification; raises for what Spark has not."""
    from pyspark.sql.types import StructType

    return StructType([_field(each, each["name"], source) for each in fields])


def as_written(frame: DataFrame, fields: Sequence[Mapping[str, Any]]) -> DataFrame:
    """``frame`` without the numbers, which are Iceberg's alone, and with UUIDs as the texts they are written as."""
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

    if number := _DECIMAL.fullmatch(described):
        return t.DecimalType(int(number[1]), int(number[2]))
    match described.partition("[")[0]:
        case "boolean":
            return t.BooleanType()
        case "int":
            return t.IntegerType()
        case "long":
            return t.LongType()
        case "float":
            return t.FloatType()
        case "double":
            return t.DoubleType()
        case "date":
            return t.DateType()
        case "timestamp":
            return t.TimestampNTZType()
        case "timestamptz":
            return t.TimestampType()
        case "string":
            return t.StringType()
        case "uuid" | "fixed" | "binary":
            return t.BinaryType()
    raise SourceError(
        f"{source}: column {path!r} is of type {described}, which Spark does not read",
        "read the table by a function of yours ('type: python')",
    )
