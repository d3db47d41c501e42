"""Avro schemas as column types: which logical types count, which values they allow, and how both readers see them.

A logical type counts only on the base type that the Avro specification names for it. Anywhere else it is ignored, as
the specification demands, and values come through as those of the base type. A value that its logical type does not
allow (a date after the year 9999) makes its record a bad one, never the file.

The library that makes Python values raises in the middle of a record at such a value, rounds decimals that are too
long, and trusts logical types that are invalid. So it is given a schema with logical types of our own, and the
functions here read their values.

A union with null is a nullable value; one of whole numbers and fractions has the wider type. Values of any other union
are kept as JSON text, since no column type fits them all.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from typing import Any, NamedTuple, TypeGuard
from uuid import UUID

import orjson
import pyarrow as pa

from tidegate.formats.columnar import MIXED
from tidegate.schema.literals import excerpt
from tidegate.schema.names import avro_library
from tidegate.schema.types import TIMESTAMP

Shape = Callable[[Any], Any]
"""Converts a decoded value (never null) to the value of the Arrow column; the decoded value stays as it is."""

ShapedType = tuple[pa.DataType, Shape | None]
"""The type of a column, and how its values are converted; None for unchanged."""

Plan = tuple[str, int, Any]
"""What the native reader reads: the type of a value, the branch of its union that is null (-1: none), its contents."""

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
_WIDTHS = ("int", "long", "float", "double")


@dataclass(frozen=True, slots=True)
class OutOfRange:
    """A value that its logical type does not allow; ``value`` is what JSON shows of it."""

    value: Any
    reason: str


class Nanoseconds(int):
    """A moment in nanoseconds since 1970, which no ``datetime`` holds; ``zone`` is what its text ends in."""

    __slots__ = ()
    zone = "+00:00"

    def truncate(self) -> datetime:
        """The same moment, in microseconds."""
        moment = datetime(1970, 1, 1) + timedelta(microseconds=self // 1000)
        return moment.replace(tzinfo=UTC) if self.zone else moment

    def isoformat(self) -> str:
        whole = self.truncate().replace(tzinfo=None).isoformat(timespec="microseconds")
        return f"{whole}{self % 1000:03d}{self.zone}"


class LocalNanoseconds(Nanoseconds):
    """The same without a time zone."""

    __slots__ = ()
    zone = ""


_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""The first and the last day of the years 1 to 9999, counted from 1970."""

_DAY = 86_400_000_000
_CYCLE = 146_097
"""Days of 400 years, after which the calendar repeats itself."""


def _iso_day(days: int) -> str:
    """Format a day of any year; the sign before the year keeps a dead letter from being read as another day."""
    cycles, rest = divmod(days, _CYCLE)
    day = date(1970, 1, 1) + timedelta(days=rest)
    return f"{day.year + 400 * cycles:+05d}-{day:%m-%d}"


def _iso_time(micros: int) -> str:
    seconds, fraction = divmod(abs(micros), 1_000_000)
    whole = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{'-' if micros < 0 else ''}{whole}{f'.{fraction:06d}' if fraction else ''}"


def _refuse_year(text: str) -> OutOfRange:
    return OutOfRange(text, f"{text} lies outside the years 1 to 9999")


def _date(days: int, *_: Any) -> date | OutOfRange:
    if _FIRST_DAY <= days <= _LAST_DAY:
        return date.fromordinal(days + 719_163)
    return _refuse_year(_iso_day(days))


def _moment_reader(unit: int, zone: Any) -> Callable[..., datetime | OutOfRange]:
    """Reads moments by how many microseconds their unit has."""
    epoch = datetime(1970, 1, 1, tzinfo=zone)

    def read_moment(value: int, *_: Any) -> datetime | OutOfRange:
        micros = value * unit
        days = micros // _DAY
        if _FIRST_DAY <= days <= _LAST_DAY:
            return epoch + timedelta(microseconds=micros)
        return _refuse_year(f"{_iso_day(days)}T{_iso_time(micros % _DAY)}{'Z' if zone else ''}")

    return read_moment


def _time_reader(unit: int) -> Callable[..., time | OutOfRange]:
    def read_time(value: int, *_: Any) -> time | OutOfRange:
        micros = value * unit
        if 0 <= micros < _DAY:
            return (datetime.min + timedelta(microseconds=micros)).time()
        text = _iso_time(micros)
        return OutOfRange(text, f"{text} is not a time of day")

    return read_time


def _nanoseconds(value: int, *_: Any) -> Nanoseconds:
    return Nanoseconds(value)


