"""Lenient columns and rewritten lines, so that the vectorised parser reads what it otherwise could not.

The parser bends values without a word: 12.7 becomes 12 in an integer, 1.239 becomes 1.23 in
``decimal(10,2)``, a number becomes a moment in 1970. So with ``numbers: strict`` it is asked for wider types
than declared, integers as decimals, moments as text, and the way back either is exact or raises
:class:`Suspicious`.

Needed where no parser can help: ``json`` columns, conflicting values that ``coerce_conflicts_to_utf8`` keeps as
text, unknown fields beside maps. A rewritten line means the same, to the digit: a line goes through the quick JSON
library only if that gives back the very same characters (spaces aside), else through the exact one, which keeps
numbers as they were written and repeated keys for others to find.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.formats import strict_lines
from tidegate.schema.literals import Literal, NotJson, Pairs, compact, parse, rescued_text
from tidegate.schema.names import decimal_of
from tidegate.schema.types import arrow_type
from tidegate.specs.project import FieldSpec, Numbers

FRACTION_DIGITS = 18
"""Digits behind the point that the quick parser keeps at least, so that a fraction too many is noticed."""

INTEGER = pa.decimal128(38, FRACTION_DIGITS)
"""What whole numbers are read as, so that a fraction is noticed."""

WHOLE_BELOW = {"float32": 2.0**24, "float64": 2.0**53}
"""Every whole number below this one is a value of the type; this one may also be what its successor was rounded to."""

_NOWHERE = np.empty(0, np.int64)
_UNIT = np.uint64(10**FRACTION_DIGITS)
_EXACT = float(2**51)
_INTEGERS: dict[str, tuple[type[np.signedinteger[Any]], pa.DataType]] = {
    "int32": (np.int32, pa.int32()),
    "int64": (np.int64, pa.int64()),
}
_TEXTS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "timestamp": strict_lines.moments,
    "date": strict_lines.dates,
    "binary": strict_lines.bytes_of,
}


class Suspicious(Exception):
    """Something in a block may not be a record of the schema; only a slower look can tell."""


def relaxed_type(field: FieldSpec, numbers: Numbers, *, bends: bool = False) -> pa.DataType:
    """The type to ask the parser for; where it ``bends``, numbers may become moments."""
    if field.type == "struct":
        return pa.struct([relaxed_field(child, numbers, bends=bends) for child in field.fields])
    if field.type == "list" and field.items is not None:
        return pa.list_(pa.field("element", relaxed_type(field.items, numbers, bends=bends), field.items.nullable))
    if field.type == "map" and field.values is not None:
        value = pa.field("value", relaxed_type(field.values, numbers, bends=bends), field.values.nullable)
        return pa.map_(pa.string(), value)
    if field.type in ("binary", "date") or (field.type == "timestamp" and not bends):
        return pa.string()
    if numbers is Numbers.STRICT and field.type in _INTEGERS:
        return INTEGER
    decimal = decimal_of(field.type)
    if decimal and numbers is Numbers.STRICT:
        return _wide_decimal(*decimal)
    return arrow_type(field)


def relaxed_field(field: FieldSpec, numbers: Numbers, *, bends: bool = False) -> pa.Field:
    """The field to ask the parser for."""
    return pa.field(field.name, relaxed_type(field, numbers, bends=bends), field.nullable)


def _wide_decimal(precision: int, scale: int) -> pa.DataType:
    spare = 38 - precision
    return pa.decimal128(38, scale + spare) if spare >= FRACTION_DIGITS else pa.decimal256(76, scale + 38)


def settled(array: pa.Array, field: FieldSpec) -> pa.Array:
    """``array`` with the declared type; raises :class:`Suspicious` where a value would not survive that."""
    kind = arrow_type(field)
    if field.type == "struct":
        children = [settled(array.field(index), child) for index, child in enumerate(field.fields)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=_mask(array))
    if field.type == "list" and field.items is not None:
        items = settled(array.values, field.items)
        return pa.ListArray.from_arrays(array.offsets, items, type=kind, mask=_mask(array))
    if field.type == "map" and field.values is not None:
        values = settled(array.items, field.values)
        return pa.MapArray.from_arrays(array.offsets, array.keys, values, type=kind, mask=_mask(array))
    try:
        return _settled_scalar(array, field.type, kind)
    except pa.ArrowInvalid as error:
        raise Suspicious(f"{field.name}: {error}") from error


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _settled_scalar(array: pa.Array, name: str, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        if pa.types.is_temporal(kind):
            return strict_lines.in_calendar(array)
        if pa.types.is_decimal(kind):
            array.validate(full=True)  # Arrow's parser lets one digit too many pass
        return _finite(array) if pa.types.is_floating(kind) else array
    if name in _INTEGERS and pa.types.is_decimal(array.type):
        return _integers(array, *_INTEGERS[name])
    if name in _TEXTS and pa.types.is_string(array.type):
        return _TEXTS[name](array)
    return pc.cast(array, kind)


def doubtful_rows(array: pa.Array, field: FieldSpec, *, zeros: bool) -> npt.NDArray[np.int64]:
    """The places of settled values with floats that need a look at what was written.

    Those are floats so large that a whole number may have been rounded, and with ``zeros`` those that are 0.
    """
    if field.type == "struct":
        found = [doubtful_rows(array.field(index), child, zeros=zeros) for index, child in enumerate(field.fields)]
        return np.unique(np.concatenate([_NOWHERE, *found]))
    if field.type == "list" and field.items is not None:
        return _places(array, doubtful_rows(array.values, field.items, zeros=zeros))
    if field.type == "map" and field.values is not None:
        return _places(array, doubtful_rows(array.items, field.values, zeros=zeros))
    if field.type not in WHOLE_BELOW:
        return _NOWHERE
    values = array.to_numpy(zero_copy_only=False)
    doubtful = np.abs(values) >= WHOLE_BELOW[field.type]
    if zeros:
        doubtful |= values == 0
    return np.flatnonzero(doubtful)


def _places(lists: pa.Array, items: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The lists that items belong to."""
    return np.unique(np.searchsorted(lists.offsets.to_numpy(), items, "right") - 1) if len(items) else _NOWHERE


