"""The columns of a table or query of a database: how each is fetched, and the types of their bounds."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import Decimal

from tidegate.core.dialects.dialect import Dialect
from tidegate.core.dialects.transfer import DatabaseField, is_decimal
from tidegate.errors import SourceError
from tidegate.sources.jdbc import FetchedColumn
from tidegate.specs.columns import Value

TEXT = "STRING"


class DatabaseColumns:
    """The columns of one table or query and how ``dialect`` fetches them; ``kinds`` are the types of bounds."""

    def __init__(self, fields: Iterable[DatabaseField], dialect: Dialect) -> None:
        self.ways = {field.name: dialect.transfer(field) for field in fields}
        self.kinds = {name: way.compared for name, way in self.ways.items()}

    def select_columns(self, *, in_python: bool = False) -> tuple[FetchedColumn, ...]:
        """The select expression of every column, for JDBC or for a driver of Python."""
        return tuple(
            FetchedColumn(
                name,
                way.python_template if in_python else way.template,
                way.compared == "string" and not way.field.is_row_id,
            )
            for name, way in self.ways.items()
        )

    def check_followed(self, column: str, source: str) -> None:
        """Refuse a watermark column whose text sorts differently from its values."""
        way = self.ways[column]
        if not way.sorts:
            raise SourceError(
                f"{source}: column {column!r} is of type {way.field.called}, whose text sorts differently from its "
                "values",
                "use another watermark column, or a query that casts it to a number, a time or a date",
            )

    def greatest_type(self, column: str) -> str:
        """The type in which an aggregate of ``column`` is fetched."""
        way = self.ways[column]
        return TEXT if way.is_text or way.field.is_clock or is_decimal(way.kind) else way.kind

    def greatest(self, column: str, value: Value | None) -> Value | None:
        """The value of an aggregate fetched with :meth:`greatest_type`."""
        if not isinstance(value, str):
            return value
        try:
            return _value_of(value, self.ways[column].compared)
        except (ValueError, ArithmeticError):
            raise SourceError(
                f"the greatest value of {column!r} is {value!r}, and nothing can be greater",
                "leave such rows out with filter_expression",
            ) from None


def _value_of(text: str, kind: str) -> Value:
    if is_decimal(kind):
        return Decimal(text)
    match kind:
        case "timestamp":
            return datetime.fromisoformat(text).replace(tzinfo=UTC)
        case "timestamp_ntz":
            return datetime.fromisoformat(text)
        case "date":
            return date.fromisoformat(text)
        case "tinyint" | "smallint" | "int" | "bigint":
            return int(text)
        case "float" | "double":
            return float(text)
        case "boolean":
            return text != "0"
        case _:
            return text
