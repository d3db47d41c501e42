"""Columns of wider types to the declared ones: exact, or :class:`Suspicious`.

Readers of CSV cells and of files with types of their own make columns at once. The way from there to the declared type
keeps every value, or says that some row needs a slower look. The rules are those of the strict line reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.formats.strict_lines import TEXTS, Suspicious, in_calendar
from tidegate.schema.types import arrow_type
from tidegate.specs.project import FieldSpec

FRACTION_DIGITS = 18
"""Digits behind the point that whole numbers are read with, so that a fraction too many is noticed."""

INTEGER = pa.decimal128(38, FRACTION_DIGITS)
"""What whole numbers are read as, so that a fraction is noticed."""

_INTEGERS: dict[str, tuple[type[np.signedinteger[Any]], pa.DataType]] = {
    "int32": (np.int32, pa.int32()),
    "int64": (np.int64, pa.int64()),
}

Bytes = npt.NDArray[np.uint8]

WHOLE_BELOW = {"float32": 2.0**24, "float64": 2.0**53}
"""Every whole number below this one is a value of the type; this one may also be what its successor was rounded to."""

_DIGITS = 38
_NOWHERE = np.empty(0, np.int64)
_UNIT = np.uint64(10**FRACTION_DIGITS)
_EXACT = float(2**51)


def settle(array: pa.Array, field: FieldSpec) -> pa.Array:
    """``array`` with the declared type; raises :class:`Suspicious` where a value would not survive that."""
    if field.type in ("struct", "list", "map"):
        return convert_members(array, field, settle)
    try:
        return _settle_scalar(array, field.type, arrow_type(field))
    except pa.ArrowInvalid as error:
        raise Suspicious(f"{field.name}: {error}") from error


def convert_members(array: pa.Array, field: FieldSpec, convert: Callable[[pa.Array, FieldSpec], pa.Array]) -> pa.Array:
    """A struct, list or map of the declared type, its members converted; fields that ``array`` lacks are null.

    Raises :class:`Suspicious` for a null where none may be.
    """
    kind = arrow_type(field)
    mask = array.is_null() if array.null_count else None
    if field.items is not None:
        items = _filled(convert(array.values, field.items), field.items)
        return pa.ListArray.from_arrays(array.offsets, items, type=kind, mask=mask)
    if field.values is not None:
        values = _filled(convert(array.items, field.values), field.values)
        return pa.MapArray.from_arrays(array.offsets, array.keys, values, type=kind, mask=mask)
    places = {child.name: place for place, child in enumerate(array.type)}
    children = []
    for child in field.fields:
        if child.name in places:
            found = convert(array.field(places[child.name]), child)
        else:
            found = pa.nulls(len(array), arrow_type(child))
        if not child.nullable and pc.any(pc.and_(pc.is_null(found), pc.is_valid(array))).as_py():
            raise Suspicious(f"a null in {child.name}")
        children.append(found)
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)


def _filled(array: pa.Array, field: FieldSpec) -> pa.Array:
    if array.null_count and not field.nullable:
        raise Suspicious(f"a null in {field.name}")
    return array


def _settle_scalar(array: pa.Array, name: str, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        if pa.types.is_temporal(kind):
            return in_calendar(array)
        if pa.types.is_decimal(kind):
            array.validate(full=True)  # Arrow's parser lets one digit too many pass
        return _finite(array) if pa.types.is_floating(kind) else array
    if name in _INTEGERS and pa.types.is_decimal(array.type):
        return _integers(array, *_INTEGERS[name])
    if name in TEXTS and pa.types.is_string(array.type):
        return TEXTS[name][0](array)
    return pc.cast(array, kind)


def doubtful_rows(array: pa.Array, field: FieldSpec, *, zeros: bool) -> npt.NDArray[np.int64]:
    """The rows with floats that need a look at what was written.

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


def check_filled(batch: pa.RecordBatch, columns: Iterable[str]) -> None:
    """Raise :class:`Suspicious` for an empty text in one of ``columns``."""
    if any(pc.any(pc.equal(batch.column(name), "")).as_py() for name in columns):
        raise Suspicious("an empty text where none may be")


def has_repeated_keys(maps: pa.Array) -> bool:
    """Whether one of the maps has a key twice."""
    rows = np.repeat(np.arange(len(maps)), np.diff(maps.offsets.to_numpy()))
    codes = maps.keys.dictionary_encode()
    pairs = rows * (len(codes.dictionary) + 1) + codes.indices.to_numpy()
    return len(np.unique(pairs)) != len(pairs)


def decimals(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Texts as decimals of a type; raises :class:`Suspicious` for what Arrow may read as another number.

    Its parser takes hexadecimal digits, wraps around where a number has more digits than the type it reads into, and
    takes exponents of any size. So only plain numbers of at most 38 characters are left to it, and those with more
    digits than are left before the point by way of a type that has room for all of them.
    """
    letters = text_bytes(texts) | 0x20
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    if longest > _DIGITS or np.any((letters == ord("x")) | (letters == ord("e"))):
        raise Suspicious("not a plain number of at most 38 characters")
    return pc.cast(texts, kind) if longest <= _DIGITS - kind.scale else rescale(texts, kind)


def rescale(numbers: pa.Array, kind: pa.DataType) -> pa.Array:
    """Texts or decimals as decimals of a type; raises ``pa.ArrowInvalid`` where one does not fit."""
    return pc.cast(pc.cast(numbers, pa.decimal256(2 * _DIGITS, kind.scale)), kind)


def text_bytes(array: pa.Array) -> Bytes:
    """The bytes of all texts of an array, one behind the other."""
    data = array.buffers()[2]
    if data is None or not len(array):
        return np.empty(0, np.uint8)
    bounds = _bounds(array)
    return np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]


def _bounds(array: pa.Array) -> npt.NDArray[np.int32]:
    offsets = array.buffers()[1]
    if offsets is None or not len(array):
        return np.empty(0, np.int32)
    return np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
