"""Values of watermark columns: their kinds, their order, and their text form.

Numbers compare as numbers, whatever their types; other kinds compare only among themselves. A time with a zone and one
without are different kinds: their order depends on a zone that nobody wrote down.

``{"updated_at": {"__datetime__": "2026-04-03T09:15:00+00:00"}}``. Providers never look inside the text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

from tidegate.errors import WatermarkError
from tidegate.specs.columns import Value

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


def describe(value: Value) -> str:
    """The value and its kind, for messages."""
    return f"{value} ({_WORDS[kind_of(value)]})"


@contextmanager
def errors_of(prefix: str) -> Iterator[None]:
    """Prefix the text of a ``WatermarkError`` with the owner of the value."""
    try:
        yield
    except WatermarkError as error:
        raise WatermarkError(f"{prefix}{error.problem}", error.remedy) from None


def are_comparable(one: Value, other: Value) -> bool:
    """Whether the two have an order."""
    kinds = {kind_of(one), kind_of(other)}
    return len(kinds) == 1 or kinds <= NUMBERS


def is_above(one: Value, other: Value) -> bool:
    """Whether ``one`` is greater; ``WatermarkError`` if the two have no order."""
    if not are_comparable(one, other):
        raise WatermarkError(
            f"{describe(one)} and {describe(other)} cannot be compared",
            "the column has changed its type; give it its former type, or move the watermark with `tidegate watermark"
            " set` to a value of the new one",
        )
    for value in (one, other):
        if not is_finite(value):
            raise WatermarkError(f"{value} cannot be compared with other numbers", "leave such rows out by a filter")
    left: Any = one
    return bool(left > other)


def greatest(one: Value | None, other: Value | None) -> Value | None:
    """The greater value; None is below everything, and of equal values the first stays."""
    if one is None or other is None:
        return other if one is None else one
    return other if is_above(other, one) else one


def is_finite(value: Value) -> bool:
    """Whether the value is neither NaN nor infinite."""
    if isinstance(value, Decimal):
        return value.is_finite()
    return not isinstance(value, float) or math.isfinite(value)


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
    """Parse a text as a value: of the kind of ``like``, such as a stored watermark, or of the kind it looks like.

    ``WatermarkError`` if it is none of that kind; a time needs a zone exactly if ``like`` has one.
    """
    kind = _kind_of_text(text) if like is None else kind_of(like)
    try:
        value = _READERS[kind](text.strip() if kind != "text" else text)
    except (ValueError, KeyError, InvalidOperation):
        value = None
    if value is None or kind_of(value) != kind or not is_finite(value):
        wanted = f"a value such as {describe(like)}" if like is not None else "a date or a time"
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


INCLUSIVE = "__inclusive__"
"""The only reserved top-level key: the columns at which the next read is inclusive."""

_SENTINELS: dict[str, Callable[[str], object]] = {
    "__datetime__": datetime.fromisoformat,
    "__date__": date.fromisoformat,
    "__time__": time.fromisoformat,
    "__decimal__": Decimal,
}
_EMPTY = ("", "null", "None", "{}")
_SAVE_REMEDY = "nothing was saved; use numbers, text, dates, times or decimals"
_LOAD_REMEDY = (
    "the stored watermark is damaged or from another program; it is not taken for a first run, and nothing was written"
)


class WatermarkSerializer:
    """Converts watermarks into text and back."""

    @staticmethod
    def serialize(watermark: Mapping[str, Any]) -> str:
        """The text of a watermark; equal watermarks give equal text. ``WatermarkError`` names what has no text."""
        if not isinstance(watermark, Mapping):
            raise WatermarkError(f"a watermark is a mapping of columns to values, not {watermark!r}", _SAVE_REMEDY)
        _check_inclusive(watermark, _SAVE_REMEDY)
        try:
            return json.dumps(_encoded(watermark, "watermark"), sort_keys=True, allow_nan=False)
        except (ValueError, RecursionError) as error:
            raise WatermarkError(f"the watermark cannot be saved: {error}", _SAVE_REMEDY) from None

    @staticmethod
    def deserialize(text: str | None) -> dict[str, Any] | None:
        """The watermark of a text, None without text; ``WatermarkError`` if it is damaged."""
        if text is None or text.strip() in _EMPTY:
            return None
        try:
            found = json.loads(text, object_pairs_hook=_restored, parse_constant=_no_constant, parse_float=_finite)
        except (ValueError, RecursionError) as error:
            raise WatermarkError(f"the watermark is not JSON ({error}): {text[:80]!r}", _LOAD_REMEDY) from None
        if not isinstance(found, dict):
            raise WatermarkError(f"the watermark is not a JSON object of columns: {text[:80]!r}", _LOAD_REMEDY)
        _check_inclusive(found, _LOAD_REMEDY)
        return found


def is_watermark_empty(watermark: Mapping[str, Any] | None) -> bool:
    """Whether no column has a value yet, so that everything is to be read."""
    return not watermark or all(value is None for key, value in watermark.items() if key != INCLUSIVE)


def without_inclusive(watermark: Mapping[str, Any]) -> tuple[dict[str, Any], frozenset[str]]:
    """The columns' values alone, and the columns at which the next read is inclusive."""
    values = {key: value for key, value in watermark.items() if key != INCLUSIVE}
    return values, frozenset(watermark.get(INCLUSIVE, ()))


