"""The port of column sources, and the requests to Python functions as sources.

A read is capped: databases and tables are asked for their greatest values first, then for the rows up to them. For
other sources the rows of one read give the cap.

A stored watermark, a bound of a replay and a column may each have a zone, have none, or be a whole day. They are
aligned here, once, by ``source_timezone`` and never by the zone of a machine or a session. A day is its midnight. What
cannot be compared in order is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from decimal import Decimal
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable
from zoneinfo import ZoneInfo

from tidegate.core.columns.predicates import Bound, ColumnRange, RowFilter, predicate
from tidegate.core.dialects.address import jdbc_address
from tidegate.core.dialects.dialect import SPARK, Dialect
from tidegate.core.dialects.registry import dialect_of
from tidegate.errors import EnvironmentProblem, SchemaMismatch, SourceError
from tidegate.schema.names import spell
from tidegate.sources.http.bounds import describe
from tidegate.specs.columns import ColumnSource, FunctionRead, HttpRead, JdbcRead, TableRead, Value
from tidegate.specs.locations import Secret, split_address
from tidegate.specs.user_code import call

if TYPE_CHECKING:
    import pyarrow as pa


def address_of(read: JdbcRead | HttpRead) -> tuple[str, int] | None:
    """Host and port of a database or a server; None if it has none, or an unknown form of address."""
    if isinstance(read, JdbcRead):
        return jdbc_address(read.url)
    parts = split_address(read.url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return None if parts.hostname is None else (parts.hostname, port)


EVERYTHING = "every row"


def explain(source: ColumnSource, rows: RowFilter) -> str:
    """The condition sent to ``source``: SQL, request parameters, or Spark's filter after a full scan."""
    match source.read:
        case JdbcRead(url=url):
            return _where(rows, dialect_of(url))
        case TableRead(format=format_) if format_.is_pushed_down:
            return _where(rows, SPARK)
        case TableRead():
            return f"full scan, filtered in Spark: {_where(rows, SPARK)}"
        case FunctionRead(function=function):
            return f"{function}, filtered in Spark: {_where(rows, SPARK)}"
        case HttpRead():
            return describe(source, rows)


def _where(rows: RowFilter, dialect: Dialect) -> str:
    condition = predicate(rows, dialect)
    return EVERYTHING if condition is None else f"WHERE {condition}"


@dataclass(frozen=True, slots=True)
class FunctionRequest:
    """The wanted rows, in several forms: the function may use any of them, or none.

    ``rows`` has the bounds per column as values, ``predicate`` the same as a condition in Spark SQL (None: every row).
    Other rows are removed afterwards in any case. ``now`` is the moment of the run.
    """

    columns: tuple[str, ...]
    rows: RowFilter
    predicate: str | None
    now: datetime
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UnitRequest:
    """Rows of ``unit`` from ``low`` up to, but not including, ``high``; both moments are aware.

    ``variables`` belong to the unit, ``secrets`` too but must never be shown. With a time column, rows outside the
    range are removed afterwards in any case. ``now`` is the moment of the run.
    """

    unit: str
    variables: Mapping[str, str]
    low: datetime
    high: datetime
    now: datetime
    options: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, Secret] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class GreatestValues:
    """The greatest value per watermark column; None if every row has null.

    ``nulls`` counts the rows with null in every watermark column (in a cursor: in any).
    """

    values: Mapping[str, Value | None] = field(default_factory=dict)
    nulls: int = 0


class Reader(Protocol):
    """Reads one column source. Both methods see the same state of the source if it has states.

    ``fixed_first``: :meth:`greatest` is called before the read. Otherwise the batch of :meth:`read` shows the values.
    """

    @property
    def fixed_first(self) -> bool:
        """Whether the source itself knows its greatest values."""

    def greatest(self, rows: RowFilter) -> GreatestValues:
        """The greatest values among the matching rows, by one aggregate; of a cursor the greatest tuple.

        Rows with null in every watermark column are counted, whatever ``rows.nulls`` says.
        """

    def read(self, rows: RowFilter) -> Any:
        """The matching rows, with the columns of the source, in the engine's form: a DataFrame, or Arrow."""


@runtime_checkable
class Typed(Protocol):
    """A reader that knows the kinds of its columns before it reads."""

    def kinds(self, columns: Sequence[str]) -> Mapping[str, str]:
        """``datetime``, ``datetime_naive`` or ``date`` for columns of times; other columns are left out."""


@runtime_checkable
class Bounded(Protocol):
    """A reader whose requests have an end: the upper bounds are fixed before any request."""

    def upper(self, now: datetime) -> Mapping[str, Value]:
        """The greatest requested values, by column; empty if none is sent."""


@dataclass(frozen=True, slots=True)
class StreamedRows:
    """Arrow rows read on demand, a batch at a time; each iteration reads them anew."""

    schema: pa.Schema
    to_batches: Callable[[], Iterator[pa.RecordBatch]]
    count: Callable[[], int]

    @property
    def num_rows(self) -> int:
        """The number of rows, according to the source."""
        return self.count()


def needs_spark(source: str, why: str, before: str = "") -> EnvironmentProblem:
    """The error for what the local engine does not do like Spark, if only the source or its table could tell."""
    return EnvironmentProblem(f"{source}: {why}", f"{before}set engine: spark")


Frame = TypeVar("Frame")


