"""The state of a column source: the greatest value read per watermark column; values, their order, and their JSON form.

Numbers compare as numbers, whatever their types; other kinds compare only among themselves. A time with a zone and one
without are different kinds: their order depends on a zone that nobody wrote down.

A state is ``{"schema_version": 1, "kind": "column", "watermark": text, "update_ts": seconds}``. The text is the
serializer's, as providers keep it without looking inside: ``{"updated_at": {"__datetime__":
"2026-04-03T09:15:00+00:00"}}``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

from tidegate.core.json_shape import SCHEMA_VERSION, seconds_of, state_of_kind
from tidegate.core.watermark_text import INCLUSIVE, WatermarkSerializer, without_inclusive
from tidegate.errors import StateError, WatermarkError
from tidegate.specs.columns import Value, Watermark

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
        # Before int, which bool is a subclass of; the same for datetime and date below.
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
        # NaN compares false with everything, so that "not above" would pass for "below".
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


_READERS: dict[str, Callable[[str], Value]] = {
    "int": int,
    "float": float,
    "decimal": Decimal,
    "text": str,
    "datetime": datetime.fromisoformat,
    "datetime_naive": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "bool": lambda text: {"true": True, "false": False}[text.lower()],
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


@dataclass(frozen=True, slots=True)
class ColumnState:
    """How far a source is read.

    A column with None was observed without a value; a missing column was never observed. At ``inclusive`` columns the
    next read begins with the value itself: its rows were not read.
    """

    values: Watermark = field(default_factory=dict)
    inclusive: frozenset[str] = frozenset()
    updated: datetime | None = None

    def complete(self) -> dict[str, object]:
        """The values by column, with the reserved key for columns that are read inclusively."""
        reserved = {INCLUSIVE: sorted(self.inclusive)} if self.inclusive else {}
        return {**self.values, **reserved}

    def serialize(self) -> str:
        """The text that providers keep; equal states give equal text."""
        return WatermarkSerializer.serialize(self.complete())

    @classmethod
    def of_text(cls, text: str | None, updated: datetime | None = None) -> ColumnState:
        """Decode a text; ``WatermarkError`` if it is damaged or has no single value per column."""
        values, inclusive = without_inclusive(WatermarkSerializer.deserialize(text) or {})
        for column, value in values.items():
            if isinstance(value, dict | list):
                raise WatermarkError(
                    f"the watermark of column {column!r} is {value!r}, not one value",
                    "set it with `tidegate watermark set`; nothing was written",
                )
        return cls(values, inclusive & values.keys(), updated)

    def respell(self, columns: Sequence[str]) -> ColumnState:
        """The same state with columns spelled as in ``columns``: a configuration may change upper and lower case."""
        ours = {column.lower(): column for column in columns if column not in self.values}
        names = {name: ours[name.lower()] for name in self.values if name not in columns and name.lower() in ours}
        if not names:
            return self
        values = {names.get(column, column): value for column, value in self.values.items()}
        return replace(self, values=values, inclusive=frozenset(names.get(column, column) for column in self.inclusive))

    def only(self, columns: Sequence[str]) -> ColumnState:
        """Keep only these columns; values of unused columns mean nothing later."""
        values = {column: value for column, value in self.values.items() if column in columns}
        return replace(self, values=values, inclusive=self.inclusive & values.keys())

    def advance(self, seen: Watermark, now: datetime) -> ColumnState:
        """The state after a read with ``seen`` as the greatest values: never backwards, null replaces nothing.

        A column stays inclusive until a row at its value or above was read.
        """
        values = {**self.values, **{column: self._greatest(column, value) for column, value in seen.items()}}
        reached = {column for column in self.inclusive if self._is_reached(column, seen.get(column))}
        return replace(self, values=values, inclusive=self.inclusive - reached, updated=now)

    def advance_cursor(self, columns: Sequence[str], seen: Watermark, now: datetime) -> ColumnState:
        """The same if all ``columns`` form one cursor, and ``seen`` is the greatest one."""
        if seen.get(columns[0]) is None or not self._is_cursor_reached(columns, seen):
            return replace(self, values={**dict.fromkeys(columns), **self.values}, updated=now)
        values = {**self.values, **{column: seen.get(column) for column in columns}}
        return replace(self, values=values, inclusive=self.inclusive - set(columns), updated=now)

    def cursor(self, columns: Sequence[str]) -> tuple[Value, ...]:
        """The stored cursor: the values of the first columns up to one without a value or inclusive."""
        values: list[Value] = []
        for column in columns:
            value = self.values.get(column)
            if value is None:
                break
            values.append(value)
            if column in self.inclusive:
                break
        return tuple(values)

    def _greatest(self, column: str, value: Value | None) -> Value | None:
        with errors_of(f"watermark column {column!r}: "):
            return greatest(self.values.get(column), value)

    def _is_reached(self, column: str, value: Value | None) -> bool:
        stored = self.values.get(column)
        return value is not None and (stored is None or not is_above(stored, value))

    def _is_cursor_reached(self, columns: Sequence[str], seen: Mapping[str, Value | None]) -> bool:
        """Whether the seen cursor is at or above the stored one."""
        for column, stored in zip(columns, self.cursor(columns), strict=False):
            value = seen.get(column)
            with errors_of(f"watermark column {column!r}: "):
                if value is None or is_above(stored, value):
                    return False
                if is_above(value, stored):
                    return True
        return True


def format_value(value: Value) -> str:
    """One value as text: times in ISO 8601."""
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def value_texts(values: Watermark) -> dict[str, str | None]:
    """Format values for people."""
    return {column: None if value is None else format_value(value) for column, value in values.items()}


def column_watermark_text(state: ColumnState | None) -> str | None:
    """The watermark on one line.

    >>> column_watermark_text(ColumnState({"id": 7, "seen": None}))
    'id=7, seen=null'
    """
    if state is None or not state.values:
        return None
    parts = (
        f"{name}={'null' if value is None else format_value(value)}" for name, value in sorted(state.values.items())
    )
    return ", ".join(parts)


KIND = "column"
_KEYS = ("schema_version", "kind", "watermark", "update_ts", "delta_version")


def encode_columns(state: ColumnState) -> dict[str, object]:
    """The complete state, small enough for the log of the table."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": KIND,
        "watermark": state.serialize(),
        "update_ts": seconds_of(state.updated),
    }


def decode_columns(data: Mapping[str, object]) -> ColumnState:
    """Decode a state; ``StateError`` names what it cannot read, and nothing is guessed."""
    if not data:
        return ColumnState()
    root = state_of_kind(data, KIND, _KEYS, "watermark columns", "columns")
    try:
        return ColumnState.of_text(root.get("watermark").text(), root.get("update_ts").seconds())
    except WatermarkError as error:
        raise StateError(f"state.watermark: {error.problem}", error.remedy) from error