def _check_inclusive(watermark: Mapping[str, Any], remedy: str) -> None:
    columns = watermark.get(INCLUSIVE, [])
    if not isinstance(columns, list) or not all(isinstance(each, str) for each in columns):
        raise WatermarkError(f"{INCLUSIVE} must be a list of columns, not {columns!r}", remedy)


def _encoded(value: object, path: str) -> object:
    """The value in JSON types; exact types only, so that it decodes to the same value."""
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float and isinstance(value, float) and math.isfinite(value):
        return value
    if kind is Decimal and isinstance(value, Decimal) and value.is_finite():
        return {"__decimal__": str(value)}
    if kind in (datetime, date, time) and isinstance(value, datetime | date | time):
        return {f"__{kind.__name__}__": value.isoformat()}
    if isinstance(value, list):
        return [_encoded(each, f"{path}[{number}]") for number, each in enumerate(value)]
    if isinstance(value, Mapping):
        return {_key(key, path): _encoded(each, f"{path}[{key!r}]") for key, each in value.items()}
    raise WatermarkError(f"{path}: {value!r} ({kind.__name__}) cannot be saved in a watermark", _SAVE_REMEDY)


def _key(key: object, path: str) -> str:
    if not isinstance(key, str):
        raise WatermarkError(f"{path}: the key {key!r} is not text", _SAVE_REMEDY)
    if key in _SENTINELS:
        raise WatermarkError(f"{path}: the key {key!r} is reserved, it marks a value's type", _SAVE_REMEDY)
    return key


def _restored(pairs: list[tuple[str, Any]]) -> object:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise WatermarkError(f"the watermark holds a key twice: {[key for key, _ in pairs]}", _LOAD_REMEDY)
    sentinel = next((key for key in found if key in _SENTINELS), None)
    if sentinel is None:
        return found
    value = found[sentinel]
    if len(found) > 1 or not isinstance(value, str):
        raise WatermarkError(f"{found!r} is not a value of the form {{{sentinel!r}: text}}", _LOAD_REMEDY)
    try:
        restored = _SENTINELS[sentinel](value)
    except (ValueError, InvalidOperation):
        restored = None
    if restored is None or (isinstance(restored, Decimal) and not restored.is_finite()):
        raise WatermarkError(f"{value!r} is not what {sentinel} says", _LOAD_REMEDY)
    return restored


def _no_constant(name: str) -> object:
    raise WatermarkError(f"{name} is not a value of a watermark", _LOAD_REMEDY)


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else float(str(_no_constant(text)))
