"""Values of watermark columns: what kind each is, and which of two is the greater.

Numbers compare as numbers, whatever their types; other kinds compare among themselves only. A time with a zone and one
without are different kinds: which is the greater depends on a zone that nobody wrote down.
"""

from __future__ import annotations

import math
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from tidegate.column_specs import Value
from tidegate.errors import WatermarkError

NUMBERS = frozenset({"int", "float", "decimal"})
TEMPORAL = frozenset({"datetime", "datetime_naive", "date"})
_WORDS = {
    "int": "a whole number",
    "float": "a floating-point number",
    "decimal": "a decimal",
    "text": "text",
    "datetime": "a time with a zone",
    "datetime_naive": "a time without a zone",
    "date": "a date",
    "time": "a time of day",
    "bool": "true or false",
}


def kind_of(value: Value) -> str:
    """``int``, ``float``, ``decimal``, ``text``, ``datetime``, ``datetime_naive``, ``date``, ``time`` or ``bool``."""
    match value:
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "float"
        case Decimal():
            return "decimal"
        case str():
            return "text"
        case datetime():
            return "datetime_naive" if value.utcoffset() is None else "datetime"
        case date():
            return "date"
        case time():
            return "time"
        case _:
            raise WatermarkError(
                f"{value!r} is {type(value).__name__}, which cannot be a watermark",
                "use a column of numbers, text, dates or times",
            )


def described(value: Value) -> str:
    """The value and its kind, for messages."""
    return f"{value} ({_WORDS[kind_of(value)]})"


def are_comparable(one: Value, other: Value) -> bool:
    """Whether one of the two is the greater, or both are equal."""
    kinds = {kind_of(one), kind_of(other)}
    return len(kinds) == 1 or kinds <= NUMBERS


def is_above(one: Value, other: Value) -> bool:
    """Whether ``one`` is the greater; ``WatermarkError`` where that cannot be said."""
    if not are_comparable(one, other):
        raise WatermarkError(
            f"{described(one)} and {described(other)} cannot be compared",
            "the column has changed its type; give it its former type, or move the watermark with `tidegate watermark"
            " set` to a value of the new one",
        )
    for value in (one, other):
        if not is_finite(value):
            raise WatermarkError(f"{value} cannot be compared with other numbers", "leave such rows out by a filter")
    left: Any = one
    return bool(left > other)


def greatest(one: Value | None, other: Value | None) -> Value | None:
    """The greater of the two; None is below everything, and of equal values the first stays."""
    if one is None or other is None:
        return other if one is None else one
    return other if is_above(other, one) else one


def is_finite(value: Value) -> bool:
    """Whether the value is not one of the numbers that have no place among the others."""
    if isinstance(value, Decimal):
        return value.is_finite()
    return not isinstance(value, float) or math.isfinite(value)
