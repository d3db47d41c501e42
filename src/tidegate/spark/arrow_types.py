"""Columns of Spark as columns of Arrow, and back.

PySpark has such functions, but they are private: their parameters differ between Spark 4.0, 4.1 and 4.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_BY_NAME = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}
"""Types of Arrow by Spark's name for a type without parameters."""


def to_arrow_columns(columns: StructType) -> pa.Schema:
    """The columns in Arrow; times with a zone are in UTC. ``TypeError`` for a type that Arrow has no place for."""
    return pa.schema([pa.field(each.name, arrow_type(each.dataType), each.nullable) for each in columns])


def arrow_type(kind: DataType) -> pa.DataType:
    """The type in Arrow; ``TypeError`` if there is none."""
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StringType, StructType, UserDefinedType

    match kind:
        case DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        # Also a text with a collation or a length, which has a name of its own.
        case StringType():
            return pa.string()
        case ArrayType():
            return pa.list_(pa.field("element", arrow_type(kind.elementType), kind.containsNull))
        case MapType():
            key = pa.field("key", arrow_type(kind.keyType), nullable=False)
            return pa.map_(key, pa.field("value", arrow_type(kind.valueType), kind.valueContainsNull))
        case StructType():
            return pa.struct([pa.field(each.name, arrow_type(each.dataType), each.nullable) for each in kind])
        case UserDefinedType():
            return arrow_type(kind.sqlType())
    known = _BY_NAME.get(kind.typeName())
    if known is None:
        raise TypeError(f"{kind.simpleString()} has no counterpart in Arrow")
    return known


def to_spark_columns(columns: pa.Schema) -> StructType:
    """The columns in Spark. ``TypeError`` for a type that Spark does not have."""
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(each.name, spark_type(each.type), each.nullable) for each in columns])


def spark_type(kind: pa.DataType) -> DataType:
    """The type in Spark; ``TypeError`` if there is none."""
    from pyspark.sql import types as t

    if pa.types.is_decimal(kind):
        return t.DecimalType(kind.precision, kind.scale)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return t.StringType()
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return t.BinaryType()
    if pa.types.is_timestamp(kind):
        return t.TimestampNTZType() if kind.tz is None else t.TimestampType()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return t.ArrayType(spark_type(kind.value_type), kind.value_field.nullable)
    if pa.types.is_map(kind):
        return t.MapType(spark_type(kind.key_type), spark_type(kind.item_type), kind.item_field.nullable)
    if pa.types.is_struct(kind):
        return t.StructType([t.StructField(each.name, spark_type(each.type), each.nullable) for each in kind])
    plain = {
        pa.bool_(): t.BooleanType,
        pa.int8(): t.ByteType,
        pa.int16(): t.ShortType,
        pa.int32(): t.IntegerType,
        pa.int64(): t.LongType,
        pa.float32(): t.FloatType,
        pa.float64(): t.DoubleType,
        pa.binary(): t.BinaryType,
        pa.date32(): t.DateType,
        pa.null(): t.NullType,
    }
    if kind not in plain:
        raise TypeError(f"{kind} has no counterpart in Spark")
    return plain[kind]()
