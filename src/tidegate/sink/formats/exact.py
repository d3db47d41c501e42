"""Typed columns of a file as declared columns: every value survives, or nothing is given.

The checks are those of JSON: a fraction or an overflow in a whole number, surplus digits of a decimal and anything
finer than a microsecond raise :class:`Suspicious`, and the slow look finds the rows.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.schema.literals import NotJson, compact
from tidegate.schema.types import TIMESTAMP, arrow_type
from tidegate.sink import texts
from tidegate.sink.accounting import has_repeated_keys
from tidegate.sink.formats.kinds import MIXED, kind_of
from tidegate.sink.formats.row_json import json_value
from tidegate.sink.relaxed import WHOLE_BELOW, Suspicious
from tidegate.specs import FieldSpec

_WIDEST = 38
_FLOATS = {pa.float32(): "float32", pa.float64(): "float64"}


def exact(array: pa.Array, field: FieldSpec) -> pa.Array:
    """``array`` with the declared type; raises :class:`Suspicious` where a value would not survive that."""
    kind = arrow_type(field)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), kind)
    if field.type == "json":
        return _json(array, field)
    if array.type == MIXED:
        raise Suspicious(f"{field.name}: values of several kinds")
    try:
        match field.type:
            case "struct":
                return _struct(array, field)
            case "list" if field.items is not None:
                items = _all_there(exact(array.values, field.items), field.items)
                return pa.ListArray.from_arrays(array.offsets, items, type=kind, mask=_mask(array))
            case "map" if field.values is not None:
                values = _all_there(exact(array.items, field.values), field.values)
                return pa.MapArray.from_arrays(array.offsets, _unrepeated(array), values, type=kind, mask=_mask(array))
            case _:
                return _scalar(array, field.type, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise Suspicious(f"{field.name}: {error}") from error


def _struct(array: pa.Array, field: FieldSpec) -> pa.Array:
    names = [child.name for child in array.type]
    children = []
    for child in field.fields:
        if child.name in names:
            found = exact(array.field(names.index(child.name)), child)
        else:
            found = pa.nulls(len(array), arrow_type(child))
        absent = pc.and_(pc.is_null(found), pc.is_valid(array))
        if not child.nullable and pc.any(absent).as_py():
            raise Suspicious(f"a null in {child.name}")
        children.append(found)
    return pa.StructArray.from_arrays(children, fields=list(arrow_type(field)), mask=_mask(array))


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _all_there(array: pa.Array, field: FieldSpec) -> pa.Array:
    if array.null_count and not field.nullable:
        raise Suspicious(f"a null in {field.name}")
    return array


def _unrepeated(array: pa.Array) -> pa.Array:
    """The keys of maps; raises where a map has one twice."""
    if has_repeated_keys(array):
        raise Suspicious("a repeated key in a map")
    return array.keys


def _scalar(array: pa.Array, name: str, kind: pa.DataType) -> pa.Array:
    found = kind_of(array.type)
    match name, found:
        case "timestamp", "moment" | "date":
            in_time = array if found == "moment" else pc.cast(array, pa.timestamp("us"))
            return texts.in_calendar(pc.cast(pc.cast(in_time, pa.timestamp("us", in_time.type.tz)), TIMESTAMP))
        case "timestamp", "text":
            return texts.moments(array)
        case "date", "date":
            return texts.in_calendar(pc.cast(array, kind))
        case "date", "text":
            return texts.dates(array)
        case ("string", "text") | ("binary", "bytes") | ("boolean", "boolean"):
            return pc.cast(array, kind)
        case _, "number":
            return _number(array, kind)
        case _, "text" if pa.types.is_decimal(kind):
            return pc.cast(array, kind)
        case _:
            raise Suspicious(f"{array.type} is not {name}")


def _number(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(kind):
        if pa.types.is_floating(array.type):
            raise Suspicious("a binary fraction as a decimal one")
        wide = pc.cast(array, pa.decimal128(_WIDEST, kind.scale)) if pa.types.is_integer(array.type) else array
        return pc.cast(wide, kind)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise Suspicious(f"a number is not {kind}")
    if pa.types.is_decimal(array.type) and pa.types.is_floating(kind):
        is_whole = array.type.scale <= 0
        array = pc.cast(pc.cast(array, pa.string()), kind)  # the direct way misses the nearest by a little
        if is_whole and pc.any(pc.greater_equal(pc.abs(array), WHOLE_BELOW[_FLOATS[kind]])).as_py():
            raise Suspicious("a whole number that may be rounded")
    result = pc.cast(array, kind)
    if pa.types.is_float32(kind) and pa.types.is_float64(array.type):
        lost = pc.and_(pc.is_finite(array), pc.invert(pc.is_finite(result)))
        vanished = pc.and_(pc.equal(result, 0.0), pc.not_equal(array, 0.0))
        if pc.any(pc.or_(lost, vanished)).as_py():
            raise Suspicious("a number too large or too small for float32")
    return result


def _json(array: pa.Array, field: FieldSpec) -> pa.Array:
    try:
        values = [json_value(each, field) for each in array]
    except NotJson as error:
        raise Suspicious(str(error)) from error
    return pa.array([None if value is None else compact(value) for value in values], pa.string())
