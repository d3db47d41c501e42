"""How the columns of a database are fetched so that nothing is lost on the way through Java.

Times without a zone come as text, for a Java machine whose zone has a daylight-saving gap bends those that fall into
it. The greatest decimal comes as text, for Java gives a computed one a scale of its own. Times of day stay text.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from tidegate.column_specs import Value
from tidegate.errors import SourceError
from tidegate.spark.filters import named
from tidegate.watermarks.dialects import Dialect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField, StructType

TEXT = "STRING"
_TIMES_AS_TEXT = (Dialect.POSTGRESQL, Dialect.MYSQL)


class JdbcColumns:
    """The columns of one table or query, as ``dialect`` is best asked for them."""

    def __init__(self, schema: StructType, dialect: Dialect) -> None:
        self.schema = schema
        self._dialect = dialect

    def texts(self) -> frozenset[str]:
        """The columns that hold text."""
        from pyspark.sql.types import StringType

        return frozenset(field.name for field in self.schema if isinstance(field.dataType, StringType))

    def fetched(self) -> dict[str, str]:
        """The types of columns that are fetched otherwise than Spark would."""
        return {field.name: TEXT for field in self.schema if _is_clock(field) or self._is_local(field)}

    def restored(self, frame: DataFrame) -> DataFrame:
        """``frame``, fetched so, with the types that the columns have."""
        local = {field.name for field in self.schema if self._is_local(field)}
        if not local:
            return frame
        columns = ((name, named(name)) for name in frame.columns)
        return frame.select(
            *(column.cast("timestamp_ntz").alias(name) if name in local else column for name, column in columns)
        )

    def greatest_type(self, column: str) -> str:
        """The type by which a computed value of ``column`` is fetched."""
        from pyspark.sql.types import DecimalType

        field = self.schema[column]
        as_text = _is_clock(field) or self._is_local(field) or isinstance(field.dataType, DecimalType)
        return TEXT if as_text else str(field.dataType.simpleString())

    def greatest(self, column: str, value: Value | None) -> Value | None:
        """What was fetched by :meth:`greatest_type`, as the value it is."""
        from pyspark.sql.types import DecimalType

        field = self.schema[column]
        if not isinstance(value, str):
            return value
        try:
            if isinstance(field.dataType, DecimalType):
                return Decimal(value)
            return datetime.fromisoformat(value) if self._is_local(field) else value
        except (ValueError, ArithmeticError) as error:
            raise SourceError(
                f"the greatest value of {column!r} is {value!r}, above which nothing can be",
                "leave such rows out with filter_expression",
            ) from error

    def _is_local(self, field: StructField) -> bool:
        from pyspark.sql.types import TimestampNTZType

        is_time = isinstance(field.dataType, TimestampNTZType) and not _is_clock(field)
        return is_time and self._dialect in _TIMES_AS_TEXT


def _is_clock(field: StructField) -> bool:
    """Whether a column holds times of day, which Spark takes for times of the first day of 1970."""
    return bool(field.metadata.get("logical_time_type"))