def _finite(array: pa.Array) -> pa.Array:
    kind = np.float32 if pa.types.is_float32(array.type) else np.float64
    values = np.frombuffer(array.buffers()[1], kind, len(array))
    if not np.isfinite(values).all():
        raise Suspicious("a number without end")
    return array


def _integers(array: pa.Array, numpy_type: type[np.signedinteger[Any]], kind: pa.DataType) -> pa.Array:
    """Whole numbers out of decimals with 18 digits behind the point; five times as fast as Arrow's cast.

    The division is done in doubles and verified in integers modulo 2**64: with the guess within one of the
    quotient, the remainder is smaller than that, so it is zero exactly when its low 64 bits are.
    """
    words = np.frombuffer(array.buffers()[1], "<u8", 2 * len(array))
    low, high = words[0::2], words[1::2].view(np.int64)
    guess = np.rint((high * 2.0**64 + low) / 10.0**FRACTION_DIGITS)
    if len(guess) and np.abs(guess).max() >= _EXACT:
        return pc.cast(array, kind)
    values = guess.astype(np.int64)
    if (values.view(np.uint64) * _UNIT != low).any():
        raise Suspicious("a fraction in a whole number")
    narrow = values.astype(numpy_type)
    if numpy_type is not np.int64 and (narrow != values).any():
        raise Suspicious("a whole number out of range")
    return pa.Array.from_buffers(kind, len(array), [array.buffers()[0], pa.py_buffer(narrow)])


_KEY = "\0"
"""Marks a key of a map in a path: part of where a value stood, but not of the name of its field."""

_MEMBER = re.compile(rf"\[\d+\]|{_KEY}[^.]*\.")

Rewrite = Callable[[Any, str], Any]
"""A JSON value (never null) and its path, to the value that is written instead."""