def _local_nanoseconds(value: int, *_: Any) -> LocalNanoseconds:
    return LocalNanoseconds(value)


def _uuid_text(value: str, *_: Any) -> str | OutOfRange:
    try:
        return str(UUID(value))
    except ValueError:
        return OutOfRange(value, f"{excerpt(value)} is not a UUID")


def _uuid_bytes(value: bytes, *_: Any) -> str:
    return str(UUID(bytes=value))


_LONGEST_NUMBER = 128
_EXACT = Context(prec=1000)
"""Bytes of a number whose digits are told, and room for all of them: the default would round to 28 digits."""


def _decimal(value: bytes, schema: dict[str, Any], *_: Any) -> Decimal | OutOfRange:
    precision, scale = schema["precision"], schema.get("scale", 0)
    number = int.from_bytes(value, "big", signed=True)
    if abs(number) < 10**precision:
        return Decimal(number).scaleb(-scale, _EXACT)
    column = f"decimal({precision},{scale})"
    if len(value) > _LONGEST_NUMBER:
        return OutOfRange(base64.b64encode(value).decode(), f"a number of {len(value)} bytes is too large for {column}")
    text = format(Decimal(number).scaleb(-scale, _EXACT), "f")
    return OutOfRange(orjson.Fragment(text), f"{text} is too large for {column}")


class LogicalType(NamedTuple):
    """How a logical type is read: its column type, its values, and its plan (None: not by the native reader)."""

    arrow: pa.DataType
    read: Callable[..., Any]
    plan: tuple[str, Any] | None
    is_checked: bool = True


_TIME = pa.time64("us")
_LOCAL = pa.timestamp("us")
_LOGICAL = {
    ("int", "date"): LogicalType(pa.date32(), _date, ("date", None)),
    ("int", "time-millis"): LogicalType(_TIME, _time_reader(1000), ("time", 1000)),
    ("long", "time-micros"): LogicalType(_TIME, _time_reader(1), ("time", 1)),
    ("long", "timestamp-millis"): LogicalType(TIMESTAMP, _moment_reader(1000, UTC), ("moment", 1000)),
    ("long", "timestamp-micros"): LogicalType(TIMESTAMP, _moment_reader(1, UTC), ("moment", 1)),
    ("long", "timestamp-nanos"): LogicalType(pa.timestamp("ns", "UTC"), _nanoseconds, ("long", None), False),
    ("long", "local-timestamp-millis"): LogicalType(_LOCAL, _moment_reader(1000, None), ("moment", 1000)),
    ("long", "local-timestamp-micros"): LogicalType(_LOCAL, _moment_reader(1, None), ("moment", 1)),
    ("long", "local-timestamp-nanos"): LogicalType(pa.timestamp("ns"), _local_nanoseconds, ("long", None), False),
    ("string", "uuid"): LogicalType(pa.string(), _uuid_text, ("uuid", None)),
    ("fixed", "uuid"): LogicalType(pa.string(), _uuid_bytes, ("uuid_bytes", None), False),
}
"""By base type and name. ``duration``, for which tables have no type, is not among them: it stays bytes."""

_DECIMAL = "decimal"
_MOST_DIGITS = 76
"""Digits of Arrow's widest decimal; one of more stays bytes."""


def _find_logical(kind: str, name: Any, schema: dict[str, Any]) -> LogicalType | None:
    """Find the logical type of that name on a base type; None where it does not count."""
    if not isinstance(name, str):
        return None
    if name == _DECIMAL:
        return _decimal_type(schema) if kind in ("bytes", "fixed") else None
    if (kind, name) == ("fixed", "uuid") and schema.get("size") != 16:
        return None
    return _LOGICAL.get((kind, name))


def _decimal_type(schema: dict[str, Any]) -> LogicalType | None:
    precision, scale, size = schema.get("precision"), schema.get("scale", 0), schema.get("size")
    if not (_is_whole(precision) and _is_whole(scale) and 0 <= scale <= precision and 0 < precision <= _MOST_DIGITS):
        return None
    # The bound of the specification: the digits that surely fit into so many bytes.
    if schema["type"] == "fixed" and not (_is_whole(size) and precision <= math.log10(2) * (8 * size - 1)):
        return None
    if precision > 38:
        return LogicalType(pa.decimal256(precision, scale), _decimal, None)
    plan = (size if schema["type"] == "fixed" else None, precision, scale)
    return LogicalType(pa.decimal128(precision, scale), _decimal, ("decimal", plan))


def _is_whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


_OWN = "tidegate."
"""Before the name of a logical type that counts, in the schema that the library gets."""

