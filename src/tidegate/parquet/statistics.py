"""Delta statistics of a finished file, from its Parquet footer: rows, and bounds and nulls per column.

Readers skip files by them, so a wrong one hides rows. What the footer does not give for certain is left out: text of
several kilobytes, floats that met a NaN, binary, lists and maps. Long text is shortened so that the bounds still hold:
the smallest to its beginning, the greatest to a beginning that is greater. Moments are written in milliseconds, the
smallest rounded down and the greatest up.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

# Delta's own default; readers expect no more.
INDEXED_COLUMNS = 32
LONGEST_TEXT = 64

_LAST_CODE = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
_BEHIND_SURROGATES = 0xE000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)


_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A column of the Parquet file: its path, its type (None for a list or map), and its number."""

    path: tuple[str, ...]
    kind: pa.DataType | None
    number: int


class _Digits(str):
    """A decimal as text, for JSON without quotes: a float would lose digits."""

    __slots__ = ()


def delta_statistics(footer: pq.FileMetaData, schema: pa.Schema, unordered: frozenset[int] = frozenset()) -> str:
    """Write the ``stats`` text of an add action.

    ``unordered`` are Parquet columns whose bounds must not be used, because they have a NaN.
    """
    smallest: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for leaf in _leaves(schema):
        parts = [footer.row_group(index).column(leaf.number) for index in range(footer.num_row_groups)]
        statistics = [part.statistics for part in parts]
        # Not `None in statistics`: pyarrow's Statistics crashes the process when compared with None.
        if not statistics or any(group is None for group in statistics):
            continue
        if all(group.has_null_count for group in statistics):
            _put(nulls, leaf.path, sum(group.null_count for group in statistics))
        if leaf.number not in unordered:
            bounds = _bounds(leaf.kind, statistics)
            if bounds is not None:
                _put(smallest, leaf.path, bounds[0])
                _put(greatest, leaf.path, bounds[1])
    tree = {"numRecords": footer.num_rows, "minValues": smallest, "maxValues": greatest, "nullCount": nulls}
    has_digits = any(pa.types.is_decimal(leaf.kind) for leaf in _leaves(schema))
    return "".join(_write_json(tree)) if has_digits else _JSON(tree)


def float_columns(schema: pa.Schema) -> dict[int, tuple[str, ...]]:
    """The indexed float columns by Parquet number, with their paths; the footer does not show their NaN."""
    return {leaf.number: leaf.path for leaf in _leaves(schema) if pa.types.is_floating(leaf.kind)}


@lru_cache(maxsize=16)
def _leaves(schema: pa.Schema) -> list[_Leaf]:
    """The leading columns that can have statistics; each list or map counts as one column, and has none."""
    leading = []
    for position, leaf in enumerate(_walk(schema)):
        if position == INDEXED_COLUMNS:
            break
        if leaf.kind is not None:
            leading.append(leaf)
    return leading


def _walk(schema: pa.Schema) -> Iterator[_Leaf]:
    number = 0

    def visit(path: tuple[str, ...], kind: pa.DataType) -> Iterator[_Leaf]:
        nonlocal number
        if pa.types.is_struct(kind):
            for child in kind:
                yield from visit((*path, child.name), child.type)
        elif pa.types.is_nested(kind):
            yield _Leaf(path, None, number)
            number += _width(kind)
        else:
            yield _Leaf(path, kind, number)
            number += 1

    for field in schema:
        yield from visit((field.name,), field.type)


def _width(kind: pa.DataType) -> int:
    """The number of Parquet columns of a type."""
    if pa.types.is_map(kind):
        return _width(kind.key_type) + _width(kind.item_type)
    if pa.types.is_list(kind):
        return _width(kind.value_type)
    if pa.types.is_struct(kind):
        return sum(_width(child.type) for child in kind)
    return 1


def _put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value


def _bounds(kind: pa.DataType, statistics: list[pq.Statistics]) -> tuple[Any, Any] | None:
    """Return least and greatest value over all row groups as JSON; None if they are not certain."""
    filled = [group for group in statistics if group.has_min_max or group.num_values]
    if not filled or not all(group.has_min_max for group in filled):
        return None
    if pa.types.is_timestamp(kind):
        return _format_moments(min(group.min_raw for group in filled), max(group.max_raw for group in filled))
    if pa.types.is_date(kind):
        return _format_dates(min(group.min_raw for group in filled), max(group.max_raw for group in filled))
    low, high = min(group.min for group in filled), max(group.max for group in filled)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return low, high
    if pa.types.is_floating(kind):
        # JSON has no infinity.
        return (low, high) if math.isfinite(low) and math.isfinite(high) else None
    if pa.types.is_decimal(kind) and isinstance(low, Decimal):
        return _Digits(format(low, "f")), _Digits(format(high, "f"))
    if pa.types.is_string(kind):
        return _cut_texts(low, high)
    return None


def _cut_texts(low: str, high: str) -> tuple[str, str] | None:
    """Cut both bounds to ``LONGEST_TEXT``; the upper one is raised, since a prefix sorts below its text."""
    if len(high) <= LONGEST_TEXT:
        return low[:LONGEST_TEXT], high
    raised = _raise_text(high[:LONGEST_TEXT])
    return None if raised is None else (low[:LONGEST_TEXT], raised)


def _raise_text(text: str) -> str | None:
    """Return a text of at most that length that sorts above everything starting with ``text``."""
    for position in reversed(range(len(text))):
        code = ord(text[position]) + 1
        if code <= _LAST_CODE:
            return text[:position] + chr(_BEHIND_SURROGATES if code in _SURROGATES else code)
    return None


def _format_moments(low: int, high: int) -> tuple[str, str] | None:
    """Write milliseconds around both; readers add the missing one after the calendar's last."""
    try:
        return _format_moment(low // 1000), _format_moment(min(-(-high // 1000), max(high // 1000, _LAST)))
    except OverflowError:
        return None


def _format_moment(milliseconds: int) -> str:
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _format_dates(low: int, high: int) -> tuple[str, str] | None:
    try:
        return _format_date(low), _format_date(high)
    except OverflowError:
        return None


def _format_date(days: int) -> str:
    return (date(1970, 1, 1) + timedelta(days=days)).isoformat()


def _write_json(value: Any) -> Iterator[str]:
    """Write JSON text of a value that may contain decimals."""
    if isinstance(value, dict):
        yield "{"
        for position, (name, item) in enumerate(value.items()):
            yield ("," if position else "") + _JSON(name) + ":"
            yield from _write_json(item)
        yield "}"
    elif isinstance(value, _Digits):
        yield value
    else:
        yield _JSON(value)