class LineRepair:
    """Rewrites lines; ``unknown`` counts the fields with a value that it left out, by path.

    With ``rescued`` what it leaves out goes into that field of the record, as JSON text by path.
    """

    def __init__(
        self, fields: tuple[FieldSpec, ...], *, coerce: bool, kept: tuple[str, ...] = (), rescued: str | None = None
    ) -> None:
        self._coerce = coerce
        self._rescued = rescued
        self._left: list[tuple[str, Any]] = []
        self._record = self._object(fields, kept)
        self.unknown: Counter[str] = Counter()

    def mend(self, line: bytes) -> bytes:
        """The line to read instead; one that is no JSON object is given back as it is."""
        try:
            value = orjson.loads(line)
            written = orjson.dumps(value)
        except (orjson.JSONDecodeError, orjson.JSONEncodeError):
            # a number beyond its range, or nested deeper than it writes
            return self._exactly(line)
        if written != line and written.replace(b" ", b"") != line.replace(b" ", b""):
            return self._exactly(line)
        if not isinstance(value, dict):
            return line
        record = self._record(value, "")
        if self._left:
            record[self._rescued] = self._rescue()
        return orjson.dumps(record)

    def _exactly(self, line: bytes) -> bytes:
        try:
            value = parse(line)
            if not isinstance(value, Pairs):
                return line
            record = self._record(value, "")
            if self._left:
                record.append((self._rescued, self._rescue()))
            return compact(record).encode()
        except (NotJson, UnicodeEncodeError, RecursionError):
            self._left.clear()
            return line

    def _rescue(self) -> str:
        """What the record left out so far, as text."""
        left, self._left = self._left, []
        return rescued_text((path, _text(value, path)) for path, value in left)

    def _leave_out(self, path: str, value: Any) -> None:
        self.unknown[_MEMBER.sub("", path)] += 1
        if self._rescued is not None:
            self._left.append((path.replace(_KEY, ""), value))

    def _rewrite(self, field: FieldSpec) -> Rewrite | None:
        """How values of a column are rewritten; None for as they are."""
        match field.type:
            case "json":
                return _text
            case "string" if self._coerce:
                return _text_unless_text
            case "struct":
                return self._object(field.fields)
            case "list" if field.items is not None:
                return _items(self._rewrite(field.items))
            case "map" if field.values is not None:
                return _values(self._rewrite(field.values))
            case _:
                return None

    def _object(self, fields: tuple[FieldSpec, ...], kept: tuple[str, ...] = ()) -> Rewrite:
        rewrites = {field.name: self._rewrite(field) for field in fields} | dict.fromkeys(kept)

        def rewrite(value: Any, path: str) -> Any:
            if isinstance(value, dict):
                return dict(changed(value.items(), path))
            return Pairs(changed(value, path)) if isinstance(value, Pairs) else value

        def changed(pairs: Iterable[tuple[str, Any]], path: str) -> Iterator[tuple[str, Any]]:
            for key, item in pairs:
                if key in rewrites:
                    change = rewrites[key]
                    yield key, item if change is None or item is None else change(item, f"{path}{key}.")
                elif item is not None:
                    self._leave_out(f"{path}{key}", item)

        return rewrite


def _items(change: Rewrite | None) -> Rewrite | None:
    if change is None:
        return None

    def rewrite(value: Any, path: str) -> Any:
        if not isinstance(value, list) or isinstance(value, Pairs):
            return value
        return [item if item is None else change(item, f"{path[:-1]}[{index}].") for index, item in enumerate(value)]

    return rewrite


def _values(change: Rewrite | None) -> Rewrite | None:
    if change is None:
        return None

    def rewrite(value: Any, path: str) -> Any:
        if isinstance(value, Pairs):
            return Pairs((key, item if item is None else change(item, f"{path}{_KEY}{key}.")) for key, item in value)
        if isinstance(value, dict):
            return {key: item if item is None else change(item, f"{path}{_KEY}{key}.") for key, item in value.items()}
        return value

    return rewrite


def _text(value: Any, path: str) -> str:
    return compact(value) if _is_exact(value) else orjson.dumps(value).decode()


def _text_unless_text(value: Any, path: str) -> str:
    return value if isinstance(value, str) and not isinstance(value, Literal) else _text(value, path)


def _is_exact(value: Any) -> bool:
    return isinstance(value, Literal | Pairs) or (isinstance(value, list) and any(map(_is_exact, value)))