_KEPT = ("type", "name", "namespace", "symbols", "size", "precision", "scale")


def readable_schema(schema: Any) -> Any:
    """Rewrite a writer's schema for the library: with logical types of our own where they count.

    What does not matter for reading is left out, since the library refuses files over invalid defaults and aliases.
    """
    if isinstance(schema, list):
        return [readable_schema(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    kind = schema["type"]
    if not isinstance(kind, str):
        return readable_schema(kind)
    kept = {key: schema[key] for key in _KEPT if key in schema}
    match kind:
        case "record" | "error":
            fields = [{"name": member["name"], "type": readable_schema(member["type"])} for member in schema["fields"]]
            return {**kept, "fields": fields}
        case "array":
            return {"type": kind, "items": readable_schema(schema["items"])}
        case "map":
            return {"type": kind, "values": readable_schema(schema["values"])}
    name = schema.get("logicalType")
    if _find_logical(kind, name, schema) is not None:
        return {**kept, "logicalType": f"{_OWN}{name}"}
    return kept if kind in ("enum", "fixed") else kind


def load_library() -> Any:
    """Load the library that reads Avro, with our logical types; :class:`EnvironmentProblem` without it."""
    library = avro_library()
    readers = {(base, name): logical.read for (base, name), logical in _LOGICAL.items()}
    readers |= {(base, _DECIMAL): _decimal for base in ("bytes", "fixed")}
    # Under names of our own: other users of the library in this process keep their logical types.
    library.read.LOGICAL_READERS.update({f"{base}-{_OWN}{name}": read for (base, name), read in readers.items()})
    return library


def _logical_of(schema: dict[str, Any]) -> LogicalType | None:
    """The logical type in a schema of :func:`readable_schema`."""
    return _find_logical(schema["type"], schema.get("logicalType", "").removeprefix(_OWN), schema)


class AvroTypes:
    """Arrow types of one file's schema; names that it defines can be used further down.

    The shapes add each value out of range to ``problems``, with the path of its field and the reason, and give null.
    """

    def __init__(self) -> None:
        self._named: dict[str, ShapedType] = {}
        self.problems: list[tuple[str, str]] = []

    def of(self, schema: Any) -> ShapedType:
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            return (
                (_PRIMITIVES[schema], None)
                if schema in _PRIMITIVES
                else self._named.get(schema, (MIXED, self._keep_as_text))
            )
        match schema["type"]:
            case "record" | "error":
                return self._record(schema)
            case "enum":
                return self._name(schema, (pa.string(), None))
            case "fixed":
                return self._name(schema, self._logical(schema) or (pa.binary(), None))
            case "array":
                kind, shape = self.of(schema["items"])
                return pa.list_(pa.field("element", kind)), _shape_items(shape)
            case "map":
                kind, shape = self.of(schema["values"])
                return pa.map_(pa.string(), kind), _shape_pairs(shape)
            case base:
                return self._logical(schema) or self.of(base)

    def _logical(self, schema: dict[str, Any]) -> ShapedType | None:
        logical = _logical_of(schema)
        return None if logical is None else (logical.arrow, self._check_allowed if logical.is_checked else None)

    def _name(self, schema: dict[str, Any], found: ShapedType) -> ShapedType:
        self._named[schema["name"]] = found
        return found

    def _record(self, schema: dict[str, Any]) -> ShapedType:
        """The type of a record; one inside itself is unknown when met, so it is kept as JSON text."""
        fields, shapes = [], {}
        for member in schema["fields"]:
            kind, shape = self.of(member["type"])
            fields.append(pa.field(member["name"], kind))
            if shape is not None:
                shapes[member["name"]] = shape
        return self._name(schema, (pa.struct(fields), self._members(shapes)))

    def _union(self, branches: list[Any]) -> ShapedType:
        values = [branch for branch in branches if branch != "null"]
        if not values:
            return pa.null(), None
        if len(values) == 1:
            return self.of(values[0])
        if all(branch in _WIDTHS for branch in values):
            widest = max(values, key=_WIDTHS.index)
            # A float has no room for most values of a long.
            return _PRIMITIVES["double" if "long" in values and widest == "float" else widest], None
        # For the names that they define, which may be used further down.
        for branch in values:
            self.of(branch)
        return MIXED, self._keep_as_text

    def _check_allowed(self, value: Any) -> Any:
        if isinstance(value, OutOfRange):
            self.problems.append(("", value.reason))
            return None
        return value

    def _keep_as_text(self, value: Any) -> str:
        self.problems += [("", reason) for reason in _reasons(value)]
        return json_text(value).decode()

    def _members(self, shapes: dict[str, Shape]) -> Shape | None:
        if not shapes:
            return None

        def shape_members(record: dict[str, Any]) -> dict[str, Any]:
            result = dict(record)
            for name, shape in shapes.items():
                if record[name] is not None:
                    before = len(self.problems)
                    result[name] = shape(record[name])
                    if len(self.problems) > before:
                        inner = self.problems[before:]
                        self.problems[before:] = [(f"{name}.{path}" if path else name, why) for path, why in inner]
            return result

        return shape_members


def _shape_items(shape: Shape | None) -> Shape | None:
    if shape is None:
        return None
    return lambda values: [None if value is None else shape(value) for value in values]


def _shape_pairs(shape: Shape | None) -> Shape:
    if shape is None:
        return lambda values: list(values.items())
    return lambda values: [(key, None if value is None else shape(value)) for key, value in values.items()]


def _reasons(value: Any) -> list[str]:
    """Collect why values anywhere inside ``value`` are not allowed."""
    match value:
        case OutOfRange():
            return [value.reason]
        case dict():
            return [reason for item in value.values() for reason in _reasons(item)]
        case list():
            return [reason for item in value for reason in _reasons(item)]
        case _:
            return []


_OURS = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS


def json_text(value: Any) -> bytes:
    """Encode a decoded value as JSON; NaN and infinities, which JSON does not have, become text."""
    # orjson would write null for them.
    return orjson.dumps(_replace_infinite(value), default=_encode_other, option=_OURS)


def _replace_infinite(value: Any) -> Any:
    match value:
        case float():
            return value if math.isfinite(value) else str(value)
        case dict():
            return {name: _replace_infinite(item) for name, item in value.items()}
        case list():
            return [_replace_infinite(item) for item in value]
        case _:
            return value


def _encode_other(value: Any) -> Any:
    match value:
        case OutOfRange():
            return value.value
        case bytes():
            return base64.b64encode(value).decode()
        case Decimal():
            return orjson.Fragment(format(value, "f"))
        case Nanoseconds():
            return value.isoformat()
        case _:
            raise TypeError(f"{type(value).__name__} has no JSON form")


class UnknownType(Exception):
    """The native reader does not know a type."""


_DEEPEST, _MOST_VALUES, _MOST_SYMBOLS = 32, 10_000, 100_000


class NativePlan:
    """The schema of a file for the native reader; raises :class:`UnknownType`.

    Each value must have a byte at least, so that a block cannot have more values than bytes.
    """

    def __init__(self) -> None:
        self.values = self._symbols = 0
        self._named: dict[str, Any] = {}

    def of(self, schema: Any, depth: int = 0) -> Plan:
        self.values += 1
        if depth > _DEEPEST or self.values > _MOST_VALUES:
            raise UnknownType
        if isinstance(schema, list):
            return self._union(schema, depth)
        if isinstance(schema, str):
            if schema in _PRIMITIVES and schema != "null":
                return schema, -1, None
            if schema not in self._named:
                raise UnknownType
            return self.of(self._named[schema], depth + 1)
        match schema["type"]:
            case "array":
                return "array", -1, self.of(schema["items"], depth + 1)
            case "map":
                return "map", -1, self.of(schema["values"], depth + 1)
            case "record" | "error" if schema["fields"]:
                plan: Plan = "record", -1, [self.of(member["type"], depth + 1) for member in schema["fields"]]
            case "enum":
                self._symbols += len(schema["symbols"])
                if self._symbols > _MOST_SYMBOLS:
                    raise UnknownType
                plan = "enum", -1, schema["symbols"]
            case "fixed" if schema["size"] > 0:
                plan = self._logical(schema) or ("fixed", -1, schema["size"])
            case base if base in _PRIMITIVES:
                return self._logical(schema) or self.of(base, depth)
            case _:
                raise UnknownType
        self._named[schema["name"]] = schema
        return plan

    def _logical(self, schema: dict[str, Any]) -> Plan | None:
        logical = _logical_of(schema)
        if logical is None:
            return None
        if logical.plan is None:
            raise UnknownType
        name, contents = logical.plan
        return name, -1, contents

    def _union(self, branches: list[Any], depth: int) -> Plan:
        # Values of several types are kept as JSON text, which only the library's way makes.
        if len(branches) != 2 or branches.count("null") != 1:
            raise UnknownType
        null = branches.index("null")
        kind, inner_null, inner = self.of(branches[1 - null], depth + 1)
        if inner_null >= 0:
            raise UnknownType
        return kind, null, inner
