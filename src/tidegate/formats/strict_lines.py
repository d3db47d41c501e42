"""What a record of the schema is, and why a line is none.

The strict line reader takes one line at a time. It gets the lines that the native reader leaves, or all lines without
one. Whatever does not fit its column exactly is a bad record, unless ``coerce_conflicts_to_utf8`` keeps it as text in a
string column, ``numbers: lenient`` cuts it, or ``schema.rescued`` takes it.

Moments are ISO 8601 with ``T`` or a space, an optional fraction and an optional offset; without one they are UTC. A
fraction finer than a microsecond would be lost, so only zeros are allowed there. Moments and dates lie in the years 1
to 9999, as in the calendar of every reader of the table.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.schema.inference import MOMENT
from tidegate.schema.literals import Literal, NotJson, Pairs, compact, excerpt, join_rescued, kind_of, parse
from tidegate.schema.names import decimal_of
from tidegate.schema.types import TIMESTAMP
from tidegate.specs.table import FieldSpec, Numbers


class BadLine(Exception):
    """The line is not a record of the schema; the argument says why."""


class RepeatedKey(BadLine):
    """The line has a field twice, so its meaning is unknown; nothing of it is rescued."""


class Suspicious(Exception):
    """Some line of a block may not be a record of the schema; only a slower check can tell."""


@dataclass(frozen=True, slots=True)
class RecordRules:
    """The declared ``fields``, and how exactly a record has to fit them.

    ``forbidden`` are names that records must not have, ``filled`` text columns that must not be empty. ``rescued`` is
    the one of ``fields``, a text, that takes what fits no other: unknown fields, and values that do not fit a nullable
    column, as JSON by path. No record has it itself. ``inferred`` fields were not declared: a file whose own columns
    differ from them, or among themselves, in upper and lower case only is refused, because nobody said which is meant;
    of JSON, where each record has its own fields, the record.
    """

    fields: tuple[FieldSpec, ...]
    numbers: Numbers = Numbers.STRICT
    coerce: bool = False
    forbidden: tuple[str, ...] = ()
    filled: tuple[str, ...] = ()
    rescued: str | None = None
    inferred: bool = False

    @property
    def known(self) -> tuple[FieldSpec, ...]:
        """The declared fields without the rescued one."""
        return tuple(field for field in self.fields if field.name != self.rescued)

    @property
    def tells_twins(self) -> bool:
        """True if a name that differs from a field only in upper and lower case is refused, not left out."""
        return self.inferred and self.rescued is None

    @property
    def is_strict(self) -> bool:
        """True if every number must keep its value."""
        return self.numbers is Numbers.STRICT


_MOMENTS = (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
_DATES = (date.min, date.max)
_REWRITES = (
    (r"^(\d{4}-\d{2}-\d{2})$", r"\1T00Z"),
    (r"^(\d{4}-\d{2}-\d{2}[T ][0-9:.]+)$", r"\1Z"),
    (r"(\.\d{6})0+(Z|[+-][0-9:]+)$", r"\1\2"),
)
"""Rewrites every accepted form to one that Arrow parses as a moment with an offset."""


def moments(texts: pa.Array) -> pa.Array:
    """Parse moments to microseconds UTC; raises ``pa.ArrowInvalid`` if a text is not one.

    >>> str(moments(pa.array(["2024-01-28T14:00:00+02:00"]))[0])
    '2024-01-28 12:00:00+00:00'
    """
    # Arrow parses a column only if all its texts have an offset, or none has.
    for kind in (TIMESTAMP, pa.timestamp("us")):
        try:
            return in_calendar(pc.cast(pc.cast(texts, kind), TIMESTAMP))
        except pa.ArrowInvalid:
            continue
    for pattern, replacement in _REWRITES:
        texts = pc.replace_substring_regex(texts, pattern, replacement)
    return in_calendar(pc.cast(texts, TIMESTAMP))


def _parse_common_moment(text: str) -> datetime | None:
    """Parse a common form of a moment, which Python does faster than Arrow does for a single value."""
    if MOMENT.fullmatch(text) is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def dates(texts: pa.Array) -> pa.Array:
    """Parse days; raises ``pa.ArrowInvalid`` if a text is not ``YYYY-MM-DD``."""
    return in_calendar(pc.cast(texts, pa.date32()))


def in_calendar(times: pa.Array) -> pa.Array:
    """Return ``times``, moments or dates; raises ``pa.ArrowInvalid`` if one lies outside the years 1 to 9999."""
    first, last = (pa.scalar(end, times.type) for end in (_DATES if pa.types.is_date(times.type) else _MOMENTS))
    extremes = pc.min_max(times)
    outside = pc.or_(pc.less(extremes["min"], first), pc.greater(extremes["max"], last))
    if outside.as_py():
        raise pa.ArrowInvalid("a time outside the years 1 to 9999")
    return times


def bytes_of(texts: pa.Array) -> pa.Array:
    """Decode base64; raises ``pa.ArrowInvalid`` if a text is something else."""
    try:
        decoded = [None if text is None else base64.b64decode(text, validate=True) for text in texts.to_pylist()]
    except (binascii.Error, ValueError) as error:
        raise pa.ArrowInvalid(f"not base64: {error}") from error
    return pa.array(decoded, pa.binary())


Convert = Callable[[Any, str], Any]
"""Converts a JSON value (never null) at a path to the value of the column; raises :class:`BadLine`."""

_BITS = {"int32": 31, "int64": 63}
_FLOATS: dict[str, type[np.floating[Any]]] = {"float32": np.float32, "float64": np.float64}
_EXACT = Context(prec=100)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TEXTS: dict[str, tuple[Callable[[pa.Array], pa.Array], str]] = {
    "timestamp": (moments, "an ISO 8601 moment of at most microseconds, in the years 1 to 9999"),
    "date": (dates, "a date YYYY-MM-DD"),
    "binary": (bytes_of, "base64"),
}
"""Types that JSON writes as text: how to read a column of texts, and what each text must be."""

_INDEX = re.compile(r"\[[0-9]+\]")

NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
"""A number as text: digits, a point and an exponent, nothing else."""


class StrictLineReader:
    """Reads lines one by one; fields that the schema lacks are left out, or rescued.

    ``unknown`` counts such fields in all records so far, and the rescued values, by path.
    """

    def __init__(self, rules: RecordRules) -> None:
        self.unknown: Counter[str] = Counter()
        self._rules = rules
        self._rescued = rules.rescued
        self._forbidden = frozenset(rules.forbidden)
        self._lenient = not rules.is_strict
        self._left: list[tuple[str, Any]] = []
        self._names: list[str] = []
        self._record = self._object(rules.known, "")

    def read(self, line: bytes) -> dict[str, Any]:
        """Read a line as Python values by column; raises :class:`BadLine`."""
        try:
            return self.record(parse(line))
        except NotJson as error:
            raise BadLine(str(error)) from error

    def record(self, value: Any) -> dict[str, Any]:
        """Convert a parsed line."""
        try:
            return self._read_object(value)
        except RecursionError as error:
            raise BadLine("nested too deeply") from error

    def _read_object(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, Pairs):
            raise BadLine(f"not an object but {kind_of(value)}")
        for name, found in value:
            if name in self._forbidden and found is not None:
                raise BadLine(f"field {name!r} has the name of a partition column that comes from the path")
        if self._forbidden:
            value = Pairs(pair for pair in value if pair[0] not in self._forbidden)
        self._left.clear()
        self._names.clear()
        record: dict[str, Any] = self._record(value, "")
        if self._left and self._rescued is not None:
            record[self._rescued] = join_rescued((path, compact(item)) for path, item in self._left)
        for name in self._rules.filled:
            if record.get(name) == "":
                raise BadLine(f"required field {name!r} is empty, which is null for a partition column")
        self.unknown.update(self._names)
        return record

    def _converter(self, field: FieldSpec, place: str) -> Convert:
        """Build the converter of a column; ``place`` has the names of its parents, with a dot after each."""
        match field.type:
            case "struct":
                return self._object(field.fields, place)
            case "list" if field.items is not None:
                return self._list(field.items, place)
            case "map" if field.values is not None:
                return self._map(field.values, place)
            case "string":
                return self._convert_string
            case "json":
                return lambda value, path: compact(value)
            case "boolean":
                return self._convert_boolean
            case "int32" | "int64":
                return self._integer(_BITS[field.type])
            case "float32" | "float64":
                return self._float(field.type)
            case "timestamp" | "date" | "binary":
                return self._make_text_converter(field.type)
            case _:
                return self._decimal(*(decimal_of(field.type) or (38, 0)))

    def _object(self, fields: tuple[FieldSpec, ...], place: str) -> Convert:
        converters = {field.name: self._forgiving_converter(field, f"{place}{field.name}.") for field in fields}
        required = [field.name for field in fields if not field.nullable]
        twins = {field.name.lower(): field.name for field in fields} if self._rules.tells_twins else {}

        def convert(value: Any, path: str) -> dict[str, Any]:
            if not isinstance(value, Pairs):
                raise _misfit(path, value, "a struct")
            found: dict[str, Any] = {}
            given: set[str] = set()
            for key, item in value:
                here = f"{path}.{key}" if path else key
                if key not in converters:
                    if item is not None and (twin := twins.get(key.lower())) is not None:
                        raise BadLine(f"field {here!r} differs from {place + twin!r} only in upper and lower case")
                    self._names.append(place + key)
                    self._left.append((here, item))
                    continue
                if key in given and not self._lenient:
                    raise RepeatedKey(f"key {here!r} is repeated")
                if item is not None:
                    given.add(key)
                found[key] = None if item is None else converters[key](item, here)
            for name in required:
                if found.get(name) is None:
                    what = "null" if name in found else "missing"
                    raise BadLine(f"required field {f'{path}.{name}' if path else name!r} is {what}")
            return found

        return convert

    def _forgiving_converter(self, field: FieldSpec, place: str) -> Convert:
        """Build the converter of a column; if values can be rescued, one that does not fit becomes null."""
        convert = self._converter(field, place)
        if self._rescued is None or not field.nullable:
            return convert

        def forgive(value: Any, path: str) -> Any:
            before = len(self._left)
            try:
                return convert(value, path)
            except RepeatedKey:
                raise
            except BadLine:
                # The whole value is rescued, so nothing from inside it may be rescued as well.
                self._left[before:] = [(path, value)]
                self._names.append(_INDEX.sub("[]", path))
                return None

        return forgive

    def _list(self, items: FieldSpec, place: str) -> Convert:
        item = self._forgiving_converter(items, place)

        def convert(value: Any, path: str) -> list[Any]:
            if not isinstance(value, list) or isinstance(value, Pairs):
                raise _misfit(path, value, "a list")
            return [self._member(items, item, element, f"{path}[{index}]") for index, element in enumerate(value)]

        return convert

    def _map(self, values: FieldSpec, place: str) -> Convert:
        item = self._forgiving_converter(values, place)

        def convert(value: Any, path: str) -> list[tuple[str, Any]]:
            if not isinstance(value, Pairs):
                raise _misfit(path, value, "a map")
            keys = Counter(self._convert_string(key, path) for key, _ in value)
            repeated = next((key for key, count in keys.items() if count > 1), None)
            if repeated is not None:
                raise RepeatedKey(f"key {f'{path}.{repeated}'!r} is repeated")
            return [(key, self._member(values, item, element, f"{path}.{key}")) for key, element in value]

        return convert

    @staticmethod
    def _member(field: FieldSpec, convert: Convert, value: Any, path: str) -> Any:
        if value is not None:
            return convert(value, path)
        if not field.nullable:
            raise BadLine(f"required value {path!r} is null")
        return None

    def _convert_string(self, value: Any, path: str) -> str:
        # A `Literal` is a `str`, too: numbers keep their digits that way.
        if isinstance(value, str) and not isinstance(value, Literal):
            return value
        if self._rules.coerce:
            return compact(value)
        raise _misfit(path, value, "a string column")

    @staticmethod
    def _convert_boolean(value: Any, path: str) -> bool:
        if isinstance(value, bool):
            return value
        raise _misfit(path, value, "a boolean")

    def _number(self, value: Any, path: str, column: str, quoted: bool) -> Decimal:
        text = isinstance(value, Literal) or (isinstance(value, str) and (quoted or self._lenient))
        if not text or not (isinstance(value, Literal) or NUMBER.fullmatch(value)):
            raise _misfit(path, value, column)
        if _is_zero(value):
            return Decimal("-0" if value.startswith("-") else "0")
        try:
            number = Decimal(value)
        except InvalidOperation as error:
            raise _misfit(path, value, column) from error
        # int() of a number with a huge exponent would keep the worker busy without end.
        if not number.is_finite() or number.adjusted() > 400:
            raise BadLine(f"{path!r}: {excerpt(value)} is too large for {column}")
        return number

    def _integer(self, bits: int) -> Convert:
        column = f"int{bits + 1}"

        def convert(value: Any, path: str) -> int:
            number = self._number(value, path, column, quoted=False)
            whole = int(number)
            if not -(2**bits) <= whole < 2**bits:
                raise BadLine(f"{path!r}: {excerpt(value)} is too large for {column}")
            if number != whole and not self._lenient:
                raise BadLine(f"{path!r}: {excerpt(value)} has a fraction, the column is {column}")
            return whole

        return convert

    def _float(self, column: str) -> Convert:
        kind = _FLOATS[column]

        def convert(value: Any, path: str) -> float:
            number = self._number(value, path, column, quoted=False)
            # The result is checked below; numpy would print a warning for each number out of range.
            with np.errstate(over="ignore", under="ignore"):
                result = _nearest(number, kind)
            if self._lenient:
                return result
            if not np.isfinite(result):
                raise BadLine(f"{path!r}: {excerpt(value)} is too large for {column}")
            if number and not result:
                raise BadLine(f"{path!r}: {excerpt(value)} is too small for {column}, it would become 0")
            if _is_whole(value) and Decimal(result) != number:
                raise BadLine(f"{path!r}: {excerpt(value)} is a whole number that {column} cannot hold exactly")
            return result

        return convert

    def _decimal(self, precision: int, scale: int) -> Convert:
        column = f"decimal({precision},{scale})"
        unit = Decimal(1).scaleb(-scale)

        def convert(value: Any, path: str) -> Decimal:
            number = self._number(value, path, column, quoted=True)
            if number.adjusted() >= precision - scale and number:
                raise BadLine(f"{path!r}: {excerpt(value)} is too large for {column}")
            kept = number.quantize(unit, rounding="ROUND_DOWN", context=_EXACT)
            if kept != number and not self._lenient:
                raise BadLine(f"{path!r}: {excerpt(value)} has more than {scale} digits behind the point")
            return kept

        return convert

    def _make_text_converter(self, column: str) -> Convert:
        read, expected = TEXTS[column]

        def convert(value: Any, path: str) -> Any:
            if isinstance(value, Literal) and self._lenient and column == "timestamp":
                return self._moment(value, path)
            if not isinstance(value, str) or isinstance(value, Literal):
                raise _misfit(path, value, f"a {column} column")
            if column == "timestamp" and (common := _parse_common_moment(value)) is not None:
                return common
            try:
                return read(pa.array([value], pa.string()))[0].as_py()
            except (pa.ArrowInvalid, UnicodeEncodeError) as error:
                raise BadLine(f"{path!r}: {excerpt(value)} is not {expected}") from error

        return convert

    def _moment(self, value: str, path: str) -> datetime:
        microseconds = int(self._number(value, path, "timestamp", quoted=False))
        try:
            return _EPOCH + timedelta(microseconds=microseconds)
        except OverflowError as error:
            raise BadLine(f"{path!r}: {excerpt(value)} lies outside the years 1 to 9999") from error


def _is_whole(literal: str) -> bool:
    """True if a number is written without a point and an exponent; others are fractions, and rounded."""
    return literal.lstrip("+-").isdigit()


def _is_zero(number: str) -> bool:
    """True if all digits before the exponent, which may be of any size, are 0."""
    return not number.lower().partition("e")[0].strip("+-0.")


def _nearest(number: Decimal, kind: type[np.floating[Any]]) -> float:
    """Return the nearest value of a type, the even one of two; a wider type in between would round twice.

    Decimals are only compared, which is cheap even for huge exponents and digits.
    """
    first = kind(float(number))
    if kind is np.float64 or not np.isfinite(first):
        return float(first)
    neighbours = (np.nextafter(first, kind(end)) for end in (-np.inf, np.inf))
    for neighbour in filter(np.isfinite, neighbours):
        middle = Decimal((float(first) + float(neighbour)) / 2)
        is_beyond = number > middle if neighbour > first else number < middle
        if is_beyond or (number == middle and int(np.float32(neighbour).view(np.uint32)) % 2 == 0):
            return float(neighbour)
    return float(first)


def _misfit(path: str, value: Any, column: str) -> BadLine:
    return BadLine(f"{path!r}: {kind_of(value)} ({excerpt(value)}) does not fit {column}")


_NOT_CSV = re.compile(
    r"\d+ cells instead of |cell \d+ (has a quote|goes on behind)|a carriage return outside|'.*?': not UTF-8"
)
"""Beginnings of reasons that concern the cells of a record, not a value."""

_SIGNS = (
    ("not JSON", "not_json"),
    ("not UTF-8", "not_json"),
    ("not Unicode", "not_json"),
    ("not readable", "not_json"),
    ("nested too deeply", "not_json"),
    ("required ", "missing"),
    ("is repeated", "repeated_key"),
    ("has a fraction", "lossy"),
    ("digits behind the point", "lossy"),
    ("is too large for", "lossy"),
    ("is too small for", "lossy"),
    ("cannot hold exactly", "lossy"),
    ("lies outside the years", "lossy"),
    ("not an object but", "wrong_type"),
    (" is not ", "wrong_type"),
    (" does not fit ", "wrong_type"),
    (" is neither true nor false", "wrong_type"),
)


def bad_kind(reason: str) -> str:
    """The kind of a reason.

    >>> bad_kind("7 cells instead of 8")
    'not_csv'
    >>> bad_kind("required field 'id' is missing"), bad_kind("'n': 12.7 has a fraction, the column is int64")
    ('missing', 'lossy')
    """
    if reason.startswith("not JSON"):
        return "not_json"
    if _NOT_CSV.match(reason):
        return "not_csv"
    return next((kind for sign, kind in _SIGNS if sign in reason), "other")
