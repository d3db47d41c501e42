"""The state of a column source: the greatest value read per watermark column, and its JSON form.

``{"schema_version": 1, "kind": "column", "watermark": text, "update_ts": seconds}``. The text is the serializer's, as
providers keep it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from tidegate.core.columns.values import (
    INCLUSIVE,
    WatermarkSerializer,
    errors_of,
    greatest,
    is_above,
    without_inclusive,
)
from tidegate.core.json_shape import SCHEMA_VERSION, seconds_of, state_of_kind
from tidegate.errors import StateError, WatermarkError
from tidegate.specs.columns import Value, Watermark


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

    def text(self) -> str:
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

    def spelled(self, columns: Sequence[str]) -> ColumnState:
        """The same state with columns spelled as in ``columns``: a configuration may change upper and lower case."""
        ours = {each.lower(): each for each in columns if each not in self.values}
        names = {each: ours[each.lower()] for each in self.values if each not in columns and each.lower() in ours}
        if not names:
            return self
        values = {names.get(each, each): value for each, value in self.values.items()}
        return replace(self, values=values, inclusive=frozenset(names.get(each, each) for each in self.inclusive))

    def only(self, columns: Sequence[str]) -> ColumnState:
        """The state of these columns alone; values of unused columns mean nothing later."""
        values = {each: value for each, value in self.values.items() if each in columns}
        return replace(self, values=values, inclusive=self.inclusive & values.keys())

    def advanced(self, seen: Watermark, now: datetime) -> ColumnState:
        """The state after a read with ``seen`` as the greatest values: never backwards, null replaces nothing.

        A column stays inclusive until a row at its value or above was read.
        """
        values = {**self.values, **{each: self._greater(each, value) for each, value in seen.items()}}
        reached = {each for each in self.inclusive if self._is_reached(each, seen.get(each))}
        return replace(self, values=values, inclusive=self.inclusive - reached, updated=now)

    def advanced_cursor(self, columns: Sequence[str], seen: Watermark, now: datetime) -> ColumnState:
        """The same if all ``columns`` form one cursor, and ``seen`` is the greatest one."""
        if seen.get(columns[0]) is None or not self._is_cursor_reached(columns, seen):
            return replace(self, values={**dict.fromkeys(columns), **self.values}, updated=now)
        values = {**self.values, **{each: seen.get(each) for each in columns}}
        return replace(self, values=values, inclusive=self.inclusive - set(columns), updated=now)

    def cursor(self, columns: Sequence[str]) -> tuple[Value, ...]:
        """The stored cursor: the values of the first columns up to one without a value or inclusive."""
        found: list[Value] = []
        for column in columns:
            value = self.values.get(column)
            if value is None:
                break
            found.append(value)
            if column in self.inclusive:
                break
        return tuple(found)

    def _greater(self, column: str, value: Value | None) -> Value | None:
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


def text_of(value: Value) -> str:
    """One value as text: times in ISO 8601."""
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def value_texts(values: Watermark) -> dict[str, str | None]:
    """Values for people."""
    return {column: None if value is None else text_of(value) for column, value in values.items()}


def column_watermark_text(state: ColumnState | None) -> str | None:
    """The watermark on one line.

    >>> column_watermark_text(ColumnState({"id": 7, "seen": None}))
    'id=7, seen=null'
    """
    if state is None or not state.values:
        return None
    parts = (f"{name}={'null' if value is None else text_of(value)}" for name, value in sorted(state.values.items()))
    return ", ".join(parts)


KIND = "column"
_KEYS = ("schema_version", "kind", "watermark", "update_ts", "delta_version")


def encode_columns(state: ColumnState) -> dict[str, object]:
    """The complete state, small enough for the log of the table."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": KIND,
        "watermark": state.text(),
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
