"""Text cells as the values they stand for: whole columns at a time, exactly or not at all, or one as a JSON value.

Numbers are written with digits, a point and an exponent; ``true`` and ``false`` in any case are booleans; cells of
structs, lists, maps and ``json`` columns hold JSON. Moments, dates and bytes are written as in JSON.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.schema.literals import Literal, NotJson, compact, parse, shortened
from tidegate.schema.names import decimal_of
from tidegate.schema.types import arrow_type
from tidegate.sink.accounting import text_bytes
from tidegate.sink.careful import NUMBER, BadLine
from tidegate.sink.relaxed import INTEGER, Suspicious, doubtful_rows, settled
from tidegate.specs import FieldSpec

_BOOLEANS = {"true": True, "false": False}
_WHOLE = frozenset(b"-0123456789")
_FRACTION = _WHOLE | frozenset(b"+.eE")
_NESTED = ("struct", "list", "map", "json")


def cell_values(cells: pa.Array, field: FieldSpec) -> pa.Array:
    """Text cells with the declared type; raises :class:`Suspicious` where one of them does not say such a value."""
    try:
        match field.type:
            case "json":
                return pa.array([None if cell is None else compact(parse(cell.encode())) for cell in cells.to_pylist()])
            case "struct" | "list" | "map":
                raise Suspicious("a cell with JSON in it")
            case "boolean":
                return _booleans(cells)
            case "int32" | "int64":
                return _integers(cells, field)
            case "float32" | "float64":
                return _floats(cells, field)
            case _ if decimal_of(field.type):
                return pc.cast(_written_with(cells, _FRACTION), arrow_type(field))
            case _:
                return settled(cells, field)
    except (pa.ArrowInvalid, NotJson) as error:
        raise Suspicious(f"{field.name}: {error}") from error


def _integers(cells: pa.Array, field: FieldSpec) -> pa.Array:
    """Plain digits at once; else by way of decimals, which keep a fraction for the check."""
    if _is_written_with(cells, _WHOLE):
        return pc.cast(cells, arrow_type(field))
    return settled(pc.cast(_written_with(cells, _FRACTION), INTEGER), field)


def _floats(cells: pa.Array, field: FieldSpec) -> pa.Array:
    """Numbers, rounded where they have a fraction; a rounded whole number, or 0 for another, is suspicious."""
    values = settled(pc.cast(_written_with(cells, _FRACTION), arrow_type(field)), field)
    doubtful = doubtful_rows(values, field, zeros=True)
    written = cells.take(pa.array(doubtful))
    zero = pc.equal(values.take(pa.array(doubtful)), pa.scalar(0.0, values.type))
    wrong = pc.if_else(
        zero, pc.match_substring_regex(written, "^[^eE]*[1-9]"), pc.match_substring_regex(written, "^[+-]?[0-9]*$")
    )
    if pc.any(wrong).as_py():
        raise Suspicious("a whole number that may be rounded, or one that became 0")
    return values


def _booleans(cells: pa.Array) -> pa.Array:
    words = pc.utf8_lower(cells)
    true, false = pc.equal(words, "true"), pc.equal(words, "false")
    if not pc.all(pc.or_(true, false)).as_py():
        raise Suspicious("neither true nor false")
    return true


def _written_with(cells: pa.Array, allowed: frozenset[int]) -> pa.Array:
    if not _is_written_with(cells, allowed):
        raise Suspicious("not a number")
    return cells


def _is_written_with(cells: pa.Array, allowed: frozenset[int]) -> bool:
    table = np.zeros(256, bool)
    table[list(allowed)] = True
    return bool(table[text_bytes(cells)].all())


def cell_value(cell: bytes, field: FieldSpec) -> Any:
    """One cell as a JSON value; raises :class:`BadLine`."""
    try:
        text = cell.decode()
        if field.type in _NESTED:
            return parse(cell)
    except UnicodeDecodeError as error:
        raise BadLine(f"{field.name!r}: not UTF-8 at byte {error.start + 1}") from error
    except NotJson as error:
        raise BadLine(f"{field.name!r}: {error}") from error
    if field.type == "boolean":
        if text.lower() not in _BOOLEANS:
            raise BadLine(f"{field.name!r}: {shortened(text)} is neither true nor false")
        return _BOOLEANS[text.lower()]
    if field.type in ("int32", "int64", "float32", "float64") or decimal_of(field.type):
        if not NUMBER.fullmatch(text):
            raise BadLine(f"{field.name!r}: {shortened(text)} is not a number, the column is {field.type}")
        return Literal(text)
    return text
