"""The columns of a DataFrame, as a table can hold them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tidegate.errors import SchemaMismatch

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def arrow_columns(frame: DataFrame, what: str) -> pa.Schema:
    """The columns of ``frame``; each must have a name of its own and a type that a table can hold.

    ``what`` begins the message of the :class:`SchemaMismatch` otherwise.
    """
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import NullType, VariantType

    schema = frame.schema
    twice = [name for name, count in Counter(each.name.lower() for each in schema).items() if count > 1]
    if twice:
        raise SchemaMismatch(f"{what} gives the column {twice[0]!r} twice", "give each column a name of its own")
    untyped = [each.name for each in schema if isinstance(each.dataType, NullType)]
    if untyped:
        raise SchemaMismatch(
            f"{what} gives the column {untyped[0]!r} no type", "cast it, such as: cast(null as string)"
        )
    variants = [each.name for each in schema if isinstance(each.dataType, VariantType)]
    if variants:
        raise SchemaMismatch(
            f"{what} gives {variants[0]!r}, a variant, which no lane writes", "cast it, or keep the text"
        )
    try:
        return to_arrow_schema(schema, timezone="UTC")
    except Exception as error:
        from tidegate.spark.frames import telling_line

        raise SchemaMismatch(
            f"{what} gives a type that no table can hold ({telling_line(error)})", "cast it"
        ) from error
