"""Values of inputs as the plain text that units and variables are made of.

The same value has the same text whatever format it was read from: digits of integers, ``true`` and ``false``,
decimals without an exponent, dates and times in ISO form, moments with a zone in UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc


class NoText(Exception):
    """A value that has no plain text; the argument says what it is."""


def plain_text(value: object) -> str | None:
    """The text of one value; None for null. Raises :class:`NoText` for objects, lists and bytes.

    >>> plain_text(5), plain_text(True), plain_text(Decimal("1.50")), plain_text(date(2020, 1, 2))
    ('5', 'true', '1.50', '2020-01-02')
    """
    match value:
        case None:
            return None
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float() | UUID():
            return str(value)
        case Decimal():
            return format(value, "f")
        case datetime():
            aware = value.tzinfo is not None
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z") if aware else value.isoformat()
        case date() | time():
            return value.isoformat()
        case bytes() | bytearray():
            raise NoText("bytes")
        case Mapping():
            raise NoText("an object")
        case list() | tuple():
            raise NoText("a list")
        case _:
            raise NoText(type(value).__name__)


def column_texts(column: pa.Array) -> list[str | None]:
    """The texts of a column; raises :class:`NoText`."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return column_texts(column.dictionary_decode())
    if pa.types.is_timestamp(kind):
        column = pc.cast(column, pa.timestamp("us", kind.tz), safe=False)
    elif pa.types.is_integer(kind):
        column = pc.cast(column, pa.string())
    found: list[object] = column.to_pylist()
    if pa.types.is_string(column.type) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return found  # type: ignore[return-value]  # a column of texts holds texts and nulls
    return [plain_text(value) for value in found]
