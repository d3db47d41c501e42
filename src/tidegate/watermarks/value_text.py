"""Values that people write: on a command line, for a watermark or for the bounds of a replay."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation

from tidegate.column_specs import Value
from tidegate.errors import WatermarkError
from tidegate.watermarks.column_values import described, is_finite, kind_of

_INTEGER = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?\d+\.\d+")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}.*")


def _truth(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


_READERS: dict[str, Callable[[str], Value]] = {
    "int": int,
    "float": float,
    "decimal": Decimal,
    "text": str,
    "datetime": datetime.fromisoformat,
    "datetime_naive": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "bool": _truth,
}


def value_of(text: str, like: Value | None = None) -> Value:
    """The value that a text means: of the kind of ``like``, such as a stored watermark, or of the kind it looks like.

    ``WatermarkError`` where it is none of that kind; a time needs a zone exactly where ``like`` has one.
    """
    kind = _kind_of_text(text) if like is None else kind_of(like)
    try:
        value = _READERS[kind](text.strip() if kind != "text" else text)
    except (ValueError, KeyError, InvalidOperation):
        value = None
    if value is None or kind_of(value) != kind or not is_finite(value):
        wanted = f"a value such as {described(like)}" if like is not None else "a date or a time"
        raise WatermarkError(f"{text!r} is not {wanted}", "write it in that form; times as 2026-04-03T09:15:00+00:00")
    return value


def _kind_of_text(text: str) -> str:
    stripped = text.strip()
    if _INTEGER.fullmatch(stripped):
        return "int"
    if _DECIMAL.fullmatch(stripped):
        return "decimal"
    if _DATE.fullmatch(stripped):
        return "date"
    if _MOMENT.fullmatch(stripped):
        return "datetime" if re.search(r"(Z|[+-]\d{2}(:?\d{2})?)$", stripped[16:]) else "datetime_naive"
    return "text"