def choose_rows(
    source: ColumnSource,
    rows: RowFilter,
    frame_of: Callable[[RowFilter], Frame],
    select: Callable[[Frame, RowFilter], Frame],
) -> Frame:
    """The rows that the user's filter selects, with our caps; it gets the rows, the watermark and the operator."""
    assert source.watermark_filter is not None, "asked for sources that have one"
    wide = rows.without_lower()
    frame, remedy = frame_of(wide), "return the wanted rows, in the type in which they came"
    key = f"source {source.name}: watermark_filter"
    found = call(source.watermark_filter, key, remedy, frame, rows.watermark, rows.operator)
    if not isinstance(found, type(frame)):
        raise SourceError(f"{key} returned {type(found).__name__}", remedy)
    return select(found, rows if rows.strict else wide)


def column_named(name: str, names: Sequence[str], source: str) -> str:
    """``name`` in the source's spelling: exact, or the only one that differs in case."""
    try:
        found = spell(name, names)
    except SchemaMismatch as error:
        raise SourceError(f"{source}: there is no column {name!r} alone: {error.problem}", error.remedy) from error
    if found in names:
        return found
    near = get_close_matches(name, names, 1)
    remedy = f"did you mean {near[0]!r}?" if near else f"its columns are {', '.join(names)}"
    raise SourceError(f"{source}: there is no column {name!r}", remedy)


def fit_bounds(rows: RowFilter, kinds: Mapping[str, str], timezone: str, source: str) -> RowFilter:
    """``rows`` with the names and types of the columns, in Spark's terms (``bigint``, ``timestamp_ntz``).

    :class:`SourceError` if a bound and its column do not compare.
    """
    ranges = []
    for each in rows.ranges:
        name = column_named(each.column, list(kinds), source)
        ranges.append(_fit_range(replace(each, column=name), kinds[name], ZoneInfo(timezone), source))
    return replace(rows, ranges=tuple(ranges))


_TIMES = {"timestamp": "datetime", "timestamp_ntz": "datetime_naive", "date": "date"}


def kinds_of_times(columns: Sequence[str], kinds: Mapping[str, str], source: str) -> dict[str, str]:
    """Which of these columns have times, and of which kind."""
    found = {column: _TIMES.get(kinds[column_named(column, list(kinds), source)]) for column in columns}
    return {column: kind for column, kind in found.items() if kind is not None}


def _fit_range(wanted: ColumnRange, kind: str, zone: ZoneInfo, source: str) -> ColumnRange:
    if kind == "date":
        wanted = replace(wanted, lower=_as_day(wanted.lower, zone), upper=_as_day(wanted.upper, zone, is_upper=True))
    elif kind in _TIMES:
        _refuse_day(wanted, source)
        aware = kind == "timestamp"
        wanted = replace(
            wanted, lower=_as_time(wanted.lower, zone, aware=aware), upper=_as_time(wanted.upper, zone, aware=aware)
        )
    for bound in (wanted.lower, wanted.upper):
        if bound is not None:
            _check(bound.value, wanted.column, kind, source)
    return wanted


def _as_day(bound: Bound | None, zone: ZoneInfo, *, is_upper: bool = False) -> Bound | None:
    """A bound for a column of days: a time within a day lies above that day's midnight and below the next."""
    if bound is None or not isinstance(bound.value, datetime):
        return bound
    local = bound.value if bound.value.tzinfo is None else bound.value.astimezone(zone)
    is_midnight = local.time() == time()
    return Bound(local.date(), bound.inclusive if is_midnight else is_upper)


def _as_time(bound: Bound | None, zone: ZoneInfo, *, aware: bool) -> Bound | None:
    """A bound for a column of times, with a zone (``aware``) or without."""
    if bound is None or not isinstance(bound.value, date):
        return bound
    value = bound.value if isinstance(bound.value, datetime) else datetime.combine(bound.value, time())
    if aware and value.tzinfo is None:
        value = value.replace(tzinfo=zone)
    elif not aware and value.tzinfo is not None:
        value = value.astimezone(zone).replace(tzinfo=None)
    return replace(bound, value=value)


def _refuse_day(wanted: ColumnRange, source: str) -> None:
    """Refuse a whole day as the watermark of times: nobody knows which of its times were read."""
    lower = wanted.lower
    if lower is not None and not lower.inclusive and _name(lower.value) == "date":
        raise SourceError(
            f"{source}: the watermark of {wanted.column!r} is the day {lower.value}, but the column holds times",
            f"set the watermark with 'tidegate watermark set', such as {lower.value}T23:59:59+00:00",
        )


_NUMBERS = frozenset(("tinyint", "smallint", "int", "bigint", "float", "double", "decimal"))
_HELD = {
    **dict.fromkeys(_NUMBERS, ("int", "float", "Decimal")),
    "string": ("str",),
    "timestamp": ("datetime",),
    "timestamp_ntz": ("datetime",),
    "date": ("date",),
    "boolean": ("bool",),
}


def _check(value: Value, column: str, kind: str, source: str) -> None:
    if _name(value) in _HELD.get(kind.partition("(")[0], ()):
        return
    if kind == "string" and isinstance(value, int | float | Decimal):
        remedy = "text does not sort as numbers do ('9' is above '10'): use a query that casts the column"
    else:
        remedy = "use a query that casts the column, or move the watermark with 'tidegate watermark set'"
    raise SourceError(f"{source}: the watermark of {column!r} is {value!r}, but the column holds {kind}", remedy)


def _name(value: Value) -> str:
    # By name: for `isinstance` a `bool` is an `int`, and a `datetime` a `date`.
    return type(value).__name__
