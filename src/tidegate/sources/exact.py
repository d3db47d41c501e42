"""Exact values out of the text in which a database writes them: parsed as they are, or refused with their column.

The words of a refusal are those of Spark's reader, which parses the same text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.core.dialects.remedies import VALUE
from tidegate.core.dialects.transfer import MOST_DIGITS
from tidegate.errors import SourceError


@dataclass(frozen=True, slots=True)
class ExactColumn:
    """A column of the rows and its type; ``called`` is the name of its text form, empty if it is not text."""

    name: str
    kind: pa.DataType
    called: str = ""

    @property
    def comes_as(self) -> pa.DataType:
        """The type in which the driver returns it."""
        return pa.string() if self.called else self.kind


def exact(found: pa.Array, column: ExactColumn) -> pa.Array:
    """``found`` as exact values of the column's type."""
    kind = column.kind
    if not column.called:
        return _as_it_is(found, column)
    quick, parse = _parsers(kind)
    try:
        return quick(found, kind)
    except pa.ArrowInvalid:
        return _one_by_one(found, column, parse)


def _as_it_is(found: pa.Array, column: ExactColumn) -> pa.Array:
    """The values; a database without an encoding accepts any bytes as text, and no table does."""
    try:
        found.validate(full=True)
    except pa.ArrowInvalid as error:
        raise SourceError(f"column {column.name!r} holds what is no {column.kind}: {error}", VALUE) from None
    return found


Parse = Callable[[str, pa.DataType], Any]


def _parsers(kind: pa.DataType) -> tuple[Callable[[pa.Array, pa.DataType], pa.Array], Parse]:
    """How to parse a column of texts at once, and one text if that does not know them all."""
    if pa.types.is_decimal(kind):
        return _decimals, _decimal
    if pa.types.is_integer(kind):
        return pc.cast, _whole
    return (_moments, _moment) if pa.types.is_timestamp(kind) else (pc.cast, _day)


def _one_by_one(texts: pa.Array, column: ExactColumn, parse: Parse) -> pa.Array:
    values = []
    for text in texts.to_pylist():
        value = None if text is None else parse(text, column.kind)
        if value is None and text is not None:
            problem = f"column {column.name!r} holds {text[:80]}, which is no {column.called}"
            raise SourceError(problem, VALUE)
        values.append(value)
    if pa.types.is_decimal(column.kind):
        return pa.array(values, column.kind)
    return pa.array(values, pa.int64()).cast(pa.int32() if column.kind == pa.date32() else pa.int64()).view(column.kind)


def _decimals(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Parse at once only if the digits fit, also at the new scale: Arrow does not notice an overflow."""
    lengths = pc.binary_length(texts)
    longest = pc.max(lengths).as_py() or 0
    if longest > MOST_DIGITS - kind.scale:
        points = pc.find_substring(texts, ".")
        whole = pc.max(pc.if_else(pc.less(points, 0), lengths, points)).as_py() or 0
        if longest > MOST_DIGITS or whole > MOST_DIGITS - kind.scale:
            raise pa.ArrowInvalid("a text may have more digits than a decimal")
    return texts.cast(kind)


def _moments(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    return texts.cast(pa.timestamp("us")).view(kind)


_NUMBER = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?")
_DAY = re.compile(r"([0-9]{4,6})-([0-9]{2})-([0-9]{2})")
_TIME = re.compile(r"(\S+) ([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6}))?")
# Python's own context would round to 28 digits.
_WIDE = Context(prec=60)
_CYCLE, _CYCLE_DAYS = 400, 146_097
"""The calendar repeats after so many years, or days."""


def _decimal(text: str, kind: pa.DataType) -> Decimal | None:
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    rest = found[3] or ""
    digits = f"{found[2]}{rest[: kind.scale].ljust(kind.scale, '0')}".lstrip("0") or "0"
    if rest[kind.scale :].strip("0") or len(digits) > kind.precision:
        return None
    return Decimal(f"{found[1]}{digits}").scaleb(-kind.scale, _WIDE)


def _whole(text: str, kind: pa.DataType) -> int | None:
    """A whole number within ``bigint``."""
    found = int(text) if re.fullmatch("-?[0-9]+", text) else 2**63
    return found if -(2**63) <= found < 2**63 else None


def _day(text: str, kind: pa.DataType | None = None) -> int | None:
    """Days since 1970, also for years outside Python's calendar."""
    found = _DAY.fullmatch(text)
    if found is None:
        return None
    year, month, day = (int(each) for each in found.groups())
    cycles = max(0, year - 2000) // _CYCLE
    try:
        ordinal = date(year - cycles * _CYCLE, month, day).toordinal()
    except ValueError:
        return None
    return ordinal + cycles * _CYCLE_DAYS - date(1970, 1, 1).toordinal()


def _moment(text: str, kind: pa.DataType | None = None) -> int | None:
    """Microseconds since 1970, within a timestamp."""
    found = _TIME.fullmatch(text)
    days = None if found is None else _day(found[1])
    if found is None or days is None:
        return None
    hours, minutes, seconds = (int(each) for each in found.groups()[1:4])
    if hours > 23 or minutes > 59 or seconds > 59:
        return None
    micros = int((found[5] or "").ljust(6, "0"))
    total = (days * 86_400 + hours * 3600 + minutes * 60 + seconds) * 1_000_000 + micros
    return total if total < 2**63 else None
