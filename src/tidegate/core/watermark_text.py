"""The text of a watermark, which state providers keep without looking inside.

JSON with a mark at every value that JSON has no type for: ``{"updated_at": {"__datetime__":
"2026-04-03T09:15:00+00:00"}}``. Values come back with exactly the type that they had: a watermark that is compared as
text instead of as a time would skip rows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

from tidegate.errors import WatermarkError

INCLUSIVE = "__inclusive__"
"""The only reserved top-level key: the columns at which the next read is inclusive."""

_SENTINELS: dict[str, Callable[[str], object]] = {
    "__datetime__": datetime.fromisoformat,
    "__date__": date.fromisoformat,
    "__time__": time.fromisoformat,
    "__decimal__": Decimal,
}
# What other programs save for "no watermark yet"; anything else that cannot be read is an error, never a first run.
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
            return json.dumps(_encode(watermark, "watermark"), sort_keys=True, allow_nan=False)
        except (ValueError, RecursionError) as error:
            raise WatermarkError(f"the watermark cannot be saved: {error}", _SAVE_REMEDY) from None

    @staticmethod
    def deserialize(text: str | None) -> dict[str, Any] | None:
        """The watermark of a text, None without text; ``WatermarkError`` if it is damaged."""
        if text is None or text.strip() in _EMPTY:
            return None
        try:
            found = json.loads(
                text, object_pairs_hook=_restore, parse_constant=_refuse_constant, parse_float=_parse_finite
            )
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
    if not isinstance(columns, list) or not all(isinstance(column, str) for column in columns):
        raise WatermarkError(f"{INCLUSIVE} must be a list of columns, not {columns!r}", remedy)


def _encode(value: object, path: str) -> object:
    # Exact types: a subclass such as pandas.Timestamp would come back as a plain datetime, with other digits.
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
        return [_encode(each, f"{path}[{number}]") for number, each in enumerate(value)]
    if isinstance(value, Mapping):
        return {_key(key, path): _encode(each, f"{path}[{key!r}]") for key, each in value.items()}
    raise WatermarkError(f"{path}: {value!r} ({kind.__name__}) cannot be saved in a watermark", _SAVE_REMEDY)


def _key(key: object, path: str) -> str:
    if not isinstance(key, str):
        raise WatermarkError(f"{path}: the key {key!r} is not text", _SAVE_REMEDY)
    if key in _SENTINELS:
        raise WatermarkError(f"{path}: the key {key!r} is reserved, it marks a value's type", _SAVE_REMEDY)
    return key


def _restore(pairs: list[tuple[str, Any]]) -> object:
    found = dict(pairs)
    # JSON keeps the last of two equal keys, and which one was meant nobody knows.
    if len(found) < len(pairs):
        raise WatermarkError(f"the watermark has a key twice: {[key for key, _ in pairs]}", _LOAD_REMEDY)
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


def _refuse_constant(name: str) -> NoReturn:
    raise WatermarkError(f"{name} is not a value of a watermark", _LOAD_REMEDY)


def _parse_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        _refuse_constant(text)
    return number
