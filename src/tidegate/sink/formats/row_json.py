"""Values of typed columns as JSON values: for the slow look, and for the text that a dead letter keeps.

Numbers keep their digits, bytes become base64, moments and dates ISO 8601. Text of a ``json`` column is the JSON value
that it says. A number without end, for which JSON has no word, becomes text.
"""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.schema.literals import Literal, Pairs, parse
from tidegate.sink.formats.kinds import kind_of
from tidegate.specs import FieldSpec


def row_value(batch: pa.RecordBatch, number: int, fields: dict[str, FieldSpec]) -> Pairs:
    """One row as a JSON object; raises ``NotJson`` where text of a ``json`` column is none."""
    cells = zip(batch.schema.names, batch.columns, strict=True)
    return Pairs((name, json_value(column[number], fields.get(name))) for name, column in cells)


def json_value(scalar: pa.Scalar, field: FieldSpec | None) -> Any:
    """One value; ``field`` is the declared column it is for."""
    if not scalar.is_valid:
        return None
    match kind_of(scalar.type):
        case "mixed":
            return parse(scalar.as_py().encode())
        case "boolean":
            return scalar.as_py()
        case "number":
            return _number(scalar)
        case "text":
            text = scalar.as_py()
            return parse(text.encode()) if field is not None and field.type == "json" else text
        case "bytes":
            return base64.b64encode(scalar.as_py()).decode()
        case "struct":
            children = {child.name: child for child in field.fields} if field is not None else {}
            return Pairs((name, json_value(value, children.get(name))) for name, value in scalar.items())
        case "list":
            items = None if field is None else field.items
            return [json_value(each, items) for each in scalar.values]
        case "map":
            values = None if field is None else field.values
            return Pairs((str(each["key"]), json_value(each["value"], values)) for each in scalar.values)
        case _:
            return str(scalar.cast(pa.string())).replace(" ", "T", 1)


def _number(scalar: pa.Scalar) -> Any:
    if pa.types.is_floating(scalar.type):
        value = scalar.as_py()
        if not math.isfinite(value):
            return str(value)
        return Literal(repr(value) if pa.types.is_float64(scalar.type) else str(np.float32(value)))
    if pa.types.is_decimal(scalar.type):
        return Literal(format(scalar.as_py(), "f"))
    return Literal(str(scalar.as_py()))
