"""Values of watermark columns as people write them on a command line."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation

from tidegate.column_specs import Value
from tidegate.errors import WatermarkError

NULL = "null"


def parsed(column: str, text: str, stored: Value | None) -> Value | None:
    """The value of ``column`` that ``text`` means, None for ``null``.

    It is of the stored value's kind, else of the first kind that it looks like.
    """
    if text == NULL:
        return None
    if stored is not None:
        return _of_kind(column, text, stored)
    for parse in (int, Decimal, _moment, date.fromisoformat):
        try:
            return parse(text)
        except (ValueError, InvalidOperation):
            continue
    return text


def _of_kind(column: str, text: str, stored: Value) -> Value:
    try:
        match stored:
            case bool():
                return {"true": True, "false": False}[text.lower()]
            case int():
                return int(text)
            case float():
                return float(text)
            case Decimal():
                return Decimal(text)
            case datetime():
                return _zoned(_moment(text), stored)
            case date():
                return date.fromisoformat(text)
            case time():
                return time.fromisoformat(text)
            case _:
                return text
    except (ValueError, KeyError, InvalidOperation) as error:
        raise WatermarkError(
            f"{text!r} is not a value of column {column!r}, whose watermark is {stored!r}",
            "give a value of the same kind, times as ISO 8601",
        ) from error


def _moment(text: str) -> datetime:
    if len(text) <= len("2026-01-01"):
        raise ValueError(text)
    return datetime.fromisoformat(text)


def _zoned(value: datetime, stored: datetime) -> datetime:
    if (value.tzinfo is None) != (stored.tzinfo is None):
        raise ValueError("with a zone and without one")
    return value
