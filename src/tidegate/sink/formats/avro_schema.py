"""Schemas of Avro files as Arrow types, and the way of each value there.

A union with null is a nullable value; one of whole numbers and fractions is the wider of them. Values of any other
union are kept as JSON text, since no column type holds them all.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson
import pyarrow as pa

from tidegate.schema.types import TIMESTAMP
from tidegate.sink.formats.kinds import MIXED

Shape = Callable[[Any], Any]
"""A value as it was decoded (never null), to the value that the Arrow column takes."""

_PRIMITIVES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL = {
    "date": pa.date32(),
    "timestamp-millis": TIMESTAMP,
    "timestamp-micros": TIMESTAMP,
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
    "time-millis": pa.time64("us"),
    "time-micros": pa.time64("us"),
}
_WIDTHS = ("int", "long", "float", "double")


class Types:
    """Arrow types of one file's schema; names that it defines can be used further down."""

    def __init__(self) -> None:
        self._named: dict[str, tuple[pa.DataType, Shape | None]] = {}

    def of(self, schema: Any) -> tuple[pa.DataType, Shape | None]:
        """The type of a schema, and how its values are shaped; None for as they are."""
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            return (_PRIMITIVES[schema], None) if schema in _PRIMITIVES else self._known(schema)
        logical = schema.get("logicalType")
        if logical == "decimal":
            return pa.decimal128(schema["precision"], schema.get("scale", 0)), None
        if logical == "uuid":
            return pa.string(), str
        if logical in _LOGICAL:
            return _LOGICAL[logical], None
        match schema["type"]:
            case "record" | "error":
                return self._record(schema)
            case "enum":
                return self._name(schema, (pa.string(), None))
            case "fixed":
                return self._name(schema, (pa.binary(), None))
            case "array":
                kind, shape = self.of(schema["items"])
                return pa.list_(pa.field("element", kind)), _each(shape)
            case "map":
                kind, shape = self.of(schema["values"])
                return pa.map_(pa.string(), kind), _pairs(shape)
            case inner:
                return self.of(inner)

    def _known(self, name: str) -> tuple[pa.DataType, Shape | None]:
        return self._named.get(name, (MIXED, _text))

    def _name(
        self, schema: dict[str, Any], found: tuple[pa.DataType, Shape | None]
    ) -> tuple[pa.DataType, Shape | None]:
        self._named[schema["name"]] = found
        return found

    def _record(self, schema: dict[str, Any]) -> tuple[pa.DataType, Shape | None]:
        """A record inside itself is not known yet when it is met, so it is kept as JSON text."""
        fields, shapes = [], {}
        for each in schema["fields"]:
            kind, shape = self.of(each["type"])
            fields.append(pa.field(each["name"], kind))
            if shape is not None:
                shapes[each["name"]] = shape
        return self._name(schema, (pa.struct(fields), _members(shapes)))

    def _union(self, branches: list[Any]) -> tuple[pa.DataType, Shape | None]:
        values = [branch for branch in branches if branch != "null"]
        if not values:
            return pa.null(), None
        if len(values) == 1:
            return self.of(values[0])
        if all(branch in _WIDTHS for branch in values):
            widest = max(values, key=_WIDTHS.index)
            return _PRIMITIVES["double" if "long" in values and widest == "float" else widest], None
        for branch in values:
            self.of(branch)
        return MIXED, _text


def _each(shape: Shape | None) -> Shape | None:
    if shape is None:
        return None
    return lambda values: [None if each is None else shape(each) for each in values]


def _pairs(shape: Shape | None) -> Shape:
    if shape is None:
        return lambda values: list(values.items())
    return lambda values: [(key, None if each is None else shape(each)) for key, each in values.items()]


def _members(shapes: dict[str, Shape]) -> Shape | None:
    if not shapes:
        return None

    def shaped(record: dict[str, Any]) -> dict[str, Any]:
        for name, shape in shapes.items():
            if record[name] is not None:
                record[name] = shape(record[name])
        return record

    return shaped


def _text(value: Any) -> str:
    return orjson.dumps(value, default=_word).decode()


def _word(value: Any) -> Any:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case Decimal():
            return orjson.Fragment(format(value, "f"))
        case datetime() | date() | time():
            return value.isoformat()
        case UUID():
            return str(value)
        case _:
            raise TypeError(f"{type(value).__name__} has no JSON form")
