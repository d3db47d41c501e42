"""The greatest values of watermark columns over batches of rows, and rows of a time range."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import SourceError
from tidegate.schema.names import spell
from tidegate.specs.columns import Value, WatermarkMode


class Greatest:
    """What was seen so far. ``nulls`` are rows with null in every column, in a cursor in any of them."""

    def __init__(self, columns: Sequence[str], mode: WatermarkMode = WatermarkMode.ANY) -> None:
        self.nulls = 0
        self._columns = tuple(columns)
        self._as_tuple = mode is WatermarkMode.TUPLE
        self._values: dict[str, Value | None] = dict.fromkeys(columns)

    @property
    def values(self) -> dict[str, Value | None]:
        """By column; None where every value was null."""
        return dict(self._values)

    def see(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Look at the rows of a batch; those that have a watermark."""
        if not self._columns:
            return batch
        empty = [pc.is_null(batch.column(name)) for name in self._columns]
        missing = reduce(pc.or_ if self._as_tuple else pc.and_, empty)
        self.nulls += pc.sum(missing).as_py() or 0
        known = batch.filter(pc.invert(missing))
        self.include(self._cursor(known) if self._as_tuple else self._each(known))
        return known

    def include(self, seen: Mapping[str, Value | None]) -> None:
        """Take in what was seen elsewhere."""
        if self._as_tuple:
            known = [values for values in (self._values, seen) if None not in values.values()]
            self._values = dict(sorted(known, key=self._place)[-1] if known else seen)
        else:
            self._values = {name: _greater((self._values[name], seen[name])) for name in self._columns}

    def _place(self, values: Mapping[str, Value | None]) -> Any:
        return [_rank(value) for name in self._columns if (value := values[name]) is not None]

    def _each(self, batch: pa.RecordBatch) -> dict[str, Value | None]:
        return {name: _value(_top(batch.column(name))) for name in self._columns}

    def _cursor(self, batch: pa.RecordBatch) -> dict[str, Value | None]:
        """The lexicographically greatest: of the rows that are greatest in one column, those that are in the next."""
        found: dict[str, Value | None] = {}
        for name in self._columns:
            top = _top(batch.column(name))
            found[name] = _value(top)
            batch = batch.filter(_is_top(batch.column(name), top))
        return found


def _greater(values: Iterable[Value | None]) -> Value | None:
    return max((value for value in values if value is not None), key=_rank, default=None)


def _rank(value: Value) -> Any:
    """Not-a-number lies above every number, as Spark and databases have it: not seen, its row would come again."""
    is_nan = value != value
    return is_nan, 0.0 if is_nan else value


def _top(column: pa.Array) -> pa.Scalar:
    if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
        return pa.scalar(float("nan"), column.type)
    return pc.max(column)


def _is_top(column: pa.Array, top: pa.Scalar) -> pa.Array:
    value = top.as_py()
    return pc.equal(column, top) if value == value else pc.is_nan(column)


def _value(scalar: pa.Scalar) -> Value | None:
    """As Python has it; a moment is in UTC."""
    value: Value | None = scalar.as_py()
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo is not None else value


_MILLISECONDS = pa.timestamp("ms", tz="UTC")


def check_time_column(columns: pa.Schema, name: str) -> str:
    """``name`` as the rows spell it; :class:`SourceError` where it is no column that tells a moment or a day."""
    name = spell(name, columns.names)
    if name not in columns.names:
        raise SourceError(
            f"time_column: the rows have no column {name!r}; they have {', '.join(columns.names) or 'none'}",
            "name the column of the rows' own time, or leave out time_column",
        )
    kind = columns.field(name).type
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        raise SourceError(
            f"time_column: the column {name!r} is {kind}, which tells no moment",
            f"declare it in schema.fields: {{name: {name}, type: timestamp}} (or date)",
        )
    return name


def within(rows: pa.RecordBatch, column: str, low: int, high: int, zone: str) -> pa.RecordBatch:
    """The rows whose ``column`` lies in ``[low, high)``, in milliseconds since 1970.

    A time without a zone, and the beginning of a day, are told in ``zone``: shifted forward where clocks leave it out,
    the first where they show it twice.
    """
    moments = rows.column(spell(column, rows.schema.names))
    if pa.types.is_date(moments.type):
        moments = moments.cast(pa.timestamp("s"))
    if moments.type.tz is None:
        moments = pc.assume_timezone(moments, zone, ambiguous="earliest", nonexistent="latest")
    moments = moments.cast(pa.timestamp(moments.type.unit, tz="UTC"))
    begin, end = (pa.scalar(bound, _MILLISECONDS) for bound in (low, high))
    return rows.filter(pc.and_(pc.greater_equal(moments, begin), pc.less(moments, end)))
